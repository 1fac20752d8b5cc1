//! What is recorded after a call of MPI: the file, bytes and positions of file calls, and the bytes and ranks of
//! calls in which ranks communicate.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dlio_tracer::calls::call::Done;
use dlio_tracer::known::number;
use dlio_tracer::naming::paths;
use dlio_tracer::ops::Op;
use dlio_tracer::spans::data_sets::{self, DataSet};
use dlio_tracer::spans::library_calls::{self, Returned};
use dlio_tracer::spans::mpi::{self, MpiCall};

use super::library::{LIBRARIES, Library, Word};

/// Numbers of this family's libraries in the table of data sets: of files, and of requests.
const FILES: usize = 8;
const REQUESTS: usize = 16;

/// Number of started requests on files whose end was not seen.
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

/// Requests of one call beyond this number are not recorded as ended.
const REQUESTS_MAX: usize = 64;

/// An unknown position.
const NO_POSITION: i64 = dlio_tracer::record::POS_UNKNOWN;

/// A call that has returned.
pub struct Ended {
    library: &'static Library,
    number: usize,
    op: Op,
    call: MpiCall,
    done: Done,
    /// It succeeded, so the library can be queried about its handles.
    has_succeeded: bool,
    /// Its counts have 64 bits.
    is_wide: bool,
}

/// Elements that a call moves.
#[derive(Clone, Copy)]
pub struct Elements {
    pub count: Word,
    pub of: Word,
}

impl Ended {
    /// Ends a call; `None` if the library turned out to be one whose interface is unknown.
    #[inline]
    pub fn new((number, op): (usize, Op), call: MpiCall, ret: c_int, is_wide: bool) -> Option<Ended> {
        let done = call.end();
        let (library, has_succeeded) = (&LIBRARIES[number], ret == 0);
        if has_succeeded && library.checked().is_none() {
            return None;
        }
        Some(Ended { library, number, op, call, done, has_succeeded, is_wide })
    }

    fn record(&self, file: u32, (a, b): (i64, i64), ret: i64) {
        library_calls::record(
            self.done,
            Returned { op: self.op, file, a, b, ret: if self.has_succeeded { ret } else { -1 } },
            &[],
        );
    }

    /// Returns the key of an open file.
    fn key(&self, file: Word) -> u64 {
        data_sets::key(FILES + self.number, file as i64)
    }

    fn file(&self, file: Word) -> DataSet {
        let unknown = DataSet { file: number::NONE, name: number::NONE, elements: None };
        data_sets::find(self.key(file)).unwrap_or(unknown)
    }

    fn count(&self, count: Word) -> i64 {
        if self.is_wide { count as i64 } else { count as i32 as i64 }
    }

    /// Returns the bytes of an element.
    fn size_of(&self, of: Word) -> i64 {
        let mut size = 0;
        // SAFETY: a data type of a call that has succeeded.
        unsafe { self.library.PMPI_Type_size_x(of, &mut size) };
        size.max(0)
    }

    /// Returns the bytes of elements; zero if the call failed.
    pub fn bytes(&self, elements: Elements) -> i64 {
        let count = self.count(elements.count);
        if !self.has_succeeded || count <= 0 { 0 } else { count.saturating_mul(self.size_of(elements.of)) }
    }

    /// Returns the bytes that were moved, from the status of a call that has succeeded.
    fn bytes_of_status(&self, status: Word) -> Option<i64> {
        if self.library.interface().ignores_status(status) {
            return None;
        }
        let mut bytes = -1;
        // SAFETY: the status that the call has just filled in.
        let ret = unsafe { self.library.PMPI_Get_elements_x(status, self.library.byte(), &mut bytes) };
        (ret == 0 && bytes >= 0).then_some(bytes)
    }

    /// Records that a file was opened.
    ///
    /// # Safety
    /// The arguments of the call.
    pub unsafe fn opened(self, name: Word, mode: Word, file: Word) {
        // SAFETY: by the contract above.
        let path = unsafe { path_number(name) };
        if self.has_succeeded {
            // SAFETY: the call has stored the handle of the file, which has the size of an address everywhere.
            let handle = unsafe { *std::ptr::with_exposed_provenance::<Word>(file) };
            // One element: the view is the one with which a file is opened, in bytes.
            data_sets::remember(self.key(handle), DataSet { file: path, name: number::NONE, elements: Some(1) });
        }
        self.record(path, (0, mode as i32 as i64), 0);
    }

    /// Records that a file was closed.
    pub fn closed(self, file: Word) {
        self.record(self.file(file).file, (0, 0), 0);
        if self.has_succeeded {
            data_sets::forget(self.key(file));
        }
    }

    /// Records that a file was removed.
    ///
    /// # Safety
    /// The argument of the call.
    pub unsafe fn deleted(self, name: Word) {
        // SAFETY: by the contract above.
        let path = unsafe { path_number(name) };
        self.record(path, (0, 0), 0);
    }

    /// Records a call on an open file that moves no data; `size` is its argument.
    pub fn on_file(self, file: Word, size: Word) {
        self.record(self.file(file).file, (0, size as i64), 0);
    }

