//! The note by which a traced process reports a slow step to `dlio trace`, which then keeps the events of that time.
//!
//! It is a file with one line of numbers: process, epoch, step, and the times of the step and of the median step in ns.

use crate::decimal::decimal;
use crate::record::STEP_NONE;

/// Name of the note in the trace directory. It exists once, so that one slow step is kept once.
pub const NOTE: &str = ".slow-step";

/// Start of the names of directories with kept events. A report of the trace directory leaves them out, because they
/// are copies.
pub const KEPT: &str = "kept-";

/// A step that took several times the median.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowStep {
    pub pid: i32,
    /// Negative if the program does not number epochs.
    pub epoch: i32,
    pub step: i32,
    pub took_ns: u64,
    pub median_ns: u64,
}

/// Length of the longest note.
pub const NOTE_MAX: usize = 5 * 21;

impl SlowStep {
    /// Writes the note, and returns its length. Nothing is allocated: this runs in a traced process.
    pub fn write(&self, into: &mut [u8; NOTE_MAX]) -> usize {
        let clamped = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let numbers =
            [self.pid as i64, self.epoch as i64, self.step as i64, clamped(self.took_ns), clamped(self.median_ns)];
        let mut used = 0;
        for (place, number) in numbers.into_iter().enumerate() {
            let mut digits = [0; 20];
            let digits = decimal(number, &mut digits);
            into[used..used + digits.len()].copy_from_slice(digits);
            used += digits.len();
            into[used] = if place + 1 < numbers.len() { b' ' } else { b'\n' };
            used += 1;
        }
        used
    }

    /// Parses a note; `None` if it is incomplete or something else.
    pub fn parse(text: &str) -> Option<SlowStep> {
        let mut numbers = text.strip_suffix('\n')?.split(' ').map(|number| number.parse::<i64>().ok());
        let mut next = || numbers.next().flatten();
        let small = |number: i64| i32::try_from(number).ok();
        let found = SlowStep {
            pid: small(next()?)?,
            epoch: small(next()?)?,
            step: small(next()?)?,
            took_ns: u64::try_from(next()?).ok()?,
            median_ns: u64::try_from(next()?).ok()?,
        };
        (next().is_none() && found.median_ns > 0).then_some(found)
    }

    /// Returns the name of the directory in which its events are kept: another one for each run of a program.
    pub fn kept_name(&self) -> String {
        let SlowStep { pid, epoch, step, .. } = self;
        match *epoch {
            STEP_NONE => format!("{KEPT}step-{step}-pid-{pid}"),
            epoch => format!("{KEPT}epoch-{epoch}-step-{step}-pid-{pid}"),
        }
    }

    /// Returns how many times the median it took.
    pub fn factor(&self) -> f64 {
        self.took_ns as f64 / self.median_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_is_parsed_as_written() {
        let widest = SlowStep { pid: i32::MIN, epoch: i32::MIN, step: i32::MIN, took_ns: u64::MAX, median_ns: 1 };
        let usual = SlowStep { pid: 7, epoch: 2, step: 4210, took_ns: 3_000_000_000, median_ns: 250_000_000 };
        for (step, expected) in [(usual, usual), (widest, SlowStep { took_ns: i64::MAX as u64, ..widest })] {
            let mut bytes = [0; NOTE_MAX];
            let used = step.write(&mut bytes);
            let text = std::str::from_utf8(&bytes[..used]).unwrap();
            assert_eq!(SlowStep::parse(text), Some(expected), "{text}");
            assert!((0..used).all(|cut| SlowStep::parse(&text[..cut]).is_none()), "{text}");
        }
        assert_eq!((usual.kept_name(), usual.factor()), ("kept-epoch-2-step-4210-pid-7".into(), 12.0));
        assert_eq!(SlowStep { epoch: STEP_NONE, ..usual }.kept_name(), "kept-step-4210-pid-7");
        assert_eq!(["7 2 1 3 0\n", "7 2 1 3 4 5\n", "a b c d e\n", "\n"].map(SlowStep::parse), [None; 4]);
    }
}
