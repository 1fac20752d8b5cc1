//! The program's names of its threads, written at the end of the trace.
//!
//! A thread is asked for its name when it ends, or when the process does. One that bears the process's own name, as every
//! new thread does, has none to tell.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use dlio_schemas::native::fields::{FieldWriter, decimal, key};

use crate::kernel::path_buffer::PathBuffer;
use crate::kernel::sys;

/// As many as a page holds: threads beyond that are told by their number alone.
const NAMES_MAX: usize = 128;
/// Longest name the kernel keeps, its closing zero included.
const LENGTH: usize = 16;
/// Room for all of them as `tid=name` and a separator.
pub const TEXT_MAX: usize = NAMES_MAX * (10 + 1 + LENGTH);

type Name = [u8; LENGTH];

/// A thread and its name.
struct Named {
    /// Zero until the name is there.
    tid: AtomicU32,
    halves: [AtomicU64; 2],
}

crate::large! {
    static NAMES: [Named; NAMES_MAX] = [const { Named::new() }; NAMES_MAX];
}
static USED: AtomicU32 = AtomicU32::new(0);
/// The process itself, once it was asked for.
static OWN: Named = Named::new();

impl Named {
    const fn new() -> Named {
        Named { tid: AtomicU32::new(0), halves: [const { AtomicU64::new(0) }; 2] }
    }

    fn set(&self, tid: u32, name: Name) {
        let (first, second) = name.split_at(LENGTH / 2);
        for (half, bytes) in self.halves.iter().zip([first, second]) {
            half.store(u64::from_ne_bytes(bytes.try_into().expect("half a name")), Relaxed);
        }
        self.tid.store(tid, Release);
    }

    /// The name, if there is one.
    fn get(&self) -> Option<(u32, Name)> {
        let tid = self.tid.load(Acquire);
        let mut name = [0; LENGTH];
        for (bytes, half) in name.chunks_exact_mut(LENGTH / 2).zip(&self.halves) {
            bytes.copy_from_slice(&half.load(Relaxed).to_ne_bytes());
        }
        (tid != 0).then_some((tid, name))
    }
}

/// The process and so its first thread; noted when its image is made.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The number of this process.
pub fn note_process(pid: u32) {
    PROCESS.store(pid, Relaxed);
}

/// The calling thread is about to end.
pub fn note_own() {
    let mut name = [0; LENGTH];
    sys::thread_name(&mut name);
    note(sys::thread_id(), name);
}

/// A thread that may have ended long ago, as the process is about to.
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

/// The name of the first thread, and of every other one until it is given one.
fn own_name() -> Name {
    if OWN.get().is_none() {
        OWN.set(PROCESS.load(Relaxed), read(c"/proc/self/comm"));
    }
    OWN.get().map_or([0; LENGTH], |(_, name)| name)
}

/// A name as the kernel tells it: closed by a line's end.
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
    for (tid, name) in NAMES.iter().filter_map(Named::get) {
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

/// The process is another one now.
pub fn forget() {
    OWN.tid.store(0, Relaxed);
    if USED.swap(0, Relaxed) > 0 {
        NAMES.iter().for_each(|named| named.tid.store(0, Relaxed));
    }
}
