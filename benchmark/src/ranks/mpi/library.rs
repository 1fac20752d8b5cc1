//! Loads `libdlio_mpi.so` on demand. The program itself links no MPI, so it also runs where none is installed.

use super::table::{Table, VERSION};
use crate::failure::{Failure, Kind, Outcome};
use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;

/// The function that returns the table.
const ENTRY: &CStr = c"dlio_mpi_table";

type Entry = unsafe extern "C" fn() -> *const Table;

/// A loaded MPI. Memory passed to it belongs to it until the operation has finished.
pub struct Library {
    table: &'static Table,
    under_way: Option<Gather>,
    /// Buffer of the last read, kept for reuse.
    spare: Vec<u8>,
}

/// A file that all ranks opened together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedFile(*mut c_void);

/// The bytes of all ranks concatenated, or the bytes of a read.
pub struct CollectiveResult {
    pub bytes: Vec<u8>,
    pub count: usize,
}

/// The buffers of a collective. A barrier uses neither.
#[derive(Default)]
struct Gather {
    own: Vec<u8>,
    into: Vec<u8>,
    counts: Vec<c_int>,
    places: Vec<c_int>,
}

/// The maximum length of an MPI's name.
const TEXT: usize = 1024;

impl Library {
    /// Loads the library; on failure returns the cause in one line.
    pub fn load(path: &Path) -> Result<Library, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the name ends in a zero byte. The library is dlio's own; loading it runs no code except that of the
        // MPI library it links to. Its names are global because an MPI loads plugins that need them.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            return Err(last_error());
        }
        // SAFETY: the library was just opened and is never closed; the name ends in a zero byte.
        let entry = unsafe { libc::dlsym(library, ENTRY.as_ptr()) };
        if entry.is_null() {
            return Err(last_error());
        }
        // SAFETY: the symbol of this name is a function of this type in every version of the library.
        let table = unsafe { std::mem::transmute::<*mut c_void, Entry>(entry)() };
        // SAFETY: it returns a table that lives as long as the library; the first field is identical in every version.
        let version = unsafe { (*table).version };
        if version != VERSION {
            return Err(format!("{} has another version than this program", path.display()));
        }
        // SAFETY: in this version the table has all the fields of the struct.
        Ok(Library { table: unsafe { &*table }, under_way: None, spare: Vec::new() })
    }

    /// Returns the MPI's own name: "Open MPI v4.1.4, package: ...".
    pub fn name(&self) -> String {
        let mut text = vec![0; 8192];
        // SAFETY: the function writes at most `length` bytes.
        let length = unsafe { (self.table.name)(text.as_mut_ptr(), text.len()) };
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        let first = text.split(['\n', ',', '\0']).next().unwrap_or_default();
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Initializes the MPI; returns the rank and the number of ranks that it reports.
    pub fn begin(&mut self) -> Outcome<(u64, u64)> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: writes the two numbers it is given. Called once per process: the only caller is `Mpi::join`.
        let code = unsafe { (self.table.begin)(&mut rank, &mut size) };
        self.checked("join the other ranks", code).map(|()| (rank, size))
    }

    /// Finalizes the MPI. Either all ranks call this or none.
    pub fn end(&mut self) -> Outcome<()> {
        // SAFETY: called after `begin`, with nothing in flight: the caller has waited for the last operation.
        let code = unsafe { (self.table.end)() };
        self.checked("leave the other ranks", code)
    }

    pub fn start_barrier(&mut self) -> Outcome<()> {
        self.under_way = Some(Gather::default());
        // SAFETY: called after `begin`; it needs no memory.
        let code = unsafe { (self.table.start_barrier)() };
        self.started("the barrier", code)
    }

    /// Starts sending `own` to all ranks and receiving `counts[rank]` bytes from each.
    pub fn start_gather(&mut self, own: Vec<u8>, counts: &[usize]) -> Outcome<()> {
        let mut places = Vec::with_capacity(counts.len());
        let mut total = 0;
        for count in counts {
            places.push(total);
            total += count;
        }
        let numbers = |numbers: &[usize]| numbers.iter().map(|number| c_int::try_from(*number)).collect();
        let (Ok(length), Ok(counts), Ok(places)) = (c_int::try_from(own.len()), numbers(counts), numbers(&places))
        else {
            return Err(Failure::new(Kind::System, format!("ranks cannot exchange {total} bytes at once")));
        };
        let gather = self.under_way.insert(Gather { own, into: vec![0; total], counts, places });
        // SAFETY: called after `begin`. The buffers have the given sizes and are not moved until `test` reports
        // completion: `under_way` owns them, and leaks them if that never happens.
        let code = unsafe {
            (self.table.start_gather)(
                gather.own.as_ptr(),
                length,
                gather.into.as_mut_ptr(),
                gather.counts.as_ptr(),
                gather.places.as_ptr(),
            )
        };
        self.started("the exchange", code)
    }

    fn started(&mut self, what: &str, code: c_int) -> Outcome<()> {
        let checked = self.checked(what, code);
        if checked.is_err() {
            self.under_way = None;
        }
        checked
    }

    /// Returns the result of the operation in flight, if it has finished.
    pub fn test(&mut self) -> Outcome<Option<CollectiveResult>> {
        let (mut done, mut count) = (0, 0);
        // SAFETY: writes the two numbers it is given.
        let code = unsafe { (self.table.test)(&mut done, &mut count) };
        self.checked("wait for the other ranks", code)?;
        let bytes = match done {
            0 => return Ok(None),
            _ => self.under_way.take().unwrap_or_default().into,
        };
        Ok(Some(CollectiveResult { bytes, count: usize::try_from(count).unwrap_or(0) }))
    }

    /// Opens a file for reading. All ranks open the same file together.
    pub fn open(&mut self, path: &Path) -> Outcome<SharedFile> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?;
        let mut file = std::ptr::null_mut();
        // SAFETY: the name ends in a zero byte; writes the one pointer.
        let code = unsafe { (self.table.open)(name.as_ptr().cast(), &mut file) };
        self.checked(&format!("open {}", path.display()), code).map(|()| SharedFile(file))
    }

    /// Closes a file. All ranks close the same file together.
    pub fn close(&mut self, file: SharedFile) -> Outcome<()> {
        // SAFETY: the file came from `open`; the caller drops it on close.
        let code = unsafe { (self.table.close)(file.0) };
        self.checked("close a shared file", code)
    }

    /// Starts reading `length` bytes of a file while all other ranks read theirs.
    pub fn start_read(&mut self, file: SharedFile, offset: u64, length: usize) -> Outcome<()> {
        let (Ok(count), Ok(offset)) = (c_int::try_from(length), i64::try_from(offset)) else {
            return Err(Failure::refused(format!("ranks cannot read {length} bytes in one collective call")));
        };
        let mut into = std::mem::take(&mut self.spare);
        into.resize(length, 0);
        let gather = self.under_way.insert(Gather { into, ..Gather::default() });
        // SAFETY: the file came from `open`. The buffer has the given length and is not moved until `test` reports
        // completion: `under_way` owns it, and leaks it if that never happens.
        let code = unsafe { (self.table.start_read)(file.0, offset, gather.into.as_mut_ptr(), count) };
        self.started("read a shared file", code)
    }

    /// Takes back the buffer of a read for reuse.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare = bytes;
    }

    fn checked(&self, doing: &str, code: c_int) -> Outcome<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0; TEXT];
        // SAFETY: the function writes at most `length` bytes.
        let length = unsafe { (self.table.error_text)(code, text.as_mut_ptr(), text.len()) };
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        Err(Failure::new(Kind::System, format!("MPI cannot {doing}: {text} ({code})")))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // The MPI may still write there.
        std::mem::forget(self.under_way.take());
    }
}

fn last_error() -> String {
    // SAFETY: the text belongs to the loader and is valid until its next call on this thread; it is null if there is no
    // error.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { "unknown reason".into() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}
