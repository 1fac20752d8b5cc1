//! Command lines as they may be shown: what looks like a password or a key is not in them.
//!
//! A trace is read by more people than may read a process's arguments. Arguments are masked when they are recorded, and
//! once more where a command line is shown, because a trace may come from elsewhere. It is told by names (`--password=x`,
//! `--token x`, `PGPASSWORD=x`, `?sig=x`), by places (`https://user:x@host`, `Authorization: x`, `mysql -px`) and by the marks
//! that tokens themselves bear (`ghp_x`). A secret without any of these is not known for one.

/// The text in the place of a secret.
pub const MASK: &[u8] = b"***";

/// The last word of a name that says: what follows is secret.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "pass",
    "passin",
    "passout",
    "pwd",
    "pw",
    "secret",
    "secrets",
    "token",
    "apikey",
    "apitoken",
    "authtoken",
    "accesstoken",
    "bearer",
    "credential",
    "credentials",
    "authorization",
    "signature",
    "sig",
    "cookie",
    "accesskey",
    "secretkey",
    "privatekey",
    "accountkey",
    "pgpassword",
];

/// `api_key`, `access-key`: the word before a key.
const KEYS_OF: &[&str] =
    &["api", "access", "secret", "private", "account", "auth", "encryption", "signing", "master", "shared", "storage"];

/// A name that ends so speaks of a secret and does not hold one; nor does one with such a word in it.
const HARMLESS_ENDS: &[&str] = &["file", "path", "dir", "folder", "length", "len", "type", "policy", "prompt", "store"];
const HARMLESS_WORDS: &[&str] = &["no", "ask", "without", "prompt", "max", "num"];

/// Tokens by how they begin; behind that come many letters and digits.
const MARKS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "sk-",
    "sk_live_",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "eyJ",
    "AIza",
    "npm_",
    "pypi-",
    "dop_v1_",
];
const MARKED_MIN: usize = 16;

/// Options that only these programs use so: alone before the secret, or joined with it.
const OPTIONS_OF: &[(&str, &str)] = &[
    ("mysql", "-p"),
    ("mysqldump", "-p"),
    ("mysqladmin", "-p"),
    ("mariadb", "-p"),
    ("mariadb-dump", "-p"),
    ("mariadb-admin", "-p"),
    ("sshpass", "-p"),
    ("redis-cli", "-a"),
    ("curl", "-u"),
    ("curl", "--user"),
    ("wget", "--user"),
    ("ldapsearch", "-w"),
];

/// Hands on a list of arguments, separated by zeros, without what looks like a secret.
pub fn mask(arguments: &[u8], put: &mut dyn FnMut(&[u8])) {
    let mut list = arguments.split(|&byte| byte == 0);
    let program = list.next().unwrap_or_default();
    let name = program.rsplit(|&byte| byte == b'/').next().unwrap_or(program);
    in_argument(program, put);
    let mut follows = false;
    for argument in list {
        put(b"\0");
        let option = option_of(name, argument);
        match option {
            _ if follows && !argument.starts_with(b"-") => put(MASK),
            Some(option) if argument.len() > option.len() => {
                put(option.as_bytes());
                put(MASK);
            }
            _ => in_argument(argument, put),
        }
        follows = option.is_some_and(|option| option.len() == argument.len() && option != "-p" || name == b"sshpass")
            || announces(argument);
    }
}

/// The same into a buffer, as far as it goes.
pub fn masked<'a>(arguments: &[u8], into: &'a mut [u8]) -> &'a [u8] {
    let mut used = 0;
    mask(arguments, &mut |part| {
        let length = part.len().min(into.len() - used);
        into[used..used + length].copy_from_slice(&part[..length]);
        used += length;
    });
    &into[..used]
}

/// The same of a text.
pub fn masked_text(arguments: &str) -> String {
    let mut masked = Vec::with_capacity(arguments.len());
    mask(arguments.as_bytes(), &mut |part| masked.extend_from_slice(part));
    String::from_utf8_lossy(&masked).into_owned()
}

fn option_of(program: &[u8], argument: &[u8]) -> Option<&'static str> {
    let of_program = |(name, _): &&(&str, &str)| name.as_bytes() == program;
    let (_, option) = OPTIONS_OF.iter().filter(of_program).find(|(_, option)| {
        let short = option.len() == 2;
        argument == option.as_bytes() || short && argument.starts_with(option.as_bytes())
    })?;
    Some(option)
}

