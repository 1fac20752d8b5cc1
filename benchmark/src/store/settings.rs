//! The settings of the store, from the keys of a workload and, if those are not set, from the environment.

use super::http::{Server, Timeouts};
use super::sign::Credentials;
use crate::failure::Failure;
use crate::keys::value::Value;
use dlio_schemas::secrets::without_logins;
use dlio_schemas::words::nearest;
use std::path::PathBuf;
use std::time::Duration;

/// The store of a run. Its debug output contains no secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub bucket: String,
    /// The servers that receive requests, and the path before the bucket's name; ranks use them round-robin.
    pub endpoints: Vec<(Server, String)>,
    /// The bucket is part of the host's name, not of the path.
    pub virtual_hosts: bool,
    pub region: String,
    /// `None`: requests are not signed.
    pub credentials: Option<Credentials>,
    pub attempts: u64,
    pub patience: Timeouts,
    /// The body of a request over http is not signed; over https it never is.
    pub unsigned_payload: bool,
    pub ca_bundle: Option<PathBuf>,
    pub part_bytes: u64,
    /// Larger objects are written in parts.
    pub whole_bytes: u64,
    /// Parts of an object in flight; 0 derives it from the number of ranks.
    pub parts_at_once: u64,
    pub verify_writes: bool,
    pub create_bucket: bool,
    /// Keys are whole URIs, as in DLIO.
    pub whole_uris: bool,
    /// Whole objects that a reader requests ahead of their use.
    pub prefetch_window: u64,
}

/// The scheme of an object's name.
pub const SCHEME: &str = "s3://";

/// Options below `storage.storage_options`: name, whether it is a secret, description.
const OPTIONS: &[(&str, &str)] = &[
    ("endpoint_url", "address of the store, http://HOST:PORT"),
    ("aws", "true: use Amazon S3 of the region"),
    ("region", "us-east-1"),
    ("access_key_id", "access key"),
    ("secret_access_key", "secret key"),
    ("session_token", "token of temporary credentials"),
    ("anonymous", "true: do not sign requests"),
    ("s3_force_path_style", "false: with Amazon, the bucket is part of the host name"),
    ("s3_max_attempts", "attempts per request"),
    ("connect_timeout", "seconds to connect"),
    ("stall_timeout", "seconds without a byte until a request is retried"),
    ("unsigned_payload", "true: do not sign bodies over http"),
    ("ca_bundle", "file with certificates to trust"),
    ("part_size", "bytes per part of an upload"),
    ("multipart_threshold", "larger objects are uploaded in parts"),
    ("parts_in_flight", "parts of an object in flight at the same time"),
    ("verify_writes", "true: check the size of each object after writing"),
    ("create_bucket", "true: create a missing bucket"),
    ("use_full_object_uri", "true: use whole URIs as keys"),
    ("uri_scheme", "s3"),
    ("secure", "accepted: determined by the endpoint's scheme"),
    ("storage_library", "accepted: there is only one client"),
    ("prefetch_window", "objects that each worker requests ahead"),
    ("prefetch_workers", "accepted: row groups are read in turn"),
    ("stagger_workers", "accepted: workers start at the same time"),
    ("footer_cap", "accepted: footers are read as the format requires"),
    ("prefetch", "accepted: row groups are read in turn"),
];

/// The options whose values are never written.
const SECRETS: &[&str] = &["access_key_id", "secret_access_key", "session_token"];

/// The text that replaces a secret.
pub const HIDDEN: &str = "***";

/// Returns `true` if a key of a workload, or its last word, names a secret.
pub fn is_secret(key: &str) -> bool {
    SECRETS.contains(&key.rsplit('.').next().unwrap_or(key))
}

/// Returns a tree without its secrets.
pub fn without_secrets(tree: &Value) -> Value {
    match tree {
        Value::Map(entries) => {
            let entry = |(key, value): &(String, Value)| {
                let hidden = is_secret(key) && *value != Value::Null;
                (key.clone(), if hidden { Value::Text(HIDDEN.into()) } else { without_secrets(value) })
            };
            Value::Map(entries.iter().map(entry).collect())
        }
        Value::Text(text) => Value::Text(without_logins(text)),
        other => other.clone(),
    }
}

