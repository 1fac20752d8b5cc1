//! The FILE functions: the operations that a program requests of a stream, not those that the stream requests of the
//! system.
//!
//! The position of a stream is tracked in the descriptor's place, because programs do not usefully mix the two on one
//! descriptor.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dlio_tracer::calls::call::{Done, Inside};
use dlio_tracer::calls::meaning::*;
use dlio_tracer::known::{descriptors, number};
use dlio_tracer::naming::{descriptor_files, path_numbers, paths};
use dlio_tracer::ops::Op;
use libc::{FILE, off_t, size_t, ssize_t};

use crate::rows;

/// The fields that `fileno` reads in glibc's `struct _IO_FILE`: a call would cost more than the rest of a hook's use
/// of the stream. The descriptor is valid if the flag says that the stream has one.
const FLAGS_AT: usize = 0;
const HAS_DESCRIPTOR: c_int = 0x2000;
const GLIBC_DESCRIPTOR_AT: usize = 112;
/// The field in musl's `struct _IO_FILE`, which is negative for a stream in memory.
const MUSL_DESCRIPTOR_AT: usize = 120;

/// The place of the descriptor in the streams of this process.
static DESCRIPTOR_AT: AtomicUsize = AtomicUsize::new(GLIBC_DESCRIPTOR_AT);

/// Notes that the C library is musl, before the first call.
pub fn note_musl() {
    DESCRIPTOR_AT.store(MUSL_DESCRIPTOR_AT, Relaxed);
}

fn is_musl() -> bool {
    DESCRIPTOR_AT.load(Relaxed) == MUSL_DESCRIPTOR_AT
}

/// Returns the descriptor of a stream, or -1 for a stream in memory. errno is unchanged.
#[inline(always)]
pub fn of(stream: *mut FILE) -> c_int {
    if stream.is_null() {
        return -1;
    }
    // SAFETY: the program's own open stream, laid out as described above.
    let field = |at: usize| unsafe { stream.cast::<u8>().add(at).cast::<c_int>().read() };
    let has_none = !is_musl() && field(FLAGS_AT) & HAS_DESCRIPTOR == 0;
    if has_none { -1 } else { field(DESCRIPTOR_AT.load(Relaxed)).max(-1) }
}

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
}

fn output() -> *mut FILE {
    // SAFETY: the C library's own variable.
    unsafe { stdout }
}

fn input() -> *mut FILE {
    // SAFETY: as above.
    unsafe { stdin }
}

/// Returns the length of a text that may be null.
///
/// # Safety
/// `text` is null or a terminated string.
unsafe fn length(text: *const c_char) -> i64 {
    // SAFETY: null, or a terminated string.
    if text.is_null() { 0 } else { unsafe { libc::strlen(text) as i64 } }
}

/// Records the bytes written by a printing call: its result, unless that is an error.
fn printed(done: Done, op: Op, fd: c_int, requested: i64, ret: i64) {
    // A stream's error is not always in errno, but it is always negative.
    wrote_here(done, op, fd, requested, if ret < 0 { -1 } else { ret });
}

/// Converts items to bytes.
fn items(size: size_t, count: size_t) -> i64 {
    size.saturating_mul(count) as i64
}

// ---- opening and closing ------------------------------------------------------------------------------------------

