//! The host a process runs on. The kernel is queried once for all processes of a run; each process passes the results
//! to those it starts.
//!
//! The queries take nine system calls, most of them on /proc and /sys: as much time as all other tracing of a
//! short-lived process. The results are passed in an environment variable, whose parts are separated by colons:
//!
//! ```text
//! BOOTED TSC CORES MEMORY BOOT_ID KERNEL HOST QUOTA LIMIT SHM MEMORY_NODES GROUPS
//! LENGTH LENGTH LENGTH LENGTH CPU_GROUP MEMORY_GROUP IO_LIMITS NODES FOLDER
//! ```
//!
//! They are trusted only on the host they came from: the clocks must give the same boot time, which differs between
//! hosts by more than the millisecond allowed here, and the kernel must report the same release and host name. FOLDER
//! is the trace directory, if its file system is local to this host.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicUsize, Ordering::*};

use dlio_schemas::control_groups::Weight;
use dlio_schemas::decimal::decimal;
use dlio_schemas::env;
use dlio_schemas::io_limits::{self, IoLimits};

use crate::kernel::limits::{Folder, GROUP_MAX, Limit, Limits, NO_LIMIT};
use crate::kernel::nodes::Nodes;
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::switches::SWITCHES;
use crate::kernel::sys;
use crate::kernel::variables::variable;

/// Length of the kernel's boot id.
const BOOT_ID: usize = 36;

/// Allowed difference between two readings of the boot time: the time that passes between reading two clocks.
const SAME_NS: u64 = 1_000_000;

/// The host of this process, as recorded in its trace.
pub struct Machine {
    names: libc::utsname,
    facts: MachineFacts,
    limits: Limits,
}

/// Facts that are slow to query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MachineFacts {
    /// Unix time of the boot.
    booted_ns: u64,
    /// `true` if events are stamped with the TSC.
    has_steady_tsc: bool,
    cores: u64,
    memory: u64,
    boot_id: [u8; BOOT_ID],
    nodes: Nodes,
}

/// The facts in the form in which they are passed on.
struct InheritedFacts<'a> {
    facts: MachineFacts,
    limits: Limits,
    kernel: &'a [u8],
    host: &'a [u8],
    folder: &'a [u8],
}

impl Machine {
    /// Returns the facts about the host. Must be called under the image lock. Newly queried facts are passed on
    /// together with the trace directory, which is empty if it may be on another host.
    pub fn query(folder: &[u8]) -> Machine {
        // SAFETY: a struct of bytes, for which zeros are a value.
        let mut names: libc::utsname = unsafe { std::mem::zeroed() };
        // SAFETY: fills the struct, and does not touch errno when it succeeds.
        unsafe { libc::uname(&mut names) };
        let (kernel, host) = (text(&names.release), text(&names.nodename));
        let inherited = inherited_facts()
            .filter(|inherited| inherited.facts.apply_here() && (inherited.kernel, inherited.host) == (kernel, host));
        let (facts, limits) = match inherited {
            Some(inherited) if inherited.limits.apply_here() => (inherited.facts, inherited.limits),
            // The parent of this process moved it into another group; its children are in that group, too.
            inherited => {
                let folder = inherited.as_ref().map_or(folder, |inherited| inherited.folder);
                let facts = inherited.as_ref().map_or_else(MachineFacts::query, |inherited| inherited.facts);
                let limits = Limits::query(b"");
                note(&facts, &limits, [kernel, host, folder]);
                (facts, limits)
            }
        };
        Machine { names, facts, limits }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn host(&self) -> &[u8] {
        text(&self.names.nodename)
    }

    pub fn kernel(&self) -> &[u8] {
        text(&self.names.release)
    }

    /// Returns the boot id; empty if the kernel does not provide it.
    pub fn boot_id(&self) -> &[u8] {
        if self.facts.boot_id == [0; BOOT_ID] { b"" } else { &self.facts.boot_id }
    }

    pub fn cores(&self) -> u64 {
        self.facts.cores
    }

    /// Returns the NUMA nodes of the host, see [`Nodes`]; empty if unknown.
    pub fn nodes(&self) -> &[u8] {
        self.facts.nodes.text()
    }

    /// Returns the memory size in bytes.
    pub fn memory(&self) -> u64 {
        self.facts.memory
    }
}

fn text(field: &[c_char]) -> &[u8] {
    // SAFETY: characters are bytes.
    let bytes = unsafe { std::slice::from_raw_parts(field.as_ptr().cast::<u8>(), field.len()) };
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

impl MachineFacts {
    #[cold]
    #[inline(never)]
    fn query() -> MachineFacts {
        let (mut boot_id, mut read) = ([0; BOOT_ID], [0; 2 * BOOT_ID]);
        let found = sys::read_small(c"/proc/sys/kernel/random/boot_id", &mut read).trim_ascii();
        if found.len() == BOOT_ID {
            boot_id.copy_from_slice(found);
        }
        // SAFETY: a struct of plain numbers, which the call fills; neither call touches errno when it succeeds.
        let (memory, cores) = unsafe {
            let mut info: libc::sysinfo = std::mem::zeroed();
            libc::sysinfo(&mut info);
            (info.totalram * info.mem_unit as u64, libc::sysconf(libc::_SC_NPROCESSORS_ONLN).max(0) as u64)
        };
        MachineFacts {
            booted_ns: booted_ns(),
            has_steady_tsc: SWITCHES.tsc.load(Relaxed),
            cores,
            memory,
            boot_id,
            nodes: Nodes::query(b""),
        }
    }

    fn apply_here(&self) -> bool {
        self.booted_ns.abs_diff(booted_ns()) < SAME_NS
    }
}

fn booted_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_REALTIME).wrapping_sub(sys::clock_ns(libc::CLOCK_BOOTTIME))
}

