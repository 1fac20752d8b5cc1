//! Parses times and durations.

use crate::amount::{self, Amount};

/// A point in time: absolute, or relative to the start of the trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum When {
    Unix(i64),
    Since(i64),
}

impl When {
    /// Returns the time a duration later.
    pub fn after(self, ns: i64) -> When {
        match self {
            When::Unix(ts) => When::Unix(ts.saturating_add(ns)),
            When::Since(since) => When::Since(since.saturating_add(ns)),
        }
    }

    pub fn ts(self, start: i64) -> i64 {
        match self {
            When::Unix(ts) => ts,
            When::Since(ns) => start.saturating_add(ns),
        }
    }
}

/// Parses `10us`, `1.5 s`.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let amount = Amount::parse(text, amount::TIMES).ok_or("expected a number and a unit: 10us, 1.5s, 5min")?;
    match amount.scale {
        None => Err("a time needs a unit: ns, us, ms, s, min or h".into()),
        Some(_) if amount.number < 0.0 => Err("not a duration".into()),
        Some(_) => Ok(amount.in_base().round() as i64),
    }
}

/// Smaller integers (Unix times before 1973) are rejected as durations without a unit.
const SECONDS_MIN: i64 = 100_000_000;

/// Parses a duration since the start, Unix seconds, Unix nanoseconds, or a date and time in UTC.
pub fn parse_when(text: &str) -> Result<When, String> {
    if text.trim_start().starts_with('-') {
        return Err("times are relative to the start of the trace (0s) and cannot be negative".into());
    }
    if let Ok(ns) = parse_duration(text) {
        return Ok(When::Since(ns));
    }
    if let Some(ts) = parse_date(text) {
        return Ok(When::Unix(ts));
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let wrong = || {
        "expected a time, such as 10s (since the start of the selected run, or of the trace), 1795226887.5 (Unix time) or \
            2026-11-21T02:08:07".to_string()
    };
    let whole: i64 = seconds.parse().map_err(|_| wrong())?;
    if fraction.is_empty() && (0..SECONDS_MIN).contains(&whole) {
        return Err(format!("it has no unit; {whole}s is a time since the start of the trace"));
    }
    // Twelve and more digits are nanoseconds: no trace is from such a distant year.
    if fraction.is_empty() && whole.unsigned_abs() >= 1_000_000_000_000_000 {
        return Ok(When::Unix(whole));
    }
    let nanos = if fraction.is_empty() { Some(0) } else { nanoseconds(fraction) };
    let ts = whole.checked_mul(1_000_000_000).zip(nanos).and_then(|(whole, nanos)| whole.checked_add(nanos));
    ts.map(When::Unix).ok_or_else(wrong)
}

/// Parses the digits after the decimal point of a second.
fn nanoseconds(fraction: &str) -> Option<i64> {
    let digits = fraction.get(..fraction.len().min(9))?;
    let all = fraction.bytes().all(|digit| digit.is_ascii_digit());
    all.then(|| digits.parse::<i64>().ok().map(|number| number * 10i64.pow(9 - digits.len() as u32))).flatten()
}

fn parse_date(text: &str) -> Option<i64> {
    let (date, clock) = text.trim_end_matches('Z').split_once(['T', ' '])?;
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let (second, fraction) = parts.next().unwrap_or("0").split_once('.').unwrap_or((parts_second(clock), ""));
    let second: i64 = second.parse().ok()?;
    let nanos = if fraction.is_empty() { 0 } else { nanoseconds(fraction)? };
    let valid = (1970..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let in_day = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    (valid && in_day)
        .then(|| (days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000_000 + nanos)
}

/// Returns the seconds of `HH:MM:SS` if they are present without a fraction.
fn parts_second(clock: &str) -> &str {
    clock.splitn(3, ':').nth(2).unwrap_or("0")
}

/// Returns the days of a date since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March end with the leap day.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        assert_eq!(parse_when("10s"), Ok(When::Since(10_000_000_000)));
        assert_eq!(parse_when("1.5min"), Ok(When::Since(90_000_000_000)));
        assert_eq!(parse_when("1795226887.25"), Ok(When::Unix(1_795_226_887_250_000_000)));
        assert_eq!(parse_when("1795226887250000000"), Ok(When::Unix(1_795_226_887_250_000_000)));
        assert_eq!(parse_when("2026-11-21T02:08:07"), Ok(When::Unix(1_795_226_887_000_000_000)));
        assert_eq!(parse_when("2026-11-21 02:08:07.5Z"), Ok(When::Unix(1_795_226_887_500_000_000)));
        assert_eq!(parse_when("2026-11-21T02:08"), Ok(When::Unix(1_795_226_880_000_000_000)));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "soon", "10", "-5s", "2026-13-01T00:00", "1e400s", "12.x"] {
            let read = parse_when(text);
            assert!(read.is_err(), "{text}: {read:?}");
        }
        assert!(parse_duration("5").is_err());
        assert_eq!(parse_when("10"), Err("it has no unit; 10s is a time since the start of the trace".into()));
        assert!(parse_when("-1s").unwrap_err().contains("relative to the start of the trace"));
    }
}