rows! { Stdio
    [fopen fopen64] (path: *const c_char, mode: *const c_char) -> *mut FILE; {
        |done, stream| stream_opened(done, Op::FOPEN, paths::of(path), mode, stream)
    }
    [fdopen] (fd: c_int, mode: *const c_char) -> *mut FILE; {
        unless leaves_out(fd);
        |done, stream| on_descriptor(done, Op::FDOPEN, fd, 0, flags_of(mode), pointer_outcome(stream, fd as i64))
    }
    [freopen freopen64] (path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE; {
        with gone = closing_stream(old);
        |done, stream| stream_opened(done, Op::FREOPEN, if path.is_null() { gone.1 } else { paths::of(path) }, mode, stream)
    }
    [fclose] (stream: *mut FILE) -> c_int; {
        with at = closing_stream(stream);
        |done, ret| plain(done, Op::FCLOSE, at.1, at.0, ret as i64)
    }
    [tmpfile tmpfile64] () -> *mut FILE; {
        |done, stream| opened(done, Op::TMPFILE, number::NONE, 0, libc::O_RDWR | libc::O_TMPFILE, of(stream))
    }
    [open_memstream] (at: *mut *mut c_char, size: *mut size_t) -> *mut FILE; {
        |done, stream| on_file(done, Op::OPEN_MEMSTREAM, path_numbers::object(b"<memory>"), -1, 0, 0, pointer_outcome(stream, 0))
    }
    [fmemopen] (at: *mut c_void, size: size_t, mode: *const c_char) -> *mut FILE; {
        |done, stream| on_file(done, Op::FMEMOPEN, path_numbers::object(b"<memory>"), -1, 0, size as i64, pointer_outcome(stream, 0))
    }
    [fflush fflush_unlocked] (stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        |done, ret| on_descriptor(done, Op::FFLUSH, of(stream), 0, 0, ret as i64)
    }
    [setvbuf] (stream: *mut FILE, buffer: *mut c_char, mode: c_int, size: size_t) -> c_int; {
        unless leaves_out(of(stream));
        |done, ret| on_descriptor(done, Op::SETVBUF, of(stream), mode as i64, size as i64, ret as i64)
    }
    [setbuf] (stream: *mut FILE, buffer: *mut c_char) -> (); {
        unless leaves_out(of(stream));
        |done, _ret| set_buffer(done, stream, buffer, libc::BUFSIZ as size_t)
    }
    [setbuffer] (stream: *mut FILE, buffer: *mut c_char, size: size_t) -> (); {
        unless leaves_out(of(stream));
        |done, _ret| set_buffer(done, stream, buffer, size)
    }
    [setlinebuf] (stream: *mut FILE) -> (); {
        unless leaves_out(of(stream));
        |done, _ret| on_descriptor(done, Op::SETVBUF, of(stream), libc::_IOLBF as i64, 0, 0)
    }
}

/// Returns the descriptor and the file of a stream that is about to be closed.
fn closing_stream(stream: *mut FILE) -> (c_int, u32) {
    let fd = of(stream);
    let file = closing(fd);
    Inside::note_changing(fd, file);
    (fd, file)
}

/// Records the older functions that set or remove a stream's buffer.
fn set_buffer(done: Done, stream: *mut FILE, buffer: *mut c_char, size: size_t) {
    let (mode, size) = if buffer.is_null() { (libc::_IONBF, 0) } else { (libc::_IOFBF, size as i64) };
    on_descriptor(done, Op::SETVBUF, of(stream), mode as i64, size, 0);
}

/// Converts a mode to the flags for `open`.
///
/// # Safety
/// `mode` is null or a terminated string.
unsafe fn flags_of(mode: *const c_char) -> i64 {
    // SAFETY: null, or a terminated string.
    let mode = if mode.is_null() { &[][..] } else { unsafe { std::ffi::CStr::from_ptr(mode) }.to_bytes() };
    let base = match (mode.first(), mode.contains(&b'+')) {
        (Some(b'r'), false) => libc::O_RDONLY,
        (Some(b'r'), true) => libc::O_RDWR,
        (Some(b'a'), false) => libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND,
        (Some(b'a'), true) => libc::O_RDWR | libc::O_CREAT | libc::O_APPEND,
        (_, false) => libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
        (_, true) => libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
    };
    let and = |letter: u8, flag: c_int| if mode.contains(&letter) { flag } else { 0 };
    (base | and(b'x', libc::O_EXCL) | and(b'e', libc::O_CLOEXEC)) as i64
}

/// Records the opening of a stream.
///
/// # Safety
/// `mode` is null or a terminated string.
unsafe fn stream_opened(done: Done, op: Op, file: u32, mode: *const c_char, stream: *mut FILE) {
    let fd = of(stream);
    // SAFETY: the mode that the call was given.
    let flags = unsafe { flags_of(mode) };
    descriptors::opened(fd, file, flags as c_int);
    on_file(done, op, file, fd, 0, flags, pointer_outcome(stream, fd as i64));
}

// ---- blocks and lines ---------------------------------------------------------------------------------------------

rows! { Stdio
    [fread fread_unlocked] (into: *mut c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FREAD, fd, items(size, count), items(size, ret))
    }
    [__fread_chk __fread_unlocked_chk] (into: *mut c_void, room: size_t, size: size_t, count: size_t, stream: *mut FILE) -> size_t; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FREAD, fd, items(size, count), items(size, ret))
    }
    [fwrite fwrite_unlocked] (from: *const c_void, size: size_t, count: size_t, stream: *mut FILE) -> size_t; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| wrote_here(done, Op::FWRITE, fd, items(size, count), items(size, ret))
    }
    [fgets fgets_unlocked] (into: *mut c_char, size: c_int, stream: *mut FILE) -> *mut c_char; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FGETS, fd, size as i64, length(ret))
    }
    [__fgets_chk __fgets_unlocked_chk] (into: *mut c_char, room: size_t, size: c_int, stream: *mut FILE) -> *mut c_char; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FGETS, fd, size as i64, length(ret))
    }
    [getline] (line: *mut *mut c_char, room: *mut size_t, stream: *mut FILE) -> ssize_t; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::GETLINE, fd, 0, (ret as i64).max(0))
    }
    [getdelim __getdelim] (line: *mut *mut c_char, room: *mut size_t, end: c_int, stream: *mut FILE) -> ssize_t; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::GETDELIM, fd, 0, (ret as i64).max(0))
    }
    [fputs fputs_unlocked] (text: *const c_char, stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FPUTS, fd, length(text), if ret < 0 { -1 } else { length(text) })
    }
    [puts] (text: *const c_char) -> c_int; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed(done, Op::PUTS, fd, length(text) + 1, if ret < 0 { -1 } else { length(text) + 1 })
    }
}

