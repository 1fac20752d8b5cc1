//! `libdlio_mpi.so`: an MPI behind a table of C functions. `dlio` loads it when an MPI started it; nothing else links
//! an MPI.
//!
//! It uses the raw bindings of rsmpi. The program polls a collective in flight, so that it can watch for dead ranks and
//! Ctrl-C in between, and rsmpi's safe requests cannot outlive the call that created them.

#[path = "../../src/ranks/mpi/table.rs"]
mod table;

use mpi::ffi;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use table::{Table, VERSION};

/// Success, in every MPI.
const SUCCESS: c_int = 0;

thread_local! {
    /// The collective in flight. The program calls from one thread only.
    static OPEN: Cell<Option<ffi::MPI_Request>> = const { Cell::new(None) };
}

static TABLE: Table = Table {
    version: VERSION,
    name,
    begin,
    end,
    start_barrier,
    start_gather,
    test,
    open,
    start_read,
    close,
    error_text,
};

#[unsafe(no_mangle)]
pub extern "C" fn dlio_mpi_table() -> *const Table {
    &TABLE
}

/// Returns the first of these codes that is not success.
fn first_error(codes: &[c_int]) -> c_int {
    codes.iter().copied().find(|code| *code != SUCCESS).unwrap_or(SUCCESS)
}

/// Copies a text that an MPI wrote into `room` bytes at `into`.
///
/// # Safety
/// `into` points to `room` bytes that may be written.
unsafe fn copy_text(text: &[u8], length: c_int, into: *mut u8, room: usize) -> usize {
    let bytes = usize::try_from(length).unwrap_or(0).min(text.len()).min(room);
    // SAFETY: `bytes` is within both, which do not overlap: the text is ours.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), into, bytes) };
    bytes
}

/// # Safety
/// `into` points to `room` bytes that may be written.
unsafe extern "C" fn name(into: *mut u8, room: usize) -> usize {
    let mut text = [0u8; ffi::MPI_MAX_LIBRARY_VERSION_STRING as usize];
    let mut length = 0;
    // SAFETY: the text has the size that MPI requires; this call is allowed before MPI_Init.
    let code = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &mut length) };
    // SAFETY: as the caller guarantees.
    if code == SUCCESS { unsafe { copy_text(&text, length, into, room) } } else { 0 }
}

/// # Safety
/// Both pointers are to numbers that may be written.
unsafe extern "C" fn begin(rank: *mut u64, size: *mut u64) -> c_int {
    let (mut provided, mut own, mut all) = (0, 0, 0);
    // SAFETY: no arguments are given, which MPI allows; the numbers live through the calls. The statics of rsmpi are
    // constants that its C part filled.
    unsafe {
        let (none, level) = (std::ptr::null_mut(), ffi::RSMPI_THREAD_FUNNELED);
        let code = ffi::MPI_Init_thread(std::ptr::null_mut(), none, level, &mut provided);
        if code != SUCCESS {
            return code;
        }
        let world = ffi::RSMPI_COMM_WORLD;
        let code = first_error(&[
            ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN),
            ffi::MPI_Comm_rank(world, &mut own),
            ffi::MPI_Comm_size(world, &mut all),
        ]);
        *rank = own as u64;
        *size = all as u64;
        code
    }
}

/// # Safety
/// No requirements: it is unsafe like all functions of the table.
unsafe extern "C" fn end() -> c_int {
    // SAFETY: called once, after `begin`, by every rank.
    unsafe { ffi::MPI_Finalize() }
}

/// Keeps the request of a collective that was started.
fn keep(code: c_int, request: ffi::MPI_Request) -> c_int {
    if code == SUCCESS {
        OPEN.set(Some(request));
    }
    code
}

/// # Safety
/// No requirements: it is unsafe like all functions of the table.
unsafe extern "C" fn start_barrier() -> c_int {
    // SAFETY: after `begin`; the request is written by the call.
    unsafe {
        let mut request = ffi::RSMPI_REQUEST_NULL;
        let code = ffi::MPI_Ibarrier(ffi::RSMPI_COMM_WORLD, &mut request);
        keep(code, request)
    }
}