/// Masks the secrets of a `key=value` argument, whether the key names one or the value contains one.
pub fn masked(typed: &str) -> String {
    match typed.split_once('=') {
        Some((key, _)) if is_secret(key) => format!("{key}={HIDDEN}"),
        Some((key, value)) if SECRETS.iter().any(|secret| value.contains(secret)) => format!("{key}={HIDDEN}"),
        _ => without_logins(typed),
    }
}

/// Returns an endpoint without a login, with or without a scheme, and without a signed query.
fn without_login(url: &str) -> String {
    let url = url.split_once('?').map_or(url.to_string(), |(url, _)| format!("{url}?{HIDDEN}"));
    match url.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.find("://").map_or("", |at| &before[..at + 3]);
            format!("{scheme}{HIDDEN}@{host}")
        }
        None => url,
    }
}

/// The keys and variables that settings come from.
pub struct Source<'a> {
    pub storage_type: &'a str,
    pub storage_root: &'a str,
    /// `storage.storage_options`.
    pub options: &'a Value,
    /// The flat `storage.s3_force_path_style`.
    pub force_path_style: Option<bool>,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Source<'_> {
    fn text(&self, name: &str) -> Option<String> {
        match self.options.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Text(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(other) => Some(other.inline()),
        }
    }

    fn flag(&self, name: &str, complaints: &mut Vec<Failure>) -> Option<bool> {
        let text = self.text(name)?;
        match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                complaints.push(wrong(name, &text, "true or false"));
                None
            }
        }
    }

    fn number(&self, name: &str, default: u64, least: u64, complaints: &mut Vec<Failure>) -> u64 {
        let Some(text) = self.text(name) else { return default };
        match text.parse::<f64>() {
            Ok(number) if number >= least as f64 && number < 1e18 => number as u64,
            _ => {
                complaints.push(wrong(name, &text, &format!("a number of at least {least}")));
                default
            }
        }
    }

    fn variable(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| (self.variable)(name)).filter(|value| !value.is_empty())
    }

    /// Returns the settings, or all errors in them.
    pub fn settings(&self) -> Result<Settings, Vec<Failure>> {
        let mut complaints = self.unknown();
        let mut flag = |name| self.flag(name, &mut complaints);
        let [aws, anonymous, unsigned_payload, verify_writes, create_bucket, whole_uris] =
            ["aws", "anonymous", "unsigned_payload", "verify_writes", "create_bucket", "use_full_object_uri"]
                .map(|name| flag(name).unwrap_or(false));
        let path_style = flag("s3_force_path_style").or(self.force_path_style);
        let region = self.text("region").or_else(|| self.variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let endpoints = self.endpoints(aws, &region, &mut complaints);
        let credentials = self.credentials(anonymous, &mut complaints);
        let mut number = |name, default, least| self.number(name, default, least, &mut complaints);
        let patience = Timeouts {
            connect: Duration::from_secs(number("connect_timeout", 20, 1)),
            stall: Duration::from_secs(number("stall_timeout", 30, 1)),
        };
        let settings = Settings {
            bucket: self.bucket(&mut Vec::new()),
            endpoints,
            virtual_hosts: aws && path_style != Some(true),
            region,
            credentials,
            attempts: number("s3_max_attempts", 5, 1),
            patience,
            unsigned_payload,
            ca_bundle: self.text("ca_bundle").or_else(|| self.variable(&["AWS_CA_BUNDLE"])).map(PathBuf::from),
            part_bytes: number("part_size", 16 << 20, 5 << 20),
            whole_bytes: number("multipart_threshold", 64 << 20, 5 << 20),
            parts_at_once: number("parts_in_flight", 0, 0),
            verify_writes,
            create_bucket,
            whole_uris,
            prefetch_window: number("prefetch_window", 0, 0),
        };
        self.bucket(&mut complaints);
        if complaints.is_empty() { Ok(settings) } else { Err(complaints) }
    }

    /// Returns failures for options that do not exist, and for a scheme other than s3.
    pub fn unknown(&self) -> Vec<Failure> {
        let names = || OPTIONS.iter().map(|(name, _)| *name);
        let unknown =
            self.options.entries().iter().map(|(name, _)| name).filter(|name| !names().any(|known| known == *name));
        let complaint = |name: &String| {
            let near = nearest(name, names()).map(|near| format!("did you mean {near}? "));
            Failure::refused(format!("workload.storage.storage_options.{name}: unknown option")).remedy(format!(
                "{}known: {}",
                near.unwrap_or_default(),
                names().collect::<Vec<_>>().join(", ")
            ))
        };
        let mut complaints: Vec<Failure> = unknown.map(complaint).collect();
        if let Some(scheme) = self.text("uri_scheme").filter(|scheme| scheme != "s3") {
            complaints.push(wrong(
                "uri_scheme",
                &scheme,
                "s3; for local directories use storage_type=local_fs or direct_fs",
            ));
        }
        complaints
    }

    fn bucket(&self, complaints: &mut Vec<Failure>) -> String {
        let root = without_schemes(self.storage_root).0;
        let named = Some(root.trim_matches('/')).filter(|root| !matches!(*root, "" | "."));
        let bucket = named.and_then(|root| root.split('/').next()).map(str::to_string);
        let bucket = bucket.or_else(|| self.variable(&["BUCKET", "DLIO_BUCKET"])).unwrap_or_default();
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(valid) {
            let what = match bucket.is_empty() {
                true => "no bucket is set".to_string(),
                false => format!("`{bucket}` is not a valid bucket name"),
            };
            complaints.push(Failure::refused(what).remedy("set ++workload.storage.storage_root=BUCKET"));
        }
        bucket
    }

    fn endpoints(&self, aws: bool, region: &str, complaints: &mut Vec<Failure>) -> Vec<(Server, String)> {
        let variables = ["S3_ENDPOINT_URIS", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "S3_ENDPOINT"];
        let urls = self.text("endpoint_url").or_else(|| self.variable(&variables));
        let local = (self.storage_type == "aistore").then(|| "http://localhost:8080".to_string());
        let amazon = aws.then(|| format!("https://s3.{region}.amazonaws.com"));
        let Some(urls) = urls.or(amazon).or(local) else {
            complaints.push(Failure::refused("no endpoint: the address of the object store is not set").remedy(
                "set ++workload.storage.storage_options.endpoint_url=http://HOST:PORT (or AWS_ENDPOINT_URL), or \
                 ++workload.storage.storage_options.aws=true for Amazon",
            ));
            return Vec::new();
        };
        let mut endpoints = Vec::new();
        for url in urls.split(',').map(str::trim) {
            match Server::of_url(url) {
                Some((server, path)) if !path.contains('?') => {
                    let path = path.trim_end_matches('/');
                    let native = self.storage_type == "aistore" && path.is_empty();
                    endpoints.push((server, if native { "/s3".into() } else { path.to_string() }));
                }
                _ => complaints.push(
                    Failure::refused(format!("the endpoint `{}` is not the URL of a server", without_login(url)))
                        .remedy(match url.contains('@') {
                            true => "remove the login; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are the credentials",
                            false => "use http://HOST:PORT or https://HOST",
                        }),
                ),
            }
        }
        endpoints
    }

    fn credentials(&self, anonymous: bool, complaints: &mut Vec<Failure>) -> Option<Credentials> {
        let of = |option: &str, variable: &str| self.text(option).or_else(|| self.variable(&[variable]));
        let key_id = of("access_key_id", "AWS_ACCESS_KEY_ID");
        let secret = of("secret_access_key", "AWS_SECRET_ACCESS_KEY");
        match (key_id, secret) {
            _ if anonymous => None,
            (Some(key_id), Some(secret)) => {
                // A token belongs to its key.
                let own = self.text("access_key_id").is_some();
                let token = self
                    .text("session_token")
                    .or_else(|| if own { None } else { self.variable(&["AWS_SESSION_TOKEN"]) });
                Some(Credentials { key_id, secret, token })
            }
            (None, None) if self.storage_type == "aistore" => None,
            (key_id, _) => {
                let missing = if key_id.is_none() { "AWS_ACCESS_KEY_ID" } else { "AWS_SECRET_ACCESS_KEY" };
                complaints.push(
                    Failure::refused(format!("no credentials for the object store: {missing} is not set")).remedy(
                        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
                     ++workload.storage.storage_options.anonymous=true for a store that needs none",
                    ),
                );
                None
            }
        }
    }
}

