//! Limits that control groups set on the I/O of block devices. Nothing is allocated, because a traced process reads
//! its own.
//!
//! As a text, a limit is a line of `io.max`: `8:0 rbps=20000000 wiops=100`. Lines are separated by semicolons.

use super::control_groups::number;
use super::decimal::decimal;

/// Further devices are left out: a container runtime sets limits on the few devices of a host.
pub const DEVICES_MAX: usize = 8;

/// Maximum length of the text.
pub const TEXT_MAX: usize = DEVICES_MAX * (2 * 10 + 2 + KINDS * (7 + 20));

const KINDS: usize = 4;

/// Names in `io.max`, in the order of the fields of [`IoLimit`].
const KEYS: [&[u8]; KINDS] = [b"rbps", b"riops", b"wbps", b"wiops"];

/// Files below the directory of a group of version 1 with one of the limits each, in the same order.
pub const FILES: [&[u8]; KINDS] = [
    b"/blkio.throttle.read_bps_device",
    b"/blkio.throttle.read_iops_device",
    b"/blkio.throttle.write_bps_device",
    b"/blkio.throttle.write_iops_device",
];

/// Limits per second on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoLimit {
    pub read_bytes: Option<u64>,
    pub reads: Option<u64>,
    pub write_bytes: Option<u64>,
    pub writes: Option<u64>,
}

/// Major and minor number of a device.
type Device = (u32, u32);

/// The limits that apply to a process: the tightest on each device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoLimits {
    used: usize,
    devices: [(Device, IoLimit); DEVICES_MAX],
}

impl IoLimits {
    /// Parses the text of [`IoLimits::write`]. `None` if it is damaged.
    pub fn parse(text: &[u8]) -> Option<IoLimits> {
        let mut limits = IoLimits::default();
        for line in text.split(|&byte| byte == b';').filter(|line| !line.is_empty()) {
            limits.take_line(line)?;
        }
        Some(limits)
    }

    /// Writes the text; empty without limits.
    pub fn write<'a>(&self, room: &'a mut [u8; TEXT_MAX]) -> &'a [u8] {
        let (mut used, mut digits) = (0, [0; 20]);
        let mut put = |text: &[u8]| {
            room[used..used + text.len()].copy_from_slice(text);
            used += text.len();
        };
        for (at, ((major, minor), limit)) in self.devices[..self.used].iter().enumerate() {
            put(if at > 0 { b";" } else { b"" });
            put(decimal(i64::from(*major), &mut digits));
            put(b":");
            put(decimal(i64::from(*minor), &mut digits));
            let values = [limit.read_bytes, limit.reads, limit.write_bytes, limit.writes];
            for (key, value) in KEYS.iter().zip(values).filter_map(|(key, value)| Some((key, value?))) {
                put(b" ");
                put(key);
                put(b"=");
                put(decimal(value.min(i64::MAX as u64) as i64, &mut digits));
            }
        }
        &room[..used]
    }

    /// Adds the limits in `io.max`.
    pub fn take_version_2(&mut self, text: &[u8]) {
        complete_lines(text).for_each(|line| _ = self.take_line(line));
    }

    /// Adds the limits in one of the [`FILES`], whose lines are `8:16 2097152`.
    pub fn take_version_1(&mut self, file: usize, text: &[u8]) {
        for line in complete_lines(text) {
            let mut words = line.splitn(2, |&byte| byte == b' ');
            if let (Some(device), Some(value)) = (words.next().and_then(device), words.next().and_then(number)) {
                self.tighten(device, file, value);
            }
        }
    }

    /// Returns the limit on a device, which is given as `8:0`.
    pub fn of(&self, name: &str) -> Option<IoLimit> {
        let wanted = device(name.trim().as_bytes())?;
        self.devices[..self.used].iter().find(|(known, _)| *known == wanted).map(|(_, limit)| *limit)
    }

    /// Takes `8:16 rbps=2097152 wbps=max riops=max wiops=120`. `None` if it is not such a line.
    fn take_line(&mut self, line: &[u8]) -> Option<()> {
        let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let device = device(words.next()?)?;
        for word in words {
            let equals = word.iter().position(|&byte| byte == b'=')?;
            let (key, value) = (&word[..equals], &word[equals + 1..]);
            let kind = KEYS.iter().position(|known| *known == key);
            if let (Some(kind), Some(value)) = (kind, number(value)) {
                self.tighten(device, kind, value);
            }
        }
        Some(())
    }

    fn tighten(&mut self, device: Device, kind: usize, value: u64) {
        let known = self.devices[..self.used].iter().position(|(known, _)| *known == device);
        if value == 0 || known.is_none() && self.used == DEVICES_MAX {
            return;
        }
        let at = known.unwrap_or(self.used);
        self.used = self.used.max(at + 1);
        self.devices[at].0 = device;
        let limit = &mut self.devices[at].1;
        let limit = [&mut limit.read_bytes, &mut limit.reads, &mut limit.write_bytes, &mut limit.writes];
        let Some(limit) = limit.into_iter().nth(kind) else { return };
        *limit = Some(limit.map_or(value, |least| least.min(value)));
    }
}

