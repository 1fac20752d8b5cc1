//! The facts of a process, written when its first event comes.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::fields::{FieldWriter, decimal, key};
use dlio_schemas::process_stat::ProcessStat;
use dlio_schemas::secrets;

use crate::path_buffer::PathBuffer;
use crate::variables::variable;
use crate::{clock, config, sys};

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

/// The arguments, each closed by a zero, as far as the buffer takes them.
fn command(buffer: &mut [u8; 4096]) -> &[u8] {
    let start = COMMAND.load(Acquire);
    if start.is_null() {
        return sys::read_small(c"/proc/self/cmdline", buffer);
    }
    let length = COMMAND_LENGTH.load(Relaxed).min(buffer.len());
    // SAFETY: the strings lie there as long as the process lives. One that its owner changes meanwhile is a jumble.
    unsafe { std::ptr::copy_nonoverlapping(start, buffer.as_mut_ptr(), length) };
    &buffer[..length]
}

/// The kernel's description of the machine.
pub struct Machine(libc::utsname);

impl Machine {
    pub fn ask() -> Machine {
        // SAFETY: a struct of bytes, for which zeros are a value.
        let mut names: libc::utsname = unsafe { std::mem::zeroed() };
        // SAFETY: fills the struct, and does not touch errno when it succeeds.
        unsafe { libc::uname(&mut names) };
        Machine(names)
    }

    fn host(&self) -> &[u8] {
        Machine::text(&self.0.nodename)
    }

    fn kernel(&self) -> &[u8] {
        Machine::text(&self.0.release)
    }

    fn text(field: &[c_char]) -> &[u8] {
        // SAFETY: characters are bytes.
        let bytes = unsafe { std::slice::from_raw_parts(field.as_ptr().cast::<u8>(), field.len()) };
        &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())]
    }
}

/// Writes the facts of this process.
pub fn of_process(writer: &mut FieldWriter, now: &Anchor, pid: i32, machine: &Machine) {
    let mut buffer = [0; 4096];
    writer.text(key::PROGRAM, program(&mut buffer));
    writer.number(key::PID, pid as i64);
    let (parent, start_boot_ns) = parent_and_start();
    writer.number(key::PPID, parent);
    writer.number(key::START_BOOT_NS, start_boot_ns);
    writer.number(key::IMAGE, LOADED.load(Relaxed) as i64);
    writer.text(key::HOST, machine.host());
    writer.text(key::BOOT_ID, sys::read_small(c"/proc/sys/kernel/random/boot_id", &mut buffer).trim_ascii());
    writer.text(key::CLOCK, clock::name().as_bytes());
    writer.number(key::CLOCK_HZ, clock::rate_hz(now) as i64);
    writer.text(key::TRACER, concat!("dlio ", env!("CARGO_PKG_VERSION")).as_bytes());
    writer.number(key::UID, sys::user_id() as i64);
    of_machine(writer, machine);
    of_job(writer);
    writer.text(key::TRACE_DIR, config::get().dir());
    writer.text(key::CWD, sys::working_dir(&mut buffer));
    let mut shown = [0; COMMAND_MAX];
    let command = command(&mut buffer);
    writer.text(key::COMMAND, secrets::masked(command.strip_suffix(b"\0").unwrap_or(command), &mut shown));
}

fn of_machine(writer: &mut FieldWriter, machine: &Machine) {
    writer.text(key::KERNEL, machine.kernel());
    // SAFETY: a struct of plain numbers, which the call fills; it does not touch errno when it succeeds.
    unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        if libc::sysinfo(&mut info) == 0 {
            writer.number(key::MEMORY, info.totalram as i64 * info.mem_unit as i64);
        }
        writer.number(key::CORES, libc::sysconf(libc::_SC_NPROCESSORS_ONLN) as i64);
    }
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
fn program(buffer: &mut [u8; 4096]) -> &[u8] {
    let read = command(buffer).len();
    let length = buffer[..read].iter().position(|&byte| byte == 0).unwrap_or(read);
    let start = buffer[..length].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let is_title = buffer[..length].contains(&b' ');
    if start < length && !is_title {
        return &buffer[start..length];
    }
    let mut name = [0; 16];
    let known = sys::read_small(c"/proc/self/comm", &mut name).trim_ascii_end().len();
    if known == 0 {
        sys::thread_name(&mut name);
    }
    let end = name.iter().position(|byte| [0, b'\n'].contains(byte)).unwrap_or(name.len());
    buffer[..end].copy_from_slice(&name[..end]);
    if end > 0 { &buffer[..end] } else { b"unknown" }
}

/// The parent, and the kernel's start time of this process, in boot time; it counts in hundredths of a second.
fn parent_and_start() -> (i64, i64) {
    let mut buffer = [0; 1024];
    let stat = ProcessStat::parse(sys::read_small(c"/proc/self/stat", &mut buffer));
    stat.map_or_else(|| (sys::parent_id() as i64, 0), |stat| (stat.parent as i64, stat.start_boot_ns as i64))
}

/// The name, without its ending, that this image's files carry.
pub fn stem(real_ns: u64, pid: i32, machine: &Machine, into: &mut PathBuffer) {
    let mut buffer = [0; 4096];
    let mut digits = [0; 20];
    into.clear();
    push_plain(into, program(&mut buffer));
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