/// Returns whether events are stamped with the TSC on this host, if that is already known.
pub fn has_steady_tsc() -> Option<bool> {
    inherited_facts().filter(|inherited| inherited.facts.apply_here()).map(|inherited| inherited.facts.has_steady_tsc)
}

/// Returns `true` if the trace directory is known to be on a local file system of this host.
pub fn is_local(folder: &[u8]) -> bool {
    inherited_facts().is_some_and(|inherited| inherited.folder == folder && inherited.facts.apply_here())
}

/// Returns the number of CPUs and the limits of the control groups, if they are already known.
pub fn limits() -> Option<(u64, Limits)> {
    inherited_facts()
        .filter(|inherited| inherited.facts.apply_here())
        .map(|inherited| (inherited.facts.cores, inherited.limits))
}

/// Returns the facts that this process inherited, or that were determined by it or by a process whose memory it has.
fn inherited_facts() -> Option<InheritedFacts<'static>> {
    let found = entry().map(CStr::to_bytes).and_then(|entry| entry.splitn(2, |byte| *byte == b'=').nth(1));
    parse(found.or_else(|| variable(env::MACHINE))?)
}

fn parse(text: &[u8]) -> Option<InheritedFacts<'_>> {
    let mut parts = Parts(text);
    let (booted_ns, has_steady_tsc) = (parts.number()?, parts.number()? == 1);
    let (cores, memory) = (parts.number()?, parts.number()?);
    let boot_id = parts.text()?;
    let boot_id = if boot_id.is_empty() { [0; BOOT_ID] } else { boot_id.try_into().ok()? };
    let (kernel, host) = (parts.text()?, parts.text()?);
    let [quota, memory_limit, shm] = [parts.limit()?, parts.limit()?, parts.limit()?];
    let weight = match (parts.limit()?, parts.limit()?) {
        (Limit::Of(value), Limit::Of(default)) => Some(Weight { value, default }),
        _ => None,
    };
    let [memory_nodes, groups] = [parts.number()?, parts.number()?];
    let [cpu, memory_group, io, nodes] = [parts.number()?, parts.number()?, parts.number()?, parts.number()?];
    let (cpu_group, memory_group) = (parts.folder(cpu)?, parts.folder(memory_group)?);
    let io = match parts.take(usize::try_from(io).ok()?)? {
        b"" => None,
        NO_LIMIT => Some(IoLimits::default()),
        text => Some(IoLimits::parse(text)?),
    };
    let nodes = Nodes::new(parts.take(usize::try_from(nodes).ok()?)?);
    let limits = Limits { quota, weight, memory: memory_limit, shm, memory_nodes, groups, cpu_group, memory_group, io };
    let facts = MachineFacts { booted_ns, has_steady_tsc, cores, memory, boot_id, nodes };
    Some(InheritedFacts { facts, limits, kernel, host, folder: parts.0 })
}

/// The unread rest of the variable.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|&byte| byte == b':')?;
        self.take(length)
    }

    /// Takes a text of the given length and the colon after it.
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest.strip_prefix(b":")?;
        Some(text)
    }

    fn number(&mut self) -> Option<u64> {
        std::str::from_utf8(self.text()?).ok()?.parse().ok()
    }

    fn limit(&mut self) -> Option<Limit> {
        match self.text()? {
            b"" => Some(Limit::Unknown),
            NO_LIMIT => Some(Limit::None),
            digits => Some(Limit::Of(std::str::from_utf8(digits).ok()?.parse().ok()?)),
        }
    }

    fn folder(&mut self, length: u64) -> Option<Folder> {
        Some(Folder::new(self.take(usize::try_from(length).ok().filter(|length| *length <= GROUP_MAX)?)?))
    }
}

/// The variable in the form that this process passes on: a new entry for each change of the facts.
struct Entries(UnsafeCell<[PathBuffer; ENTRIES_MAX]>);
// SAFETY: each entry is written once, under the image lock, before `NOTED` makes it readable.
unsafe impl Sync for Entries {}
crate::large! {
    static ENTRIES: Entries = Entries(UnsafeCell::new([const { PathBuffer::new() }; ENTRIES_MAX]));
}
/// The number of readable entries; the last one is valid.
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// A process and its ancestors rarely move to other groups.
const ENTRIES_MAX: usize = 3;