    /// Records that a file has another view, so that positions are no longer known.
    pub fn viewed(self, file: Word) {
        let set = self.file(file);
        if self.has_succeeded && set.file != number::NONE {
            data_sets::remember(self.key(file), DataSet { elements: None, ..set });
        }
        self.record(set.file, (0, 0), 0);
    }

    /// Records that elements of a file were read or written. Without a status, all of them were.
    pub fn moved(self, file: Word, offset: Option<Word>, elements: Elements, status: Option<Word>) {
        let (set, requested) = (self.file(file), self.bytes(elements));
        let moved = status.filter(|_| self.has_succeeded).and_then(|status| self.bytes_of_status(status));
        let is_plain = set.elements == Some(1);
        let position = offset.filter(|_| is_plain).map_or(NO_POSITION, |offset| offset as i64);
        self.record(set.file, (position, requested), moved.unwrap_or(requested));
    }

    /// Records the first half of a split call.
    pub fn halved(self, file: Word, offset: Option<Word>, elements: Elements) {
        self.moved(file, offset, elements, None);
    }

    /// Records the second half of a split call.
    pub fn completed(self, file: Word, status: Word) {
        let bytes = if self.has_succeeded { self.bytes_of_status(status).unwrap_or(0) } else { 0 };
        self.record(self.file(file).file, (0, bytes), bytes);
    }

    /// Records that a request was started.
    ///
    /// # Safety
    /// The arguments of the call.
    pub unsafe fn started(self, file: Word, offset: Option<Word>, elements: Elements, request: Word) {
        if self.has_succeeded {
            let set = DataSet { elements: Some(self.bytes(elements) as u64), ..self.file(file) };
            // SAFETY: the call has stored the request.
            let handle = unsafe { handle(self.library, request, 0) };
            data_sets::remember(request_key(self.number, handle), set);
            IN_FLIGHT.fetch_add(1, Relaxed);
        }
        self.moved(file, offset, elements, None);
    }

    /// Records a call in which ranks communicate: by the communicator, and the bytes if they are known.
    pub fn communicated(self, communicator: Option<Word>, bytes: Option<i64>) {
        let mut ranks = 0;
        if let Some(communicator) = communicator.filter(|_| self.has_succeeded) {
            // SAFETY: a communicator of a call that has succeeded.
            unsafe { self.library.PMPI_Comm_size(communicator, &mut ranks) };
        }
        self.call.record_communication(self.done, bytes.filter(|_| self.has_succeeded), ranks as i64);
    }

    /// Records that MPI was initialized, and this process's rank.
    pub fn initialized(self) {
        if !self.has_succeeded {
            return self.communicated(None, None);
        }
        let (mut rank, mut ranks) = (-1, 0);
        // SAFETY: the communicator of all ranks, which exists now.
        unsafe {
            self.library.PMPI_Comm_rank(self.library.world(), &mut rank);
            self.library.PMPI_Comm_size(self.library.world(), &mut ranks);
        }
        self.call.record_communication(self.done, None, ranks as i64);
        if rank >= 0 && ranks > 0 {
            mpi::note_rank(rank as i64, ranks as i64);
        }
    }

    /// Returns the bytes of elements in a buffer, or of the elements in the other one if they are replaced in place.
    pub fn bytes_in(&self, buffer: Word, elements: Elements, other: Option<Elements>) -> Option<i64> {
        match self.library.interface().is_in_place(buffer) {
            true => other.map(|other| self.bytes(other)),
            false => Some(self.bytes(elements)),
        }
    }

    /// Returns the bytes of a call whose root is a rank: between groups, only some ranks pass meaningful arguments.
    pub fn bytes_at(&self, root: Word, bytes: impl FnOnce(&Ended) -> Option<i64>) -> Option<i64> {
        if (root as i32) < 0 { None } else { bytes(self) }
    }

    /// Returns the number of ranks in one group; `None` for a communicator between two groups.
    pub fn ranks(&self, communicator: Word) -> Option<usize> {
        let (mut is_between, mut ranks) = (1, 0);
        if !self.has_succeeded {
            return None;
        }
        // SAFETY: a communicator of a call that has succeeded.
        unsafe {
            self.library.PMPI_Comm_test_inter(communicator, &mut is_between);
            self.library.PMPI_Comm_size(communicator, &mut ranks);
        }
        (is_between == 0).then_some(ranks.max(0) as usize)
    }

    /// Returns the bytes that each rank moves to all of them.
    pub fn times_ranks(&self, communicator: Word, bytes: i64) -> Option<i64> {
        Some(bytes.saturating_mul(self.ranks(communicator)? as i64))
    }

    /// Returns the bytes of all counts in a list with one per rank.
    ///
    /// # Safety
    /// The arguments of the call.
    pub unsafe fn bytes_of_list(&self, communicator: Word, buffer: Word, counts: Word, of: Word) -> Option<i64> {
        if self.library.interface().is_in_place(buffer) {
            return None;
        }
        let ranks = self.ranks(communicator)?;
        // SAFETY: by the contract above, the list has an entry per rank.
        let sum = (0..ranks).map(|at| unsafe { self.listed(counts, at) }).fold(0i64, i64::saturating_add);
        Some(if sum > 0 { sum.saturating_mul(self.size_of(of)) } else { 0 })
    }

