//! The secret that coordinator and workers share.
//!
//! It is what both prove: the coordinator shows it with every call, the worker's certificate is made of it. So nobody hands
//! certificates round, and whoever listens on a worker's port without the token learns nothing and is believed nothing.

use std::fmt;
use std::io::Read;
use std::path::Path;

/// The variable that holds a token.
pub const VARIABLE: &str = "DLIO_CLUSTER_TOKEN";

/// Shorter ones can be found by trying: a certificate is made of it, and shown to everybody.
const SHORTEST: usize = 24;

/// Random bytes of a token of ours.
const BYTES: usize = 32;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token in a text, whose last line feed is not part of it.
    pub fn new(text: &str) -> Result<Token, String> {
        let text = text.trim_end_matches(['\n', '\r']);
        if text.len() < SHORTEST {
            return Err(format!(
                "the token has {} characters, and one of less than {SHORTEST} can be guessed; make one: \
                 openssl rand -hex 32 > FILE",
                text.len()
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "the token holds other than letters, digits and signs; make one: openssl rand -hex 32 > FILE".into()
            );
        }
        Ok(Token(text.into()))
    }

    /// The token in a file.
    pub fn read(path: &Path) -> Result<Token, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: the token cannot be read ({error})", path.display()))?;
        Token::new(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The token in [`VARIABLE`], if that is set.
    pub fn from_environment() -> Result<Option<Token>, String> {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => Token::new(&text).map(Some).map_err(|error| format!("{VARIABLE}: {error}")),
            _ => Ok(None),
        }
    }

    /// A new one.
    pub fn random() -> std::io::Result<Token> {
        let mut bytes = [0; BYTES];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The secret itself.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// True if a text is this token; how long that takes tells nothing of where they differ.
    pub fn is(&self, text: &str) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), text.as_bytes());
        let differences = ours.iter().zip(theirs).fold(0, |all, (a, b)| all | (a ^ b));
        ours.len() == theirs.len() && differences == 0
    }
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
    fn a_token_is_long_and_shown_to_nobody() {
        assert!(Token::new("short").unwrap_err().contains("5 characters"));
        assert!(Token::new("with a space in it, however long it is").is_err());
        let token = Token::new("0123456789abcdef0123456789abcdef\n").unwrap();
        assert!(token.is("0123456789abcdef0123456789abcdef"));
        assert!(!token.is("0123456789abcdef0123456789abcdeF") && !token.is("") && !token.is("0123"));
        assert_eq!(format!("{token:?}"), "Token(***)");
        assert_ne!(Token::random().unwrap(), Token::random().unwrap());
    }
}
