//! Memory for what the tracer allocates, at its start and at its end: never from the program's malloc, which may be its
//! own, may be traced, or may be what the tracer was called from.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::*};

use dlio_tracer::memory::{map, unmap, yield_now};

/// Pages straight from the kernel.
struct Kernel;

// SAFETY: memory is fresh, zeroed, page-aligned and released as it was taken.
unsafe impl dlmalloc::Allocator for Kernel {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let memory = map(size);
        if memory.is_null() { (memory, 0, 0) } else { (memory, size, 0) }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        std::ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, memory: *mut u8, size: usize) -> bool {
        unmap(memory, size);
        true
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}

/// Nothing allocates while a call is recorded, so a lock that spins is held by nobody for long; and only the start and
/// the end of a process allocate, neither of which can be entered twice.
struct Own {
    taken: AtomicBool,
    heap: UnsafeCell<dlmalloc::Dlmalloc<Kernel>>,
}

// SAFETY: the heap is used under `taken` only.
unsafe impl Sync for Own {}

#[global_allocator]
static HEAP: Own =
    Own { taken: AtomicBool::new(false), heap: UnsafeCell::new(dlmalloc::Dlmalloc::new_with_allocator(Kernel)) };

impl Own {
    fn with<T>(&self, work: impl FnOnce(&mut dlmalloc::Dlmalloc<Kernel>) -> T) -> T {
        while self.taken.swap(true, Acquire) {
            yield_now();
        }
        // SAFETY: `taken` makes this the only reference.
        let result = work(unsafe { &mut *self.heap.get() });
        self.taken.store(false, Release);
        result
    }
}

// SAFETY: dlmalloc keeps the contract; the layouts are the caller's.
unsafe impl GlobalAlloc for Own {
    /// # Safety
    /// As the trait has it.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the trait demands of the caller.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    /// # Safety
    /// As the trait has it.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the trait demands of the caller.
        self.with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) })
    }

    /// # Safety
    /// As the trait has it.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the trait demands of the caller.
        self.with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}

/// As much as `memory.c` needs for its heads to keep pieces aligned.
const ALIGNMENT: usize = 16;

/// Called by `memory.c`.
#[unsafe(no_mangle)]
extern "C" fn dlio_allocate(size: usize) -> *mut u8 {
    // SAFETY: any size is allowed; failure is a null pointer.
    HEAP.with(|heap| unsafe { heap.malloc(size, ALIGNMENT) })
}

/// Called by `memory.c`.
///
/// # Safety
/// `memory` and `size` are those of a piece that `dlio_allocate` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlio_release(memory: *mut u8, size: usize) {
    // SAFETY: memory and size of a piece that `dlio_allocate` gave.
    HEAP.with(|heap| unsafe { heap.free(memory, size, ALIGNMENT) })
}

/// Has the linker take `memory.c` in.
pub fn link() {
    unsafe extern "C" {
        fn dlio_memory_is_linked();
    }
    // SAFETY: an empty function.
    unsafe { dlio_memory_is_linked() }
}

/// In a forked child, where the thread that held the lock may not exist.
pub fn after_fork_in_child() {
    HEAP.taken.store(false, Release);
}