/// # Safety
/// `own` has `length` bytes, `counts` and `places` have one number per rank, and `into` is large enough for
/// them; all of this memory remains unchanged until `test` has reported completion.
unsafe extern "C" fn start_gather(
    own: *const u8,
    length: c_int,
    into: *mut u8,
    counts: *const c_int,
    places: *const c_int,
) -> c_int {
    // SAFETY: called after `begin`, with memory as the caller guarantees.
    unsafe {
        let (mut request, byte) = (ffi::RSMPI_REQUEST_NULL, ffi::RSMPI_UINT8_T);
        let code = ffi::MPI_Iallgatherv(
            own.cast::<c_void>(),
            length,
            byte,
            into.cast::<c_void>(),
            counts,
            places,
            byte,
            ffi::RSMPI_COMM_WORLD,
            &mut request,
        );
        keep(code, request)
    }
}

/// # Safety
/// Both are to numbers that may be written.
unsafe extern "C" fn test(done: *mut c_int, bytes: *mut c_int) -> c_int {
    let Some(mut request) = OPEN.get() else {
        // SAFETY: as the caller guarantees.
        unsafe { *done = 1 };
        return SUCCESS;
    };
    // SAFETY: the request is the one in flight; a zeroed status may be overwritten, and its count is read only once the
    // request is done.
    unsafe {
        let mut status: ffi::MPI_Status = std::mem::zeroed();
        let code = ffi::MPI_Test(&mut request, done, &mut status);
        let over = code != SUCCESS || *done != 0;
        OPEN.set(if over { None } else { Some(request) });
        match code == SUCCESS && *done != 0 {
            true => ffi::MPI_Get_count(&status, ffi::RSMPI_UINT8_T, bytes),
            false => code,
        }
    }
}

/// # Safety
/// `path` ends in a zero byte, and `file` is to a pointer that may be written.
unsafe extern "C" fn open(path: *const u8, file: *mut *mut c_void) -> c_int {
    // SAFETY: called after `begin`; the handle is written by the call, and its location does not change.
    unsafe {
        let mut handle = ffi::RSMPI_FILE_NULL;
        let mode = ffi::MPI_MODE_RDONLY as c_int;
        let code =
            ffi::MPI_File_open(ffi::RSMPI_COMM_WORLD, path.cast::<c_char>(), mode, ffi::RSMPI_INFO_NULL, &mut handle);
        *file = Box::into_raw(Box::new(handle)).cast();
        code
    }
}

/// # Safety
/// `file` came from `open`, and `into` has space for `length` bytes, which remain unchanged until `test` has
/// reported completion.
unsafe extern "C" fn start_read(file: *mut c_void, offset: i64, into: *mut u8, length: c_int) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe {
        let (mut request, byte) = (ffi::RSMPI_REQUEST_NULL, ffi::RSMPI_UINT8_T);
        let handle = *file.cast::<ffi::MPI_File>();
        let code = ffi::MPI_File_iread_at_all(handle, offset, into.cast::<c_void>(), length, byte, &mut request);
        keep(code, request)
    }
}

/// # Safety
/// `file` came from `open`, and is not used again.
unsafe extern "C" fn close(file: *mut c_void) -> c_int {
    // SAFETY: it was created by `open` with this type, and the caller has given it up.
    let mut handle = unsafe { *Box::from_raw(file.cast::<ffi::MPI_File>()) };
    // SAFETY: a handle that was never opened is null, which MPI refuses with a code.
    unsafe { ffi::MPI_File_close(&mut handle) }
}

/// # Safety
/// `into` points to `room` bytes that may be written.
unsafe extern "C" fn error_text(code: c_int, into: *mut u8, room: usize) -> usize {
    let mut text = [0u8; ffi::MPI_MAX_ERROR_STRING as usize];
    let mut length = 0;
    // SAFETY: the text has the size that MPI requires.
    let asked = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    // SAFETY: as the caller guarantees.
    if asked == SUCCESS { unsafe { copy_text(&text, length, into, room) } } else { 0 }
}
