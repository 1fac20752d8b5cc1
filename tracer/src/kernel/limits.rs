//! Limits of this process's control groups, read from /proc and /sys once for all processes of a run:
//! [`super::machine`] passes them to the other processes.
//!
//! The groups are mounted at the same place by every distribution and container runtime. A container sees its own
//! group as the root of the mount, while /proc may contain the full path outside the container. In that case the
//! group is the longest suffix of that path that exists. A limit above the mounted root is not visible.

use std::cell::UnsafeCell;
use std::ffi::CStr;

use dlio_schemas::control_groups::{self, Group, Quota, Throttling, Weight};
use dlio_schemas::io_limits::{self, IoLimits};

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{hash, sys};

/// Longest directory name of a group that is kept: the name for a Kubernetes container has 250 characters.
pub const GROUP_MAX: usize = 384;

/// Mount points of the version 1 controllers and the version 2 hierarchy.
const CPU: [&[u8]; 3] = [b"/sys/fs/cgroup/cpu", b"/sys/fs/cgroup/cpu,cpuacct", b"/sys/fs/cgroup/cpuacct,cpu"];
const MEMORY: [&[u8]; 1] = [b"/sys/fs/cgroup/memory"];
const BLKIO: [&[u8]; 1] = [b"/sys/fs/cgroup/blkio"];
const UNIFIED: [&[u8]; 2] = [b"/sys/fs/cgroup", b"/sys/fs/cgroup/unified"];

/// Text of a limit that does not exist.
pub const NO_LIMIT: &[u8] = b"none";

/// A limit that may be unknown or may not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    Unknown,
    None,
    Of(u64),
}

/// The directory of a group; empty if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Folder {
    used: u16,
    bytes: [u8; GROUP_MAX],
}

impl Folder {
    pub const UNKNOWN: Folder = Folder { used: 0, bytes: [0; GROUP_MAX] };

    /// Returns the directory, or an unknown one if the path is too long.
    pub fn new(path: &[u8]) -> Folder {
        let mut folder = Folder::UNKNOWN;
        if path.len() <= GROUP_MAX {
            folder.bytes[..path.len()].copy_from_slice(path);
            folder.used = path.len() as u16;
        }
        folder
    }

    pub fn path(&self) -> &[u8] {
        &self.bytes[..self.used as usize]
    }

    fn is_known(&self) -> bool {
        self.used > 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// CPU quota in thousandths of a CPU.
    pub quota: Limit,
    /// CPU weight of the process's own group; `None` if unknown.
    pub weight: Option<Weight>,
    /// Memory limit in bytes.
    pub memory: Limit,
    /// Size of `/dev/shm` in bytes.
    pub shm: Limit,
    /// NUMA nodes from which this process may get memory, one bit per node; zero if unknown.
    pub memory_nodes: u64,
    /// Hash of the kernel's list of this process's groups: a process in other groups has another hash.
    pub groups: u64,
    pub cpu_group: Folder,
    pub memory_group: Folder,
    /// Limits on the I/O of devices; `None` if unknown.
    pub io: Option<IoLimits>,
}

/// Buffers for paths and files, used under the image lock.
struct Buffers {
    path: PathBuffer,
    text: [u8; TEXT_MAX],
    file: [u8; TEXT_MAX],
}

/// Maximum number of bytes read of a file.
const TEXT_MAX: usize = 4096;

struct SharedBuffers(UnsafeCell<Buffers>);
// SAFETY: used only under the image lock.
unsafe impl Sync for SharedBuffers {}
crate::large! {
    static BUFFERS: SharedBuffers = SharedBuffers(UnsafeCell::new(Buffers {
        path: PathBuffer::new(),
        text: [0; TEXT_MAX],
        file: [0; TEXT_MAX],
    }));
}

impl Limits {
    /// Reads the limits from the kernel, under the image lock. `root` is empty except in tests.
    #[cold]
    #[inline(never)]
    pub fn query(root: &[u8]) -> Limits {
        // SAFETY: the lock gives exclusive access to the buffers.
        let Buffers { path, text, file } = unsafe { &mut *BUFFERS.0.get() };
        let text = sys::read_small(placed(path, [root, b"/proc/self/cgroup"]), text);
        let (weight, (quota, cpu_group)) = cpu_of(root, text, path, file);
        let (memory, memory_group) = memory_of(root, text, path, file);
        let io = io_of(root, text, path, file);
        let shm = sys::file_system_size(placed(path, [root, b"/dev/shm"])).map_or(Limit::Unknown, Limit::Of);
        let (memory_nodes, groups) = (sys::memory_nodes(), mark());
        Limits { quota, weight, memory, shm, memory_nodes, groups, cpu_group, memory_group, io }
    }

