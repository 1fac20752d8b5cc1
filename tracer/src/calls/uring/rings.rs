//! The rings of this process, and when their memory is read: before and after each call that enters the kernel for one,
//! before a ring is unmapped, and at the end of the process.
//!
//! A ring is known by the address of liburing's structure or by its descriptor. Its memory is read only as long as the
//! program cannot have unmapped it: within its own calls for the ring, or, at the end, if the kernel can read it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use dlio_schemas::native::names::URING;
use dlio_schemas::ops::Op;
use dlio_schemas::record::{Record, word};

use super::notes::Notes;
use super::queues::{Cqe, LibraryRing, Mappings, Params, Queues, Sqe, is_known};
use super::registered::Files;
use super::requests;
use crate::calls::call::{Call, Done};
use crate::calls::waits;
use crate::kernel::{clock, sys};
use crate::known::{descriptors, number};
use crate::life::lifecycle;
use crate::naming::{descriptor_files, path_numbers};
use crate::recording::{phase, ring, wiped_page};
use crate::thread::local::{local, own_id};
use crate::thread::lock::{Lock, LockGuard};
use crate::thread::stack;

/// Maximum number of rings at a time. Requests through additional rings are not recorded.
const RINGS: usize = 128;

/// Flags of a result: more results follow; it only says that a buffer may be reused.
const MORE: u32 = 1 << 1;
const NOTIFICATION: u32 = 1 << 3;

/// Flags of a call that enters the kernel, and operations of one that registers.
const BY_REGISTERED_RING: u32 = 1 << 4;
const FILES_ADD: u32 = 2;
const FILES_REMOVE: u32 = 3;
const FILES_UPDATE: u32 = 6;
const FILES_ADD_2: u32 = 13;
const FILES_UPDATE_2: u32 = 14;
const RINGS_ADD: u32 = 20;
const BY_REGISTERED: u32 = 1 << 31;

/// A ring: how it is found, and its state under the lock.
struct Ring {
    /// The address of a structure, or a descriptor with [`DESCRIPTOR`]; zero if it is free.
    key: AtomicUsize,
    /// Its descriptor, plus one, if the key is an address.
    descriptor: AtomicU32,
    /// The index by which one thread enters the ring, plus one, and that thread.
    index: AtomicU32,
    thread: AtomicU32,
    lock: Lock,
    state: UnsafeCell<State>,
}

// SAFETY: the state is used only under the lock.
unsafe impl Sync for Ring {}

/// Marks a key that is a descriptor: no address has this bit.
const DESCRIPTOR: usize = 1 << 63;

struct State {
    fd: i32,
    /// `None` until all of it is mapped.
    queues: Option<Queues>,
    params: Option<Params>,
    mappings: Mappings,
    /// Requests and results read so far.
    submitted: u32,
    completed: u32,
    notes: Notes,
    files: Files,
    /// Requests on files in flight, and the file of the latest one.
    on_files: u32,
    latest: u32,
    /// Results without a note that are not reported yet, and whether any were reported.
    unseen: u64,
    has_unseen: bool,
    /// The image in which file numbers are valid, and its process.
    generation: u32,
    process: i32,
}

impl State {
    const NONE: State = State {
        fd: 0,
        queues: None,
        params: None,
        mappings: Mappings::NONE,
        submitted: 0,
        completed: 0,
        notes: Notes::NONE,
        files: Files::NONE,
        on_files: 0,
        latest: number::NONE,
        unseen: 0,
        has_unseen: false,
        generation: 0,
        process: 0,
    };
}

crate::large! {
    static TABLE: [Ring; RINGS] = [const {
        Ring {
            key: AtomicUsize::new(0),
            descriptor: AtomicU32::new(0),
            index: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            lock: Lock::new(),
            state: UnsafeCell::new(State::NONE),
        }
    }; RINGS];
}

/// Number of rings ever in the table at once; most processes have none.
static USED: AtomicUsize = AtomicUsize::new(0);
static IS_FULL: AtomicBool = AtomicBool::new(false);
/// Messages to other rings that were submitted: each adds a result that has no request there.
static MESSAGES: AtomicU32 = AtomicU32::new(0);

