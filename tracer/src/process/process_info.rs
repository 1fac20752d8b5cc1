//! Information about a process, which is written at its first event.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::decimal::decimal;
use dlio_schemas::env;
use dlio_schemas::native::fields::{FieldWriter, key};
use dlio_schemas::secrets;

use crate::kernel::machine::Machine;
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::variables::{self, variable};
use crate::kernel::{clock, sys};
use crate::process::{config, usage};

/// Length of a program's name in the kernel, with the terminating zero.
const NAME: usize = 16;

/// Longest command line that is kept: it shares a page with everything else.
const COMMAND_MAX: usize = 2048;

/// Variables set by launchers, most reliable first: rank, number of ranks.
const RANKS: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
const JOBS: &[&str] = &["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID", "JOB_ID"];

/// The command line from the loader, its strings one after another; null and zero if the loader did not pass it.
static COMMAND: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static COMMAND_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Returns how long this image has run.
pub fn age_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(LOADED.load(Relaxed))
}

/// Boot time at which this image of the process was loaded.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Notes the start of this image.
pub fn note_start() {
    LOADED.store(sys::clock_ns(libc::CLOCK_BOOTTIME), Relaxed);
}

/// `true` in a forked child that has no image yet and whose start was noted.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

/// Notes the start of a forked child.
pub fn note_fork() {
    note_start();
    IS_FORKED.store(true, Relaxed);
}

/// Notes a new start, because this is not the process whose start was noted. Does nothing after a fork by the C
/// library, which was noted.
pub fn begin_unless_forked() {
    if !IS_FORKED.swap(false, Relaxed) {
        note_start();
    }
}

/// Returns the boot time at which this process started: the start of its first image, which identifies the images
/// that follow it by exec. The kernel knows it only to a hundredth of a second, and querying it takes as long as all
/// other queries together.
fn began_ns(pid: i32) -> u64 {
    let loaded = LOADED.load(Relaxed);
    variable(env::BORN).and_then(|text| parse_start_time(text, pid, loaded)).unwrap_or(loaded)
}

/// Parses the value from the previous image, `PID:BEGAN:NOW`. It must belong to this process and be recent, because
/// process ids are reused.
fn parse_start_time(text: &[u8], pid: i32, loaded_ns: u64) -> Option<u64> {
    const EXEC_LASTS_NS: u64 = 60_000_000_000;
    let mut numbers = std::str::from_utf8(text).ok()?.split(':').map(str::parse);
    let mut number = || numbers.next()?.ok();
    let (told_pid, began, executed): (u64, u64, u64) = (number()?, number()?, number()?);
    let is_meant = told_pid == pid as u64 && began <= executed && executed <= loaded_ns;
    (is_meant && loaded_ns - executed < EXEC_LASTS_NS).then_some(began)
}

/// Size of the buffer for [`born`].
pub const BORN_MAX: usize = 96;

/// Returns `NAME=value` for the program that this process is about to execute.
pub fn born(room: &mut [u8; BORN_MAX]) -> &CStr {
    let (pid, now) = (sys::process_id(), sys::clock_ns(libc::CLOCK_BOOTTIME));
    let mut used = 0;
    let mut put = |text: &[u8]| {
        room[used..used + text.len()].copy_from_slice(text);
        used += text.len();
    };
    put(env::BORN.as_bytes());
    for (mark, number) in [(b"=", pid as i64), (b":", began_ns(pid) as i64), (b":", now as i64)] {
        put(mark);
        put(decimal(number, &mut [0; 20]));
    }
    put(b"\0");
    CStr::from_bytes_until_nul(room).unwrap_or_default()
}

