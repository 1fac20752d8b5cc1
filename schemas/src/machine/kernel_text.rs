//! Texts of the kernel with counters of the host. Nothing is allocated, because a traced process may read them, too.
//! Lines that are truncated or forged are skipped.

use crate::control_groups::number;

/// A sector, the unit of `/proc/diskstats`.
const SECTOR: u64 = 512;
/// The size of a page in swap counters.
pub const PAGE: u64 = 4096;
const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// Counters of a device, in the order of [`DeviceLine::values`].
pub const DEVICE_COUNTERS: [&str; 8] = [
    "device_reads",
    "device_read_bytes",
    "device_read_ns",
    "device_writes",
    "device_write_bytes",
    "device_write_ns",
    "device_busy_ns",
    "device_queue_ns",
];

/// A line of `/proc/diskstats`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLine<'a> {
    pub major: u64,
    pub minor: u64,
    pub name: &'a [u8],
    pub values: [u64; DEVICE_COUNTERS.len()],
}

/// Returns the devices in `/proc/diskstats`.
pub fn devices(text: &[u8]) -> impl Iterator<Item = DeviceLine<'_>> {
    lines(text).filter_map(|line| {
        let mut words = words(line);
        let [major, minor] = [number(words.next()?)?, number(words.next()?)?];
        let name = words.next()?;
        let mut fields = [0; 11];
        for field in &mut fields {
            *field = number(words.next()?)?;
        }
        let [reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, queue_ms] = fields;
        let [read, written] = [read, written].map(|sectors| sectors.saturating_mul(SECTOR));
        let [read_ns, write_ns, busy_ns, queue_ns] =
            [read_ms, write_ms, busy_ms, queue_ms].map(|ms| ms.saturating_mul(MS));
        let values = [reads, read, read_ns, writes, written, write_ns, busy_ns, queue_ns];
        Some(DeviceLine { major, minor, name, values })
    })
}

/// Returns the nanoseconds of a line of a pressure file, `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`. `kind` is
/// `some` or `full`.
pub fn pressure_ns(text: &[u8], kind: &[u8]) -> Option<u64> {
    let line = lines(text).find(|line| words(line).next() == Some(kind))?;
    let total = words(line).find_map(|word| word.strip_prefix(b"total="))?;
    number(total).map(|us| us.saturating_mul(US))
}

/// A file system on a block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MountLine<'a> {
    pub major: u64,
    pub minor: u64,
    /// As the kernel writes it, with blanks as octal numbers.
    pub folder: &'a [u8],
    pub kind: &'a [u8],
}

/// Returns the mounts in `/proc/self/mountinfo`: `ID PARENT MAJOR:MINOR ROOT FOLDER OPTIONS [FIELD ...] - TYPE SOURCE
/// OPTIONS`.
pub fn mounts(text: &[u8]) -> impl Iterator<Item = MountLine<'_>> {
    lines(text).filter_map(|line| {
        let mut words = words(line);
        let device = words.nth(2)?;
        let colon = device.iter().position(|&byte| byte == b':')?;
        let [major, minor] = [number(&device[..colon])?, number(&device[colon + 1..])?];
        let folder = words.nth(1)?;
        words.find(|word| *word == b"-")?;
        Some(MountLine { major, minor, folder, kind: words.next()? })
    })
}

/// Returns the lines. A last line without a line feed may be truncated.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISKS: &[u8] =
        b"   8       0 sda 1 2 3 4 5 6 7 8 0 9 10\n   8 1 sda1 100 2 2000 50 10 0 400 20 0 30 70 0 0 0 0\n";

    #[test]
    fn devices_have_their_counters_in_bytes_and_nanoseconds() {
        let found: Vec<_> = devices(DISKS).collect();
        assert_eq!((found.len(), found[0].name, found[1].minor), (2, &b"sda"[..], 1));
        let ms = MS;
        assert_eq!(found[1].values, [100, 1_024_000, 50 * ms, 10, 204_800, 20 * ms, 30 * ms, 70 * ms]);
        for cut in 0..DISKS.len() {
            assert!(devices(&DISKS[..cut]).all(|line| found.contains(&line)), "{cut}");
        }
        assert_eq!(devices(b"8 0 sda 1 -2 3 4 5 6 7 8 0 9 10\nx\n").count(), 0);
    }

    #[test]
    fn pressure_is_the_total_of_its_line() {
        let text = b"some avg10=0.00 avg60=0.00 total=70\nfull avg10=0.00 total=30\n";
        assert_eq!((pressure_ns(text, b"some"), pressure_ns(text, b"full")), (Some(70_000), Some(30_000)));
        for text in [&b""[..], b"some total=-1\n", b"some avg10=1\n", b"something total=3\n", b"some total=7"] {
            assert_eq!(pressure_ns(text, b"some"), None, "{text:?}");
        }
    }

    #[test]
    fn mounts_have_device_and_type() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\nx\n31 22 0:41 / /a\\040b rw - nfs4 s:/ rw\n33 22 0:9 / /x rw -\n";
        let found: Vec<_> = mounts(text).collect();
        assert_eq!((found[0].major, found[0].minor, found[0].folder, found[0].kind), (8, 1, &b"/"[..], &b"ext4"[..]));
        assert_eq!((found.len(), found[1].folder, found[1].kind), (2, &b"/a\\040b"[..], &b"nfs4"[..]));
    }
}
