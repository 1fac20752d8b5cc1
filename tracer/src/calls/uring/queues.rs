//! The memory that a ring shares with the kernel: where its queues are, and their entries.

use std::sync::atomic::{AtomicU32, Ordering::Acquire};

/// The argument of `io_uring_setup`, in which the kernel returns the layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Params {
    pub sq_entries: u32,
    pub cq_entries: u32,
    pub flags: u32,
    thread: [u32; 2],
    pub features: u32,
    rest: [u32; 4],
    sq: Offsets,
    cq: Offsets,
}

/// Offsets within the mapping of a queue. The fifth is that of flags or of an overflow counter.
#[repr(C)]
#[derive(Clone, Copy)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    fifth: u32,
    sixth: u32,
    seventh: u32,
    unused: u32,
    /// The address of the program's own memory, if the ring is not mapped.
    own_memory: u64,
}

const _: () = assert!(size_of::<Params>() == 120);

/// The `struct io_uring` of liburing 2.
#[repr(C)]
pub struct LibraryRing {
    sq: LibraryQueue,
    sqes: usize,
    sqe_head: u32,
    sqe_tail: u32,
    sq_rest: [u64; 4],
    cq: LibraryQueue,
    cq_rest: [u64; 4],
    flags: u32,
    fd: i32,
}

/// Addresses of the parts of a queue. The last one is that of the submission queue's array of indexes, or of the
/// results.
#[repr(C)]
struct LibraryQueue {
    head: usize,
    tail: usize,
    mask: usize,
    entries: usize,
    fifth: usize,
    sixth: usize,
    last: usize,
}

const _: () = assert!(std::mem::offset_of!(LibraryRing, cq) == 104 && std::mem::offset_of!(LibraryRing, flags) == 192);

const SQE_128: u32 = 1 << 10;
const CQE_32: u32 = 1 << 11;
const NO_MAPPING: u32 = 1 << 14;
const NO_ARRAY: u32 = 1 << 16;
/// Later flags may change the layout, so rings with them are not read.
const KNOWN_FLAGS: u32 = (1 << 18) - 1;
/// One mapping contains both queues.
const SINGLE_MAPPING: u32 = 1;

/// The offsets at which a program maps the parts of a ring.
const SQ_RING: i64 = 0;
const CQ_RING: i64 = 0x800_0000;
const SQES: i64 = 0x1000_0000;

/// The layout of a ring has these flags only.
pub fn is_known(flags: u32) -> bool {
    flags & !KNOWN_FLAGS == 0
}

/// Where a program has mapped the parts of a ring; zero if it has not.
#[derive(Clone, Copy)]
pub struct Mappings {
    parts: [(usize, usize); 3],
}

impl Mappings {
    pub const NONE: Mappings = Mappings { parts: [(0, 0); 3] };

    pub fn add(&mut self, offset: i64, start: usize, size: usize) {
        let part = [SQ_RING, CQ_RING, SQES].iter().position(|at| *at == offset);
        if let Some(part) = part {
            self.parts[part] = (start, size);
        }
    }

    /// Returns `true` if a part of the ring is in this range.
    pub fn overlap(&self, start: usize, size: usize) -> bool {
        let end = start.saturating_add(size);
        self.parts.iter().any(|&(from, length)| from < end && start < from + length)
    }
}

/// Addresses of the queues of a ring.
#[derive(Clone, Copy)]
pub struct Queues {
    sq_tail: usize,
    /// Zero if entry i of the queue is request i.
    sq_array: usize,
    sqes: usize,
    sq_mask: u32,
    sqe_shift: u32,
    cq_head: usize,
    cq_tail: usize,
    cqes: usize,
    cq_mask: u32,
    cqe_shift: u32,
}

/// A request, in the kernel's layout.
#[derive(Clone, Copy)]
pub struct Sqe([u64; 8]);

/// A result.
#[derive(Clone, Copy)]
pub struct Cqe {
    pub user_data: u64,
    pub result: i32,
    pub flags: u32,
}

impl Sqe {
    pub fn opcode(&self) -> u8 {
        self.0[0] as u8
    }

    pub fn flags(&self) -> u8 {
        (self.0[0] >> 8) as u8
    }

    pub fn fd(&self) -> i32 {
        (self.0[0] >> 32) as i32
    }

    /// A position, or a second address.
    pub fn offset(&self) -> u64 {
        self.0[1]
    }

    pub fn address(&self) -> u64 {
        self.0[2]
    }

    pub fn length(&self) -> u32 {
        self.0[3] as u32
    }

    /// Flags of the operation.
    pub fn own_flags(&self) -> u32 {
        (self.0[3] >> 32) as u32
    }

    pub fn user_data(&self) -> u64 {
        self.0[4]
    }

    /// The index of a registered file, plus one, or a second descriptor.
    pub fn file_index(&self) -> u32 {
        (self.0[5] >> 32) as u32
    }

    /// A third address.
    pub fn extra(&self) -> u64 {
        self.0[6]
    }

    #[cfg(test)]
    pub fn from_words(words: [u64; 8]) -> Sqe {
        Sqe(words)
    }
}