/// True if an option without a value of its own says that the next argument is secret.
fn announces(argument: &[u8]) -> bool {
    argument.starts_with(b"-") && !argument.contains(&b'=') && is_secret(argument)
}

/// One argument, which may be a command line or an address itself.
fn in_argument(argument: &[u8], put: &mut dyn FnMut(&[u8])) {
    // `--password=...` to its end, whatever is in it.
    if let Some(at) = argument.iter().position(|&byte| byte == b'=')
        && argument[..at].iter().all(|&byte| is_of_name(byte) || b"+/@".contains(&byte))
        && is_secret(&argument[..at])
    {
        put(&argument[..=at]);
        return put(MASK);
    }
    let mut rest = argument;
    // Whether the next word is secret, and the quote that it stands in.
    let (mut follows, mut quote) = (false, None);
    while !rest.is_empty() {
        let ends = |&byte: &u8| if follows && quote.is_some() { Some(byte) == quote } else { is_separator(byte) };
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        match word {
            b"" => {}
            _ if follows && (quote.is_some() || !word.starts_with(b"-")) => put(MASK),
            _ => in_word(word, put),
        }
        follows = if word.is_empty() { follows } else { leads_to_secret(word) };
        let space = after.iter().position(|&byte| !is_separator(byte)).unwrap_or(after.len());
        quote = after[..space].last().copied().filter(|byte| b"\"'".contains(byte));
        put(&after[..space]);
        rest = &after[space..];
    }
}

/// `--password x` in a line of shell, `PASSWORD='x'`, `Authorization: x`; the scheme before a token is no secret itself.
fn leads_to_secret(word: &[u8]) -> bool {
    let scheme = word.eq_ignore_ascii_case(b"bearer") || word.eq_ignore_ascii_case(b"basic");
    let named = word.strip_suffix(b":").or(word.strip_suffix(b"=")).is_some_and(is_secret);
    scheme || named || announces(word)
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'&;,?".contains(&byte)
}

/// A word without blanks.
fn in_word(word: &[u8], put: &mut dyn FnMut(&[u8])) {
    let value = word.iter().position(|&byte| byte == b'=' || byte == b':');
    if let Some(at) = value.filter(|&at| at + 1 < word.len() && !word[at..].starts_with(b"://"))
        && is_secret(&word[..at])
    {
        put(&word[..=at]);
        return put(MASK);
    }
    if let Some((from, to)) = password_of_address(word) {
        put(&word[..from]);
        put(MASK);
        return put(&word[to..]);
    }
    match marked(word) {
        Some((from, to)) => {
            put(&word[..from]);
            put(MASK);
            put(&word[to..]);
        }
        None => put(word),
    }
}

/// The place of the password in `scheme://user:password@host`.
fn password_of_address(word: &[u8]) -> Option<(usize, usize)> {
    let start = word.windows(3).position(|window| window == b"://")? + 3;
    let end = word[start..].iter().position(|&byte| byte == b'/').map_or(word.len(), |at| start + at);
    let host = start + word[start..end].iter().rposition(|&byte| byte == b'@')?;
    let password = start + word[start..host].iter().position(|&byte| byte == b':')? + 1;
    (password < host).then_some((password, host))
}

