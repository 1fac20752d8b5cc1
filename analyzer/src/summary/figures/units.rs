//! Formats numbers for readers. MB is 10^6 bytes and MiB 2^20; reports use MB, except for limits that are powers of
//! two.

/// Formats `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats `1 event`, `2,000 events`.
pub fn many(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { more })
}

/// Formats `950 B`, `1.23 MB`: three digits.
pub fn bytes(number: f64) -> String {
    scaled(number, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Formats `512 B`, `4 KiB`: a power of two.
pub fn power_of_two(number: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = number.max(1).ilog2() as usize;
    format!("{} {}", 1u64 << (power % 10), UNITS[power / 10])
}

/// Formats `12 ns`, `1.23 ms`, `2 min 5 s`.
pub fn time(ns: f64) -> String {
    if ns < 120e9 {
        return scaled(ns, 1000.0, &["ns", "us", "ms", "s"]);
    }
    let seconds = (ns / 1e9).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Formats a change in time with its sign: `+1.23 ms`.
pub fn signed(ns: i64) -> String {
    match ns {
        0 => "0".into(),
        ns if ns < 0 => format!("-{}", time(ns.unsigned_abs() as f64)),
        ns => format!("+{}", time(ns as f64)),
    }
}

/// Formats `37 %`; a small nonzero share is not rounded to zero.
pub fn share(part: i64, whole: i64) -> String {
    if whole <= 0 {
        return "-".into();
    }
    match 100.0 * part as f64 / whole as f64 {
        percent if percent > 0.0 && percent < 0.1 => "<0.1 %".into(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let mut value = number;
    let mut unit = 0;
    while value.abs() >= step * 0.9995 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let unit_name = units[unit];
    match value.abs() {
        _ if value.fract() == 0.0 && (unit == 0 || value.abs() < 10.0) => format!("{value:.0} {unit_name}"),
        size if size < 10.0 => format!("{value:.2} {unit_name}"),
        size if size < 100.0 => format!("{value:.1} {unit_name}"),
        _ => format!("{value:.0} {unit_name}"),
    }
}

/// Formats nanoseconds since the Unix epoch as `2026-11-21 02:08:07.123 UTC`.
pub fn moment(ts: i64) -> String {
    let seconds = ts.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = ts.rem_euclid(1_000_000_000) / 1_000_000;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03} UTC")
}

/// Returns year, month and day of a day counted from 1970, using the calendar's period of 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    // Years that start in March end with the leap day.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(ERA);
    let day_of_era = shifted.rem_euclid(ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + 400 * era + (calendar_month <= 2) as i64, calendar_month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_a_unit() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1234567].map(grouped).each_ref().map(String::as_str)
        );
        assert_eq!(bytes(4096.0), "4.10 kB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!([1, 512, 1 << 16, 1 << 20, 1 << 63].map(power_of_two), ["1 B", "512 B", "64 KiB", "1 MiB", "8 EiB"]);
        assert_eq!(bytes(999_999.0), "1.00 MB");
        assert_eq!(time(1_500.0), "1.50 us");
        assert_eq!(time(125e9), "2 min 5 s");
        assert_eq!(time(7_260e9), "2 h 1 min");
        assert_eq!((share(1, 4), share(1, 100_000), share(0, 5)), ("25 %".into(), "<0.1 %".into(), "0.0 %".into()));
    }

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00:00.000 UTC");
        assert_eq!(moment(1_709_164_800_000_000_000), "2024-02-29 00:00:00.000 UTC");
        assert_eq!(moment(1_795_226_887_123_000_000), "2026-11-21 02:08:07.123 UTC");
    }
}
