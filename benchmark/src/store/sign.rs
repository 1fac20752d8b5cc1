//! Signature Version 4 in the headers of a request, and the date formats it needs.

use ring::{digest, hmac};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// The hash that represents an unsigned body.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The key that signs requests. Output shows only the last letters of its id, and no secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub key_id: String,
    pub secret: String,
    pub token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.short())
    }
}

impl Credentials {
    /// Returns enough of the key id to distinguish keys.
    pub fn short(&self) -> String {
        let last: Vec<char> = self.key_id.chars().rev().take(4).collect();
        format!("…{}", last.into_iter().rev().collect::<String>())
    }
}

/// A request for signing: everything except its body, which its hash represents.
pub struct Signed<'a> {
    pub method: &'a str,
    /// The host, with its port unless that is the scheme's default.
    pub authority: &'a str,
    /// Encoded, without the query.
    pub path: &'a str,
    /// Encoded, its parts sorted by name.
    pub query: &'a str,
    pub region: &'a str,
    pub body_hash: &'a str,
}

impl Signed<'_> {
    /// Returns the headers to send in addition to `host`.
    pub fn headers(&self, credentials: &Credentials, now: Utc) -> Vec<(&'static str, String)> {
        let stamp = now.stamp();
        let token = credentials.token.as_deref();
        let mut lines =
            format!("host:{}\nx-amz-content-sha256:{}\nx-amz-date:{stamp}\n", self.authority, self.body_hash);
        let mut names = String::from("host;x-amz-content-sha256;x-amz-date");
        if let Some(token) = token {
            let _ = writeln!(lines, "x-amz-security-token:{token}");
            names.push_str(";x-amz-security-token");
        }
        let Signed { method, path, query, region, body_hash, .. } = self;
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body_hash}");
        let scope = format!("{}/{region}/s3/aws4_request", &stamp[..8]);
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let first = format!("AWS4{}", credentials.secret);
        let key = [&stamp[..8], region, "s3", "aws4_request"]
            .iter()
            .fold(first.into_bytes(), |key, part| keyed(&key, part.as_bytes()));
        let signature = hex(&keyed(&key, text.as_bytes()));
        let who = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            credentials.key_id
        );
        let mut headers =
            vec![("x-amz-date", stamp), ("x-amz-content-sha256", self.body_hash.to_string()), ("authorization", who)];
        headers.extend(token.map(|token| ("x-amz-security-token", token.to_string())));
        headers
    }
}

fn keyed(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes).as_ref().to_vec()
}

/// Returns the hash of a body, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Encodes for a path (`keep` contains a slash) or for a query (`keep` is empty).
pub fn encoded(text: &str, keep: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep.as_bytes().contains(&byte);
        if plain {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A time in seconds since 1970, as headers need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc(pub i64);

const DAY: i64 = 86_400;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Utc {
    pub fn now() -> Utc {
        Utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64))
    }

    /// Returns `20261122T091500Z`.
    fn stamp(self) -> String {
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
    }

    /// Parses a `Date` header: `Sun, 22 Nov 2026 09:15:00 GMT`.
    pub fn of_header(text: &str) -> Option<Utc> {
        let mut parts = text.split_once(", ")?.1.split([' ', ':']);
        let number = |text: Option<&str>| text?.parse::<i64>().ok();
        let day = number(parts.next())?;
        let month = MONTHS.iter().position(|month| Some(*month) == parts.clone().next())? as i64 + 1;
        parts.next();
        let [year, hour, minute, second] = [(); 4].map(|()| number(parts.next()));
        Some(Utc(days(year?, month, day) * DAY + hour? * 3600 + minute? * 60 + second?))
    }
}

/// Returns the days since 1970 of a date, counted in years that start in March, so that the leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// Returns the date of a day since 1970.
fn civil(day: i64) -> (i64, i64, i64) {
    // An estimate from the average year is off by at most one.
    let guess = 1970 + day.div_euclid(365) - day.div_euclid(365 * 1460);
    let year = (guess - 1..=guess + 1).rev().find(|year| days(*year, 1, 1) <= day).unwrap_or(guess - 1);
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= day).unwrap_or(1);
    (year, month, day - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Credentials {
        Credentials {
            key_id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        }
    }

    /// The object list example in S3's documentation, which has no additional headers.
    #[test]
    fn the_published_example_has_its_published_signature() {
        let signed = Signed {
            method: "GET",
            authority: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: "max-keys=2&prefix=J",
            region: "us-east-1",
            body_hash: &sha256(b""),
        };
        let headers = signed.headers(&example(), Utc::of_header("Fri, 24 May 2013 00:00:00 GMT").unwrap());
        let (_, who) = headers.iter().find(|(name, _)| *name == "authorization").unwrap();
        assert!(who.ends_with("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"), "{who}");
        assert!(who.contains("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"), "{who}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, stamp) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_799, "20000229T235959Z"),
            (1_735_689_599, "20241231T235959Z"),
            (1_798_761_600, "20270101T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(Utc(seconds).stamp(), stamp);
        }
        assert_eq!(Utc::of_header("Sun, 22 Nov 2026 09:15:01 GMT").map(Utc::stamp), Some("20261122T091501Z".into()));
        assert_eq!(Utc::of_header("yesterday"), None);
    }

    #[test]
    fn every_day_of_four_centuries_round_trips() {
        let mut expected = (1900, 1, 1);
        for day in days(1900, 1, 1)..days(2300, 1, 1) {
            assert_eq!(civil(day), expected);
            let (year, month, last) = expected;
            let next = days(year + month / 12, month % 12 + 1, 1);
            expected = if day + 1 == next { (year + month / 12, month % 12 + 1, 1) } else { (year, month, last + 1) };
        }
    }

    #[test]
    fn encodes_as_signing_requires() {
        assert_eq!(encoded("a b/ü+~.tar", "/"), "a%20b/%C3%BC%2B~.tar");
        assert_eq!(encoded("a/b=c", ""), "a%2Fb%3Dc");
    }

    #[test]
    fn secrets_do_not_print() {
        let shown = format!("{:?}", Credentials { token: Some("very-secret".into()), ..example() });
        assert_eq!(shown, "…MPLE");
    }
}
