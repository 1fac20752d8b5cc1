//! The facts of a process, written when its first event comes.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::fields::{FieldWriter, decimal, key};
use dlio_schemas::process_stat::ProcessStat;
use dlio_schemas::secrets;

use crate::machine::Machine;
use crate::path_buffer::PathBuffer;
use crate::variables::{self, variable};
use crate::{clock, config, sys};

/// Longest name of a program that the kernel knows, with a zero.
const NAME: usize = 16;

/// Longest command line kept: it shares a page with everything else.
const COMMAND_MAX: usize = 2048;

/// Variables that launchers set, in order of trust: rank, number of ranks.
const RANKS: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];
const JOBS: &[&str] = &["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID", "JOB_ID"];

/// The command line as the loader handed it over, one string behind the other; null and zero where it did not.
static COMMAND: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static COMMAND_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Boot time at which this image of the process was loaded.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// This image of the process begins now.
pub fn note_start() {
    LOADED.store(sys::clock_ns(libc::CLOCK_BOOTTIME), Relaxed);
}

/// Notes where the command line lies. The program may sort its list of arguments, but the strings stay where they are.
///
/// # Safety
/// `list` is null or holds `count` strings that live as long as the process.
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

/// The same before the loader could, where it is found.
pub fn find_command() {
    if COMMAND.load(Acquire).is_null()
        && let Some((count, list)) = variables::arguments()
    {
        // SAFETY: the strings lie on the first stack.
        unsafe { note_command(count, list) };
    }
}

/// Room for what had to be read; used under the lock of the image.
struct Room(UnsafeCell<[u8; ARGUMENTS_MAX]>);
// SAFETY: see above.
unsafe impl Sync for Room {}
crate::large! {
    static ROOM: Room = Room(UnsafeCell::new([0; ARGUMENTS_MAX]));
}

/// More of the arguments is not looked at.
const ARGUMENTS_MAX: usize = 4096;

/// The arguments, each closed by a zero. Under the lock of the image.
fn command() -> &'static [u8] {
    let start = COMMAND.load(Acquire);
    if start.is_null() {
        // SAFETY: under the lock nobody else uses the room.
        return sys::read_small(c"/proc/self/cmdline", unsafe { &mut *ROOM.0.get() });
    }
    // SAFETY: the strings lie there as long as the process lives. One that its owner changes meanwhile is a jumble.
    unsafe { std::slice::from_raw_parts(start, COMMAND_LENGTH.load(Relaxed).min(ARGUMENTS_MAX)) }
}

/// Writes the facts of this process.
pub fn of_process(writer: &mut FieldWriter, now: &Anchor, pid: i32, machine: &Machine, cwd: &[u8]) {
    writer.text(key::PROGRAM, program(&mut [0; NAME]));
    writer.number(key::PID, pid as i64);
    let (parent, start_boot_ns) = parent_and_start();
    writer.number(key::PPID, parent);
    writer.number(key::START_BOOT_NS, start_boot_ns);
    writer.number(key::IMAGE, LOADED.load(Relaxed) as i64);
    writer.text(key::HOST, machine.host());
    writer.text(key::BOOT_ID, machine.boot_id());
    writer.text(key::CLOCK, clock::name().as_bytes());
    writer.number(key::CLOCK_HZ, clock::rate_hz(now) as i64);
    writer.text(key::TRACER, concat!("dlio ", env!("CARGO_PKG_VERSION")).as_bytes());
    writer.number(key::UID, user() as i64);
    of_machine(writer, machine);
    of_job(writer);
    writer.text(key::TRACE_DIR, config::get().dir());
    writer.text(key::CWD, cwd);
    let mut shown = [0; COMMAND_MAX];
    let command = command();
    writer.text(key::COMMAND, secrets::masked(command.strip_suffix(b"\0").unwrap_or(command), &mut shown));
}

/// True once the program may have another user than the one it was started for.
static USER_CHANGED: AtomicBool = AtomicBool::new(false);

/// The program is about to change its rights.
pub fn user_changes() {
    USER_CHANGED.store(true, Relaxed);
}

fn user() -> u32 {
    match USER_CHANGED.load(Relaxed) {
        true => sys::user_id(),
        // SAFETY: asks what the kernel told this process at its start.
        false => unsafe { libc::getauxval(libc::AT_EUID) as u32 },
    }
}

fn of_machine(writer: &mut FieldWriter, machine: &Machine) {
    writer.text(key::KERNEL, machine.kernel());
    writer.number(key::MEMORY, machine.memory() as i64);
    writer.number(key::CORES, machine.cores() as i64);
}

fn of_job(writer: &mut FieldWriter) {
    if let Some((rank, ranks)) = RANKS.iter().find_map(|(rank, ranks)| Some((variable(rank)?, variable(ranks)))) {
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

/// What the user would call this program: the name it was started by. A server that has put a title in the place of its
/// arguments ("nginx: worker process"), and a process that cannot see its own, goes by the name that the kernel knows.
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

/// The parent, and the kernel's start time of this process, in boot time; it counts in hundredths of a second.
fn parent_and_start() -> (i64, i64) {
    let mut buffer = [0; 1024];
    let stat = ProcessStat::parse(sys::read_small(c"/proc/self/stat", &mut buffer));
    stat.map_or_else(|| (sys::parent_id() as i64, 0), |stat| (stat.parent as i64, stat.start_boot_ns as i64))
}

/// The name, without its ending, that this image's files carry.
pub fn stem(real_ns: u64, pid: i32, machine: &Machine, into: &mut PathBuffer) {
    let mut digits = [0; 20];
    into.clear();
    push_plain(into, program(&mut [0; NAME]));
    into.push(b"-");
    push_plain(into, machine.host());
    into.push(b"-").push(decimal(pid as i64, &mut digits));
    // Microseconds: two images of one process within one are not possible.
    into.push(b"-").push(decimal((real_ns / 1000) as i64, &mut digits));
}

/// Only what needs no quoting anywhere, and not too much of it.
fn push_plain(into: &mut PathBuffer, text: &[u8]) {
    for byte in text.iter().take(48) {
        let plain = byte.is_ascii_alphanumeric() || b"._+".contains(byte);
        into.push(&[if plain { *byte } else { b'_' }]);
    }
}
