//! Durations that users write, such as `10m`.

/// Units and their nanoseconds; a number without a unit counts seconds.
const UNITS: [(&str, u64); 9] = [
    ("ms", 1_000_000),
    ("seconds", SECOND),
    ("sec", SECOND),
    ("s", SECOND),
    ("min", 60 * SECOND),
    ("m", 60 * SECOND),
    ("hours", 3600 * SECOND),
    ("h", 3600 * SECOND),
    ("d", 86_400 * SECOND),
];
const SECOND: u64 = 1_000_000_000;

/// The expected form, for error messages.
pub const EXPECTED: &str = "a duration of at least 1s, such as 30s, 10m or 2h";

/// Returns the nanoseconds of a whole number and a unit; `None` if the text is not a duration of at least one second.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim() {
        "" => SECOND,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|ns| *ns >= SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_number_and_a_known_unit() {
        let found = ["10m", "10 min", "30s", "30", "2h", "1500ms", "1d"].map(parse);
        let seconds = [600.0, 600.0, 30.0, 30.0, 7200.0, 1.5, 86_400.0].map(|s: f64| Some((s * 1e9) as u64));
        assert_eq!(found, seconds);
        assert_eq!(["", "m", "-5s", "0", "10x", "1.5s", "999ms", "99999999999999d"].map(parse), [None; 8]);
    }
}
