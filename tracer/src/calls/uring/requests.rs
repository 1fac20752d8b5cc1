//! The meaning of a request: the event that it becomes, and what its result changes.

use std::ffi::c_char;

use dlio_schemas::ops::Op;
use dlio_schemas::record::POS_UNKNOWN;

use super::notes::{Effect, Note};
use super::queues::Sqe;
use super::registered::Files;
use crate::calls::meaning::closing;
use crate::calls::requests::requested_bytes;
use crate::known::{descriptors, number};
use crate::naming::{descriptor_files, paths};
use crate::recording::phase;

/// Flags of a request: its descriptor is an index; a result without an error is not reported.
const FIXED_FILE: u8 = 1;
const NO_RESULT: u8 = 1 << 6;
/// The kernel chooses the slot of a new registered file.
const ANY_SLOT: u32 = u32::MAX;
/// Marks the source of a splice as an index.
const FIXED_SOURCE: u32 = 1 << 31;
/// A position of all ones is the descriptor's own.
const OWN_POSITION: u64 = u64::MAX;

/// Replaces the operation of a request that is not I/O and makes no event.
pub const NO_IO: Op = Op(0);

/// Which part of a request has which meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Position and length.
    Moves,
    /// Position, and a list of buffers.
    MovesList,
    /// A length.
    Message,
    /// Neither.
    Plain,
    Splice,
    Allocate,
    Truncate,
    Advise,
    Open,
    Open2,
    Close,
    Stat,
    Rename,
    Link,
    Symlink,
    Unlink,
    MakeDir,
    Shutdown,
    PathOnly,
}

fn form_of(opcode: u8) -> (Op, Form) {
    use Form::*;
    match opcode {
        1 => (Op::URING_READV, MovesList),
        2 => (Op::URING_WRITEV, MovesList),
        3 => (Op::URING_FSYNC, Plain),
        4 => (Op::URING_READ_FIXED, Moves),
        5 => (Op::URING_WRITE_FIXED, Moves),
        8 => (Op::URING_SYNC_FILE_RANGE, Moves),
        9 => (Op::URING_SENDMSG, Plain),
        10 => (Op::URING_RECVMSG, Plain),
        13 => (Op::URING_ACCEPT, Plain),
        16 => (Op::URING_CONNECT, Plain),
        17 => (Op::URING_FALLOCATE, Allocate),
        18 => (Op::URING_OPENAT, Open),
        19 => (Op::URING_CLOSE, Close),
        21 => (Op::URING_STATX, Stat),
        22 => (Op::URING_READ, Moves),
        23 => (Op::URING_WRITE, Moves),
        24 => (Op::URING_FADVISE, Advise),
        26 => (Op::URING_SEND, Message),
        27 => (Op::URING_RECV, Message),
        28 => (Op::URING_OPENAT2, Open2),
        30 => (Op::URING_SPLICE, Splice),
        33 => (Op::URING_TEE, Splice),
        34 => (Op::URING_SHUTDOWN, Shutdown),
        35 => (Op::URING_RENAMEAT, Rename),
        36 => (Op::URING_UNLINKAT, Unlink),
        37 => (Op::URING_MKDIRAT, MakeDir),
        38 => (Op::URING_SYMLINKAT, Symlink),
        39 => (Op::URING_LINKAT, Link),
        41 => (Op::URING_FSETXATTR, Plain),
        42 => (Op::URING_SETXATTR, PathOnly),
        43 => (Op::URING_FGETXATTR, Plain),
        44 => (Op::URING_GETXATTR, PathOnly),
        47 => (Op::URING_SEND_ZC, Message),
        48 => (Op::URING_SENDMSG_ZC, Plain),
        49 => (Op::URING_READ_MULTISHOT, Moves),
        55 => (Op::URING_FTRUNCATE, Truncate),
        60 => (Op::URING_READV_FIXED, MovesList),
        61 => (Op::URING_WRITEV_FIXED, MovesList),
        _ => (NO_IO, Plain),
    }
}