// ---- characters ---------------------------------------------------------------------------------------------------

rows! { Stdio
    [fgetc getc _IO_getc fgetc_unlocked getc_unlocked] (stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FGETC, fd, 1, (ret >= 0) as i64)
    }
    [getchar getchar_unlocked] () -> c_int; {
        unless leaves_out(of(input()));
        with fd = of(input());
        |done, ret| read_here(done, Op::FGETC, fd, 1, (ret >= 0) as i64)
    }
    [fputc putc _IO_putc fputc_unlocked putc_unlocked] (character: c_int, stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FPUTC, fd, 1, if ret < 0 { -1 } else { 1 })
    }
    [putchar putchar_unlocked] (character: c_int) -> c_int; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed(done, Op::FPUTC, fd, 1, if ret < 0 { -1 } else { 1 })
    }
    [ungetc] (character: c_int, stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| { descriptors::step_back(fd, (ret >= 0) as i64); on_descriptor(done, Op::UNGETC, fd, descriptors::position(fd), 0, ret as i64) }
    }
    [getw] (stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FREAD, fd, 4, if ret == -1 { 0 } else { 4 })
    }
    [putw] (word: c_int, stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FWRITE, fd, 4, if ret == -1 { -1 } else { 4 })
    }
}

// ---- wide characters ----------------------------------------------------------------------------------------------