    /// Returns the bytes of all counts in a list with one per rank, as is a list of data types.
    ///
    /// # Safety
    /// The arguments of the call.
    pub unsafe fn bytes_of_lists(&self, communicator: Word, buffer: Word, counts: Word, of: Word) -> Option<i64> {
        if self.library.interface().is_in_place(buffer) {
            return None;
        }
        let mut bytes = 0i64;
        for at in 0..self.ranks(communicator)? {
            // SAFETY: by the contract above, the lists have an entry per rank.
            let (count, of) = unsafe { (self.listed(counts, at), handle(self.library, of, at)) };
            bytes = bytes.saturating_add(if count > 0 { count.saturating_mul(self.size_of(of)) } else { 0 });
        }
        Some(bytes)
    }

    /// Returns a count in a list.
    ///
    /// # Safety
    /// The list is that long.
    unsafe fn listed(&self, counts: Word, at: usize) -> i64 {
        // SAFETY: by the contract above.
        unsafe {
            match self.is_wide {
                true => *std::ptr::with_exposed_provenance::<i64>(counts).add(at),
                false => *std::ptr::with_exposed_provenance::<c_int>(counts).add(at) as i64,
            }
        }
    }
}

/// Returns the number of a path, without the name of a file system in front of it, such as `ufs:`.
///
/// # Safety
/// `name` is the argument of a call.
unsafe fn path_number(name: Word) -> u32 {
    const PREFIX_MAX: usize = 8;
    let name = std::ptr::with_exposed_provenance::<c_char>(name);
    if name.is_null() || paths::leads_nowhere(name) {
        return number::NONE;
    }
    // SAFETY: a terminated text; nothing after its end is read.
    unsafe {
        let is_of_prefix =
            |at: &usize| (*name.add(*at) as u8).is_ascii_lowercase() || (*name.add(*at) as u8).is_ascii_digit();
        let length = (0..PREFIX_MAX).take_while(is_of_prefix).count();
        let has_prefix = length > 1 && *name.add(length) as u8 == b':';
        paths::of(if has_prefix { name.add(length + 1) } else { name })
    }
}

/// Returns a handle in a list.
///
/// # Safety
/// The list is that long.
unsafe fn handle(library: &Library, list: Word, at: usize) -> Word {
    // SAFETY: by the contract above.
    unsafe {
        match library.interface().handle_size() {
            4 => *std::ptr::with_exposed_provenance::<u32>(list).add(at) as Word,
            _ => *std::ptr::with_exposed_provenance::<Word>(list).add(at),
        }
    }
}

fn request_key(number: usize, handle: Word) -> u64 {
    data_sets::key(REQUESTS + number, handle as i64)
}

/// Requests on files that a call may end: their positions in its list, handles and files.
pub struct Awaited {
    number: usize,
    list: Word,
    found: [(usize, Word, DataSet); REQUESTS_MAX],
    count: usize,
}

impl Awaited {
    /// Finds the requests on files in a list; `None` if it has none, as most lists.
    ///
    /// # Safety
    /// The arguments of the call.
    #[inline]
    pub unsafe fn find(number: usize, count: Word, list: Word) -> Option<Awaited> {
        if IN_FLIGHT.load(Relaxed) == 0 || !mpi::is_recorded() || list == 0 {
            return None;
        }
        let nothing = DataSet { file: number::NONE, name: number::NONE, elements: None };
        let mut awaited = Awaited { number, list, found: [(0, 0, nothing); REQUESTS_MAX], count: 0 };
        for at in 0..(count as i32).max(0) as usize {
            // SAFETY: by the contract above.
            let handle = unsafe { handle(&LIBRARIES[number], list, at) };
            if let Some(set) = data_sets::find(request_key(number, handle)).filter(|_| awaited.count < REQUESTS_MAX) {
                awaited.found[awaited.count] = (at, handle, set);
                awaited.count += 1;
            }
        }
        (awaited.count > 0).then_some(awaited)
    }

    /// Records the requests that the call has ended: their handles are other ones now.
    ///
    /// # Safety
    /// As for [`Awaited::find`].
    pub unsafe fn record(self, ended: Ended) {
        let (mut count, mut bytes, mut file) = (0, 0, number::NONE);
        for &(at, before, set) in &self.found[..self.count] {
            // SAFETY: by the contract above.
            if unsafe { handle(ended.library, self.list, at) } != before {
                data_sets::forget(request_key(self.number, before));
                IN_FLIGHT.fetch_sub(1, Relaxed);
                file = if count == 0 { set.file } else { file };
                count += 1;
                bytes += set.elements.unwrap_or(0) as i64;
            }
        }
        if count > 0 {
            ended.record(file, (count, bytes), 0);
        }
    }
}
