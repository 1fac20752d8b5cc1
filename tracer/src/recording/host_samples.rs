//! Counters of the host, which traced processes sample if no `dlio trace` does: without a thread, when a block of
//! events is written, and at the end of a process that ran for a second or more.
//!
//! All processes of a host that trace into a directory write one file, at most once a second altogether: the time at
//! which the file was last written decides, under a lock that is held only while a sample is written. The numbers of
//! counters begin at the process id, because each process defines its own.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

use dlio_schemas::control_groups::{self, Throttling};
use dlio_schemas::machine::kernel_text::{self, DEVICE_COUNTERS, DeviceLine, MountLine};
use dlio_schemas::machine::samples::{ENDING, HEAD, SAMPLER_NAME};
use dlio_schemas::native::fields::{decimal, key};

use crate::kernel::limits::Limits;
use crate::kernel::machine::{self, HostFacts};
use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::{hash, sys};
use crate::process::{config, process_info};
use crate::trace::files::LOCK;
use crate::trace::trace_dirs;

/// Minimum time between two samples of a host.
const EVERY_NS: u64 = 900_000_000;

/// Further devices and mounts are left out.
const DEVICES_MAX: usize = 8;
const MOUNTS_MAX: usize = 16;

/// Numbers of counters per process, and the process ids that they allow.
const SERIES_MAX: u32 = 128;

/// Maximum number of bytes read of a file: `/proc/diskstats` of 100 devices.
const TEXT_MAX: usize = 16 << 10;
/// A sample and its definitions: 80 counters of 50 bytes.
const SAMPLE_MAX: usize = 12 << 10;

struct Buffers {
    path: PathBuffer,
    text: [u8; TEXT_MAX],
    disks: [u8; TEXT_MAX],
    mounts: [u8; TEXT_MAX],
    first: Text,
    definitions: Text,
    values: Text,
}

struct SharedBuffers(UnsafeCell<Buffers>);
// SAFETY: used only under the image lock.
unsafe impl Sync for SharedBuffers {}
crate::large! {
    static BUFFERS: SharedBuffers = SharedBuffers(UnsafeCell::new(Buffers {
        path: PathBuffer::new(),
        text: [0; TEXT_MAX],
        disks: [0; TEXT_MAX],
        mounts: [0; TEXT_MAX],
        first: Text::EMPTY,
        definitions: Text::EMPTY,
        values: Text::EMPTY,
    }));
}

/// Who samples the host, as far as this process knows.
static SAMPLER: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const TRACED_PROCESSES: u8 = 1;
const ANOTHER: u8 = 2;

/// Hash of the counters that this process has defined.
static DEFINED: AtomicU64 = AtomicU64::new(0);

/// Takes a sample, unless one was taken within the last second or another program samples the host.
pub fn take() {
    if SAMPLER.load(Relaxed) == ANOTHER {
        return;
    }
    let Some(_held) = LOCK.take() else { return };
    let Some(host) = machine::host_facts() else { return };
    // SAFETY: the lock gives exclusive access to the buffers.
    let buffers = unsafe { &mut *BUFFERS.0.get() };
    if SAMPLER.load(Relaxed) == UNKNOWN {
        let is_free = is_name_free(&mut buffers.path);
        SAMPLER.store(if is_free { TRACED_PROCESSES } else { ANOTHER }, Relaxed);
        if !is_free {
            return;
        }
    }
    let fd = open(&mut buffers.path, host.name);
    if fd < 0 {
        return;
    }
    if let Some(status) = sys::status(fd).filter(|_| sys::lock_file(fd)) {
        let age = sys::clock_ns(libc::CLOCK_REALTIME).saturating_sub(status.modified_ns);
        if status.is_file && status.owner == sys::user_id() && (status.size == 0 || age >= EVERY_NS) {
            write(fd, status.size == 0, &host, buffers);
        }
    }
    // Releases the lock.
    sys::close(fd);
}