/// The request that makes the kernel add a result to another ring.
const MESSAGE_TO_RING: u8 = 40;

/// Returns `true` if a request adds a result to another ring.
pub fn is_message(sqe: &Sqe) -> bool {
    sqe.opcode() == MESSAGE_TO_RING
}

/// Returns `true` if a request has no result if it succeeds.
pub fn has_no_result(sqe: &Sqe) -> bool {
    sqe.flags() & NO_RESULT != 0
}

/// Returns `true` if a request is on a descriptor or a path, and not on a socket.
pub fn is_on_file(note: &Note) -> bool {
    (Op::URING_READ.0..Op::URING_RECV.0).contains(&note.op) && note.file != number::FILTERED
}

/// Returns the note of a request that is about to be submitted.
pub fn note(sqe: &Sqe, files: &mut Files, start: u64) -> Note {
    let (op, form) = form_of(sqe.opcode());
    let mut note = Note::new(sqe.user_data(), start, op.0);
    if op == NO_IO {
        return note;
    }
    let is_index = sqe.flags() & FIXED_FILE != 0;
    note.fd = if is_index { -1 } else { sqe.fd() };
    match form {
        Form::Open | Form::Open2 | Form::Close | Form::PathOnly => {}
        Form::Stat | Form::Rename | Form::Link | Form::Symlink | Form::Unlink | Form::MakeDir => note.fd = -1,
        _ => note.file = if is_index { files.get(sqe.fd() as u32) } else { descriptor_files::file(sqe.fd()) },
    }
    match form {
        Form::Moves => position(&mut note, sqe, sqe.length() as i64),
        Form::MovesList => position(&mut note, sqe, bytes_of_list(sqe)),
        Form::Message => note.b = sqe.length() as i64,
        Form::Splice => {
            let is_index = sqe.own_flags() & FIXED_SOURCE != 0;
            let source = sqe.file_index();
            let source = if is_index { files.get(source) } else { descriptor_files::file(source as i32) };
            (note.a, note.is_known, note.b) = (source as i64, source != number::FILTERED, sqe.length() as i64);
        }
        Form::Allocate => (note.a, note.b) = (sqe.offset() as i64, sqe.address() as i64),
        Form::Truncate => note.a = sqe.offset() as i64,
        Form::Advise => (note.a, note.b) = (sqe.own_flags() as i64, sqe.length() as i64),
        Form::Shutdown => note.a = sqe.length() as i64,
        Form::Close => close(&mut note, sqe, files),
        Form::Plain => {}
        _ => paths(&mut note, sqe, form),
    }
    note
}

fn position(note: &mut Note, sqe: &Sqe, requested: i64) {
    note.b = requested;
    match sqe.offset() {
        OWN_POSITION => {
            (note.a, note.is_known) = (POS_UNKNOWN, false);
            // The kernel moves it at a time that is not known.
            descriptors::lose_position(note.fd);
        }
        offset => note.a = offset as i64,
    }
}

/// Returns the length of a list of buffers; zero if it cannot be read, or if reading it safely may not be permitted.
fn bytes_of_list(sqe: &Sqe) -> i64 {
    if phase::is_filtered() { 0 } else { requested_bytes(sqe.address(), sqe.length() as u64) }
}

fn close(note: &mut Note, sqe: &Sqe, files: &mut Files) {
    match sqe.file_index() {
        0 => note.file = closing(sqe.fd()),
        slot => {
            note.fd = -1;
            (note.file, note.slot, note.effect) = (files.get(slot - 1), slot - 1, Effect::EmptiesSlot);
        }
    }
}

