//! Command lines for display, with passwords and keys masked.
//!
//! A trace is read by more people than may read a process's arguments. Arguments are masked when they are recorded,
//! and once more when a command line is shown, because a trace may come from elsewhere. A secret is recognized by
//!
//! * the name before it: `--password x`, `PGPASSWORD=x`, `?sig=x`, `{"token": "x"}`, `Cookie: x`,
//! * the program: `mysql -px`, `sshpass -p x`, `curl -u me:x`,
//! * its position: `https://me:x@host`, `me:x@host`, `hooks.slack.com/services/x`,
//! * its own form: `ghp_x`, `AKIAx`, a private key in PEM.
//!
//! A secret without any of these is not recognized. Nothing here allocates, because it runs inside traced programs.

/// The text that replaces a secret.
pub const MASK: &[u8] = b"***";

/// Whether the value of a name is secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Secrecy {
    Open,
    /// Only if the value looks random: `key=x` is an API key in an address and anything elsewhere.
    Random,
    /// Unless the value is plainly something else: `--key k.pem`, `--auth none`.
    Doubtful,
    /// The part after the colon of `user:x`.
    Pair,
    Secret,
}

use Secrecy::{Doubtful, Open, Pair, Random, Secret};

/// The last word of a name whose value is secret.
const SECRET_WORDS: &[&str] = &[
    "passphrase",
    "passwort",
    "passin",
    "passout",
    "pw",
    "secret",
    "secrets",
    "bearer",
    "cred",
    "creds",
    "credential",
    "credentials",
    "authorization",
    "signature",
    "sig",
    "cookie",
    "cookies",
    "sessionid",
    "jwt",
    "otp",
];

/// Suffixes of the last word of such a name, written together with the previous word: `sshpass`, `dbpwd`, `hftoken`.
const SECRET_ENDS: &[&str] =
    &["pass", "password", "passwd", "pwd", "token", "apikey", "accesskey", "secretkey", "privatekey", "accountkey"];
const HARMLESS_WORDS_ENDING_SO: &[&str] =
    &["bypass", "compass", "trespass", "surpass", "overpass", "underpass", "multipass"];

/// Words before a key that is secret regardless of its value: `api_key`, `access-key`.
const KEYS_OF: &[&str] =
    &["api", "access", "secret", "private", "account", "auth", "encryption", "signing", "master", "shared", "storage"];

/// Words before a key that names a column or a field: `sort-key`, `primary_key`.
const HARMLESS_KEYS: &[&str] = &[
    "answer",
    "any",
    "batch",
    "bucket",
    "by",
    "cache",
    "column",
    "composite",
    "config",
    "data",
    "dedup",
    "dict",
    "feature",
    "field",
    "foreign",
    "group",
    "hash",
    "hot",
    "image",
    "index",
    "input",
    "join",
    "json",
    "label",
    "log",
    "lookup",
    "loss",
    "map",
    "merge",
    "metadata",
    "metric",
    "monitor",
    "object",
    "order",
    "output",
    "param",
    "partition",
    "primary",
    "prompt",
    "public",
    "question",
    "range",
    "reward",
    "route",
    "routing",
    "row",
    "sample",
    "score",
    "sort",
    "state",
    "target",
    "text",
    "unique",
];

/// A name with one of these suffixes mentions a secret and does not contain one; nor does a name with one of the
/// words below in it.
const HARMLESS_ENDS: &[&str] = &[
    "arn", "class", "command", "cmd", "count", "dir", "endpoint", "env", "expiry", "fd", "file", "folder", "helper",
    "index", "len", "length", "limit", "manager", "name", "names", "path", "policy", "prompt", "provider", "size",
    "stdin", "store", "timeout", "ttl", "type", "uri", "url", "var", "version",
];
const HARMLESS_WORDS: &[&str] = &["no", "ask", "without", "prompt", "max", "min", "num"];