/// Returns `true` if this process has created a ring.
#[inline(always)]
pub fn are_any() -> bool {
    USED.load(Relaxed) != 0
}

fn all() -> &'static [Ring] {
    &TABLE[..USED.load(Acquire).min(RINGS)]
}

fn find(key: usize) -> Option<&'static Ring> {
    all().iter().find(|ring| ring.key.load(Acquire) == key)
}

fn by_descriptor(fd: i32) -> usize {
    fd as u32 as usize | DESCRIPTOR
}

/// Returns the ring of a descriptor, which may be the library's.
fn find_descriptor(fd: i32) -> Option<&'static Ring> {
    let of_library = || {
        let has = |ring: &&Ring| ring.key.load(Acquire) != 0 && ring.descriptor.load(Relaxed) == fd as u32 + 1;
        all().iter().find(has).filter(|_| fd >= 0)
    };
    find(by_descriptor(fd)).or_else(of_library)
}

/// Returns the ring that a thread enters by an index.
fn by_index(index: i32) -> Option<&'static Ring> {
    let (wanted, me) = (index as u32 + 1, own_id());
    all().iter().find(|ring| ring.index.load(Relaxed) == wanted && ring.thread.load(Relaxed) == me)
}

impl Ring {
    /// Uses the state, unless this thread was interrupted while it did.
    fn with<T>(&self, key: usize, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        let _held: LockGuard = self.lock.take()?;
        // Another thread may have removed it in the meantime.
        // SAFETY: under the lock.
        (self.key.load(Relaxed) == key).then(|| work(unsafe { &mut *self.state.get() }))
    }

    fn remove(&self, key: usize) {
        self.with(key, |state| {
            state.report();
            state.notes.release();
            state.files.release();
            *state = State::NONE;
            self.index.store(0, Relaxed);
            self.key.store(0, Release);
        });
    }
}

/// Adds a ring, in place of one with the same key that was closed unseen.
fn add(key: usize, state: State) {
    static ADDING: Lock = Lock::new();
    register_end();
    if let Some(old) = find(key) {
        old.remove(key);
    }
    let Some(_held) = ADDING.take() else { return };
    let free = TABLE.iter().position(|ring| ring.key.load(Relaxed) == 0);
    let Some(at) = free else {
        if !IS_FULL.swap(true, Relaxed) {
            report_unseen(0);
        }
        return;
    };
    let ring = &TABLE[at];
    if let Some(_owned) = ring.lock.take() {
        ring.descriptor.store(if key & DESCRIPTOR == 0 { state.fd.wrapping_add(1) as u32 } else { 0 }, Relaxed);
        // SAFETY: under the lock.
        unsafe { *ring.state.get() = state };
        ring.key.store(key, Release);
    }
    USED.fetch_max(at + 1, AcqRel);
}

fn register_end() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if !IS_DONE.swap(true, Relaxed) {
        lifecycle::before_end(at_end);
    }
}

/// Records that a ring's requests are not in the trace, as far as their number is known.
fn report_unseen(count: u64) {
    let file = path_numbers::object(URING.as_bytes());
    let start = clock::ticks();
    let word = word(Op::URING_UNSEEN, 0, true, 0);
    ring::put(Record { word, start, file, fd: -1, a: 0, b: 0, ret: count as i64 });
}

/// The results found in a ring.
#[derive(Clone, Copy, Default)]
struct Found {
    results: i64,
    file: u32,
}

impl State {
    fn new(fd: i32, queues: Option<Queues>) -> State {
        let (generation, process) = (wiped_page::generation(), sys::process_id());
        let mut state = State { fd, queues, generation, process, ..State::NONE };
        state.begin();
        state
    }

    /// Starts to read the queues.
    fn begin(&mut self) {
        if let Some(queues) = &self.queues {
            (self.submitted, self.completed, self.on_files) = (queues.submitted(), queues.completed(), 0);
            self.notes = Notes::new(queues.cq_entries());
        }
    }

