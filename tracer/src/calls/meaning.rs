//! The meaning of a returned call, in terms of the operations' list.
//!
//! There is one function per kind of call, not one per call. A row of the preloaded library states that a `pread` has
//! a descriptor, a position and two sizes; this module defines how such a call is recorded.

use dlio_schemas::ops::Op;
use dlio_schemas::record::POS_UNKNOWN;

use crate::calls::call::Done;
use crate::known::{descriptors, number};
use crate::naming::{descriptor_files, object_names};
use crate::recording::counters;
use crate::trace::header_page;

/// An argument without a meaning.
const NOTHING: (i64, bool) = (0, true);

/// Returns the outcome of a call that returns -1 and sets errno.
#[inline(always)]
pub fn outcome(ret: i64) -> i64 {
    // SAFETY: the address of this thread's errno is always valid.
    if ret == -1 { -unsafe { *libc::__errno_location() } as i64 } else { ret }
}

/// Returns the outcome of a call that returns a pointer, null for failure.
#[inline(always)]
pub fn pointer_outcome<T>(pointer: *const T, success: i64) -> i64 {
    if pointer.is_null() { outcome(-1) } else { success }
}

#[inline(always)]
fn known(position: i64) -> (i64, bool) {
    (position, position != POS_UNKNOWN)
}

/// Returns `true` if calls on this descriptor are excluded. Hooks check this before the call, so excluded calls have
/// no other overhead.
#[inline(always)]
pub fn leaves_out(fd: i32) -> bool {
    let filtered = descriptors::is_filtered(fd);
    if filtered {
        header_page::count_filtered();
    }
    filtered
}

/// Records a read or write with an explicit position.
#[inline(always)]
pub fn moved_at(done: Done, op: Op, fd: i32, position: i64, requested: i64, ret: i64) {
    done.record(op, descriptor_files::file(fd), fd, known(position), requested, outcome(ret));
}

/// Records a plain read, which starts at the position of the file description.
#[inline(always)]
pub fn read_here(done: Done, op: Op, fd: i32, requested: i64, ret: i64) {
    let (file, position) = descriptor_files::read(fd, ret);
    if position == POS_UNKNOWN {
        counters::at_message(done.start, done.duration, file, fd);
    }
    done.record(op, file, fd, known(position), requested, outcome(ret));
}

/// Records a plain write.
#[inline(always)]
pub fn wrote_here(done: Done, op: Op, fd: i32, requested: i64, ret: i64) {
    let (file, position) = descriptor_files::written(fd, ret);
    if position == POS_UNKNOWN {
        counters::at_message(done.start, done.duration, file, fd);
    }
    done.record(op, file, fd, known(position), requested, outcome(ret));
}

/// Records a call on a descriptor that moves no bytes.
#[inline(always)]
pub fn on_descriptor(done: Done, op: Op, fd: i32, a: i64, b: i64, ret: i64) {
    done.record(op, descriptor_files::file(fd), fd, (a, true), b, outcome(ret));
}

/// Records a mapping of a file.
pub fn map_file(done: Done, fd: i32, at: i64, size: i64, outcome: i64) {
    let file = descriptor_files::file(fd);
    counters::at_mapping(done.start.wrapping_add(done.duration), done.duration, file);
    done.record(Op::MMAP, file, fd, (at, true), size, outcome);
}

/// Records a transfer from one descriptor to another.
pub fn from_file(done: Done, op: Op, from: i32, to: i32, requested: i64, ret: i64) {
    let source = descriptor_files::file(from);
    done.record(
        op,
        descriptor_files::file(to),
        to,
        (source as i64, source != number::FILTERED),
        requested,
        outcome(ret),
    );
}

/// Records a call on a file that was looked up before: by path, or before its descriptor was closed.
#[inline(always)]
pub fn on_file(done: Done, op: Op, file: u32, fd: i32, a: i64, b: i64, ret: i64) {
    done.record(op, file, fd, (a, true), b, outcome(ret));
}

/// Records a call on a path.
#[inline(always)]
pub fn on_path(done: Done, op: Op, file: u32, a: i64, b: i64, ret: i64) {
    on_file(done, op, file, -1, a, b, ret);
}

/// Records a call that involves no file.
pub fn on_nothing(done: Done, op: Op, a: i64, b: i64, ret: i64) {
    done.record(op, number::NONE, -1, (a, true), b, outcome(ret));
}

/// Records the opening of a path; its descriptor is known after that. A file without a name (`O_TMPFILE`) gets the
/// name that the kernel uses for it, its directory and inode number, not the name of the directory alone. The mode is
/// recorded only if the call may have created a file.
#[inline(always)]
pub fn opened(done: Done, op: Op, file: u32, mode: i64, flags: i32, fd: i32) {
    let nameless = flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let file = if nameless && fd >= 0 { crate::naming::descriptor_names::of_descriptor(fd).number } else { file };
    descriptors::opened(fd, file, flags);
    if file == number::FILTERED {
        return header_page::count_filtered();
    }
    let makes = nameless || flags & libc::O_CREAT != 0;
    done.record(op, file, fd, (mode, makes), flags as i64, outcome(fd as i64));
}

/// Records the creation of memory, which has no path.
pub fn made(done: Done, op: Op, kind: &[u8], a: i64, b: i64, fd: i32) {
    let file = crate::naming::path_numbers::object(kind);
    descriptors::opened(fd, file, 0);
    done.record(op, file, fd, (a, true), b, outcome(fd as i64));
}

/// Records the creation of a pipe, or of one end of a pipe; both ends have the same name.
pub fn piped(done: Done, op: Op, (read, write): (i32, i32), b: i64) {
    let file = if read < 0 { number::NONE } else { object_names::pipe_of(read) };
    descriptors::opened(write, file, 0);
    descriptors::opened(read, file, 0);
    done.record(op, file, read, (write.max(0) as i64, true), b, outcome(read as i64));
}

/// Returns the file of a descriptor that is about to be closed, for the event that follows. A descriptor that was
/// never used gets no name.
#[inline(always)]
pub fn closing(fd: i32) -> u32 {
    let file = descriptors::seen(fd);
    descriptors::closed(fd);
    file
}

/// Records the duplication of a descriptor. On success the event belongs to the duplicate, and its argument is the
/// original. On failure it belongs to the original, and its argument is the requested number.
pub fn duplicated(done: Done, op: Op, from: i32, wanted: i64, flags: i64, ret: i32) {
    descriptors::duplicated(from, ret);
    let other = if ret < 0 || wanted < 0 { wanted } else { from as i64 };
    done.record(
        op,
        descriptor_files::file(from),
        if ret < 0 { from } else { ret },
        (other, other >= 0),
        flags,
        outcome(ret as i64),
    );
}

/// Records a seek, whose result is the new position.
#[inline(always)]
pub fn sought(done: Done, fd: i32, offset: i64, whence: i32, ret: i64) {
    let file = descriptor_files::file(fd);
    if ret >= 0 {
        descriptors::sought(fd, ret);
    }
    done.record(Op::LSEEK, file, fd, (whence as i64, true), offset, outcome(ret));
}

/// Records a call whose arguments are not worth a column.
pub fn plain(done: Done, op: Op, file: u32, fd: i32, ret: i64) {
    done.record(op, file, fd, NOTHING, 0, outcome(ret));
}