/// Notes the location of the command line. The program may sort its list of arguments, but the strings do not move.
///
/// # Safety
/// `list` is null or contains `count` strings that live as long as the process.
pub unsafe fn note_command(count: i32, list: *const *const c_char) {
    if list.is_null() || count < 1 {
        return;
    }
    // SAFETY: by the contract above.
    unsafe {
        let start = (*list).cast::<u8>();
        let mut length = 0;
        for argument in std::slice::from_raw_parts(list, count as usize) {
            if argument.cast::<u8>() != start.wrapping_add(length) {
                return;
            }
            length += CStr::from_ptr(*argument).to_bytes_with_nul().len();
        }
        COMMAND_LENGTH.store(length, Relaxed);
        COMMAND.store(start.cast_mut(), Release);
    }
}

/// Finds the command line before the loader passes it, if possible.
pub fn find_command() {
    if COMMAND.load(Acquire).is_null()
        && let Some((count, list)) = variables::arguments()
    {
        // SAFETY: the strings are on the first stack.
        unsafe { note_command(count, list) };
    }
}

/// Buffer for arguments that had to be read; used under the image lock.
struct ArgumentsBuffer(UnsafeCell<[u8; ARGUMENTS_MAX]>);
// SAFETY: see above.
unsafe impl Sync for ArgumentsBuffer {}
crate::large! {
    static ARGUMENTS: ArgumentsBuffer = ArgumentsBuffer(UnsafeCell::new([0; ARGUMENTS_MAX]));
}

/// Maximum number of bytes read of the arguments.
const ARGUMENTS_MAX: usize = 4096;

/// Returns the arguments, each terminated by a zero. Must be called under the image lock.
fn command() -> &'static [u8] {
    let start = COMMAND.load(Acquire);
    if start.is_null() {
        // SAFETY: the lock gives exclusive access to the buffer.
        return sys::read_small(c"/proc/self/cmdline", unsafe { &mut *ARGUMENTS.0.get() });
    }
    // SAFETY: the strings exist as long as the process lives. If the program changes one in the meantime, the copy is
    // inconsistent but harmless.
    unsafe { std::slice::from_raw_parts(start, COMMAND_LENGTH.load(Relaxed).min(ARGUMENTS_MAX)) }
}

/// Writes the information about this process.
pub fn of_process(writer: &mut FieldWriter, now: &Anchor, pid: i32, machine: &Machine, cwd: &[u8]) {
    writer.text(key::PROGRAM, program(&mut [0; NAME]));
    writer.number(key::PID, pid as i64);
    writer.number(key::PPID, sys::parent_id() as i64);
    writer.number(key::START_BOOT_NS, began_ns(pid) as i64);
    writer.number(key::IMAGE, LOADED.load(Relaxed) as i64);
    writer.text(key::HOST, machine.host());
    writer.text(key::BOOT_ID, machine.boot_id());
    writer.text(key::CLOCK, clock::name().as_bytes());
    writer.number(key::CLOCK_HZ, clock::rate_hz(now) as i64);
    writer.text(key::TRACER, concat!("dlio ", env!("CARGO_PKG_VERSION")).as_bytes());
    writer.number(key::UID, user() as i64);
    of_machine(writer, machine);
    usage::at_start(writer, pid, machine);
    of_job(writer);
    if config::get().last_ns > 0 {
        writer.number(key::LAST_NS, config::get().last_ns as i64);
    }
    writer.text(key::TRACE_DIR, config::get().dir());
    writer.text(key::CWD, cwd);
    let mut shown = [0; COMMAND_MAX];
    let command = command();
    writer.text(key::COMMAND, secrets::masked(command.strip_suffix(b"\0").unwrap_or(command), &mut shown));
}

/// `true` once the program may run as another user than the one it was started for.
static USER_CHANGED: AtomicBool = AtomicBool::new(false);

/// Notes that the program is about to change its privileges.
pub fn user_changes() {
    USER_CHANGED.store(true, Relaxed);
}

fn user() -> u32 {
    match USER_CHANGED.load(Relaxed) {
        true => sys::user_id(),
        // SAFETY: reads the auxiliary vector.
        false => unsafe { libc::getauxval(libc::AT_EUID) as u32 },
    }
}