/// Returns `true` if no `dlio trace` samples the host for this directory: see [`SAMPLER_NAME`].
fn is_name_free(path: &mut PathBuffer) -> bool {
    path.clear();
    path.push(config::get().dir());
    let Some(status) = sys::status_at(path.as_c_str()).filter(|status| status.is_folder) else { return false };
    path.clear();
    path.push(SAMPLER_NAME.as_bytes());
    for number in [sys::user_id() as u64, status.identity[0], status.identity[1]] {
        path.push(b"-").push(decimal(number as i64, &mut [0; 20]));
    }
    sys::is_abstract_name_free(path.as_bytes())
}

/// Opens the file of this host, and creates it if necessary. Returns a negative number if neither is possible.
fn open(path: &mut PathBuffer, host: &[u8]) -> i32 {
    path.clear();
    path.push(config::get().dir()).push(b"/machine-");
    process_info::push_plain(path, host);
    path.push(b"-processes.").push(ENDING.as_bytes());
    let flags = libc::O_WRONLY | libc::O_APPEND;
    match trace_dirs::open(path.as_c_str(), flags) as i32 {
        missing if missing == -libc::ENOENT => trace_dirs::open(path.as_c_str(), flags | libc::O_CREAT) as i32,
        fd => fd,
    }
}

fn write(fd: i32, is_new: bool, host: &HostFacts, buffers: &mut Buffers) {
    let Buffers { text, disks, mounts, first, definitions, values, .. } = buffers;
    definitions.clear();
    values.clear();
    let disks = Disks {
        devices: sys::read_all(c"/proc/diskstats", disks),
        mounts: sys::read_all(c"/proc/self/mountinfo", mounts),
    };
    values.put(b"at\t").number(sys::clock_ns(libc::CLOCK_BOOTTIME)).put(b"\t");
    values.number(sys::clock_ns(libc::CLOCK_REALTIME)).put(b"\n");
    let mut sample = Sample { next: sys::process_id() as u32 * SERIES_MAX, definitions, values };
    pressure(&mut sample, text);
    memory(&mut sample, text);
    if let Some((_, limits)) = machine::limits() {
        groups(&mut sample, &limits, text);
    }
    disks.counters(&mut sample);
    // Half of a sample would be misleading.
    if sample.definitions.is_full || sample.values.is_full {
        return;
    }
    let defined = hash::of(definitions.bytes(), 0);
    if DEFINED.swap(defined, Relaxed) == defined {
        definitions.clear();
    }
    first.clear();
    if is_new {
        head(first, host, &disks);
    }
    // A full disk gets no further ones.
    sys::write_pieces(fd, [first.bytes(), definitions.bytes(), values.bytes()]);
}

/// Texts of the kernel about devices and mounts.
struct Disks<'a> {
    devices: &'a [u8],
    mounts: &'a [u8],
}

impl<'a> Disks<'a> {
    /// Returns mounts with their block devices.
    fn mounted(&self) -> impl Iterator<Item = (MountLine<'a>, DeviceLine<'a>)> {
        kernel_text::mounts(self.mounts).filter_map(|mount| {
            let is_its = |device: &DeviceLine| (device.major, device.minor) == (mount.major, mount.minor);
            Some((mount, kernel_text::devices(self.devices).find(is_its)?))
        })
    }

    fn counters(&self, sample: &mut Sample) {
        let mounted = kernel_text::devices(self.devices)
            .filter(|device| self.mounted().any(|(_, other)| other.name == device.name));
        for device in mounted.take(DEVICES_MAX) {
            for (counter, value) in DEVICE_COUNTERS.iter().zip(device.values) {
                sample.put(counter, device.name, Some(value));
            }
        }
    }
}

/// Writes the facts about the host, and the mounts of block devices.
fn head(out: &mut Text, host: &HostFacts, disks: &Disks) {
    out.put(HEAD.as_bytes()).put(b"\n");
    for (key, value) in [(key::HOST, host.name), (key::BOOT_ID, host.boot_id), (key::KERNEL, host.kernel)] {
        if !value.is_empty() {
            out.put(b"fact\t").put(key.as_bytes()).put(b"\t").put(value).put(b"\n");
        }
    }
    for (key, value) in [(key::CORES, host.cores), (key::MEMORY, host.memory)] {
        out.put(b"fact\t").put(key.as_bytes()).put(b"\t").number(value).put(b"\n");
    }
    // A name with an escaped character is left out: this file escapes characters differently.
    let plain = disks.mounted().filter(|(mount, _)| !mount.folder.contains(&b'\\'));
    for (mount, device) in plain.take(MOUNTS_MAX) {
        out.put(b"mount\t").put(mount.folder).put(b"\ttype=").put(mount.kind);
        out.put(b"\tdevice=").put(device.name).put(b"\n");
    }
}

