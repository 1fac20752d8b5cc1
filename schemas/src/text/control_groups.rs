//! Files of the kernel about the resources of a process: control groups, and the counts in /proc. Nothing is
//! allocated, because a traced process reads its own. A text that is truncated, forged or from another kernel gives
//! `None`, never a zero.

/// The group of a process under one controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group<'a> {
    /// `true` in the hierarchy of version 2, which has all controllers.
    pub is_unified: bool,
    /// The path, beginning with a slash.
    pub path: &'a [u8],
}

impl<'a> Group<'a> {
    /// Finds the group in the text of `/proc/PID/cgroup`. A hierarchy of version 1 that has the controller is
    /// preferred: if both versions are mounted, the controller works in only one of them.
    pub fn find(text: &'a [u8], controller: &[u8]) -> Option<Group<'a>> {
        let mut unified = None;
        // A last line without a line feed may be truncated.
        for line in text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")) {
            let mut parts = line.splitn(3, |&byte| byte == b':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
            // A path that leads out of the mount has no meaning here.
            if !path.starts_with(b"/") || path.split(|&byte| byte == b'/').any(|name| name == b"..") {
                continue;
            }
            if controllers.is_empty() {
                unified = Some(Group { is_unified: true, path });
            } else if controllers.split(|&byte| byte == b',').any(|name| name == controller) {
                return Some(Group { is_unified: false, path });
            }
        }
        unified
    }
}

/// CPU time that a group may use in each period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    pub us: u64,
    pub period_us: u64,
}

impl Quota {
    /// Parses `cpu.cfs_quota_us` and `cpu.cfs_period_us`. `None` without a quota, which version 1 writes as -1.
    pub fn of_version_1(quota: &[u8], period: &[u8]) -> Option<Quota> {
        Quota { us: number(quota)?, period_us: number(period)? }.checked()
    }

    /// Parses `cpu.max`: `QUOTA PERIOD`, where QUOTA may be `max`.
    pub fn of_version_2(text: &[u8]) -> Option<Quota> {
        let mut words = words(text);
        Quota { us: number(words.next()?)?, period_us: number(words.next()?)? }.checked()
    }

    fn checked(self) -> Option<Quota> {
        (self.us > 0 && self.period_us > 0).then_some(self)
    }

    /// Returns the quota in thousandths of a CPU, at least one.
    pub fn thousandths(self) -> u64 {
        let exact = u128::from(self.us) * 1000 / u128::from(self.period_us);
        u64::try_from(exact).unwrap_or(u64::MAX).max(1)
    }
}

/// The weight of a group: if CPUs are busy, groups with the same parent get CPU time in proportion to their weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight {
    /// Zero for a group of version 2 that gets idle time only (`cpu.idle`).
    pub value: u64,
    /// The kernel's default, which differs between the versions.
    pub default: u64,
}

impl Weight {
    /// Parses `cpu.shares`.
    pub fn of_version_1(text: &[u8]) -> Option<Weight> {
        Some(Weight { value: number(text)?, default: 1024 })
    }

    /// Parses `cpu.weight`.
    pub fn of_version_2(text: &[u8]) -> Option<Weight> {
        Some(Weight { value: number(text)?, default: 100 })
    }

    pub fn is_default(self) -> bool {
        self.value == self.default
    }
}

/// A larger memory limit means no limit: version 1 writes the largest multiple of a page instead.
pub const MEMORY_MAX: u64 = 1 << 60;

/// Parses a limit in bytes: `memory.max`, `memory.limit_in_bytes`, or the line `hierarchical_memory_limit`.
pub fn memory_limit(text: &[u8]) -> Option<u64> {
    number(text).filter(|bytes| *bytes < MEMORY_MAX)
}

/// How often the quota of a group was exhausted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throttling {
    /// Periods in which the group was active.
    pub periods: u64,
    /// Those of them in which it had to wait for the next one.
    pub throttled: u64,
    /// The time it waited, summed over CPUs.
    pub ns: u64,
}

impl Throttling {
    /// Parses `cpu.stat`, whose time is in nanoseconds in version 1 and in microseconds in version 2.
    pub fn parse(text: &[u8]) -> Option<Throttling> {
        let ns = line(text, b"throttled_time")
            .or_else(|| line(text, b"throttled_usec").and_then(|us: u64| us.checked_mul(1000)))?;
        Some(Throttling { periods: line(text, b"nr_periods")?, throttled: line(text, b"nr_throttled")?, ns })
    }
}