fn of_machine(writer: &mut FieldWriter, machine: &Machine) {
    writer.text(key::KERNEL, machine.kernel());
    writer.number(key::MEMORY, machine.memory() as i64);
    writer.number(key::CORES, machine.cores() as i64);
}

/// Returns rank and number of ranks, if the launcher has set them.
fn launched_as() -> Option<(&'static [u8], Option<&'static [u8]>)> {
    RANKS.iter().find_map(|(rank, ranks)| Some((variable(rank)?, variable(ranks))))
}

/// Returns `true` if the launcher has set the rank.
pub fn has_rank() -> bool {
    launched_as().is_some()
}

fn of_job(writer: &mut FieldWriter) {
    if let Some((rank, ranks)) = launched_as() {
        writer.text(key::RANK, rank);
        writer.text(key::RANKS, ranks.unwrap_or_default());
    }
    if let Some(job) = JOBS.iter().find_map(|name| variable(name)) {
        writer.text(key::JOB, job);
    }
    if let Some(converter) = config::get().converter.as_ref().filter(|name| !name.is_empty()) {
        writer.text(key::CONVERTER, converter);
    }
    if !config::get().label.is_empty() {
        writer.text(key::LABEL, &config::get().label);
    }
}

/// Returns the program's name from the user's point of view: the name it was started by. If a server has replaced its
/// arguments with a title ("nginx: worker process"), or a process cannot read its own arguments, returns the kernel's
/// name.
fn program(name: &mut [u8; NAME]) -> &[u8] {
    let first = command().split(|&byte| byte == 0).next().unwrap_or_default();
    let start = first.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let is_title = first.contains(&b' ');
    if start < first.len() && !is_title {
        return &first[start..];
    }
    let known = sys::read_small(c"/proc/self/comm", name).trim_ascii_end().len();
    if known == 0 {
        sys::thread_name(name);
    }
    let end = name.iter().position(|byte| [0, b'\n'].contains(byte)).unwrap_or(name.len());
    if end > 0 { &name[..end] } else { b"unknown" }
}

/// Writes the name, without its extension, of this image's files.
pub fn stem(real_ns: u64, pid: i32, machine: &Machine, into: &mut PathBuffer) {
    let mut digits = [0; 20];
    into.clear();
    push_plain(into, program(&mut [0; NAME]));
    into.push(b"-");
    push_plain(into, machine.host());
    into.push(b"-").push(decimal(pid as i64, &mut digits));
    // Microseconds: one process cannot have two images within one.
    into.push(b"-").push(decimal((real_ns / 1000) as i64, &mut digits));
}

/// Appends only characters that never need quoting, up to a maximum length.
fn push_plain(into: &mut PathBuffer, text: &[u8]) {
    for byte in text.iter().take(48) {
        let plain = byte.is_ascii_alphanumeric() || b"._+".contains(byte);
        into.push(&[if plain { *byte } else { b'_' }]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recent_facts_of_this_process_are_used() {
        for (text, began) in [
            ("7:100:200", Some(100)),
            ("8:100:200", None),
            ("7:300:200", None),
            ("7:100:2000", None),
            ("7:100", None),
            ("7:x:200", None),
            ("", None),
        ] {
            assert_eq!(parse_start_time(text.as_bytes(), 7, 1000), began, "{text}");
        }
        assert_eq!(parse_start_time(b"7:100:200", 7, 61_000_000_000), None);
    }

    #[test]
    fn exec_passes_on_the_start_time() {
        note_start();
        let (mut room, pid) = ([0; BORN_MAX], sys::process_id());
        let entry = born(&mut room).to_str().expect("digits");
        let value = entry.strip_prefix("DLIO_TRACE_BORN=").expect("the variable");
        assert_eq!(parse_start_time(value.as_bytes(), pid, u64::MAX >> 1), None);
        let now = sys::clock_ns(libc::CLOCK_BOOTTIME);
        assert_eq!(parse_start_time(value.as_bytes(), pid, now), Some(began_ns(pid)));
    }
}
