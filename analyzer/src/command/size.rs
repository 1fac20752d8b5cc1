//! Sizes as people type them.

const UNITS: [(&str, u64); 13] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("B", 1),
];

/// Less than this and nothing can be sorted or written at all.
const LEAST: u64 = 32 << 20;

/// `512MB`, `4GiB`, `4G` (which is the same), or bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, unit) = unit.map_or((text, 1), |(name, unit)| (&text[..text.len() - name.len()], *unit));
    let wrong = || "use 512MB or 4GiB".to_string();
    let number: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let bytes = number * unit as f64;
    match bytes {
        bytes if !bytes.is_finite() || bytes < 0.0 || bytes > (1u64 << 62) as f64 => Err(wrong()),
        bytes if bytes < LEAST as f64 => Err("32MiB is the least that gets anything done".into()),
        bytes => Ok(bytes as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_every_unit() {
        assert_eq!(parse_size("512MB"), Ok(512_000_000));
        assert_eq!(parse_size("1.5GiB"), Ok(3 << 29));
        assert_eq!((parse_size("4G"), parse_size("40000000")), (Ok(4 << 30), Ok(40_000_000)));
        assert!(["", "much", "-1G", "1e400G", "10", "1PB"].iter().all(|text| parse_size(text).is_err()));
    }
}
