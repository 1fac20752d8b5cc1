//! The machine a process runs on: the kernel is asked once for all processes of a run, and each one leaves the answers to
//! those it starts.
//!
//! Asking takes nine system calls, most of them into /proc and /sys: as long as all else that a short process is recorded
//! with. The answers travel in a variable of the environment,
//! `BOOTED:TSC:CORES:MEMORY:BOOT_ID:KERNEL:HOST:QUOTA:LIMIT:SHM:GROUPS:LENGTH:LENGTH:CPU_GROUP:MEMORY_GROUP:FOLDER`, and are
//! believed on the machine they came from alone: where the clocks tell the same moment of booting, which differs from machine
//! to machine by more than the millisecond allowed here, and the kernel the same release and name of the host. FOLDER is the
//! trace folder, if its file system is of this machine.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicUsize, Ordering::*};

use dlio_schemas::env;
use dlio_schemas::native::fields::decimal;

use crate::kernel::limits::{Folder, GROUP_MAX, Limit, Limits};
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::switches::SWITCHES;
use crate::kernel::sys;
use crate::kernel::variables::variable;

/// Letters of the kernel's name for a boot.
const BOOT_ID: usize = 36;

/// Two readings of the moment of booting differ by what passes between those of two clocks.
const SAME_NS: u64 = 1_000_000;

/// Where this process runs, as its trace says it.
pub struct Machine {
    names: libc::utsname,
    answers: Answers,
    limits: Limits,
}

/// What takes long to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Answers {
    /// Unix time of booting.
    booted_ns: u64,
    /// True if the TSC is what events are stamped with.
    has_steady_tsc: bool,
    cores: u64,
    memory: u64,
    boot_id: [u8; BOOT_ID],
}

/// The answers as they travel.
struct Told<'a> {
    answers: Answers,
    limits: Limits,
    kernel: &'a [u8],
    host: &'a [u8],
    folder: &'a [u8],
}

impl Machine {
    /// Under the lock of the image. What is found out goes on to others with the trace folder, empty where that may be another
    /// machine's.
    pub fn ask(folder: &[u8]) -> Machine {
        // SAFETY: a struct of bytes, for which zeros are a value.
        let mut names: libc::utsname = unsafe { std::mem::zeroed() };
        // SAFETY: fills the struct, and does not touch errno when it succeeds.
        unsafe { libc::uname(&mut names) };
        let (kernel, host) = (text(&names.release), text(&names.nodename));
        let told = told().filter(|told| told.answers.are_of_here() && (told.kernel, told.host) == (kernel, host));
        let (answers, limits) = match told {
            Some(told) if told.limits.are_of_here() => (told.answers, told.limits),
            // Who started this process put it into another group: so are those that it starts.
            told => {
                let folder = told.as_ref().map_or(folder, |told| told.folder);
                let answers = told.as_ref().map_or_else(Answers::ask, |told| told.answers);
                let limits = Limits::ask(b"");
                note(&answers, &limits, [kernel, host, folder]);
                (answers, limits)
            }
        };
        Machine { names, answers, limits }
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

    /// Empty where the kernel does not tell.
    pub fn boot_id(&self) -> &[u8] {
        if self.answers.boot_id == [0; BOOT_ID] { b"" } else { &self.answers.boot_id }
    }

    pub fn cores(&self) -> u64 {
        self.answers.cores
    }

    /// Bytes.
    pub fn memory(&self) -> u64 {
        self.answers.memory
    }
}

fn text(field: &[c_char]) -> &[u8] {
    // SAFETY: characters are bytes.
    let bytes = unsafe { std::slice::from_raw_parts(field.as_ptr().cast::<u8>(), field.len()) };
    &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
}

impl Answers {
    #[cold]
    #[inline(never)]
    fn ask() -> Answers {
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
        Answers { booted_ns: booted_ns(), has_steady_tsc: SWITCHES.tsc.load(Relaxed), cores, memory, boot_id }
    }

    fn are_of_here(&self) -> bool {
        self.booted_ns.abs_diff(booted_ns()) < SAME_NS
    }
}

fn booted_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_REALTIME).wrapping_sub(sys::clock_ns(libc::CLOCK_BOOTTIME))
}

/// Whether events are stamped with the TSC here, if somebody has found that out.
pub fn has_steady_tsc() -> Option<bool> {
    told().filter(|told| told.answers.are_of_here()).map(|told| told.answers.has_steady_tsc)
}

/// True if the trace folder is known to be on a file system of this machine.
pub fn is_local(folder: &[u8]) -> bool {
    told().is_some_and(|told| told.folder == folder && told.answers.are_of_here())
}

/// The number of CPUs, and what control groups allow, once somebody has found that out.
pub fn limits() -> Option<(u64, Limits)> {
    told().filter(|told| told.answers.are_of_here()).map(|told| (told.answers.cores, told.limits))
}

/// What was told to this process, or found by it or by one whose memory it has.
fn told() -> Option<Told<'static>> {
    let found = entry().map(CStr::to_bytes).and_then(|entry| entry.splitn(2, |byte| *byte == b'=').nth(1));
    parse(found.or_else(|| variable(env::MACHINE))?)
}