    /// Returns the limits on the I/O of devices as a text; `None` if unknown.
    pub fn io_text<'a>(&self, room: &'a mut [u8; io_limits::TEXT_MAX]) -> Option<&'a [u8]> {
        let text = self.io.as_ref()?.write(room);
        Some(if text.is_empty() { NO_LIMIT } else { text })
    }

    /// Returns `true` if this process is in the same groups, or if the kernel does not list them.
    pub fn apply_here(&self) -> bool {
        [0, self.groups].contains(&mark())
    }

    /// Returns `true` if there is a CPU quota.
    pub fn has_quota(&self) -> bool {
        matches!(self.quota, Limit::Of(_)) && self.cpu_group.is_known()
    }

    /// Returns how often the quota has been exhausted. `None` without a quota.
    pub fn throttling(&self) -> Option<Throttling> {
        if !self.has_quota() {
            return None;
        }
        let (mut name, mut text) = ([0; GROUP_MAX + 16], [0; 512]);
        let parts = [self.cpu_group.path(), b"/cpu.stat"];
        let mut used = 0;
        for part in parts {
            name[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
        Throttling::parse(sys::read_small(CStr::from_bytes_until_nul(&name).ok()?, &mut text))
    }
}

/// Returns a hash of the kernel's list of groups, positive as an `i64`; zero if the list cannot be read.
fn mark() -> u64 {
    let fd = sys::open(c"/proc/self/cgroup", libc::O_RDONLY);
    const PIECE: usize = 512;
    if fd < 0 {
        return 0;
    }
    let (mut mark, mut piece) = (0, [0; PIECE]);
    loop {
        let read = sys::read(fd as i32, &mut piece);
        mark = hash::of(read, mark);
        // The kernel fills a chunk as long as there is more.
        if read.len() < PIECE {
            sys::close(fd as i32);
            break;
        }
    }
    mark >> 1
}

fn placed<'a>(path: &'a mut PathBuffer, parts: [&[u8]; 2]) -> &'a CStr {
    path.clear();
    path.push(parts[0]).push(parts[1]);
    path.as_c_str()
}

/// Writes the directory of a group to `path`. Returns the length of the mount point within it, or `None` if the
/// directory does not exist.
fn find_folder(root: &[u8], group: &Group<'_>, mounts: &[&[u8]], path: &mut PathBuffer) -> Option<usize> {
    for mount in mounts {
        let mut end = group.path.strip_suffix(b"/").unwrap_or(group.path);
        let top = root.len() + mount.len();
        loop {
            placed(path, [root, mount]);
            path.push(end).push(b"/cgroup.procs");
            if sys::accessible(path.as_c_str(), libc::F_OK) {
                path.truncate(top + end.len());
                return Some(top);
            }
            if end.is_empty() {
                break;
            }
            let next = end[1..].iter().position(|&byte| byte == b'/').map_or(end.len(), |at| at + 1);
            end = &end[next..];
        }
    }
    None
}

/// Reads a file of the group in `path` and of all its parents, up to the mount point of length `top`. Returns the
/// smallest result of `value` over these directories, and the length of that directory's path.
fn tightest(
    path: &mut PathBuffer,
    top: usize,
    mut value: impl FnMut(&mut PathBuffer) -> Option<u64>,
) -> Option<(u64, usize)> {
    let mut found: Option<(u64, usize)> = None;
    loop {
        let length = path.as_bytes().len();
        if let Some(number) = value(path)
            && found.is_none_or(|(least, _)| number < least)
        {
            found = Some((number, length));
        }
        path.truncate(length);
        if length <= top {
            return found;
        }
        let parent = path.as_bytes().iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        path.truncate(parent.max(top));
    }
}

/// Reads a file of the directory in `path`, which is restored afterwards.
fn read<'a>(path: &mut PathBuffer, name: &[u8], file: &'a mut [u8]) -> &'a [u8] {
    let length = path.as_bytes().len();
    path.push(name);
    let text = sys::read_small(path.as_c_str(), file);
    path.truncate(length);
    text
}

type GroupLimit = (Limit, Folder);

/// Returns a limit and the group that sets it, or the process's own group.
fn group_limit(path: &mut PathBuffer, top: usize, value: impl FnMut(&mut PathBuffer) -> Option<u64>) -> GroupLimit {
    let own = Folder::new(path.as_bytes());
    let mut whole = own;
    match tightest(path, top, value) {
        Some((number, length)) => {
            whole.used = whole.used.min(length as u16);
            (Limit::Of(number), whole)
        }
        None => (Limit::None, own),
    }
}