/// Completes the note of a request with a path.
fn paths(note: &mut Note, sqe: &Sqe, form: Form) {
    let (dir, first, second) = (sqe.fd(), sqe.address(), sqe.offset());
    let flags = sqe.own_flags() as i64;
    note.fd = -1;
    match form {
        Form::Open | Form::Open2 => {
            note.file = path(dir, first);
            let is_old = form == Form::Open;
            // `openat2` has flags and mode in a structure.
            (note.a, note.b) = if is_old { (sqe.length() as i64, flags) } else { (0, 0) };
            note.is_known = is_old && flags & libc::O_CREAT as i64 != 0;
            (note.effect, note.slot) = match sqe.file_index() {
                0 => (Effect::Opens, 0),
                ANY_SLOT => (Effect::FillsAnySlot, 0),
                slot => (Effect::FillsSlot, slot - 1),
            };
        }
        Form::Rename | Form::Link => {
            (note.file, note.a, note.b) = (path(dir, first), path(sqe.length() as i32, second) as i64, flags);
        }
        Form::Symlink => (note.file, note.a) = (path(dir, second), path(libc::AT_FDCWD, first) as i64),
        Form::MakeDir => (note.file, note.a) = (path(dir, first), sqe.length() as i64),
        // `setxattr` and similar have the name of the attribute first.
        Form::PathOnly => note.file = path(libc::AT_FDCWD, sqe.extra()),
        _ => (note.file, note.b) = (path(dir, first), flags),
    }
}

/// Returns the number of a path that the kernel has not read yet.
fn path(dir: i32, address: u64) -> u32 {
    let text: *const c_char = std::ptr::with_exposed_provenance(address as usize);
    // SAFETY: the kernel has just read it as a path.
    if !phase::is_filtered() && paths::is_readable(text) { unsafe { paths::of_at(dir, text) } } else { number::NONE }
}

/// Applies the result of a request.
pub fn completed(note: &Note, result: i32, files: &mut Files) {
    if result < 0 {
        return;
    }
    match note.effect {
        // Unless the program has opened something else with this number since.
        Effect::Opens => descriptors::note_unless_seen(result, note.file),
        Effect::FillsSlot => files.set(note.slot, note.file),
        Effect::FillsAnySlot => files.set(result as u32, note.file),
        Effect::EmptiesSlot => files.set(note.slot, number::NONE),
        Effect::Nothing if note.op == Op::URING_ACCEPT.0 => descriptors::closed(result),
        Effect::Nothing => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqe(opcode: u8, flags: u8, fd: i32, offset: u64, length: u32) -> Sqe {
        let first = opcode as u64 | (flags as u64) << 8 | (fd as u32 as u64) << 32;
        Sqe::from_words([first, offset, 0, length as u64, 9, 0, 0, 0])
    }

    #[test]
    fn request_with_own_position_has_no_known_one() {
        let mut files = Files::NONE;
        let known = note(&sqe(22, 0, -1, 4096, 512), &mut files, 5);
        assert_eq!((Op(known.op), known.a, known.b, known.is_known, known.start), (Op::URING_READ, 4096, 512, true, 5));
        assert!(!note(&sqe(23, 0, -1, u64::MAX, 512), &mut files, 5).is_known);
        assert_eq!(Op(note(&sqe(0, 0, -1, 0, 0), &mut files, 5).op), NO_IO);
        assert_eq!(Op(note(&sqe(250, 0, -1, 0, 0), &mut files, 5).op), NO_IO);
    }

    #[test]
    fn registered_file_is_found_by_its_index() {
        let mut files = Files::new(4);
        files.set(3, 77);
        files.set(4, 78);
        let by_index = note(&sqe(22, FIXED_FILE, 3, 0, 1), &mut files, 0);
        assert_eq!((by_index.file, by_index.fd), (77, -1));
        assert_eq!(note(&sqe(22, FIXED_FILE, 4, 0, 1), &mut files, 0).file, number::NONE);
        let mut opens = Note::new(0, 0, Op::URING_OPENAT.0);
        (opens.effect, opens.file) = (Effect::FillsAnySlot, 80);
        completed(&opens, 2, &mut files);
        completed(&opens, -2, &mut files);
        assert_eq!(files.get(2), 80);
        files.release();
    }
}
