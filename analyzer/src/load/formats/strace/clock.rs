//! Timestamps from clocks without a date.

/// Converts times of day to timestamps.
#[derive(Default)]
pub struct Clock {
    /// The time of the last write to the file, in Unix time.
    written: i64,
    /// The current day of the clock, and its last time of day.
    day: i64,
    last: Option<i64>,
}

const MINUTE: i64 = 60 * 1_000_000_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// A clock may be set back by an hour when summer ends; one that falls back by more has passed midnight.
const SET_BACK_MAX: i64 = 120 * MINUTE;

/// The largest distance of a line after others that happened later.
const DISORDER_MAX: i64 = MINUTE;

impl Clock {
    pub fn new(written: i64) -> Clock {
        Clock { written, ..Clock::default() }
    }

    /// Returns the timestamp of a time of day in nanoseconds.
    pub fn moment(&mut self, of_day: i64) -> i64 {
        match self.last {
            None => {
                let today = self.written.div_euclid(DAY) * DAY;
                self.day = if today + of_day > self.written { today - DAY } else { today };
            }
            Some(last) if last - of_day > SET_BACK_MAX => self.day += DAY,
            // Threads may be written a little out of order, around midnight too.
            Some(last) if of_day - last > DAY - DISORDER_MAX => return self.day - DAY + of_day,
            Some(_) => {}
        }
        self.last = Some(of_day);
        self.day + of_day
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_without_date_gets_day_of_last_write() {
        const SECOND: i64 = MINUTE / 60;
        let clock = || Clock { written: 10 * DAY + MINUTE, ..Clock::default() };
        assert_eq!(clock().moment(0), 10 * DAY);
        let mut over_midnight = clock();
        let late = DAY - SECOND;
        let moments = [late, 0, late, SECOND, 23 * 60 * MINUTE].map(|of_day| over_midnight.moment(of_day) - 10 * DAY);
        assert_eq!(moments, [-SECOND, 0, -SECOND, SECOND, 23 * 60 * MINUTE]);
    }
}