fn pressure(sample: &mut Sample, text: &mut [u8]) {
    for (file, some, full) in [
        (c"/proc/pressure/cpu", "cpu_some_ns", None),
        (c"/proc/pressure/memory", "memory_some_ns", Some("memory_full_ns")),
        (c"/proc/pressure/io", "io_some_ns", Some("io_full_ns")),
    ] {
        let text = sys::read_small(file, text);
        sample.put(some, b"", kernel_text::pressure_ns(text, b"some"));
        full.into_iter().for_each(|full| sample.put(full, b"", kernel_text::pressure_ns(text, b"full")));
    }
}

fn memory(sample: &mut Sample, text: &mut [u8]) {
    let text = sys::read_all(c"/proc/vmstat", text);
    let of = |name: &[u8]| control_groups::line(text, name);
    sample.put("major_faults", b"", of(b"pgmajfault"));
    sample.put("refaults_file", b"", of(b"workingset_refault_file").or_else(|| of(b"workingset_refault")));
    for (counter, name) in [("swap_in", &b"pswpin"[..]), ("swap_out", b"pswpout")] {
        sample.put(counter, b"", of(name).map(|pages| pages.saturating_mul(kernel_text::PAGE)));
    }
}

fn groups(sample: &mut Sample, limits: &Limits, text: &mut [u8]) {
    let group = limits.cpu_group.path();
    if let Some(Throttling { periods, throttled, ns }) = limits.throttling() {
        sample.put("group_periods", group, Some(periods));
        sample.put("group_throttled_periods", group, Some(throttled));
        sample.put("group_throttled_ns", group, Some(ns));
    }
    let group = limits.memory_group.path();
    if !group.is_empty() {
        let stat = sys::read_all(PathBuffer::new().push(group).push(b"/memory.stat").as_c_str(), text);
        // Version 1 has other names, with a prefix for sums over subgroups.
        let of = |names: [&[u8]; 2]| names.iter().find_map(|name| control_groups::line(stat, name));
        sample.put("group_major_faults", group, of([b"total_pgmajfault", b"pgmajfault"]));
        let refaults = of([b"total_workingset_refault_file", b"workingset_refault_file"]);
        sample.put("group_refaults_file", group, refaults);
    }
}

/// The lines of a sample.
struct Sample<'a> {
    /// The number of the next counter.
    next: u32,
    definitions: &'a mut Text,
    values: &'a mut Text,
}

impl Sample<'_> {
    /// Writes a value; an unknown one is left out.
    fn put(&mut self, counter: &str, scope: &[u8], value: Option<u64>) {
        let Some(value) = value else { return };
        let number = u64::from(self.next);
        self.next += 1;
        self.definitions.put(b"counter\t").number(number).put(b"\t").put(counter.as_bytes());
        self.definitions.put(b"\t").put(scope).put(b"\n");
        self.values.number(number).put(b"\t").number(value).put(b"\n");
    }
}

/// A text of limited length.
struct Text {
    used: usize,
    is_full: bool,
    bytes: [u8; SAMPLE_MAX],
}

impl Text {
    const EMPTY: Text = Text { used: 0, is_full: false, bytes: [0; SAMPLE_MAX] };

    fn clear(&mut self) {
        (self.used, self.is_full) = (0, false);
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    fn put(&mut self, text: &[u8]) -> &mut Text {
        match self.bytes.get_mut(self.used..self.used + text.len()) {
            Some(room) => {
                room.copy_from_slice(text);
                self.used += text.len();
            }
            None => self.is_full = true,
        }
        self
    }

    fn number(&mut self, number: u64) -> &mut Text {
        self.put(decimal(number.min(i64::MAX as u64) as i64, &mut [0; 20]))
    }
}