/// Returns the weight of the process's own group, and the tightest quota.
fn cpu_of(root: &[u8], text: &[u8], path: &mut PathBuffer, file: &mut [u8; TEXT_MAX]) -> (Option<Weight>, GroupLimit) {
    let unknown = (None, (Limit::Unknown, Folder::UNKNOWN));
    let Some(group) = Group::find(text, b"cpu") else { return unknown };
    let mounts: &[&[u8]] = if group.is_unified { &UNIFIED } else { &CPU };
    let Some(top) = find_folder(root, &group, mounts, path) else { return unknown };
    // The root of version 2 has no weight, and neither has a group without the controller.
    let weight = match group.is_unified {
        true => Weight::of_version_2(read(path, b"/cpu.weight", file)),
        false => Weight::of_version_1(read(path, b"/cpu.shares", file)),
    };
    // A version 2 group without the controller can only get a quota from its parents.
    let quota = group_limit(path, top, |path| {
        if group.is_unified {
            return Quota::of_version_2(read(path, b"/cpu.max", file)).map(Quota::thousandths);
        }
        let (quota, period) = file.split_at_mut(64);
        let quota = read(path, b"/cpu.cfs_quota_us", quota);
        Quota::of_version_1(quota, read(path, b"/cpu.cfs_period_us", period)).map(Quota::thousandths)
    });
    (weight, quota)
}

fn memory_of(root: &[u8], text: &[u8], path: &mut PathBuffer, file: &mut [u8; TEXT_MAX]) -> GroupLimit {
    let unknown = (Limit::Unknown, Folder::UNKNOWN);
    let Some(group) = Group::find(text, b"memory") else { return unknown };
    let mounts: &[&[u8]] = if group.is_unified { &UNIFIED } else { &MEMORY };
    let Some(top) = find_folder(root, &group, mounts, path) else { return unknown };
    if group.is_unified {
        return group_limit(path, top, |path| control_groups::memory_limit(read(path, b"/memory.max", file)));
    }
    // The sum includes events caused by limits of parents that are not visible.
    let sum = control_groups::line(read(path, b"/memory.stat", file), b"hierarchical_memory_limit")
        .filter(|bytes| *bytes < control_groups::MEMORY_MAX);
    let (limit, group) =
        group_limit(path, top, |path| control_groups::memory_limit(read(path, b"/memory.limit_in_bytes", file)));
    match (limit, sum) {
        (Limit::Of(seen), Some(sum)) if sum < seen => (Limit::Of(sum), group),
        (Limit::None, Some(sum)) => (Limit::Of(sum), group),
        _ => (limit, group),
    }
}

fn io_of(root: &[u8], text: &[u8], path: &mut PathBuffer, file: &mut [u8; TEXT_MAX]) -> Option<IoLimits> {
    // The controller is called `io` in version 2, which lists no names.
    let group = Group::find(text, b"blkio")?;
    let mounts: &[&[u8]] = if group.is_unified { &UNIFIED } else { &BLKIO };
    let top = find_folder(root, &group, mounts, path)?;
    let mut limits = IoLimits::default();
    if group.is_unified {
        tightest(path, top, |path| {
            limits.take_version_2(read(path, b"/io.max", file));
            None
        });
    } else {
        // In version 1 the limits of a parent do not apply to its children.
        for (place, name) in io_limits::FILES.iter().enumerate() {
            limits.take_version_1(place, read(path, name, file));
        }
    }
    Some(limits)
}