rows! { Stdio
    [fgetwc getwc fgetwc_unlocked getwc_unlocked] (stream: *mut FILE) -> u32; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FGETWC, fd, 0, encoded(ret))
    }
    [getwchar getwchar_unlocked] () -> u32; {
        unless leaves_out(of(input()));
        with fd = of(input());
        |done, ret| read_here(done, Op::FGETWC, fd, 0, encoded(ret))
    }
    [ungetwc] (character: u32, stream: *mut FILE) -> u32; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| { descriptors::step_back(fd, encoded(ret)); on_descriptor(done, Op::UNGETC, fd, descriptors::position(fd), 0, ret as i32 as i64) }
    }
    [fputwc putwc fputwc_unlocked putwc_unlocked] (character: i32, stream: *mut FILE) -> u32; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FPUTWC, fd, 0, if ret == WEOF { -1 } else { encoded(ret) })
    }
    [putwchar putwchar_unlocked] (character: i32) -> u32; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed(done, Op::FPUTWC, fd, 0, if ret == WEOF { -1 } else { encoded(ret) })
    }
    [fgetws fgetws_unlocked] (into: *mut i32, size: c_int, stream: *mut FILE) -> *mut i32; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FGETWS, fd, 0, encoded_text(ret))
    }
    [__fgetws_chk __fgetws_unlocked_chk] (into: *mut i32, room: size_t, size: c_int, stream: *mut FILE) -> *mut i32; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| read_here(done, Op::FGETWS, fd, 0, encoded_text(ret))
    }
    [fputws fputws_unlocked] (text: *const i32, stream: *mut FILE) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FPUTWS, fd, 0, if ret < 0 { -1 } else { encoded_text(text) })
    }
}

const WEOF: u32 = u32::MAX;

/// Returns the length of a wide character in a file: one byte if the locale has no other length, otherwise as in
/// UTF-8. Zero at the end.
fn encoded(character: u32) -> i64 {
    unsafe extern "C" {
        fn __ctype_get_mb_cur_max() -> size_t;
    }
    match character {
        WEOF => 0,
        // SAFETY: reads a number of this thread's locale.
        _ if unsafe { __ctype_get_mb_cur_max() } == 1 => 1,
        ..0x80 => 1,
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    }
}

/// Returns the length of a wide text in a file; zero if it is null.
///
/// # Safety
/// `text` is null or terminated.
unsafe fn encoded_text(text: *const i32) -> i64 {
    let (mut bytes, mut at) = (0, text);
    // SAFETY: null, or a terminated text.
    unsafe {
        while !at.is_null() && *at != 0 {
            bytes += encoded(*at as u32);
            at = at.add(1);
        }
    }
    bytes
}

// ---- seeking ------------------------------------------------------------------------------------------------------

rows! { Stdio
    [fseek] (stream: *mut FILE, offset: c_long, whence: c_int) -> c_int; {
        unless leaves_out(of(stream));
        |done, ret| stream_sought(done, stream, offset, whence, ret)
    }
    [fseeko fseeko64] (stream: *mut FILE, offset: off_t, whence: c_int) -> c_int; {
        unless leaves_out(of(stream));
        |done, ret| stream_sought(done, stream, offset, whence, ret)
    }
    [ftell] (stream: *mut FILE) -> c_long; {
        unless leaves_out(of(stream));
        |done, ret| positioned(done, Op::FTELL, stream, ret)
    }
    [ftello ftello64] (stream: *mut FILE) -> off_t; {
        unless leaves_out(of(stream));
        |done, ret| positioned(done, Op::FTELL, stream, ret)
    }
    [rewind] (stream: *mut FILE) -> (); {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, _ret| { descriptors::sought(fd, 0); on_descriptor(done, Op::REWIND, fd, 0, 0, 0) }
    }
    [fgetpos fgetpos64] (stream: *mut FILE, into: *mut c_void) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| on_descriptor(done, Op::FGETPOS, fd, 0, 0, ret as i64)
    }
    [fsetpos fsetpos64] (stream: *mut FILE, from: *const c_void) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| { descriptors::lose_position(fd); on_descriptor(done, Op::FSETPOS, fd, 0, 0, ret as i64) }
    }
}