    /// Notes the requests up to a number.
    fn submit(&mut self, until: u32) {
        let Some(queues) = self.queues else { return };
        self.check_generation();
        let waiting = until.wrapping_sub(self.submitted);
        if waiting as i32 <= 0 {
            return;
        }
        if waiting > queues.sq_entries() {
            self.submitted = until.wrapping_sub(queues.sq_entries());
        }
        let now = clock::ticks();
        while self.submitted != until {
            if let Some(sqe) = queues.request(self.submitted) {
                if requests::is_message(&sqe) {
                    MESSAGES.fetch_add(1, Relaxed);
                }
                self.note(&sqe, now);
            }
            self.submitted = self.submitted.wrapping_add(1);
        }
    }

    fn note(&mut self, sqe: &Sqe, now: u64) {
        let note = requests::note(sqe, &mut self.files, now);
        if requests::has_no_result(sqe) {
            self.unseen += (note.op != requests::NO_IO.0) as u64;
        } else if self.notes.add(note) && requests::is_on_file(&note) {
            (self.on_files, self.latest) = (self.on_files + 1, note.file);
        }
    }

    /// Records the requests whose results are there. Without the result of a request on a file, the file is that of one
    /// that is in flight: the program waits for it.
    fn complete(&mut self) -> Found {
        let mut found = Found::default();
        let Some(queues) = self.queues else { return found };
        self.check_generation();
        let until = queues.completed();
        let waiting = until.wrapping_sub(self.completed);
        if waiting as i32 <= 0 {
            return found;
        }
        if waiting > queues.cq_entries() {
            self.unseen += (waiting - queues.cq_entries()) as u64;
            self.completed = until.wrapping_sub(queues.cq_entries());
        }
        let now = clock::ticks();
        while self.completed != until {
            match queues.result(self.completed) {
                Some(cqe) => self.result(&cqe, now, &mut found),
                None => self.unseen += 1,
            }
            self.completed = self.completed.wrapping_add(1);
        }
        if self.unseen > 0 && !self.has_unseen {
            self.report();
        }
        if found.file == number::NONE && self.on_files > 0 {
            found.file = self.latest;
        }
        found
    }

    fn result(&mut self, cqe: &Cqe, now: u64, found: &mut Found) {
        let Some(note) = self.notes.take(cqe.user_data, cqe.flags & MORE != 0) else {
            let is_message = MESSAGES.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).is_ok();
            self.unseen += !is_message as u64;
            return;
        };
        found.results += 1;
        if cqe.flags & MORE == 0 && requests::is_on_file(&note) {
            self.on_files = self.on_files.saturating_sub(1);
        }
        if cqe.flags & NOTIFICATION != 0 || Op(note.op) == requests::NO_IO {
            return;
        }
        requests::completed(&note, cqe.result, &mut self.files);
        if note.file != number::NONE && note.file != number::FILTERED {
            found.file = note.file;
        }
        let done = Done { start: note.start, duration: now.wrapping_sub(note.start) };
        done.record(Op(note.op), note.file, note.fd, (note.a, note.is_known), note.b, cqe.result as i64);
    }

    /// Looks up files again if their numbers are of an earlier image of this process.
    fn check_generation(&mut self) {
        let generation = wiped_page::generation();
        if generation != self.generation {
            self.generation = generation;
            self.files.forget();
            // A child that was forked unannounced: the requests are its parent's.
            if sys::process_id() != self.process {
                self.process = sys::process_id();
                self.notes.release();
                return self.begin();
            }
            self.notes.for_each(|note| note.file = descriptor_files::file(note.fd));
        }
    }

    fn report(&mut self) {
        if self.unseen > 0 {
            self.has_unseen = true;
            report_unseen(std::mem::take(&mut self.unseen));
        }
    }

    /// Reads a ring for the last time, at a time at which the program may have unmapped it.
    fn end(&mut self) {
        let is_readable = |queues: Queues| {
            let pages = queues.pages().map(std::ptr::with_exposed_provenance);
            sys::are_readable(&pages)
        };
        if self.queues.is_some_and(|queues| !phase::is_filtered() && is_readable(queues)) {
            self.complete();
        } else if self.queues.is_none() && descriptors::seen(self.fd) != number::NONE {
            self.unmapped();
        }
        self.report();
    }
}