/// Returns the number after a name at the start of a line, as in `cpu.stat`, `memory.stat` and `/proc/self/io`. A
/// colon after the name is skipped.
pub fn line(text: &[u8], name: &[u8]) -> Option<u64> {
    text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")).find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        rest.first().filter(|byte| byte.is_ascii_whitespace())?;
        number(rest)
    })
}

/// Parses a number, with white space around it.
pub fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    // `parse` accepts a plus sign, which the kernel never writes.
    digits.first().filter(|byte| byte.is_ascii_digit())?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &[u8] = b"4:memory:/job/7\n2:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/x\n";

    #[test]
    fn group_is_found_by_its_controller() {
        let found = |controller| Group::find(VERSION_1, controller).map(|group| (group.is_unified, group.path));
        assert_eq!(found(b"memory"), Some((false, &b"/job/7"[..])));
        assert_eq!(found(b"cpu"), Some((false, &b"/a:b"[..])));
        assert_eq!(found(b"io"), Some((true, &b"/x"[..])));
        let lost = [&b""[..], b"0::", b"0::/cut", b"0::x\n", b"0:/\n", b"0::/../../a\n", b"\n::\n", b"\xff\xfe\n"];
        lost.into_iter().for_each(|text| assert_eq!(Group::find(text, b"cpu"), None, "{text:?}"));
    }

    #[test]
    fn quotas_of_both_versions_are_the_same() {
        let quota = Quota { us: 150_000, period_us: 100_000 };
        assert_eq!(Quota::of_version_1(b"150000\n", b"100000\n"), Some(quota));
        assert_eq!(Quota::of_version_2(b"150000 100000\n"), Some(quota));
        assert_eq!((quota.thousandths(), Quota { us: 1, period_us: 1_000_000 }.thousandths()), (1500, 1));
        for (quota, period) in [("-1", "100000"), ("", "1"), ("5", ""), ("5", "0"), ("0", "5"), ("+5", "5")] {
            assert_eq!(Quota::of_version_1(quota.as_bytes(), period.as_bytes()), None);
            assert_eq!(Quota::of_version_2(format!("{quota} {period}").as_bytes()), None);
        }
        for text in ["max 100000\n", "max", "150000", "99999999999999999999 1", "1 -1"] {
            assert_eq!(Quota::of_version_2(text.as_bytes()), None);
        }
    }

    #[test]
    fn weights_have_the_default_of_their_version() {
        assert_eq!(Weight::of_version_1(b"512\n"), Some(Weight { value: 512, default: 1024 }));
        assert_eq!(Weight::of_version_2(b"0\n"), Some(Weight { value: 0, default: 100 }));
        let defaults = [Weight::of_version_1(b"1024\n"), Weight::of_version_2(b"100\n")];
        assert!(defaults.iter().all(|weight| weight.is_some_and(Weight::is_default)));
        for text in ["", "-1", "max", "1 2"] {
            assert_eq!((Weight::of_version_1(text.as_bytes()), Weight::of_version_2(text.as_bytes())), (None, None));
        }
    }

    #[test]
    fn missing_limit_is_none() {
        assert_eq!(memory_limit(b"8589934592\n"), Some(8 << 30));
        for text in ["max\n", "9223372036854771712\n", "-1", "", "12a", "18446744073709551616"] {
            assert_eq!(memory_limit(text.as_bytes()), None);
        }
    }

    #[test]
    fn throttled_time_has_the_unit_of_its_version() {
        let expected = Some(Throttling { periods: 9, throttled: 3, ns: 7_000 });
        assert_eq!(Throttling::parse(b"nr_periods 9\nnr_throttled 3\nthrottled_time 7000\n"), expected);
        assert_eq!(Throttling::parse(b"usage_usec 1\nnr_periods 9\nnr_throttled 3\nthrottled_usec 7\n"), expected);
        for text in ["", "nr_periods 9\n", "nr_periods 9\nnr_throttled 3\nthrottled_usec", "usage_usec 1\n"] {
            assert_eq!(Throttling::parse(text.as_bytes()), None);
        }
    }

    #[test]
    fn lines_match_by_full_name() {
        let text = b"read_bytes_x: 1\nread_bytes: 42\nwrite_bytes:\ncancelled -3\nlast 5";
        assert_eq!(line(text, b"read_bytes"), Some(42));
        for name in ["write_bytes", "cancelled", "last", "read"] {
            assert_eq!(line(text, name.as_bytes()), None);
        }
    }
}