/// Values that are not secret if the name leaves that open.
const HARMLESS_VALUES: &[&str] = &[
    "none",
    "null",
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "auto",
    "default",
    "basic",
    "digest",
    "ntlm",
    "negotiate",
    "kerberos",
    "gssapi",
    "oauth",
    "oauth2",
    "oidc",
    "ldap",
    "saml",
    "tls",
    "ssl",
    "mtls",
    "iam",
    "id",
    "name",
    "key",
    "plain",
];
const HARMLESS_EXTENSIONS: &[&str] =
    &[".pem", ".key", ".crt", ".cer", ".der", ".pub", ".json", ".yaml", ".yml", ".txt", ".toml", ".py", ".sh", ".gpg"];

/// Prefixes of tokens, and the minimum number of letters and digits after them.
const MARKS: &[(&str, usize)] = &[
    ("ghp_", 8),
    ("gho_", 8),
    ("ghs_", 8),
    ("ghu_", 8),
    ("ghr_", 8),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("hf_", 16),
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("xoxa-", 8),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("AKIA", 12),
    ("ASIA", 12),
    ("eyJ", 16),
    ("AIza", 16),
    ("ya29.", 8),
    ("npm_", 16),
    ("pypi-", 16),
    ("dop_v1_", 8),
    ("nvapi-", 8),
    ("SG.", 16),
    ("hvs.", 8),
    ("dapi", 32),
];

/// Addresses whose last part is the secret.
const WEBHOOKS: &[&str] = &[
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/",
    "outlook.office.com/webhook/",
    "hooks.zapier.com/hooks/",
    "maker.ifttt.com/use/",
    "api.telegram.org/bot",
    "oapi.dingtalk.com/robot/",
    "open.feishu.cn/open-apis/bot/v2/hook/",
];

/// Options specific to these programs: the option, the secrecy of its value, and whether the value may be the next
/// argument. A joined value is always the value.
const OPTIONS_OF: &[(&str, &str, Secrecy, bool)] = &[
    ("mysql", "-p", Secret, false),
    ("mysqldump", "-p", Secret, false),
    ("mysqladmin", "-p", Secret, false),
    ("mysqlimport", "-p", Secret, false),
    ("mariadb", "-p", Secret, false),
    ("mariadb-dump", "-p", Secret, false),
    ("mariadb-admin", "-p", Secret, false),
    ("7z", "-p", Secret, false),
    ("7za", "-p", Secret, false),
    ("sshpass", "-p", Secret, true),
    ("mongo", "-p", Secret, true),
    ("mongosh", "-p", Secret, true),
    ("mongodump", "-p", Secret, true),
    ("docker", "-p", Doubtful, true),
    ("podman", "-p", Doubtful, true),
    ("zip", "-P", Secret, true),
    ("unzip", "-P", Secret, true),
    ("sqlcmd", "-P", Secret, true),
    ("redis-cli", "-a", Secret, true),
    ("curl", "-u", Secret, true),
    ("curl", "--user", Secret, true),
    ("wget", "--user", Secret, true),
    ("lftp", "-u", Secret, true),
    ("ldapsearch", "-w", Secret, true),
    ("ldapmodify", "-w", Secret, true),
];

/// Returns the program whose options follow, once an option has had its value: after `sshpass -p x` there is another
/// command line.
fn still(program: &'static str) -> &'static str {
    if program == "sshpass" { "" } else { program }
}

/// Passes on a list of arguments, separated by zeros, with secrets masked.
pub fn mask(arguments: &[u8], put: &mut dyn FnMut(&[u8])) {
    let mut list = arguments.split(|&byte| byte == 0);
    let first = list.next().unwrap_or_default();
    let mut program = program_of(first).unwrap_or_default();
    in_argument(first, put);
    let mut next = announced(first);
    for argument in list {
        put(b"\0");
        if next != Open && !is_option(argument) {
            put_value(next, argument, put);
            next = if next == Secret && is_scheme(argument) { Secret } else { Open };
            continue;
        }
        program = program_of(argument).unwrap_or(program);
        next = match option_of(program, argument) {
            Some((option, secrecy, _)) if argument.len() > option.len() => {
                program = still(program);
                put(option.as_bytes());
                put_value(secrecy, &argument[option.len()..], put);
                Open
            }
            Some((_, secrecy, true)) => {
                program = still(program);
                put(argument);
                secrecy
            }
            _ => {
                in_argument(argument, put);
                announced(argument)
            }
        };
    }
}

/// Masks arguments like [`mask`] into a buffer, as far as it is large enough.
pub fn masked<'a>(arguments: &[u8], into: &'a mut [u8]) -> &'a [u8] {
    let mut used = 0;
    mask(arguments, &mut |part| {
        let length = part.len().min(into.len() - used);
        into[used..used + length].copy_from_slice(&part[..length]);
        used += length;
    });
    &into[..used]
}

