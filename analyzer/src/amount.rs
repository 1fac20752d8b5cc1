//! Numbers with units, as on the command line: `1.5GiB`, `10us`, `5 min`.

/// A unit and its size in the base unit. A unit that ends like another one precedes it.
type Units = &'static [(&'static str, f64)];

/// Base unit: a nanosecond.
pub const TIMES: Units =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Base unit: a byte. A letter alone is the power of two.
pub const SIZES: Units = &[
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("K", 1024.0),
    ("M", 1048576.0),
    ("G", 1073741824.0),
    ("B", 1.0),
];

/// For counts and shares, which have no units.
pub const NONE: Units = &[];

/// A number and its unit; `scale` is `None` without a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount {
    pub number: f64,
    pub scale: Option<f64>,
}

impl Amount {
    /// Parses an amount; `None` if there is no finite number.
    pub fn parse(text: &str, units: Units) -> Option<Amount> {
        let unit = units.iter().find_map(|(name, scale)| Some((text.strip_suffix(name)?, *scale)));
        let (digits, scale) = unit.map_or((text, None), |(digits, scale)| (digits, Some(scale)));
        let number: f64 = digits.trim().parse().ok()?;
        number.is_finite().then_some(Amount { number, scale })
    }

    /// Returns the amount in the base unit, which also applies to a number without a unit.
    pub fn in_base(self) -> f64 {
        self.number * self.scale.unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_with_and_without_a_space() {
        for (units, name, scale) in
            [TIMES, SIZES].into_iter().flat_map(|units| units.iter().map(move |u| (units, u.0, u.1)))
        {
            for typed in [format!("1.5{name}"), format!(" 1.5 {name}")] {
                assert_eq!(Amount::parse(&typed, units).map(Amount::in_base), Some(1.5 * scale), "{typed}");
            }
        }
        assert_eq!(Amount::parse("7", SIZES), Some(Amount { number: 7.0, scale: None }));
    }

    #[test]
    fn rejects_numbers_that_are_not_finite() {
        for text in ["", "s", "much", "1e400s", "nans", "inf", "1.2.3MB", "1 2s"] {
            assert_eq!(Amount::parse(text, TIMES).or(Amount::parse(text, SIZES)), None, "{text}");
        }
    }
}