fn parse(text: &[u8]) -> Option<Told<'_>> {
    let mut parts = Parts(text);
    let (booted_ns, has_steady_tsc) = (parts.number()?, parts.number()? == 1);
    let (cores, memory) = (parts.number()?, parts.number()?);
    let boot_id = parts.text()?;
    let boot_id = if boot_id.is_empty() { [0; BOOT_ID] } else { boot_id.try_into().ok()? };
    let (kernel, host) = (parts.text()?, parts.text()?);
    let [quota, memory_limit, shm] = [parts.limit()?, parts.limit()?, parts.limit()?];
    let groups = parts.number()?;
    let [cpu, memory_group] = [parts.number()?, parts.number()?];
    let (cpu_group, memory_group) = (parts.folder(cpu)?, parts.folder(memory_group)?);
    let limits = Limits { quota, memory: memory_limit, shm, groups, cpu_group, memory_group };
    let answers = Answers { booted_ns, has_steady_tsc, cores, memory, boot_id };
    Some(Told { answers, limits, kernel, host, folder: parts.0 })
}

/// What is left to read of the variable.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|&byte| byte == b':')?;
        self.take(length)
    }

    /// A text of this length, and the colon behind it.
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
            b"none" => Some(Limit::None),
            digits => Some(Limit::Of(std::str::from_utf8(digits).ok()?.parse().ok()?)),
        }
    }

    fn folder(&mut self, length: u64) -> Option<Folder> {
        Some(Folder::new(self.take(usize::try_from(length).ok().filter(|length| *length <= GROUP_MAX)?)?))
    }
}

/// The variable, as this process leaves it to others: a new one where the answers have changed.
struct Entries(UnsafeCell<[PathBuffer; ENTRIES_MAX]>);
// SAFETY: each is written once, under the lock of the image, before `NOTED` says that it can be read.
unsafe impl Sync for Entries {}
crate::large! {
    static ENTRIES: Entries = Entries(UnsafeCell::new([const { PathBuffer::new() }; ENTRIES_MAX]));
}
/// The number of entries that can be read; the last one holds.
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// A process, and those it was forked from, are not often put into other groups.
const ENTRIES_MAX: usize = 3;

fn note(answers: &Answers, limits: &Limits, [kernel, host, folder]: [&[u8]; 3]) {
    let noted = NOTED.load(Acquire);
    if noted == ENTRIES_MAX {
        // It asks for itself, and so do its children.
        return;
    }
    // SAFETY: under the lock, and nobody reads this one yet.
    let entry = unsafe { &mut (*ENTRIES.0.get())[noted] };
    entry.push(env::MACHINE.as_bytes()).push(b"=");
    for number in [answers.booted_ns, answers.has_steady_tsc as u64, answers.cores, answers.memory] {
        entry.push(decimal(number as i64, &mut [0; 20])).push(b":");
    }
    let boot_id: &[u8] = if answers.boot_id == [0; BOOT_ID] { b"" } else { &answers.boot_id };
    entry.push(boot_id).push(b":").push(kernel).push(b":").push(host).push(b":");
    for limit in [limits.quota, limits.memory, limits.shm] {
        match limit {
            Limit::Unknown => {}
            Limit::None => drop(entry.push(b"none")),
            Limit::Of(number) => drop(entry.push(decimal(number.min(i64::MAX as u64) as i64, &mut [0; 20]))),
        }
        entry.push(b":");
    }
    let (cpu, memory) = (limits.cpu_group.path(), limits.memory_group.path());
    for number in [limits.groups, cpu.len() as u64, memory.len() as u64] {
        entry.push(decimal(number as i64, &mut [0; 20])).push(b":");
    }
    entry.push(cpu).push(b":").push(memory).push(b":").push(folder);
    NOTED.store(noted + 1, Release);
}

/// `NAME=value` for a program that is started, where the answers were found here and not told.
pub fn entry() -> Option<&'static CStr> {
    let last = NOTED.load(Acquire).checked_sub(1)?;
    // SAFETY: constant from here on.
    Some(unsafe { (*ENTRIES.0.get())[last].as_c_str() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::limits::ASKED_BY_ONE;

    #[test]
    fn what_is_told_is_what_was_found() {
        let _one = ASKED_BY_ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (answers, mut limits) = (Answers::ask(), Limits::ask(b""));
        limits.cpu_group = Folder::new(b"/pod:a/b:");
        note(&answers, &limits, [b"6.1", b"node", b"/a:b"]);
        let told = told().expect("what was noted");
        assert_eq!((told.answers, told.answers.are_of_here()), (answers, true));
        assert_eq!(told.limits, limits);
        assert_eq!((told.kernel, told.host, told.folder), (&b"6.1"[..], &b"node"[..], &b"/a:b"[..]));
        assert_eq!((is_local(b"/a:b"), is_local(b"/a")), (true, false));
        // The host's name is another one, so this machine is asked.
        assert_eq!(Machine::ask(b"").boot_id().len(), BOOT_ID);
    }

    #[test]
    fn what_makes_no_sense_is_not_believed() {
        for text in [
            "",
            ":",
            "1:1:1:1",
            "x:1:1:1::k:h:",
            "1:1:1:1:short:k:h:",
            "1:1:1:1::::",
            "1:1:1:1::k:h:",
            "1:1:1:1::k:h:1:1:1:1:9:9:/a:/b:",
            "1:1:1:1::k:h:x:1:1:1:2:2:/a:/b:",
            "1:1:1:1::k:h:1:1:1:1:999999:2:/a:/b:",
            "18446744073709551616:1:1:1::k:h:",
        ] {
            let told = parse(text.as_bytes());
            assert!(told.is_none_or(|told| !told.answers.are_of_here()), "{text}");
        }
    }
}
