//! `libdlio_mpi.so`: an MPI behind a table of C functions. `dlio` loads it when an MPI started it; nothing else links an MPI.
//!
//! The raw bindings of rsmpi are used: a collective that is under way is asked now and then whether it is done, so that the
//! program can look after dead ranks and Ctrl-C meanwhile, and rsmpi's safe requests cannot outlive the call that made them.

#[path = "../../src/ranks/mpi/table.rs"]
mod table;

use mpi::ffi;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use table::{Table, VERSION};

/// Success, in every MPI.
const SUCCESS: c_int = 0;

thread_local! {
    /// The collective under way. The program calls from one thread only.
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

/// The first of these codes that is none of success.
fn first_error(codes: &[c_int]) -> c_int {
    codes.iter().copied().find(|code| *code != SUCCESS).unwrap_or(SUCCESS)
}

/// Copies a text that an MPI wrote into `room` bytes at `into`.
///
/// # Safety
/// `into` points to `room` bytes that may be written.
unsafe fn give(text: &[u8], length: c_int, into: *mut u8, room: usize) -> usize {
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
    // SAFETY: the text has the room that MPI asks for; this call is allowed before MPI_Init.
    let code = unsafe { ffi::MPI_Get_library_version(text.as_mut_ptr().cast::<c_char>(), &mut length) };
    // SAFETY: as the caller promises.
    if code == SUCCESS { unsafe { give(&text, length, into, room) } } else { 0 }
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
/// None: it is unsafe as all of the table.
unsafe extern "C" fn end() -> c_int {
    // SAFETY: called once, after `begin`, by every rank.
    unsafe { ffi::MPI_Finalize() }
}

/// Keeps a collective that was started.
fn keep(code: c_int, request: ffi::MPI_Request) -> c_int {
    if code == SUCCESS {
        OPEN.set(Some(request));
    }
    code
}

/// # Safety
/// None: it is unsafe as all of the table.
unsafe extern "C" fn start_barrier() -> c_int {
    // SAFETY: after `begin`; the request is written by the call.
    unsafe {
        let mut request = ffi::RSMPI_REQUEST_NULL;
        let code = ffi::MPI_Ibarrier(ffi::RSMPI_COMM_WORLD, &mut request);
        keep(code, request)
    }
}

/// # Safety
/// `own` has `length` bytes, `counts` and `places` a number for each rank, and `into` room for what they say; all of it
/// stays as it is until `test` has said that it is done.
unsafe extern "C" fn start_gather(
    own: *const u8,
    length: c_int,
    into: *mut u8,
    counts: *const c_int,
    places: *const c_int,
) -> c_int {
    // SAFETY: after `begin`, with memory as the caller promises.
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
        // SAFETY: as the caller promises.
        unsafe { *done = 1 };
        return SUCCESS;
    };
    // SAFETY: the request is the one under way; a zeroed status is one that may be overwritten, and it is only asked for its
    // count once the request is done.
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
    // SAFETY: after `begin`; the handle is written by the call, and is only kept where it was.
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
/// `file` is what `open` gave, and `into` has room for `length` bytes, which stays as it is until `test` has said that it is
/// done.
unsafe extern "C" fn start_read(file: *mut c_void, offset: i64, into: *mut u8, length: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let (mut request, byte) = (ffi::RSMPI_REQUEST_NULL, ffi::RSMPI_UINT8_T);
        let handle = *file.cast::<ffi::MPI_File>();
        let code = ffi::MPI_File_iread_at_all(handle, offset, into.cast::<c_void>(), length, byte, &mut request);
        keep(code, request)
    }
}

/// # Safety
/// `file` is what `open` gave, and is not used again.
unsafe extern "C" fn close(file: *mut c_void) -> c_int {
    // SAFETY: it was made by `open` with this type, and nobody has it any more.
    let mut handle = unsafe { *Box::from_raw(file.cast::<ffi::MPI_File>()) };
    // SAFETY: one that was never opened is null, which MPI refuses with a code.
    unsafe { ffi::MPI_File_close(&mut handle) }
}

/// # Safety
/// `into` points to `room` bytes that may be written.
unsafe extern "C" fn error_text(code: c_int, into: *mut u8, room: usize) -> usize {
    let mut text = [0u8; ffi::MPI_MAX_ERROR_STRING as usize];
    let mut length = 0;
    // SAFETY: the text has the room that MPI asks for.
    let asked = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    // SAFETY: as the caller promises.
    if asked == SUCCESS { unsafe { give(&text, length, into, room) } } else { 0 }
}
