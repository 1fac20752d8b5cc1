//! The tracer's allocator, used at its start and at its end. It never uses the program's malloc, which may be the
//! program's own, may be traced, or may be the caller of the tracer.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::*};

use dlio_tracer::kernel::memory::{map, unmap, yield_now};

/// Pages directly from the kernel.
struct Kernel;

// SAFETY: memory is fresh, zeroed, page-aligned and released in the units in which it was allocated.
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

/// The allocator and its lock. Nothing is allocated while a call is recorded, so this spinning lock is never held for
/// long. Only the start and the end of a process allocate, and neither can be entered twice.
///
/// Allocations at the start of a process come from one page, that of the lock, and are not freed: a heap would touch
/// three more, and most processes end without needing one.
#[repr(C, align(4096))]
struct Own {
    taken: AtomicBool,
    early: UnsafeCell<Early>,
}

const EARLY_SIZE: usize = 4096 - 2 * size_of::<usize>();

struct Early {
    used: usize,
    bytes: [u8; EARLY_SIZE],
}

impl Early {
    fn take(&mut self, layout: Layout) -> Option<*mut u8> {
        let base = self.bytes.as_mut_ptr();
        let at = self.used + base.wrapping_add(self.used).align_offset(layout.align());
        let end = at.checked_add(layout.size()).filter(|end| *end <= EARLY_SIZE)?;
        self.used = end;
        Some(base.wrapping_add(at))
    }

    fn has(&self, memory: *const u8) -> bool {
        self.bytes.as_ptr_range().contains(&memory)
    }
}

struct Heap(UnsafeCell<dlmalloc::Dlmalloc<Kernel>>);

// SAFETY: both are used only under `taken`.
unsafe impl Sync for Own {}
// SAFETY: as above.
unsafe impl Sync for Heap {}

dlio_tracer::large! {
    #[global_allocator]
    static OWN: Own =
        Own { taken: AtomicBool::new(false), early: UnsafeCell::new(Early { used: 0, bytes: [0; EARLY_SIZE] }) };
}
static HEAP: Heap = Heap(UnsafeCell::new(dlmalloc::Dlmalloc::new_with_allocator(Kernel)));

impl Own {
    fn with<T>(&self, work: impl FnOnce(&mut dlmalloc::Dlmalloc<Kernel>) -> T) -> T {
        // SAFETY: `taken` makes this the only reference.
        self.alone(|| work(unsafe { &mut *HEAP.0.get() }))
    }

    fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        while self.taken.swap(true, Acquire) {
            yield_now();
        }
        let result = work();
        self.taken.store(false, Release);
        result
    }

    fn take_early(&self, layout: Layout) -> Option<*mut u8> {
        // SAFETY: as above.
        self.alone(|| unsafe { (*self.early.get()).take(layout) })
    }

    fn is_early(&self, memory: *const u8) -> bool {
        // SAFETY: only the address is read, which never changes.
        unsafe { (*self.early.get()).has(memory) }
    }
}

// SAFETY: dlmalloc fulfills the contract; the layouts are the caller's.
unsafe impl GlobalAlloc for Own {
    /// # Safety
    /// As the trait has it.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the trait demands of the caller.
        let from_heap = || self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) });
        self.take_early(layout).unwrap_or_else(from_heap)
    }

    /// # Safety
    /// As the trait has it.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if self.is_early(memory) {
            return;
        }
        // SAFETY: as the trait demands of the caller.
        self.with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) })
    }

    /// # Safety
    /// As the trait has it.
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.is_early(memory) {
            // SAFETY: as the trait demands of the caller; the new memory does not overlap the old.
            unsafe {
                let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !moved.is_null() {
                    std::ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                }
                return moved;
            }
        }
        // SAFETY: as the trait demands of the caller.
        self.with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}

/// The alignment of the heads in `memory.c`, which keeps allocations aligned.
const ALIGNMENT: usize = 16;

/// Allocates for `memory.c`.
#[unsafe(no_mangle)]
extern "C" fn dlio_allocate(size: usize) -> *mut u8 {
    // SAFETY: any size is allowed; failure is a null pointer.
    OWN.with(|heap| unsafe { heap.malloc(size, ALIGNMENT) })
}

/// Frees for `memory.c`.
///
/// # Safety
/// `memory` and `size` belong to an allocation of `dlio_allocate`.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlio_release(memory: *mut u8, size: usize) {
    // SAFETY: memory and size of an allocation of `dlio_allocate`.
    OWN.with(|heap| unsafe { heap.free(memory, size, ALIGNMENT) })
}

/// Makes the linker include `memory.c`.
pub fn link() {
    unsafe extern "C" {
        fn dlio_memory_is_linked();
    }
    // SAFETY: an empty function.
    unsafe { dlio_memory_is_linked() }
}

/// Releases the lock in a forked child, where the thread that held it may not exist.
pub fn after_fork_in_child() {
    OWN.taken.store(false, Release);
}