/// Handles the end of the process, while events can still be recorded.
fn at_end() {
    stack::with_stack_space(|| {
        for ring in all() {
            let key = ring.key.load(Acquire);
            if key != 0 {
                ring.with(key, State::end);
            }
        }
    });
}

/// Forgets all rings in a forked child: their requests are its parent's.
pub fn forget() {
    for ring in all() {
        ring.lock.reset();
        ring.key.store(0, Relaxed);
        ring.index.store(0, Relaxed);
        // SAFETY: there is no other thread.
        let state = unsafe { &mut *ring.state.get() };
        state.notes.release();
        state.files.release();
        *state = State::NONE;
    }
    USED.store(0, Relaxed);
}

// ---- creation and end ---------------------------------------------------------------------------------------------

/// Prepares for a ring that the library is about to set up at this address.
pub fn creates_in_library(ring: *const LibraryRing) {
    if let Some(old) = find(ring.addr()) {
        old.remove(ring.addr());
    }
}

/// Handles a ring that the library has set up, or failed to.
///
/// # Safety
/// `ring` is a ring of the library if `ret` is not negative.
pub unsafe fn created_in_library(done: Done, ring: *const LibraryRing, entries: u32, ret: i32) {
    if ret < 0 {
        return done.record(Op::URING_SETUP, number::NONE, -1, (entries as i64, true), 0, ret as i64);
    }
    // A function of the library may call another one that is hooked, too.
    if find(ring.addr()).is_some() {
        return;
    }
    // SAFETY: by the contract above.
    let is_known = unsafe { know(ring) }.is_some();
    let file = if is_known { number::NONE } else { path_numbers::object(URING.as_bytes()) };
    done.record(Op::URING_SETUP, file, -1, (entries as i64, true), 0, ret as i64);
}

/// Returns a ring of the library, added at its first use.
///
/// # Safety
/// `ring` is a ring that the library has set up.
unsafe fn know(ring: *const LibraryRing) -> Option<&'static Ring> {
    let key = ring.addr();
    // SAFETY: by the contract above.
    let queues = unsafe { Queues::of_library(ring) }?;
    let known = find(key);
    let is_same = |found: &&Ring| found.with(key, |state| state.queues.is_some_and(|it| it.is_same(&queues)));
    if known.is_some_and(|found| is_same(&found) != Some(false)) {
        return known;
    }
    // SAFETY: as above.
    let (fd, flushed) = unsafe { (LibraryRing::fd(ring), LibraryRing::flushed(ring)) };
    let state = State::new(fd, Some(queues));
    add(key, State { submitted: flushed, ..state });
    find(key)
}

/// Handles the end of a ring of the library, which unmaps it after that.
pub fn ends_in_library(ring: *const LibraryRing) {
    let key = ring.addr();
    if let Some(found) = find(key) {
        found.with(key, |state| state.complete());
        found.remove(key);
    }
}

/// Handles `io_uring_setup`.
///
/// # Safety
/// `params` were filled in by the kernel if `outcome` is not negative.
pub unsafe fn created(done: Done, entries: u32, params: *const Params, outcome: i64) {
    done.record(Op::URING_SETUP, number::NONE, outcome.max(-1) as i32, (entries as i64, true), 0, outcome);
    if outcome < 0 {
        return;
    }
    // SAFETY: by the contract above.
    let (params, fd) = (unsafe { *params }, outcome as i32);
    // Its mappings are not on a ring whose requests are missing, unless it turns out that they are.
    descriptors::opened(fd, path_numbers::object(b"<kernel object>"), 0);
    let queues = Queues::mapped(&params, &Mappings::NONE);
    let mut state = State { params: Some(params), ..State::new(fd, queues) };
    if !is_known(params.flags) {
        state.unmapped();
    }
    add(by_descriptor(fd), state);
}

