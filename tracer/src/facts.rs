//! What is written down about a process when its first event comes.

use dlio_schemas::clock::Anchor;
use dlio_schemas::native::fields::{FieldWriter, decimal, key};

use crate::path_buffer::PathBuffer;
use crate::{clock, config, engine, sys};

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

/// Writes the facts of this process.
pub fn of_process(writer: &mut FieldWriter, now: &Anchor) {
    let mut buffer = [0; 4096];
    writer.text(key::PROGRAM, program(&mut buffer));
    writer.number(key::PID, sys::process_id() as i64);
    writer.number(key::PPID, sys::parent_id() as i64);
    writer.number(key::START_BOOT_NS, start_boot_ns() as i64);
    writer.number(key::IMAGE, engine::image_number() as i64);
    writer.text(key::HOST, host(&mut buffer));
    writer.text(key::BOOT_ID, sys::read_small(c"/proc/sys/kernel/random/boot_id", &mut buffer).trim_ascii());
    writer.text(key::CLOCK, clock::name().as_bytes());
    writer.number(key::CLOCK_HZ, clock::rate_hz(now) as i64);
    writer.text(key::TRACER, concat!("dlio ", env!("CARGO_PKG_VERSION")).as_bytes());
    writer.number(key::UID, sys::user_id() as i64);
    of_machine(writer);
    of_job(writer);
    writer.text(key::TRACE_DIR, config::get().dir());
    writer.text(key::CWD, sys::working_dir(&mut buffer));
    let command = sys::read_small(c"/proc/self/cmdline", &mut buffer);
    let length = command.len().min(COMMAND_MAX);
    writer.text(key::COMMAND, command[..length].strip_suffix(b"\0").unwrap_or(&command[..length]));
}

fn of_machine(writer: &mut FieldWriter) {
    // SAFETY: both are structs of plain numbers and bytes, which the calls fill; neither touches errno when it succeeds.
    unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        if libc::sysinfo(&mut info) == 0 {
            writer.number(key::MEMORY, info.totalram as i64 * info.mem_unit as i64);
        }
        let mut names: libc::utsname = std::mem::zeroed();
        if libc::uname(&mut names) == 0 {
            writer.text(key::KERNEL, std::ffi::CStr::from_ptr(names.release.as_ptr()).to_bytes());
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
    if !config::get().label.is_empty() {
        writer.text(key::LABEL, &config::get().label);
    }
}

/// A variable of the environment, without the allocation `std::env` would make.
pub fn variable(name: &str) -> Option<&'static [u8]> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: `environ` is a null-terminated list of strings; a program that changes it in another thread at this very
    // moment has the same race with getenv.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = std::ffi::CStr::from_ptr(*entry).to_bytes();
            if let Some(value) = text.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            entry = entry.add(1);
        }
    }
    None
}

/// What the user would call this program: the name it was started by.
fn program(buffer: &mut [u8; 4096]) -> &[u8] {
    let length = sys::read_small(c"/proc/self/cmdline", buffer).iter().position(|&byte| byte == 0).unwrap_or(0);
    let start = buffer[..length].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    if start < length { &buffer[start..length] } else { b"unknown" }
}

fn host(buffer: &mut [u8; 4096]) -> &[u8] {
    // SAFETY: the buffer is ours and longer than any host name.
    unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), 256) };
    let length = buffer[..256].iter().position(|&byte| byte == 0).unwrap_or(0);
    &buffer[..length]
}

/// When the kernel started this process, in boot time; it counts in hundredths of a second.
fn start_boot_ns() -> u64 {
    const FIELD_AFTER_NAME: usize = 19;
    let mut buffer = [0; 1024];
    let stat = sys::read_small(c"/proc/self/stat", &mut buffer);
    // The name stands in brackets and may hold anything, a bracket too.
    let rest = stat.iter().rposition(|&byte| byte == b')').map_or(&[][..], |at| &stat[at + 1..]);
    let field = rest.split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(FIELD_AFTER_NAME);
    let ticks: u64 = field.and_then(|field| std::str::from_utf8(field).ok()?.parse().ok()).unwrap_or(0);
    ticks * 10_000_000
}

/// The name, without its ending, that this image's files carry.
pub fn stem(real_ns: u64, into: &mut PathBuffer) {
    let mut buffer = [0; 4096];
    let mut digits = [0; 20];
    into.clear();
    push_plain(into, program(&mut buffer));
    into.push(b"-");
    push_plain(into, host(&mut buffer));
    into.push(b"-").push(decimal(sys::process_id() as i64, &mut digits));
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
