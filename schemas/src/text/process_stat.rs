//! The kernel's line about a process, `/proc/PID/stat`. Nothing is allocated, because a traced process reads its own.

/// The unit of its times, a hundredth of a second.
const TICK_NS: u64 = 10_000_000;

/// Number of fields between the parent's process id and the start time.
const FIELDS_BEFORE_START: usize = 17;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessStat {
    /// `R`, `S`, `Z`, ...
    pub state: u8,
    pub parent: i32,
    /// Start time, in boot time.
    pub start_boot_ns: u64,
}

impl ProcessStat {
    /// Parses a line; `None` if it is not such a line.
    pub fn parse(line: &[u8]) -> Option<ProcessStat> {
        // The second field is the program's name in parentheses and may contain anything, including a parenthesis.
        let behind_name = line.iter().rposition(|&byte| byte == b')')? + 1;
        let mut fields = line[behind_name..].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
        let state = *fields.next()?.first()?;
        let mut number = |skipped: usize| std::str::from_utf8(fields.nth(skipped)?).ok()?.parse::<i64>().ok();
        let parent = number(0)?.try_into().ok()?;
        let start = u64::try_from(number(FIELDS_BEFORE_START)?).ok()?;
        Some(ProcessStat { state, parent, start_boot_ns: start.checked_mul(TICK_NS)? })
    }

    /// Returns `true` unless the process has ended and its parent has not waited for it yet.
    pub fn lives(self) -> bool {
        !matches!(self.state, b'Z' | b'X')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "42 (a (b) c) S 1 42 42 0 -1 4194560 99 0 0 0 1 2 0 0 20 0 1 0 5177 8888 99 18446744073709551615";

    #[test]
    fn program_name_may_contain_parentheses() {
        let stat = ProcessStat::parse(LINE.as_bytes());
        assert_eq!(stat, Some(ProcessStat { state: b'S', parent: 1, start_boot_ns: 51_770_000_000 }));
        assert!(stat.unwrap().lives());
        assert!(!ProcessStat::parse(LINE.replace(" S ", " Z ").as_bytes()).unwrap().lives());
    }

    #[test]
    fn truncated_line_is_none() {
        let start = LINE.find("5177").unwrap();
        (0..=start).for_each(|cut| assert_eq!(ProcessStat::parse(&LINE.as_bytes()[..cut]), None, "{cut}"));
        assert_eq!(ProcessStat::parse(LINE.replace("5177", "99999999999999999999").as_bytes()), None);
    }
}