/// Handles a mapping, possibly of a part of a ring.
pub fn mapped(fd: i32, offset: i64, start: usize, size: usize) {
    let key = by_descriptor(fd);
    let Some(found) = find(key) else { return };
    found.with(key, |state| {
        state.mappings.add(offset, start, size);
        if let Some(params) = state.params.filter(|_| state.queues.is_none()) {
            state.queues = Queues::mapped(&params, &state.mappings);
            state.begin();
        }
    });
}

/// Handles a range of addresses that is about to be unmapped.
pub fn unmapping(start: usize, size: usize) {
    for ring in all() {
        let key = ring.key.load(Acquire);
        if key & DESCRIPTOR == 0 {
            continue;
        }
        let is_gone = ring.with(key, |state| {
            let is_in_it = state.mappings.overlap(start, size);
            if is_in_it {
                state.complete();
            }
            is_in_it
        });
        if is_gone == Some(true) {
            ring.remove(key);
        }
    }
}

// ---- entering the kernel ------------------------------------------------------------------------------------------

/// Runs a function of the library that may submit requests and wait for results.
///
/// # Safety
/// `ring` is a ring of the library.
pub unsafe fn enter_library(call: Call, ring: *const LibraryRing, real: impl FnOnce() -> i32) -> i32 {
    let key = ring.addr();
    let Some(outer) = begin(key) else {
        let ret = real();
        call.end();
        return ret;
    };
    // SAFETY: by the contract above.
    let (known, filled) = unsafe { (know(ring), LibraryRing::filled(ring)) };
    let fd = known.map_or(-1, |found| before(found, key, Some(filled)));
    let call = call.restarted();
    let ret = real();
    let done = call.end();
    end(outer);
    after(done, known.map(|found| (found, key)), fd, ret as i64);
    ret
}

/// Runs a call that enters the kernel for a ring, by its descriptor or by an index; `outcome` reads its result.
pub fn enter(call: Call, fd: i32, flags: u32, real: impl FnOnce() -> i64, outcome: impl FnOnce(i64) -> i64) -> i64 {
    let Some(outer) = begin(by_descriptor(fd)) else {
        let ret = real();
        call.end();
        return ret;
    };
    let known = if flags & BY_REGISTERED_RING != 0 { by_index(fd) } else { find_descriptor(fd) };
    let known = known.map(|found| (found, found.key.load(Acquire)));
    if let Some((found, key)) = known {
        before(found, key, None);
    }
    let call = call.restarted();
    let ret = real();
    let done = call.end();
    end(outer);
    let outcome = outcome(ret);
    if known.is_none() && outcome >= 0 {
        note_unknown();
    }
    after(done, known, fd, outcome);
    ret
}

/// Returns `None` if this thread is already inside such a function for this ring: the library's functions call each
/// other. A signal handler that interrupts one may use another ring.
fn begin(key: usize) -> Option<u32> {
    let mark = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1;
    // SAFETY: the line is this thread's own.
    let outer = unsafe { std::mem::replace(&mut (*local()).in_ring, mark) };
    (outer != mark).then_some(outer)
}

fn end(outer: u32) {
    // SAFETY: the line is this thread's own.
    unsafe { (*local()).in_ring = outer };
}

/// Reports once that there is a ring whose creation was not seen.
#[cold]
fn note_unknown() {
    static IS_SAID: AtomicU32 = AtomicU32::new(0);
    let generation = wiped_page::generation();
    if IS_SAID.swap(generation, Relaxed) != generation {
        report_unseen(0);
    }
}

/// Reads results that arrived since the last call, and the requests that are about to be submitted. Returns the
/// descriptor.
fn before(ring: &Ring, key: usize, filled: Option<u32>) -> i32 {
    let read = |state: &mut State| {
        state.complete();
        match (filled, &state.queues) {
            (Some(filled), _) => state.submit(filled),
            (None, Some(queues)) => state.submit(queues.submitted()),
            (None, None) => state.unmapped(),
        }
        state.fd
    };
    stack::with_stack_space(|| ring.with(key, read)).unwrap_or(-1)
}

