//! The program's names of its threads, written at the end of the trace.
//!
//! A thread's name is read when the thread or the process ends. A new thread has the process's name, which is not
//! recorded.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::decimal::decimal;
use dlio_schemas::native::fields::{FieldWriter, key};

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;

/// Maximum number of names, which must fit into a page. Additional threads are identified only by their ids.
const NAMES_MAX: usize = 128;
/// Longest name in the kernel, with the terminating zero.
const LENGTH: usize = 16;
/// Space for all of them as `tid=name` and a separator.
pub const TEXT_MAX: usize = NAMES_MAX * (10 + 1 + LENGTH);

type Name = [u8; LENGTH];

/// A thread and its name.
struct NamedThread {
    /// Zero until the name is complete.
    tid: AtomicU32,
    halves: [AtomicU64; 2],
}

crate::large! {
    static NAMES: [NamedThread; NAMES_MAX] = [const { NamedThread::new() }; NAMES_MAX];
}
static USED: AtomicU32 = AtomicU32::new(0);
/// The process's own name, once it was read.
static OWN: NamedThread = NamedThread::new();

impl NamedThread {
    const fn new() -> NamedThread {
        NamedThread { tid: AtomicU32::new(0), halves: [const { AtomicU64::new(0) }; 2] }
    }

    fn set(&self, tid: u32, name: Name) {
        let (first, second) = name.split_at(LENGTH / 2);
        for (half, bytes) in self.halves.iter().zip([first, second]) {
            half.store(u64::from_ne_bytes(bytes.try_into().expect("half a name")), Relaxed);
        }
        self.tid.store(tid, Release);
    }

    /// Returns the name, if it is complete.
    fn get(&self) -> Option<(u32, Name)> {
        let tid = self.tid.load(Acquire);
        let mut name = [0; LENGTH];
        for (bytes, half) in name.chunks_exact_mut(LENGTH / 2).zip(&self.halves) {
            bytes.copy_from_slice(&half.load(Relaxed).to_ne_bytes());
        }
        (tid != 0).then_some((tid, name))
    }
}

/// The process id, which is also that of its first thread; noted when its image is created.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Notes the process id.
pub fn note_process(pid: u32) {
    PROCESS.store(pid, Relaxed);
}

/// Notes the name of the calling thread, which is about to end.
pub fn note_own() {
    let mut name = [0; LENGTH];
    sys::thread_name(&mut name);
    note(sys::thread_id(), name);
}

/// Notes the name of another thread, which may have ended long ago, when the process ends.
pub fn note_other(tid: u32) {
    if tid == PROCESS.load(Relaxed) {
        return;
    }
    let (mut path, mut digits) = (PathBuffer::new(), [0; 20]);
    path.push(b"/proc/self/task/").push(decimal(tid as i64, &mut digits)).push(b"/comm");
    note(tid, read(path.as_c_str()));
}

fn note(tid: u32, name: Name) {
    if tid == PROCESS.load(Relaxed) || name[0] == 0 || name == own_name() {
        return;
    }
    if let Some(place) = NAMES.get(USED.fetch_add(1, Relaxed) as usize) {
        place.set(tid, name);
    }
}

/// Returns the name of the first thread, which other threads have until they are renamed.
fn own_name() -> Name {
    if OWN.get().is_none() {
        OWN.set(PROCESS.load(Relaxed), read(c"/proc/self/comm"));
    }
    OWN.get().map_or([0; LENGTH], |(_, name)| name)
}

/// Reads a name from the kernel, which ends it with a newline.
fn read(path: &CStr) -> Name {
    let mut name = [0; LENGTH];
    let length = sys::read_small(path, &mut name).strip_suffix(b"\n").map_or(0, <[u8]>::len);
    name[length..].fill(0);
    name
}

/// Writes the names as a fact of the process.
pub fn write(writer: &mut FieldWriter) {
    if USED.load(Relaxed) == 0 {
        return;
    }
    let (mut text, mut used) = ([0; TEXT_MAX], 0);
    for (tid, name) in NAMES.iter().filter_map(NamedThread::get) {
        let mut digits = [0; 20];
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(LENGTH);
        for piece in [decimal(tid as i64, &mut digits), b"=", &name[..end], b"\0"] {
            text[used..used + piece.len()].copy_from_slice(piece);
            used += piece.len();
        }
    }
    if used > 0 {
        writer.text(key::THREADS, &text[..used]);
    }
}

/// Forgets all names, because this is now another process.
pub fn forget() {
    OWN.tid.store(0, Relaxed);
    if USED.swap(0, Relaxed) > 0 {
        NAMES.iter().for_each(|named| named.tid.store(0, Relaxed));
    }
}