impl Queues {
    /// Returns the queues of a ring that a program has mapped; `None` if not all of it is mapped.
    pub fn mapped(params: &Params, mappings: &Mappings) -> Option<Queues> {
        let [sq, cq, sqes] = mappings.parts.map(|(start, _)| start);
        let (sq, cq, sqes) = match params.flags & NO_MAPPING {
            0 if params.features & SINGLE_MAPPING != 0 => (sq, if cq == 0 { sq } else { cq }, sqes),
            0 => (sq, cq, sqes),
            _ => (params.cq.own_memory as usize, params.cq.own_memory as usize, params.sq.own_memory as usize),
        };
        let layout = [params.sq_entries, params.cq_entries].iter().all(|entries| entries.is_power_of_two());
        (is_known(params.flags) && sq != 0 && cq != 0 && sqes != 0 && layout).then(|| Queues {
            sq_tail: sq + params.sq.tail as usize,
            sq_array: if params.flags & NO_ARRAY != 0 { 0 } else { sq + params.sq.seventh as usize },
            sqes,
            sq_mask: params.sq_entries - 1,
            sqe_shift: sqe_shift(params.flags),
            cq_head: cq + params.cq.head as usize,
            cq_tail: cq + params.cq.tail as usize,
            cqes: cq + params.cq.sixth as usize,
            cq_mask: params.cq_entries - 1,
            cqe_shift: cqe_shift(params.flags),
        })
    }

    /// Returns the queues of a ring of liburing, whose array of indexes is always the identity.
    ///
    /// # Safety
    /// `ring` is a ring that the library has set up.
    pub unsafe fn of_library(ring: *const LibraryRing) -> Option<Queues> {
        // SAFETY: by the contract above.
        let LibraryRing { sq, cq, flags, sqes, .. } = unsafe { &*ring };
        let addresses = [sq.head, sq.tail, sq.mask, *sqes, cq.head, cq.tail, cq.mask, cq.last];
        if !is_known(*flags) || addresses.iter().any(|address| *address == 0 || !address.is_multiple_of(4)) {
            return None;
        }
        Some(Queues {
            sq_tail: sq.tail,
            sq_array: 0,
            sqes: *sqes,
            sq_mask: load(sq.mask),
            sqe_shift: sqe_shift(*flags),
            cq_head: cq.head,
            cq_tail: cq.tail,
            cqes: cq.last,
            cq_mask: load(cq.mask),
            cqe_shift: cqe_shift(*flags),
        })
    }

    pub fn is_same(&self, other: &Queues) -> bool {
        (self.sq_tail, self.cq_tail, self.sqes) == (other.sq_tail, other.cq_tail, other.sqes)
    }

    /// Returns the number of requests published so far.
    pub fn submitted(&self) -> u32 {
        load(self.sq_tail)
    }

    /// Returns the number of results so far.
    pub fn completed(&self) -> u32 {
        load(self.cq_tail)
    }

    pub fn sq_entries(&self) -> u32 {
        self.sq_mask.wrapping_add(1)
    }

    pub fn cq_entries(&self) -> u32 {
        self.cq_mask.wrapping_add(1)
    }

    /// Returns a request; `None` if the kernel drops it because its index is invalid.
    pub fn request(&self, number: u32) -> Option<Sqe> {
        let at = number & self.sq_mask;
        let index = if self.sq_array == 0 { at } else { load(self.sq_array + 4 * at as usize) };
        let start = self.sqes + ((index as usize) << self.sqe_shift);
        (index <= self.sq_mask).then(|| Sqe(std::array::from_fn(|word| load_word(start + 8 * word))))
    }

    /// Returns a result; `None` if it may have been overwritten. The kernel overwrites only results that the program
    /// has taken.
    pub fn result(&self, number: u32) -> Option<Cqe> {
        let start = self.cqes + (((number & self.cq_mask) as usize) << self.cqe_shift);
        let [user_data, rest] = [load_word(start), load_word(start + 8)];
        let is_taken = load(self.cq_head).wrapping_sub(number) as i32 > 0;
        let is_old = load(self.cq_tail).wrapping_sub(number) >= self.cq_entries();
        (!is_taken || !is_old).then_some(Cqe { user_data, result: rest as i32, flags: (rest >> 32) as u32 })
    }

    /// Addresses whose pages contain the queues.
    pub fn pages(&self) -> [usize; 6] {
        let results = (self.cq_mask as usize) << self.cqe_shift;
        let requests = (self.sq_mask as usize) << self.sqe_shift;
        [self.sq_tail, self.cq_tail, self.cqes, self.cqes + results, self.sqes, self.sqes + requests]
    }
}

impl LibraryRing {
    /// Returns the number of requests that the program has filled in, published or not.
    ///
    /// # Safety
    /// `ring` is a ring of the library.
    pub unsafe fn filled(ring: *const LibraryRing) -> u32 {
        // SAFETY: by the contract above; another thread may change it.
        unsafe { (&raw const (*ring).sqe_tail).read_volatile() }
    }

    /// Returns the number of requests that were published by the library.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn flushed(ring: *const LibraryRing) -> u32 {
        // SAFETY: as above.
        unsafe { (&raw const (*ring).sqe_head).read_volatile() }
    }

    /// # Safety
    /// As above.
    pub unsafe fn fd(ring: *const LibraryRing) -> i32 {
        // SAFETY: as above.
        unsafe { (&raw const (*ring).fd).read() }
    }
}

fn sqe_shift(flags: u32) -> u32 {
    if flags & SQE_128 != 0 { 7 } else { 6 }
}

fn cqe_shift(flags: u32) -> u32 {
    if flags & CQE_32 != 0 { 5 } else { 4 }
}

fn load(address: usize) -> u32 {
    // SAFETY: addresses of queues are mapped as long as their ring is known, and are aligned.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }.load(Acquire)
}

fn load_word(address: usize) -> u64 {
    // SAFETY: as above; the program or the kernel may be writing it, which the callers detect.
    unsafe { std::ptr::with_exposed_provenance::<u64>(address).read_volatile() }
}