impl State {
    /// Reports once that a ring is used although its memory is not known.
    fn unmapped(&mut self) {
        if !self.has_unseen {
            self.has_unseen = true;
            report_unseen(0);
        }
    }
}

/// Reads the results, and records the call itself if it took long.
fn after(done: Done, ring: Option<(&Ring, usize)>, fd: i32, outcome: i64) {
    let found = stack::with_stack_space(|| ring.and_then(|(ring, key)| ring.with(key, State::complete)));
    let found = found.unwrap_or_default();
    waits::waited_for_requests(done, (found.file, fd), found.results, outcome);
}

// ---- registered files ---------------------------------------------------------------------------------------------

/// A change of the registered files of a ring.
#[derive(Clone, Copy)]
pub enum Change {
    /// All files are replaced by this number of descriptors; without a list, by empty slots.
    All {
        list: *const i32,
        count: u32,
    },
    /// Files from this index on.
    Some {
        first: u32,
        list: *const i32,
        count: u32,
    },
    None,
}

/// Handles a successful change of the registered files of a ring of the library.
///
/// # Safety
/// `ring` is a ring of the library, and the list of the change can be read.
pub unsafe fn registered_in_library(ring: *const LibraryRing, change: Change) {
    // SAFETY: by the contract above.
    if let Some(found) = unsafe { know(ring) } {
        found.with(ring.addr(), |state| change_files(state, change));
    }
}

fn change_files(state: &mut State, change: Change) {
    let (first, list, count) = match change {
        Change::None => return state.files.release(),
        Change::All { list, count } => {
            state.files.release();
            state.files = Files::new(count);
            (0, list, count)
        }
        Change::Some { first, list, count } => (first, list, count),
    };
    if list.is_null() {
        return;
    }
    for at in 0..count {
        // SAFETY: the kernel has just read the list.
        let fd = unsafe { list.add(at as usize).read_unaligned() };
        const KEEP: i32 = -2;
        if fd != KEEP {
            state.files.set(first.wrapping_add(at), descriptor_files::file(fd));
        }
    }
}

/// Handles a successful `io_uring_register`.
///
/// # Safety
/// The arguments of the call, which has succeeded.
pub unsafe fn registered(fd: i32, operation: u32, argument: usize, count: u32, result: i64) {
    // SAFETY: the kernel has just read the structures.
    let word = |at: usize| unsafe { std::ptr::with_exposed_provenance::<u32>(argument + 4 * at).read_unaligned() };
    let list = |at: usize| {
        let address = word(at) as usize | (word(at + 1) as usize) << 32;
        std::ptr::with_exposed_provenance::<i32>(address)
    };
    let is_index = operation & BY_REGISTERED != 0;
    let change = match operation & !BY_REGISTERED {
        FILES_ADD => Change::All { list: std::ptr::with_exposed_provenance(argument), count },
        // count, flags, -, -, the list, ...
        FILES_ADD_2 => Change::All { list: list(4), count: word(0) },
        FILES_REMOVE => Change::None,
        // first, -, the list
        FILES_UPDATE => Change::Some { first: word(0), list: list(2), count },
        // first, -, the list, tags, count
        FILES_UPDATE_2 => Change::Some { first: word(0), list: list(2), count: word(6) },
        RINGS_ADD => {
            // index, -, descriptor of each
            (0..(result.max(0) as usize).min(16)).for_each(|at| index_ring(word(4 * at + 2) as i32, word(4 * at)));
            return;
        }
        _ => return,
    };
    let known = if is_index { by_index(fd) } else { find_descriptor(fd) };
    if let Some(ring) = known {
        ring.with(ring.key.load(Acquire), |state| change_files(state, change));
    }
}

fn index_ring(fd: i32, index: u32) {
    if let Some(ring) = find_descriptor(fd) {
        ring.thread.store(own_id(), Relaxed);
        ring.index.store(index.wrapping_add(1), Relaxed);
    }
}
