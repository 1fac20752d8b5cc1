//! Limits of I/O that the control groups of this process set on a block device.

use std::collections::BTreeMap;
use std::path::Path;

use dlio_schemas::control_groups::{Group, number};

use crate::system::file_calls::{kernel_bytes, kernel_text, placed};

/// Mount points of the version 1 controller and of the version 2 hierarchy.
const VERSION_1: &str = "/sys/fs/cgroup/blkio";
const VERSION_2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Limits per second; the tightest of the group and all groups above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoLimit {
    pub read_bytes: Option<u64>,
    pub reads: Option<u64>,
    pub write_bytes: Option<u64>,
    pub writes: Option<u64>,
}

/// Limits by device number, `8:0`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IoLimits(BTreeMap<String, IoLimit>);

impl IoLimits {
    /// Reads the limits of this process's group and of its parents. `root` is empty except in tests.
    pub fn read(root: &Path) -> IoLimits {
        let mut limits = IoLimits::default();
        let text = kernel_bytes(placed(root, "/proc/self/cgroup")).unwrap_or_default();
        let Some(group) = Group::find(&text, b"blkio") else { return limits };
        let path = String::from_utf8_lossy(group.path).trim_end_matches('/').to_string();
        let tops = if group.is_unified { &VERSION_2[..] } else { &[VERSION_1][..] };
        // A container sees its own group as the root, while the path may begin outside.
        let places = tops.iter().flat_map(|top| suffixes(&path).map(move |path| (*top, path)));
        let exists = |(top, path): &(&str, &str)| placed(root, &format!("{top}{path}/cgroup.procs")).exists();
        let Some((top, mut path)) = { places }.find(exists) else { return limits };
        loop {
            let folder = format!("{top}{path}");
            let read = |file: &str| kernel_text(placed(root, &format!("{folder}/{file}"))).unwrap_or_default();
            limits.take_version_2(&read("io.max"));
            for (field, file) in FIELDS {
                limits.take_version_1(field, &read(&format!("blkio.throttle.{file}_device")));
            }
            let Some(slash) = path.rfind('/') else { return limits };
            path = &path[..slash];
        }
    }

    pub fn of(&self, device: &str) -> Option<IoLimit> {
        self.0.get(device).copied()
    }

    /// Takes lines such as `8:16 rbps=2097152 wbps=max riops=max wiops=120`.
    fn take_version_2(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let Some(device) = words.next() else { continue };
            for (key, value) in words.filter_map(|word| word.split_once('=')) {
                if let Some(at) = KEYS.iter().position(|known| *known == key) {
                    self.tighten(device, FIELDS[at].0, value);
                }
            }
        }
    }

    /// Takes lines such as `8:16 2097152`.
    fn take_version_1(&mut self, field: Field, text: &str) {
        for (device, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            self.tighten(device, field, value);
        }
    }

    fn tighten(&mut self, device: &str, field: Field, value: &str) {
        let Some(value) = number(value.as_bytes()).filter(|value| *value > 0) else { return };
        let limit = field(self.0.entry(device.into()).or_default());
        *limit = Some(limit.map_or(value, |least| least.min(value)));
    }
}

type Field = fn(&mut IoLimit) -> &mut Option<u64>;

/// A limit, and its name in files of version 1; [`KEYS`] are those of version 2.
const FIELDS: [(Field, &str); 4] = [
    (|limit| &mut limit.read_bytes, "read_bps"),
    (|limit| &mut limit.reads, "read_iops"),
    (|limit| &mut limit.write_bytes, "write_bps"),
    (|limit| &mut limit.writes, "write_iops"),
];
const KEYS: [&str; 4] = ["rbps", "riops", "wbps", "wiops"];

/// Returns `/a/b`, `/b` and an empty path.
fn suffixes(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[at..]).chain([""])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn root(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("dlio-io-limits-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn tightest_limit_of_all_groups_above_counts() {
        let files = [
            ("proc/self/cgroup", "3:blkio:/outside/job/step\n0::/job\n"),
            ("sys/fs/cgroup/blkio/job/step/cgroup.procs", ""),
            ("sys/fs/cgroup/blkio/job/step/blkio.throttle.read_bps_device", "8:0 50000000\n8:16 7\n"),
            ("sys/fs/cgroup/blkio/job/blkio.throttle.read_bps_device", "8:0 20000000\nnonsense\n"),
            ("sys/fs/cgroup/blkio/job/blkio.throttle.write_iops_device", "8:0 100\n"),
        ];
        let root = root("one", &files);
        let limits = IoLimits::read(&root);
        fs::remove_dir_all(&root).unwrap();
        let expected = IoLimit { read_bytes: Some(20_000_000), writes: Some(100), ..IoLimit::default() };
        assert_eq!(limits.of("8:0"), Some(expected));
        assert_eq!(limits.of("8:16"), Some(IoLimit { read_bytes: Some(7), ..IoLimit::default() }));
        assert_eq!(limits.of("9:0"), None);
    }

    #[test]
    fn version_2_writes_max_for_no_limit() {
        let files = [
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/job/cgroup.procs", ""),
            ("sys/fs/cgroup/job/io.max", "8:0 rbps=max wbps=1000 riops=30 wiops=max\n8:16 rbps=\n"),
        ];
        let root = root("two", &files);
        let limits = IoLimits::read(&root);
        fs::remove_dir_all(&root).unwrap();
        let expected = IoLimit { reads: Some(30), write_bytes: Some(1000), ..IoLimit::default() };
        assert_eq!((limits.of("8:0"), limits.of("8:16")), (Some(expected), None));
    }

    #[test]
    fn missing_files_give_no_limits() {
        assert_eq!(IoLimits::read(Path::new("/nonexistent-root")), IoLimits::default());
    }
}