fn wrong(option: &str, value: &str, wanted: &str) -> Failure {
    Failure::refused(format!("workload.storage.storage_options.{option}: expected {wanted}, got {value}"))
}

/// Returns a name without its schemes, and the number of schemes.
fn without_schemes(text: &str) -> (&str, usize) {
    let (mut rest, mut count) = (text, 0);
    while let Some(behind) = rest.strip_prefix(SCHEME).or_else(|| rest.strip_prefix("ais://")) {
        (rest, count) = (behind, count + 1);
    }
    (rest, count)
}

impl Settings {
    /// Returns the directory of objects that a key of the workload names, `s3://bucket/prefix` in any spelling, and a
    /// note if the result differs from the text given.
    pub fn folder(&self, key: &str, storage_root: &str, typed: &str) -> Result<(PathBuf, Option<String>), Failure> {
        let (bare, schemes) = without_schemes(typed);
        let refused = |what: String, remedy: &str| {
            Err(Failure::refused(format!("workload.{key}={typed}: {what}")).remedy(remedy))
        };
        let root = without_schemes(storage_root).0.trim_matches('/').to_string();
        let below = match schemes {
            0 if bare.starts_with('/') => {
                return refused(
                    "a local directory, but the data are in an object store".into(),
                    "use a prefix of keys, such as data/unet3d, or storage_type=local_fs",
                );
            }
            0 => format!("{}/{bare}", root.split_once('/').map_or("", |(_, prefix)| prefix)),
            _ => {
                let (bucket, below) = bare.split_once('/').unwrap_or((bare, ""));
                if bucket != self.bucket {
                    return refused(
                        format!("its bucket differs from workload.storage.storage_root={}", self.bucket),
                        "use the same bucket in both",
                    );
                }
                below.to_string()
            }
        };
        if below.split('/').any(|part| part == "..") {
            return refused("object keys cannot contain `..`".into(), "write the resolved prefix");
        }
        let parts: Vec<&str> = below.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        let plain = [&[self.bucket.as_str()], &parts[..]].concat().join("/");
        let remark = (schemes > 1).then(|| format!("workload.{key}={typed} is interpreted as {SCHEME}{plain}"));
        let whole = if self.whole_uris {
            format!("{SCHEME}{}/{SCHEME}{plain}", self.bucket)
        } else {
            format!("{SCHEME}{plain}")
        };
        Ok((PathBuf::from(whole), remark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::parse_yaml;

    fn settings(options: &str, root: &str, variables: &[(&str, &str)]) -> Result<Settings, Vec<Failure>> {
        let options = parse_yaml("t", options).unwrap();
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        let source = Source {
            storage_type: "s3",
            storage_root: root,
            options: &options,
            force_path_style: None,
            variable: &variable,
        };
        source.settings()
    }

    const KEYS: &[(&str, &str)] = &[("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "hush")];
    const HERE: &str = "{endpoint_url: 'http://localhost:9000'}";

    #[test]
    fn options_win_over_the_environment() {
        let more =
            [KEYS, &[("AWS_ENDPOINT_URL", "https://elsewhere"), ("AWS_SESSION_TOKEN", "t"), ("AWS_REGION", "r")]]
                .concat();
        let environment = settings("{}", "bucket", &more).unwrap();
        assert_eq!(environment.endpoints[0].0.url(), "https://elsewhere");
        assert_eq!(environment.credentials.as_ref().unwrap().token.as_deref(), Some("t"));
        let own =
            "{endpoint_url: 'http://h:1', access_key_id: a, secret_access_key: b, region: x, s3_max_attempts: '7'}";
        let own = settings(own, "s3://bucket/", &more).unwrap();
        assert_eq!((own.endpoints[0].0.url().as_str(), own.bucket.as_str()), ("http://h:1", "bucket"));
        let credentials = own.credentials.clone().unwrap();
        assert_eq!((credentials.key_id.as_str(), credentials.token, own.attempts), ("a", None, 7));
        assert_eq!(own.region, "x");
    }

    #[test]
    fn rejects_missing_and_unknown_options() {
        let text = |result: Result<Settings, Vec<Failure>>| {
            result.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let all = text(settings("{endpoint: x, s3_max_attempts: few}", "./", &[]));
        for word in ["did you mean endpoint_url?", "no endpoint", "no credentials", "no bucket is set", "few"] {
            assert!(all.contains(word), "{word}: {all}");
        }
        assert!(text(settings("{endpoint_url: 'localhost:9000'}", "b", KEYS)).contains("is not the URL"));
        assert!(settings("{aws: true}", "b", KEYS).unwrap().virtual_hosts);
    }

    #[test]
    fn complaints_hide_endpoint_logins() {
        let url = "https://me:hush@host";
        let complaints = settings(&format!("{{endpoint_url: '{url}'}}"), "b", KEYS).unwrap_err();
        let words = complaints.iter().map(ToString::to_string).collect::<String>();
        assert!(words.contains("https://***@host") && !words.contains("hush"), "{words}");
        assert_eq!(without_login("me:hush@host:9"), "***@host:9");
        assert_eq!(without_login("http://h:1?X-Amz-Signature=hush"), "http://h:1?***");
        assert!(!masked(&format!("++workload.storage.storage_options.endpoint_url={url}")).contains("hush"));
    }

    #[test]
    fn no_secret_prints() {
        let own =
            settings("{endpoint_url: 'http://h', access_key_id: abcdefgh, secret_access_key: hushhush}", "b", &[]);
        let shown = format!("{:?}", own.unwrap());
        assert!(!shown.contains("hush") && !shown.contains("abcd"), "{shown}");
        let tree = parse_yaml("t", "{storage: {storage_options: {secret_access_key: hush, region: r}}}").unwrap();
        let written = without_secrets(&tree).to_yaml();
        assert!(written.contains(HIDDEN) && written.contains("region: r") && !written.contains("hush"), "{written}");
        assert_eq!(
            masked("++workload.storage.storage_options.secret_access_key=hush"),
            "++workload.storage.storage_options.secret_access_key=***"
        );
        assert!(!masked("++workload.storage.storage_options={secret_access_key: hush}").contains("hush"));
        assert_eq!(masked("++workload.train.epochs=2"), "++workload.train.epochs=2");
    }

    #[test]
    fn directories_are_accepted_in_every_spelling() {
        let here = settings(HERE, "b", KEYS).unwrap();
        let folder = |root: &str, typed: &str| {
            here.folder("dataset.data_folder", root, typed).map(|(path, _)| path.display().to_string())
        };
        for (root, typed, expected) in [
            ("b", "./data/", "s3://b/data"),
            ("b", "s3://b", "s3://b"),
            ("s3://b/runs/7", "data", "s3://b/runs/7/data"),
            ("b", "s3://s3://b/x//y/", "s3://b/x/y"),
        ] {
            assert_eq!(folder(root, typed).unwrap(), expected);
        }
        assert!(folder("b", "/mnt/data").unwrap_err().to_string().contains("a local directory"));
        assert!(folder("b", "s3://c/x").unwrap_err().to_string().contains("bucket differs"));
        assert!(folder("b", "../x").is_err());
        assert!(here.folder("k", "b", "s3://s3://b/x").unwrap().1.is_some());
        let whole = Settings { whole_uris: true, ..here.clone() };
        assert_eq!(whole.folder("k", "b", "s3://b/x").unwrap().0, PathBuf::from("s3://b/s3://b/x"));
    }
}
