//! Parses sizes.

use crate::amount::{self, Amount};

/// Sorting and writing do not work with less memory than this.
const LEAST: u64 = 32 << 20;

/// Parses `512MB`, `4GiB`, `4G` (a synonym), or bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size, such as 512MB or 4GiB".to_string();
    match Amount::parse(text, amount::SIZES).ok_or_else(wrong)?.in_base() {
        bytes if !(0.0..=(1u64 << 62) as f64).contains(&bytes) => Err(wrong()),
        bytes if bytes < LEAST as f64 => Err(format!("{bytes} bytes are too few; the minimum is 32MiB")),
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