/// A token that bears a mark.
fn marked(word: &[u8]) -> Option<(usize, usize)> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    MARKS.iter().find_map(|mark| {
        let at = word.windows(mark.len()).position(|window| window == mark.as_bytes())?;
        let begins = at == 0 || !is_token(&word[at - 1]);
        let length = word[at..].iter().take_while(|byte| is_token(byte)).count();
        (begins && length >= mark.len() + MARKED_MIN).then_some((at, at + length))
    })
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// True if a name says that its value is secret. `max_tokens` and `tokenizer` do not, `HF_TOKEN` and `dbPassword` do.
fn is_secret(name: &[u8]) -> bool {
    const WORDS_MAX: usize = 16;
    let mut words = [""; WORDS_MAX];
    let mut folded = [0u8; 96];
    if name.len() > folded.len() || name.eq_ignore_ascii_case(b"PWD") || name.eq_ignore_ascii_case(b"OLDPWD") {
        return false;
    }
    let mut starts = [0usize; WORDS_MAX + 1];
    let (mut count, mut inside) = (0, false);
    for (i, &byte) in name.iter().enumerate() {
        folded[i] = byte.to_ascii_lowercase();
        let letter = byte.is_ascii_alphanumeric();
        let hump = letter && byte.is_ascii_uppercase() && i > 0 && name[i - 1].is_ascii_lowercase();
        if letter && (!inside || hump) {
            if count == WORDS_MAX {
                return false;
            }
            starts[count] = i;
            count += 1;
        }
        inside = letter;
    }
    for i in 0..count {
        let text = &folded[starts[i]..name.len()];
        let next = if i + 1 < count { starts[i + 1] - starts[i] } else { text.len() };
        let length = text[..next].iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(next);
        words[i] = std::str::from_utf8(&text[..length]).unwrap_or_default();
    }
    let words = &words[..count];
    let Some(last) = words.last() else { return false };
    if HARMLESS_ENDS.contains(last) || words.iter().any(|word| HARMLESS_WORDS.contains(word)) {
        return false;
    }
    let before = words.len().checked_sub(2).map_or("", |at| words[at]);
    SECRET_WORDS.contains(last)
        || *last == "key" && KEYS_OF.contains(&before)
        || words
            .iter()
            .any(|word| ["password", "passwd", "passphrase", "secret"].iter().any(|part| word.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str]) -> String {
        masked_text(&arguments.join("\0")).replace('\0', " ")
    }

    #[test]
    fn what_looks_like_a_secret_is_masked() {
        let cases: &[(&[&str], &str)] = &[
            (&["app", "--password=hunter2"], "app --password=***"),
            (&["app", "--password=hunter 2&x=y"], "app --password=***"),
            (&["app", "--password", "hunter2", "run"], "app --password *** run"),
            (&["app", "-passwd", "x"], "app -passwd ***"),
            (&["env", "PGPASSWORD=x", "psql"], "env PGPASSWORD=*** psql"),
            (&["env", "HF_TOKEN=x", "AWS_SECRET_ACCESS_KEY=y"], "env HF_TOKEN=*** AWS_SECRET_ACCESS_KEY=***"),
            (&["java", "-Ddb.password=x", "-DdbPassword=y"], "java -Ddb.password=*** -DdbPassword=***"),
            (&["app", "++reader.api_key=x", "--access-key", "y"], "app ++reader.api_key=*** --access-key ***"),
            (&["curl", "https://me:hunter2@host/a@b"], "curl https://me:***@host/a@b"),
            (&["curl", "-H", "Authorization: Bearer abc.def"], "curl -H Authorization: *** ***"),
            (&["curl", "-H", "X-Api-Key: abc"], "curl -H X-Api-Key: ***"),
            (&["curl", "https://host/a?x=1&sig=abc&y=2"], "curl https://host/a?x=1&sig=***&y=2"),
            (&["curl", "-u", "me:x", "-ume:x"], "curl -u *** -u***"),
            (&["/usr/bin/mysql", "-px", "-p", "base"], "/usr/bin/mysql -p*** -p base"),
            (&["sshpass", "-p", "x", "ssh", "host"], "sshpass -p *** ssh host"),
            (&["sh", "-c", "app --token x; PASSWORD='y z' run"], "sh -c app --token ***; PASSWORD='***' run"),
            (&["git", "clone", "ghp_0123456789abcdefghij"], "git clone ***"),
        ];
        for (arguments, expected) in cases {
            let shown = shown(arguments);
            assert_eq!(shown, *expected, "{arguments:?}");
            assert_eq!(masked_text(&shown), shown, "masked twice");
        }
    }

    #[test]
    fn what_is_none_stays_as_it_is() {
        for arguments in [
            &["train.py", "--tokenizer=bert", "--max_tokens", "512", "--lr=1e-3", "++reader.batch_size=4"][..],
            &["ssh", "-p", "22", "host"],
            &["app", "--password-file", "/run/x", "--no-password", "a", "PWD=/home/u"],
            &["cp", "/data/secret.npz", "/data/token", "s3://bucket/key?x=1", "a:b@c"],
            &["python3", "-m", "pass", "key=value", "--key", "k.pem", "sk-learn", "-"],
        ] {
            assert_eq!(shown(arguments), arguments.join(" "));
        }
    }

    #[test]
    fn a_buffer_that_is_too_small_holds_the_beginning() {
        let mut room = [0; 8];
        assert_eq!(masked(b"app\0--token=abcdef", &mut room), b"app\0--to");
    }
}