/// Masks arguments like [`mask`] into a string.
pub fn masked_text(arguments: &str) -> String {
    let mut masked = Vec::with_capacity(arguments.len());
    mask(arguments.as_bytes(), &mut |part| masked.extend_from_slice(part));
    String::from_utf8_lossy(&masked).into_owned()
}

/// Returns a message without the user names and passwords in its addresses: `https://***@host`. The rest is
/// unchanged, so this is for errors, which quote the user's input.
pub fn without_logins(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("://") {
        let start = at + 3;
        let end =
            rest[start..].find(|c: char| c.is_whitespace() || "\"'`<>".contains(c)).map_or(rest.len(), |at| start + at);
        out.push_str(&rest[..start]);
        let from = match login_of(&rest.as_bytes()[start..end]) {
            Some(length) => {
                out.push_str("***");
                start + length
            }
            None => start,
        };
        rest = &rest[from..];
    }
    out + rest
}

/// Returns the length of `user:password` before the `@` of an authority. A password may contain a slash, although it
/// should not.
fn login_of(address: &[u8]) -> Option<usize> {
    let authority = address.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(address.len());
    if let Some(at) = address[..authority].iter().rposition(|&byte| byte == b'@') {
        return Some(at);
    }
    let colon = address[..authority].iter().position(|&byte| byte == b':')?;
    let is_port = address[colon + 1..authority].iter().all(u8::is_ascii_digit);
    if is_port { None } else { address.iter().rposition(|&byte| byte == b'@') }
}

/// Returns the name of a program whose options are known.
fn program_of(argument: &[u8]) -> Option<&'static str> {
    let name = argument.rsplit(|&byte| byte == b'/').next().unwrap_or(argument);
    OPTIONS_OF.iter().map(|(program, ..)| *program).find(|program| program.as_bytes() == name)
}

fn option_of(program: &str, argument: &[u8]) -> Option<(&'static str, Secrecy, bool)> {
    let is_meant =
        |option: &str| argument == option.as_bytes() || option.len() == 2 && argument.starts_with(option.as_bytes());
    let row = OPTIONS_OF.iter().find(|(name, option, ..)| *name == program && is_meant(option))?;
    Some((row.1, row.2, row.3))
}

/// Returns `true` if an argument cannot be the value of the option before it.
fn is_option(argument: &[u8]) -> bool {
    matches!(argument, [b'-', b'-', third, ..] if third.is_ascii_alphabetic())
        || matches!(argument, [b'-', second, ..] if second.is_ascii_alphabetic())
}

/// Returns the secrecy of the next argument, given an option or a header name.
fn announced(argument: &[u8]) -> Secrecy {
    if argument.starts_with(b"-") && argument.iter().all(|&byte| is_of_name(byte)) {
        return secrecy(argument);
    }
    match argument.strip_suffix(b":") {
        Some(name) if name.iter().all(|&byte| is_of_name(byte)) => secrecy(name),
        _ if argument.eq_ignore_ascii_case(b"bearer") => Secret,
        _ => Open,
    }
}

/// Writes a value according to the secrecy of its name.
fn put_value(secrecy: Secrecy, value: &[u8], put: &mut dyn FnMut(&[u8])) {
    let is_masked = match secrecy {
        Open => false,
        Secret => true,
        Doubtful => !is_harmless(value),
        Random => is_random(value),
        Pair => {
            if let Some(length) = user_of_pair(value) {
                put(&value[..=length]);
                return put(MASK);
            }
            false
        }
    };
    if is_masked { put(MASK) } else { in_argument(value, put) }
}

