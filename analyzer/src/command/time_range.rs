//! Parses time ranges, and numbers of epochs and steps.

use super::time_argument::{When, parse_when};
use crate::batch::ABSENT_32;

/// Two times; a missing one is the start or end of the trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    pub from: Option<When>,
    pub to: Option<When>,
}

/// Parses `10s..20s`, `..20s`, `10s..`.
pub fn parse_window(text: &str) -> Result<Window, String> {
    // Three dots would be two dots and the start of `.20s`.
    let ends = text.split_once("..").filter(|(_, to)| !to.starts_with('.'));
    let (from, to) = ends.ok_or("expected a range, such as 10s..20s, 10s.. or ..20s")?;
    let moment = |text: &str| if text.trim().is_empty() { Ok(None) } else { parse_when(text.trim()).map(Some) };
    let window = Window { from: moment(from)?, to: moment(to)? };
    if window.from.is_none() && window.to.is_none() {
        Err("a time range needs a start or an end".into())
    } else {
        Ok(window)
    }
}

/// Numbers of epochs or steps, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    pub first: i32,
    pub last: i32,
}

/// Parses `2` or `10..20`.
pub fn parse_numbers(text: &str) -> Result<Numbers, String> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| {
        text.trim().parse::<i32>().map_err(|_| "expected a number or a range, such as 2 or 10..20".to_string())
    };
    let numbers = Numbers { first: number(first)?, last: number(last)? };
    if numbers.first > numbers.last { Err("the first number is larger than the last".into()) } else { Ok(numbers) }
}

impl Numbers {
    pub fn hold(self, number: i32) -> bool {
        number != ABSENT_32 && (self.first..=self.last).contains(&number)
    }

    pub fn with(known: Option<Numbers>, number: i32) -> Option<Numbers> {
        let grown = |known: Numbers| Numbers { first: known.first.min(number), last: known.last.max(number) };
        if number == ABSENT_32 { known } else { Some(known.map_or(Numbers { first: number, last: number }, grown)) }
    }
}

impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}..{}", self.first, self.last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_one_end_or_two() {
        let s = |seconds: i64| Some(When::Since(seconds * 1_000_000_000));
        assert_eq!(parse_window("10s..20s"), Ok(Window { from: s(10), to: s(20) }));
        assert_eq!(parse_window("..20s"), Ok(Window { from: None, to: s(20) }));
        assert_eq!(parse_window("10s.."), Ok(Window { from: s(10), to: None }));
        assert!(["..", "10s", "10s...20s", "soon..later"].iter().all(|text| parse_window(text).is_err()));
    }

    #[test]
    fn numbers_include_both_ends() {
        let numbers = parse_numbers("10..20").unwrap();
        assert!([10, 15, 20].iter().all(|&n| numbers.hold(n)) && ![9, 21, ABSENT_32].iter().any(|&n| numbers.hold(n)));
        assert_eq!(parse_numbers("2").map(|n| n.to_string()), Ok("2".into()));
        assert!(["", "2..1", "a", "1..b"].iter().all(|text| parse_numbers(text).is_err()));
    }
}