fn stream_sought(done: Done, stream: *mut FILE, offset: i64, whence: c_int, ret: c_int) {
    let fd = of(stream);
    match whence {
        _ if ret != 0 => {}
        libc::SEEK_SET => descriptors::sought(fd, offset),
        libc::SEEK_CUR => descriptors::step_back(fd, -offset),
        _ => descriptors::lose_position(fd),
    }
    on_descriptor(done, Op::FSEEK, fd, whence as i64, offset, ret as i64);
}

fn positioned(done: Done, op: Op, stream: *mut FILE, position: i64) {
    if position >= 0 {
        descriptors::sought(of(stream), position);
    }
    on_descriptor(done, op, of(stream), 0, 0, position);
}

// ---- formatted ----------------------------------------------------------------------------------------------------

/// A list of variable arguments as it is passed on: an address on every supported system.
type Arguments = *mut c_void;

rows! { Stdio
    [vfprintf] (stream: *mut FILE, format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FPRINTF, fd, 0, ret as i64)
    }
    [__vfprintf_chk] (stream: *mut FILE, flag: c_int, format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed(done, Op::FPRINTF, fd, 0, ret as i64)
    }
    [vprintf] (format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed(done, Op::PRINTF, fd, 0, ret as i64)
    }
    [__vprintf_chk] (flag: c_int, format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed(done, Op::PRINTF, fd, 0, ret as i64)
    }
    [vdprintf] (fd: c_int, format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(fd);
        |done, ret| printed(done, Op::DPRINTF, fd, 0, ret as i64)
    }
    [__vdprintf_chk] (fd: c_int, flag: c_int, format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(fd);
        |done, ret| printed(done, Op::DPRINTF, fd, 0, ret as i64)
    }
    [vfwprintf] (stream: *mut FILE, format: *const i32, arguments: Arguments) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed_wide(done, fd, ret)
    }
    [__vfwprintf_chk] (stream: *mut FILE, flag: c_int, format: *const i32, arguments: Arguments) -> c_int; {
        unless leaves_out(of(stream));
        with fd = of(stream);
        |done, ret| printed_wide(done, fd, ret)
    }
    [vwprintf] (format: *const i32, arguments: Arguments) -> c_int; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed_wide(done, fd, ret)
    }
    [__vwprintf_chk] (flag: c_int, format: *const i32, arguments: Arguments) -> c_int; {
        unless leaves_out(of(output()));
        with fd = of(output());
        |done, ret| printed_wide(done, fd, ret)
    }
    [vfscanf __isoc99_vfscanf __isoc23_vfscanf] (stream: *mut FILE, format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(of(stream));
        with before = before_scan(stream);
        |done, _ret| scanned(done, Op::FSCANF, stream, before)
    }
    [vscanf __isoc99_vscanf __isoc23_vscanf] (format: *const c_char, arguments: Arguments) -> c_int; {
        unless leaves_out(of(input()));
        with before = before_scan(input());
        |done, _ret| scanned(done, Op::SCANF, input(), before)
    }
    [vfwscanf __isoc99_vfwscanf __isoc23_vfwscanf] (stream: *mut FILE, format: *const i32, arguments: Arguments) -> c_int; {
        unless leaves_out(of(stream));
        with before = before_scan(stream);
        |done, _ret| scanned(done, Op::FSCANF, stream, before)
    }
    [vwscanf __isoc99_vwscanf __isoc23_vwscanf] (format: *const i32, arguments: Arguments) -> c_int; {
        unless leaves_out(of(input()));
        with before = before_scan(input());
        |done, _ret| scanned(done, Op::SCANF, input(), before)
    }
}