/// Returns `true` for values of a doubtful name that are not secrets: files, small numbers, ports, choices,
/// variables.
fn is_harmless(value: &[u8]) -> bool {
    let starts = |start: &&[u8]| value.starts_with(start);
    let is_file = [&b"/"[..], b"./", b"../", b"~", b"$", b"%", b"@"].iter().any(starts)
        || value.windows(3).any(|window| window == b"://")
        || HARMLESS_EXTENSIONS.iter().any(|end| value.ends_with(end.as_bytes()));
    let is_number = value.len() <= 3 && value.iter().all(u8::is_ascii_digit);
    let is_port = value.contains(&b':') && value.iter().all(|byte| byte.is_ascii_digit() || b":.-/".contains(byte));
    is_file || is_number || is_port || HARMLESS_VALUES.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_random(value: &[u8]) -> bool {
    const LEAST: usize = 16;
    value.len() >= LEAST
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-+/=".contains(byte))
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
}

/// Returns the length of the user in `user:password`; `None` for `1000:1000` and for paths.
fn user_of_pair(value: &[u8]) -> Option<usize> {
    let at = value.iter().position(|byte| b":%".contains(byte))?;
    let is_login = value[..at].iter().any(u8::is_ascii_alphabetic) && !value[..at].contains(&b'/');
    let password = &value[at + 1..];
    (is_login && !password.is_empty() && !password.starts_with(b"/") && !password.starts_with(b"\\")).then_some(at)
}

/// Masks one argument, which may itself be a command line, an address or a document.
fn in_argument(argument: &[u8], put: &mut dyn FnMut(&[u8])) {
    let mut rest = argument;
    while let Some((from, to)) = private_key(rest) {
        in_line(&rest[..from], put);
        put(MASK);
        rest = &rest[to..];
    }
    in_line(rest, put);
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    // The first byte is nearly always sufficient, without a call.
    let (&first, _) = what.split_first()?;
    text.windows(what.len()).position(|window| window[0] == first && window == what)
}

/// Returns the range of a private key in PEM, up to its last line or the end of the text.
fn private_key(text: &[u8]) -> Option<(usize, usize)> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let title = find(text, b"PRIVATE KEY-----")?;
    let from = text[..title].windows(BEGIN.len()).rposition(|window| window == BEGIN)?;
    let Some(end) = find(&text[title..], b"-----END ").map(|at| title + at + BEGIN.len()) else {
        return Some((from, text.len()));
    };
    let to = find(&text[end.min(text.len())..], b"-----").map_or(text.len(), |at| end + at + 5);
    Some((from, to))
}

/// Masks text without private keys.
fn in_line(line: &[u8], put: &mut dyn FnMut(&[u8])) {
    // `--password=...` up to the end, whatever it contains.
    if let Some(at) = line.iter().position(|&byte| byte == b'=')
        && line[..at].iter().all(|&byte| is_of_name(byte) || b"+/@".contains(&byte))
        && let secrecy @ (Secret | Doubtful | Pair) = secrecy(&line[..at])
    {
        put(&line[..=at]);
        let value = &line[at + 1..];
        match (secrecy, user_of_pair(value)) {
            (Secret, _) => return put(MASK),
            (Doubtful, _) if !is_harmless(value) => return put(MASK),
            (Pair, Some(user)) => {
                put(&value[..=user]);
                return put(MASK);
            }
            _ => return in_words(value, put),
        }
    }
    in_words(line, put);
}

/// The state after the words so far.
struct ScanState {
    /// The secrecy of the next word, if it is a value.
    next: Secrecy,
    /// The last word was a name, which a colon or an equals sign may follow: `"password": "x"`.
    named: Secrecy,
    /// The quote directly before the next word, and whether a backslash precedes it.
    quote: Option<(u8, bool)>,
    program: &'static str,
}

