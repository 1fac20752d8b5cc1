//! The secret that coordinator and workers share.
//!
//! Both sides prove that they have it: the coordinator sends it with every call, and the worker's certificate is
//! derived from it. So certificates do not have to be distributed. A program that listens on a worker's port without
//! the token learns nothing and is not trusted.

use std::fmt;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The environment variable with a token.
pub const VARIABLE: &str = "DLIO_CLUSTER_TOKEN";

/// Minimum length. Shorter tokens can be guessed: the certificate derived from the token is visible to everyone.
const SHORTEST: usize = 24;

/// Number of random bytes of a generated token.
const BYTES: usize = 32;

/// The shared secret: see the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Returns the token in a text, without its final line feed.
    pub fn new(text: &str) -> Result<Token, String> {
        let text = text.trim_end_matches(['\n', '\r']);
        if text.len() < SHORTEST {
            return Err(format!(
                "the token has {} characters, but fewer than {SHORTEST} can be guessed; create one: \
                 openssl rand -hex 32 > FILE",
                text.len()
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "the token contains characters other than letters, digits and punctuation; create one: openssl rand \
                    -hex 32 > FILE"
                    .into(),
            );
        }
        Ok(Token(text.into()))
    }

    /// Reads the token from a file.
    pub fn read(path: &Path) -> Result<Token, String> {
        let unread = |error| format!("cannot read the token {}: {error}", path.display());
        let mut file = std::fs::File::open(path).map_err(unread)?;
        let facts = file.metadata().map_err(unread)?;
        refused(path, &facts, own_user()?)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unread)?;
        Token::new(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the token in [`VARIABLE`], if that is set.
    pub fn from_environment() -> Result<Option<Token>, String> {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => Token::new(&text).map(Some).map_err(|error| format!("{VARIABLE}: {error}")),
            _ => Ok(None),
        }
    }

    /// Generates a token.
    pub fn random() -> std::io::Result<Token> {
        let mut bytes = [0; BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the secret itself.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns `true` if a text is this token. The time of the comparison does not depend on where they differ.
    pub fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let differences = ours.iter().zip(theirs).fold(0, |all, (a, b)| all | (a ^ b));
        ours.len() == theirs.len() && differences == 0
    }
}

/// Rejects a file that others can read or replace. Pipes (`<(pass show token)`) do not have such permissions.
fn refused(path: &Path, facts: &Metadata, user: u32) -> Result<(), String> {
    const OTHERS: u32 = 0o077;
    if !facts.is_file() {
        return Ok(());
    }
    let path = path.display();
    match facts.uid() {
        owner if owner != user && owner != 0 => Err(format!(
            "cannot use the token {path}: the file belongs to user {owner}; copy it and run chmod 600 on the copy"
        )),
        _ if facts.mode() & OTHERS != 0 => {
            let mode = facts.mode() & 0o7777;
            Err(format!("cannot use the token {path}: other users can read it (mode {mode:04o}); run chmod 600 {path}"))
        }
        _ => Ok(()),
    }
}

/// Returns the effective user of this process.
fn own_user() -> Result<u32, String> {
    let facts = std::fs::metadata("/proc/self").map_err(|error| format!("/proc/self: {error}"))?;
    Ok(facts.uid())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_file_readable_by_others_is_rejected() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("dlio-token-{}", std::process::id()));
        std::fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map(drop)
        };
        assert_eq!((read(0o600), read(0o400)), (Ok(()), Ok(())));
        for mode in [0o640, 0o604, 0o644, 0o620, 0o666] {
            let why = read(mode).unwrap_err();
            assert!(why.contains("chmod 600"), "{mode:o}: {why}");
        }
        read(0o600).unwrap();
        let facts = std::fs::metadata(&path).unwrap();
        let stranger = refused(&path, &facts, facts.uid() + 1);
        assert_eq!(stranger.is_err(), facts.uid() != 0, "root's own files are believed");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn token_is_long_and_not_printed() {
        assert!(Token::new("short").unwrap_err().contains("5 characters"));
        assert!(Token::new("with a space in it, however long it is").is_err());
        let token = Token::new("0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(token.is("0123456789abcdef0123456789abcdef"));
        assert!(!token.is("0123456789abcdef0123456789abcdeF") && !token.is("") && !token.is("0123"));
        assert_eq!(format!("{token:?}"), "Token(***)");
        assert_ne!(Token::random().unwrap(), Token::random().unwrap());
    }
}