/// Records formatted wide characters: the result counts characters. If some are longer than a byte, the number of
/// bytes is only known to be at least that, and the position becomes unknown.
fn printed_wide(done: Done, fd: c_int, ret: c_int) {
    printed(done, Op::FWPRINTF, fd, 0, ret as i64);
    if encoded(0x80) > 1 {
        descriptors::lose_position(fd);
    }
}

/// The position of a stream before a scan.
enum StreamPosition {
    /// In a buffer: the next byte, and the buffer's end and start.
    Buffer([usize; 3]),
    /// In the file, if there is no buffer of bytes. Negative if the stream has no positions.
    Place(i64),
}

/// A flag in glibc's `struct _IO_FILE`, like the fields that `fileno` reads.
const IS_UNBUFFERED: c_int = 2;
const READ_POINTERS_AT: [usize; 3] = [8, 16, 24];
const ORIENTATION_AT: usize = 192;

/// Returns the position before a scan.
///
/// # Safety
/// `stream` is an open stream of the program.
unsafe fn before_scan(stream: *mut FILE) -> StreamPosition {
    if is_musl() {
        return StreamPosition::Place(place_of(stream));
    }
    let flag = |at: usize| {
        // SAFETY: laid out as described above.
        unsafe { stream.cast::<u8>().add(at).cast::<c_int>().read() }
    };
    // Wide streams also have a buffer of characters.
    match flag(FLAGS_AT) & IS_UNBUFFERED != 0 || flag(ORIENTATION_AT) > 0 {
        true => StreamPosition::Place(place_of(stream)),
        // SAFETY: as above.
        false => StreamPosition::Buffer(unsafe { read_pointers(stream) }),
    }
}

/// Returns the pointers of a stream's read buffer.
///
/// # Safety
/// `stream` is an open stream of the program.
unsafe fn read_pointers(stream: *mut FILE) -> [usize; 3] {
    // SAFETY: laid out as described above.
    READ_POINTERS_AT.map(|at| unsafe { stream.cast::<u8>().add(at).cast::<usize>().read() })
}

/// Returns the position of a stream: the tracked one, otherwise the C library's.
fn place_of(stream: *mut FILE) -> i64 {
    match descriptors::position(of(stream)) {
        known @ 0.. => known,
        _ => told_place(stream),
    }
}

/// Returns the C library's position of a stream; errno is unchanged.
fn told_place(stream: *mut FILE) -> i64 {
    fn tell(stream: *mut FILE) -> i64 {
        crate::real!(next: ftello(*mut FILE) -> i64);
        // SAFETY: an open stream of the program, which has just been used.
        unsafe { next(stream) }
    }
    // SAFETY: the address of this thread's errno is always valid.
    unsafe {
        let errno = *libc::__errno_location();
        let place = tell(stream);
        *libc::__errno_location() = errno;
        place
    }
}

/// Records a scan, which consumed the bytes since `before`. If it consumed more than a whole buffer, only the last
/// two buffers are known.
///
/// # Safety
/// `stream` is an open stream of the program.
unsafe fn scanned(done: Done, op: Op, stream: *mut FILE, before: StreamPosition) {
    let fd = of(stream);
    let bytes = match before {
        StreamPosition::Buffer([at, end, base]) => {
            // SAFETY: as above.
            let [now, now_end, now_base] = unsafe { read_pointers(stream) };
            let is_same = (now_end, now_base) == (end, base) && now >= at;
            let taken = if is_same { now - at } else { end.saturating_sub(at) + now.saturating_sub(now_base) };
            taken as i64
        }
        StreamPosition::Place(before) => {
            let after = told_place(stream);
            if before < 0 || after < before {
                descriptors::lose_position(fd);
                return done.record(op, descriptor_files::file(fd), fd, (0, false), 0, 0);
            }
            descriptors::sought(fd, before);
            after - before
        }
    };
    read_here(done, op, fd, 0, bytes);
}