fn in_words(line: &[u8], put: &mut dyn FnMut(&[u8])) {
    let mut rest = line;
    let mut reading = ScanState { next: Open, named: Open, quote: None, program: "" };
    while !rest.is_empty() {
        let used = in_next_word(rest, &mut reading, put);
        let after = &rest[used..];
        let space = after.iter().position(|&byte| !is_separator(byte)).unwrap_or(after.len());
        let between = &after[..space];
        reading.quote = match between {
            [.., before, quote @ (b'"' | b'\'')] => Some((*quote, *before == b'\\')),
            [quote @ (b'"' | b'\'')] => Some((*quote, false)),
            _ => None,
        };
        if between.iter().any(|byte| b";|&\n".contains(byte)) {
            reading.program = "";
        }
        put(between);
        rest = &after[space..];
    }
}

/// Passes on the first word of a text, and returns its length.
fn in_next_word(rest: &[u8], reading: &mut ScanState, put: &mut dyn FnMut(&[u8])) -> usize {
    let end = |at: &dyn Fn(usize) -> bool| (0..rest.len()).find(|&i| at(i)).unwrap_or(rest.len());
    let quoted =
        |(quote, escaped): (u8, bool)| end(&|i| rest[i] == quote && (escaped || i == 0 || rest[i - 1] != b'\\'));
    let length = match reading.quote {
        Some(quote) if reading.next != Open => quoted(quote),
        _ => end(&|i| is_separator(rest[i])),
    };
    let word = &rest[..length];
    if word.is_empty() {
        return 0;
    }
    let (next, named) = (reading.next, std::mem::replace(&mut reading.named, Open));
    if next != Open && (reading.quote.is_some() || !is_option(word)) {
        put_word_value(next, word, put);
        reading.next = if next == Secret && is_scheme(word) { Secret } else { Open };
        return length;
    }
    reading.next = Open;
    if named != Open && matches!(word, b":" | b"=" | b"=>" | b":=" | b"==") {
        put(word);
        reading.next = named;
        return length;
    }
    if named != Open && matches!(word, [b':' | b'=', ..]) {
        put(&word[..1]);
        put_word_value(named, &word[1..], put);
        return length;
    }
    if let Some(name) = header_of(word) {
        let end = match reading.quote {
            Some(quote) => quoted(quote),
            None => end(&|i| rest[i] == b'\n'),
        };
        put_header(&rest[..end], name, put);
        return end;
    }
    if let Some(start) = find(word, b"://").map(|at| at + 3) {
        // A password may contain characters that otherwise end a word.
        let address = end(&|i| rest[i].is_ascii_whitespace() || b"\"'`".contains(&rest[i]));
        if names_secret(&word[..start - 3]).is_none()
            && let Some((from, to)) = password_of(&rest[start..address])
        {
            put(&rest[..start + from]);
            put(MASK);
            return start + to;
        }
    }
    if let Some((option, secrecy, alone)) = option_of(reading.program, word) {
        reading.program = still(reading.program);
        if word.len() > option.len() {
            put(option.as_bytes());
            put_word_value(secrecy, &word[option.len()..], put);
            return length;
        } else if alone {
            put(word);
            reading.next = secrecy;
            return length;
        }
    }
    reading.program = program_of(word).unwrap_or(reading.program);
    in_word(word, put);
    reading.next = leads_to(word);
    reading.named = if word.iter().all(|&byte| is_of_name(byte)) { secrecy(word) } else { Open };
    if reading.named == Pair {
        reading.named = Open;
    }
    length
}

/// Writes the name of a header whose value is secret: `name` bytes of the line.
fn put_header(line: &[u8], name: usize, put: &mut dyn FnMut(&[u8])) {
    let blank = line[name..].iter().take_while(|byte| **byte == b' ').count();
    put(&line[..name + blank]);
    if name + blank < line.len() {
        put(MASK);
    }
}

/// Returns the length of the name and the colon of a header whose whole line is secret: its words alone do not show
/// that.
fn header_of(word: &[u8]) -> Option<usize> {
    const HEADERS: &[&str] = &["authorization", "proxy-authorization", "cookie", "set-cookie"];
    let at = word.iter().position(|&byte| byte == b':')?;
    let name = word[..at].rsplit(|&byte| byte == b'=').next()?;
    HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header.as_bytes())).then_some(at + 1)
}