/// Held by tests that read limits, because they share the buffers.
#[cfg(test)]
pub static BUFFERS_IN_TEST: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    /// Returns the limits found below a fake root, and the directory of its groups.
    fn below(name: &str, groups: &str, files: &[(&str, &str)]) -> (Limits, String) {
        let _one = BUFFERS_IN_TEST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let root = std::env::temp_dir().join(format!("dlio-limits-{}-{name}", std::process::id()));
        let put = |path: &Path, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(&root.join("proc/self/cgroup"), groups);
        for (path, text) in files {
            let path = root.join("sys/fs/cgroup").join(path);
            put(&path, text);
            put(&path.with_file_name("cgroup.procs"), "");
        }
        let limits = Limits::query(root.as_os_str().as_bytes());
        std::fs::remove_dir_all(&root).unwrap();
        (limits, root.join("sys/fs/cgroup").to_string_lossy().into_owned())
    }

    /// Returns the quota, the memory limit and their groups.
    fn limits_below(name: &str, groups: &str, files: &[(&str, &str)]) -> (Limit, Limit, [String; 2]) {
        let (limits, below) = below(name, groups, files);
        let group = |folder: &Folder| String::from_utf8_lossy(folder.path()).replace(&below, "");
        (limits.quota, limits.memory, [group(&limits.cpu_group), group(&limits.memory_group)])
    }

    fn groups(cpu: &str, memory: &str) -> [String; 2] {
        [cpu.into(), memory.into()]
    }

    #[test]
    fn tightest_limit_of_all_parents_applies() {
        let files = [
            ("cgroup.controllers", "cpu memory"),
            ("job/cpu.max", "200000 100000\n"),
            ("job/step/cpu.max", "max 100000\n"),
            ("job/step/task/cpu.max", "400000 100000\n"),
            ("job/memory.max", "max\n"),
            ("job/step/memory.max", "1000\n"),
            ("job/step/task/memory.max", "2000\n"),
        ];
        let found = limits_below("unified", "0::/job/step/task\n", &files);
        assert_eq!(found, (Limit::Of(2000), Limit::Of(1000), groups("/job", "/job/step")));
        let none = [("job/cpu.max", "max 100000\n"), ("job/memory.max", "max\n")];
        let found = limits_below("none", "0::/job\n", &none);
        assert_eq!(found, (Limit::None, Limit::None, groups("/job", "/job")));
    }

    #[test]
    fn version_1_has_one_directory_per_controller() {
        let files = [
            ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n"),
            ("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
            ("memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/job/memory.stat", "cache 5\nhierarchical_memory_limit 4096\n"),
        ];
        let text = "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n";
        let found = limits_below("first", text, &files);
        assert_eq!(found, (Limit::Of(1500), Limit::Of(4096), groups("/cpu,cpuacct/job", "/memory/job")));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let files = [("cpu.max", "50000 100000\n"), ("inner/cpu.max", "max 100000\n"), ("memory.max", "7\n")];
        let found = limits_below("outside", "0::/docker/0123/inner\n", &files);
        assert_eq!(found, (Limit::Of(500), Limit::Of(7), groups("", "")));
    }

    #[test]
    fn weight_is_that_of_the_own_group() {
        let weight = |name: &str, groups: &str, files: &[(&str, &str)]| below(name, groups, files).0.weight;
        let files = [("job/cpu.weight", "50\n"), ("job/step/cpu.weight", "300\n"), ("job/none/cpu.max", "max 1\n")];
        assert_eq!(weight("weight-2", "0::/job/step\n", &files), Weight::of_version_2(b"300"));
        assert_eq!(weight("weight-none", "0::/job/none\n", &files), None);
        let files = [("cpu/cpu.shares", "1024\n"), ("cpu/job/cpu.shares", "2\n")];
        assert_eq!(weight("weight-1", "2:cpu:/job\n0::/\n", &files), Weight::of_version_1(b"2"));
        assert_eq!(weight("weight-root", "2:cpu:/\n0::/\n", &files), Weight::of_version_1(b"1024"));
        assert_eq!(weight("weight-forged", "0::/job\n", &[("job/cpu.weight", "-7\n")]), None);
    }

    #[test]
    fn limits_on_devices_are_those_of_the_own_groups() {
        let io = |name: &str, groups: &str, files: &[(&str, &str)]| below(name, groups, files).0.io;
        let files = [
            ("cgroup.controllers", "io"),
            ("job/io.max", "8:0 rbps=2000 wiops=9\n"),
            ("job/step/io.max", "8:0 rbps=9000\n"),
        ];
        assert_eq!(io("io-2", "0::/job/step\n", &files), IoLimits::parse(b"8:0 rbps=2000 wiops=9"));
        let files = [
            ("blkio/outer/blkio.throttle.write_iops_device", "8:0 100\n"),
            ("blkio/outer/job/blkio.throttle.read_bps_device", "8:0 50000000\n"),
        ];
        assert_eq!(io("io-1", "3:blkio:/outer/job\n0::/\n", &files), IoLimits::parse(b"8:0 rbps=50000000"));
        assert_eq!(io("io-none", "3:blkio:/\n", &[("blkio/x", "")]), Some(IoLimits::default()));
        assert_eq!(io("io-unknown", "", &[]), None);
    }

    #[test]
    fn missing_or_forged_limits_are_unknown() {
        let unknown = (Limit::Unknown, Limit::Unknown, groups("", ""));
        assert_eq!(limits_below("empty", "", &[]), unknown);
        assert_eq!(limits_below("unmounted", "0::/job\n4:memory:/job\n", &[]), unknown);
        assert_eq!(limits_below("above", "0::/../../etc\n", &[("cpu.max", "1 1\n")]), unknown);
        let long = format!("0::/{}\n", "a/".repeat(GROUP_MAX));
        let (quota, ..) = limits_below("long", &long, &[("cpu.max", "1000 1000\n")]);
        assert_eq!(quota, Limit::Of(1000));
        for text in ["", "max", "1", "x y", "-5 100", "1 0"] {
            let (quota, ..) = limits_below("forged", "0::/job\n", &[("job/cpu.max", text)]);
            assert_eq!(quota, Limit::None, "{text}");
        }
    }
}