/// Defines functions that `variadic.c` calls with collected arguments, forwarding to the matching function with a
/// list.
macro_rules! gathered {
    ($($name:ident = $function:ident ($($arg:ident: $of:ty),*);)*) => {$(
        /// # Safety
        /// As for the function that takes a list.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $of,)* arguments: Arguments) -> c_int {
            // SAFETY: the arguments are passed on unchanged.
            unsafe { $function($($arg,)* arguments) }
        }
    )*};
}

gathered! {
    dlio_fprintf = vfprintf (stream: *mut FILE, format: *const c_char);
    dlio_printf = vprintf (format: *const c_char);
    dlio_dprintf = vdprintf (fd: c_int, format: *const c_char);
    dlio_fscanf = vfscanf (stream: *mut FILE, format: *const c_char);
    dlio_scanf = vscanf (format: *const c_char);
    dlio_fwprintf = vfwprintf (stream: *mut FILE, format: *const i32);
    dlio_wprintf = vwprintf (format: *const i32);
    dlio_fwprintf_chk = __vfwprintf_chk (stream: *mut FILE, flag: c_int, format: *const i32);
    dlio_wprintf_chk = __vwprintf_chk (flag: c_int, format: *const i32);
    dlio_fwscanf = vfwscanf (stream: *mut FILE, format: *const i32);
    dlio_wscanf = vwscanf (format: *const i32);
    dlio_isoc99_fwscanf = __isoc99_vfwscanf (stream: *mut FILE, format: *const i32);
    dlio_isoc99_wscanf = __isoc99_vwscanf (format: *const i32);
    dlio_isoc23_fwscanf = __isoc23_vfwscanf (stream: *mut FILE, format: *const i32);
    dlio_isoc23_wscanf = __isoc23_vwscanf (format: *const i32);
    dlio_fprintf_chk = __vfprintf_chk (stream: *mut FILE, flag: c_int, format: *const c_char);
    dlio_printf_chk = __vprintf_chk (flag: c_int, format: *const c_char);
    dlio_dprintf_chk = __vdprintf_chk (fd: c_int, flag: c_int, format: *const c_char);
    dlio_isoc99_fscanf = __isoc99_vfscanf (stream: *mut FILE, format: *const c_char);
    dlio_isoc99_scanf = __isoc99_vscanf (format: *const c_char);
    dlio_isoc23_fscanf = __isoc23_vfscanf (stream: *mut FILE, format: *const c_char);
    dlio_isoc23_scanf = __isoc23_vscanf (format: *const c_char);
}

crate::variadic! {
    fprintf -> dlio_variadic_fprintf;
    printf -> dlio_variadic_printf;
    dprintf -> dlio_variadic_dprintf;
    fscanf -> dlio_variadic_fscanf;
    scanf -> dlio_variadic_scanf;
    fwprintf -> dlio_variadic_fwprintf;
    wprintf -> dlio_variadic_wprintf;
    __fwprintf_chk -> dlio_variadic_fwprintf_chk;
    __wprintf_chk -> dlio_variadic_wprintf_chk;
    fwscanf -> dlio_variadic_fwscanf;
    wscanf -> dlio_variadic_wscanf;
    __isoc99_fwscanf -> dlio_variadic_isoc99_fwscanf;
    __isoc99_wscanf -> dlio_variadic_isoc99_wscanf;
    __isoc23_fwscanf -> dlio_variadic_isoc23_fwscanf;
    __isoc23_wscanf -> dlio_variadic_isoc23_wscanf;
    __fprintf_chk -> dlio_variadic_fprintf_chk;
    __printf_chk -> dlio_variadic_printf_chk;
    __dprintf_chk -> dlio_variadic_dprintf_chk;
    __isoc99_fscanf -> dlio_variadic_isoc99_fscanf;
    __isoc99_scanf -> dlio_variadic_isoc99_scanf;
    __isoc23_fscanf -> dlio_variadic_isoc23_fscanf;
    __isoc23_scanf -> dlio_variadic_isoc23_scanf;
}