fn is_scheme(word: &[u8]) -> bool {
    [&b"bearer"[..], b"basic", b"token", b"digest"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Returns the secrecy that a word gives to the next one: `--password x` in a line of shell, `PASSWORD='x'`,
/// `password: x`; the scheme before a token is not secret itself.
fn leads_to(word: &[u8]) -> Secrecy {
    if word.eq_ignore_ascii_case(b"bearer") || word == b"Basic" {
        return Secret;
    }
    match word.strip_suffix(b":").or(word.strip_suffix(b"=")) {
        Some(name) => secrecy(name.rsplit(|byte| b"=:".contains(byte)).next().unwrap_or(name)),
        None if word.starts_with(b"-") && !word.contains(&b'=') => secrecy(word),
        None => Open,
    }
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'&;,?{}[]()|<>`\\".contains(&byte)
}

/// Writes the value of a name within a line.
fn put_word_value(secrecy: Secrecy, value: &[u8], put: &mut dyn FnMut(&[u8])) {
    match (secrecy, user_of_pair(value)) {
        (Secret, _) => put(MASK),
        (Doubtful, _) if !is_harmless(value) => put(MASK),
        (Random, _) if is_random(value) => put(MASK),
        (Pair, Some(user)) => {
            put(&value[..=user]);
            put(MASK);
        }
        _ => in_word(value, put),
    }
}

/// Returns the position after the name in a word, if its value is secret: `a=b:password=` is 13.
fn names_secret(word: &[u8]) -> Option<(usize, Secrecy)> {
    let mut start = 0;
    for (at, &byte) in word.iter().enumerate() {
        if byte != b'=' && byte != b':' {
            continue;
        }
        let name = &word[start..at];
        let is_part = byte == b':'
            && (word[at..].starts_with(b"::")
                || word[at..].starts_with(b"://")
                || name.contains(&b'/')
                || name.is_empty());
        let is_last = at + 1 == word.len();
        match secrecy(name) {
            found if !is_part && !is_last && found != Open => return Some((at + 1, found)),
            _ => start = at + 1,
        }
    }
    None
}

/// Masks a word without blanks.
fn in_word(word: &[u8], put: &mut dyn FnMut(&[u8])) {
    if let Some((at, secrecy)) = names_secret(word) {
        let value = &word[at..];
        let user = user_of_pair(value).filter(|_| secrecy == Pair);
        if secrecy == Secret
            || secrecy == Doubtful && !is_harmless(value)
            || secrecy == Random && is_random(value)
            || user.is_some()
        {
            put(&word[..at + user.map_or(0, |user| user + 1)]);
            return put(MASK);
        }
    }
    match password_of_login(word).or_else(|| webhook(word)).or_else(|| marked(word)) {
        Some((from, to)) => {
            put(&word[..from]);
            put(MASK);
            put(&word[to..]);
        }
        None => put(word),
    }
}

/// Returns the range of the password in `user:password@host`, after a scheme.
fn password_of(address: &[u8]) -> Option<(usize, usize)> {
    let end = login_of(address)?;
    match address[..end].iter().position(|&byte| byte == b':') {
        Some(at) if at + 1 < end => Some((at + 1, end)),
        // A token instead of a user.
        None if is_random(&address[..end]) => Some((0, end)),
        _ => None,
    }
}

/// Returns the range of the password in `user:password@host` without a scheme. The digest of a container image is not
/// a password.
fn password_of_login(word: &[u8]) -> Option<(usize, usize)> {
    let colon = word.iter().position(|&byte| byte == b':')?;
    let start = word[..colon].iter().rposition(|&byte| byte == b'=').map_or(0, |at| at + 1);
    let at = word.iter().rposition(|&byte| byte == b'@')?;
    let is_user = word[start..colon].iter().any(u8::is_ascii_alphabetic) && !word[start..colon].contains(&b'/');
    let host = word.get(at + 1..)?;
    let is_host = host.first().is_some_and(u8::is_ascii_alphanumeric) && !host.starts_with(b"sha256:");
    let is_password = colon + 1 < at && !word[colon + 1..].starts_with(b"/");
    (is_user && is_host && is_password && !word[start..colon].contains(&b'@')).then_some((colon + 1, at))
}

fn webhook(word: &[u8]) -> Option<(usize, usize)> {
    let end = WEBHOOKS.iter().find_map(|hook| Some(find(word, hook.as_bytes())? + hook.len()))?;
    (end < word.len()).then_some((end, word.len()))
}

/// Returns the range of a token with a known prefix.
fn marked(word: &[u8]) -> Option<(usize, usize)> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let begins = |at: &usize| at.checked_sub(1).is_none_or(|before| !is_token(&word[before]));
    (0..word.len()).filter(begins).find_map(|at| {
        let (mark, least) = MARKS.iter().find(|(mark, _)| word[at..].starts_with(mark.as_bytes()))?;
        let length = word[at..].iter().take_while(|byte| is_token(byte)).count();
        (length >= mark.len() + least).then_some((at, at + length))
    })
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

/// Returns the secrecy that a name gives to its value: none for `max_tokens` and `tokenizer`, some for `HF_TOKEN` and
/// `dbPassword`.
fn secrecy(name: &[u8]) -> Secrecy {
    const WORDS_MAX: usize = 16;
    if [&b"-u"[..], b"-U", b"-a"].contains(&name) {
        return Pair;
    }
    let mut words = [""; WORDS_MAX];
    let mut folded = [0u8; 96];
    if name.len() > folded.len() || name.eq_ignore_ascii_case(b"PWD") || name.eq_ignore_ascii_case(b"OLDPWD") {
        return Open;
    }
    let mut starts = [0usize; WORDS_MAX + 1];
    let (mut count, mut inside) = (0, false);
    for (i, &byte) in name.iter().enumerate() {
        folded[i] = byte.to_ascii_lowercase();
        let letter = byte.is_ascii_alphanumeric();
        let hump = letter && byte.is_ascii_uppercase() && i > 0 && name[i - 1].is_ascii_lowercase();
        if letter && (!inside || hump) {
            if count == WORDS_MAX {
                return Open;
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
    let Some(last) = words.last() else { return Open };
    if HARMLESS_ENDS.contains(last) || words.iter().any(|word| HARMLESS_WORDS.contains(word)) {
        return Open;
    }
    let before = words.len().checked_sub(2).map_or("", |at| words[at]);
    let ends = || SECRET_ENDS.iter().any(|end| last.ends_with(end)) && !HARMLESS_WORDS_ENDING_SO.contains(last);
    let mentions = |word: &&str| ["password", "passwd", "passphrase", "secret"].iter().any(|part| word.contains(part));
    match *last {
        // `ffmpeg -pass 1`
        "pass" | "auth" => Doubtful,
        "key" if KEYS_OF.contains(&before) => Secret,
        "key" if HARMLESS_KEYS.contains(&before) => Open,
        "key" if before.is_empty() && !name.starts_with(b"-") => Random,
        "key" => Doubtful,
        "id" if before == "key" && words.len() > 2 => Secret,
        "user" | "login" | "userpass" => Pair,
        last if SECRET_WORDS.contains(&last) || ends() || words.iter().any(mentions) => Secret,
        _ => Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str]) -> String {
        masked_text(&arguments.join("\0")).replace('\0', " ")
    }

    #[test]
    fn apparent_secrets_are_masked() {
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
            (&["curl", "-H", "Authorization: Bearer abc.def"], "curl -H Authorization: ***"),
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
    fn other_text_is_unchanged() {
        for arguments in [
            &["train.py", "--tokenizer=bert", "--max_tokens", "512", "--lr=1e-3", "++reader.batch_size=4"][..],
            &["ssh", "-p", "22", "host"],
            &["app", "--password-file", "/run/x", "--no-password", "a", "PWD=/home/u"],
            &["cp", "/data/secret.npz", "/data/token", "s3://bucket/key?x=1"],
            &["python3", "-m", "pass", "key=value", "--key", "k.pem", "sk-learn", "-"],
        ] {
            assert_eq!(shown(arguments), arguments.join(" "));
        }
    }

    #[test]
    fn small_buffer_contains_the_start() {
        let mut room = [0; 8];
        assert_eq!(masked(b"app\0--token=abcdef", &mut room), b"app\0--to");
    }
}