/// Returns the lines of a file. A last line without a line feed may be truncated.
fn complete_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

/// Parses `8:16`.
fn device(text: &[u8]) -> Option<Device> {
    let colon = text.iter().position(|&byte| byte == b':')?;
    let part = |text: &[u8]| u32::try_from(number(text)?).ok();
    Some((part(&text[..colon])?, part(&text[colon + 1..])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(limits: &IoLimits) -> String {
        String::from_utf8(limits.write(&mut [0; TEXT_MAX]).to_vec()).unwrap()
    }

    #[test]
    fn tightest_limit_of_each_device_counts() {
        let mut limits = IoLimits::default();
        limits.take_version_1(0, b"8:0 50000000\n8:16 7\n");
        limits.take_version_1(0, b"8:0 20000000\nnonsense\n8:0 1");
        limits.take_version_1(3, b"8:0 100\n");
        let expected = IoLimit { read_bytes: Some(20_000_000), writes: Some(100), ..IoLimit::default() };
        assert_eq!(limits.of("8:0"), Some(expected));
        assert_eq!(limits.of("8:16\n"), Some(IoLimit { read_bytes: Some(7), ..IoLimit::default() }));
        assert_eq!((limits.of("9:0"), limits.of("8")), (None, None));
        assert_eq!(text(&limits), "8:0 rbps=20000000 wiops=100;8:16 rbps=7");
        assert_eq!(IoLimits::parse(text(&limits).as_bytes()), Some(limits));
    }

    #[test]
    fn version_2_writes_max_for_no_limit() {
        let mut limits = IoLimits::default();
        limits.take_version_2(b"8:0 rbps=max wbps=1000 riops=30 wiops=max\n8:16 rbps=\n8:32 rbps=5");
        let expected = IoLimit { reads: Some(30), write_bytes: Some(1000), ..IoLimit::default() };
        assert_eq!((limits.of("8:0"), limits.of("8:16"), limits.of("8:32")), (Some(expected), None, None));
    }

    #[test]
    fn forged_limits_are_rejected_and_further_devices_left_out() {
        for damaged in ["x", "8", "8:0 rbps", "8:-1 rbps=1", "8:99999999999 rbps=1", "8:0 rbps=1;;9"] {
            assert_eq!(IoLimits::parse(damaged.as_bytes()), None, "{damaged}");
        }
        assert_eq!(IoLimits::parse(b""), Some(IoLimits::default()));
        let mut limits = IoLimits::default();
        for minor in 0..2 * DEVICES_MAX {
            let max = u64::MAX;
            limits.take_version_2(
                format!("4294967295:{minor} rbps={max} riops={max} wbps={max} wiops={max}\n").as_bytes(),
            );
        }
        assert_eq!(text(&limits).split(';').count(), DEVICES_MAX);
    }
}
