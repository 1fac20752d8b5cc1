//! Numbers and times in result files. Other programs write these files, so a number may be a string, negative or missing.

use serde_json::Value;

/// Returns a number, also one that a program wrote as text.
pub fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

/// Returns a positive whole number.
pub fn count(value: &Value) -> Option<u64> {
    number(value).filter(|number| *number >= 1.0 && number.fract() == 0.0 && *number < 1e18).map(|number| number as u64)
}

/// Returns a truth value, also one that a program wrote as text.
pub fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the value at a dotted path below `root`; a key with dots, as in `override_parameters`, is found too.
pub fn at<'a>(root: &'a Value, path: &str) -> &'a Value {
    match root.get(path) {
        Some(found) => found,
        None => path.split('.').try_fold(root, |node, key| node.get(key)).unwrap_or(&Value::Null),
    }
}

/// Returns the seconds of a local time such as 2026-07-24T14:15:51.892741, since 1970. A zone at its end is ignored:
/// the files of one run have one zone.
pub fn seconds(time: &str) -> Option<f64> {
    let time = time.trim();
    let (date, clock) = (time.get(..10)?, time.get(11..)?);
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let clock = clock.trim_end_matches('Z');
    let clock = clock.split(['+', '-']).next()?;
    let mut parts = clock.split(':');
    let (hours, minutes) = (parts.next()?.parse::<f64>().ok()?, parts.next()?.parse::<f64>().ok()?);
    let seconds = parts.next().map_or(Some(0.0), |part| part.parse::<f64>().ok())?;
    let valid =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hours < 24.0 && minutes < 60.0 && seconds < 61.0;
    valid.then(|| days(year, month, day) as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Returns the seconds of a directory name such as 20260724_141551.
pub fn timestamp(name: &str) -> Option<f64> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (date, clock) = name.split_once('_')?;
    let formed = date.len() == 8 && clock.len() == 6 && digits(date) && digits(clock);
    let of = |text: &str, from: usize| text[from..from + 2].to_string();
    formed.then(|| {
        let day = format!("{}-{}-{}", &date[..4], of(date, 4), of(date, 6));
        seconds(&format!("{day}T{}:{}:{}", of(clock, 0), of(clock, 2), of(clock, 4)))
    })?
}

/// Returns the days of a date of the Gregorian calendar since 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March here, so that a leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_may_be_texts_but_not_words() {
        assert_eq!(count(&json!("148000")), Some(148_000));
        for wrong in [json!(-3), json!("many"), json!(1.5), json!(null), json!(0), json!("inf"), json!([1])] {
            assert_eq!(count(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_of_files_and_directories_agree() {
        assert_eq!(seconds("1970-01-02T00:00:01"), Some(86_401.0));
        assert_eq!(seconds("2026-07-24T14:15:51.5"), timestamp("20260724_141551").map(|whole| whole + 0.5));
        assert_eq!(seconds("2026-07-24 14:15:51"), seconds("2026-07-24T14:15:51Z"));
        assert_eq!(seconds("2024-03-01T00:00:00"), seconds("2024-02-29T00:00:00").map(|day| day + 86_400.0));
        for wrong in ["", "yesterday", "2026-13-01T00:00:00", "2026-07-24", "2026-07-24Tnoon"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        assert_eq!(timestamp("2026-07-24-14-15-51"), None);
    }

    #[test]
    fn paths_lead_through_maps_and_dotted_keys() {
        let tree = json!({"dataset": {"format": "npz"}, "reader.odirect": "True"});
        assert_eq!(at(&tree, "dataset.format"), "npz");
        assert_eq!(flag(at(&tree, "reader.odirect")), Some(true));
        assert!(at(&tree, "dataset.none.deeper").is_null());
    }
}