fn note(facts: &MachineFacts, limits: &Limits, [kernel, host, folder]: [&[u8]; 3]) {
    let noted = NOTED.load(Acquire);
    if noted == ENTRIES_MAX {
        // This process queries the facts itself, and so do its children.
        return;
    }
    // SAFETY: the lock is held, and this entry is not readable yet.
    let entry = unsafe { &mut (*ENTRIES.0.get())[noted] };
    entry.push(env::MACHINE.as_bytes()).push(b"=");
    for number in [facts.booted_ns, facts.has_steady_tsc as u64, facts.cores, facts.memory] {
        entry.push(decimal(number as i64, &mut [0; 20])).push(b":");
    }
    let boot_id: &[u8] = if facts.boot_id == [0; BOOT_ID] { b"" } else { &facts.boot_id };
    entry.push(boot_id).push(b":").push(kernel).push(b":").push(host).push(b":");
    let weight = limits.weight.map_or([Limit::Unknown; 2], |it| [it.value, it.default].map(Limit::Of));
    for limit in [limits.quota, limits.memory, limits.shm].into_iter().chain(weight) {
        match limit {
            Limit::Unknown => {}
            Limit::None => drop(entry.push(NO_LIMIT)),
            Limit::Of(number) => drop(entry.push(decimal(number.min(i64::MAX as u64) as i64, &mut [0; 20]))),
        }
        entry.push(b":");
    }
    let (cpu, memory) = (limits.cpu_group.path(), limits.memory_group.path());
    let mut room = [0; io_limits::TEXT_MAX];
    let io = limits.io_text(&mut room).unwrap_or_default();
    let nodes = facts.nodes.text();
    let lengths = [cpu, memory, io, nodes].map(|text| text.len() as u64);
    for number in [limits.memory_nodes, limits.groups].into_iter().chain(lengths) {
        entry.push(decimal(number as i64, &mut [0; 20])).push(b":");
    }
    entry.push(cpu).push(b":").push(memory).push(b":").push(io).push(b":");
    entry.push(nodes).push(b":").push(folder);
    NOTED.store(noted + 1, Release);
}

/// Returns `NAME=value` for the environment of a started program, if the facts were determined here and not
/// inherited.
pub fn entry() -> Option<&'static CStr> {
    let last = NOTED.load(Acquire).checked_sub(1)?;
    // SAFETY: constant after it was noted.
    Some(unsafe { (*ENTRIES.0.get())[last].as_c_str() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::limits::BUFFERS_IN_TEST;

    #[test]
    fn inherited_facts_equal_queried_facts() {
        let _one = BUFFERS_IN_TEST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (facts, mut limits) = (MachineFacts::query(), Limits::query(b""));
        limits.cpu_group = Folder::new(b"/pod:a/b:");
        limits.io = IoLimits::parse(b"8:0 rbps=7;8:16 wiops=9");
        limits.weight = Weight::of_version_1(b"2");
        note(&facts, &limits, [b"6.1", b"node", b"/a:b"]);
        let inherited = inherited_facts().expect("what was noted");
        assert_eq!((inherited.facts, inherited.facts.apply_here()), (facts, true));
        assert_eq!(inherited.limits, limits);
        assert_eq!((inherited.kernel, inherited.host, inherited.folder), (&b"6.1"[..], &b"node"[..], &b"/a:b"[..]));
        assert_eq!((is_local(b"/a:b"), is_local(b"/a")), (true, false));
        // The host name differs, so this host is queried.
        assert_eq!(Machine::query(b"").boot_id().len(), BOOT_ID);
    }

    #[test]
    fn invalid_facts_are_rejected() {
        for text in [
            "",
            ":",
            "1:1:1:1",
            "x:1:1:1::k:h:",
            "1:1:1:1:short:k:h:",
            "1:1:1:1::::",
            "1:1:1:1::k:h:",
            "1:1:1:1::k:h:1:1:1:::1:1:9:9:0:0:/a:/b:::",
            "1:1:1:1::k:h:x:1:1:::1:1:2:2:0:0:/a:/b:::",
            "1:1:1:1::k:h:1:1:1:::1:1:999999:2:0:0:/a:/b:::",
            "1:1:1:1::k:h:1:1:1:::1:1:2:2:9:0:/a:/b:none::",
            "1:1:1:1::k:h:1:1:1:::1:1:2:2:6:0:/a:/b:8 rbps::",
            "1:1:1:1::k:h:1:1:1:::1:1:2:2:0:9:/a:/b::0:0:",
            "1:1:1:1::k:h:1:1:1:-1:1:1:1:2:2:0:0:/a:/b:::",
            "18446744073709551616:1:1:1::k:h:",
        ] {
            let inherited = parse(text.as_bytes());
            assert!(inherited.is_none_or(|inherited| !inherited.facts.apply_here()), "{text}");
        }
    }
}
