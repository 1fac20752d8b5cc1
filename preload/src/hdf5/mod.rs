//! Calls of the HDF5 library, which programs and Python packages bring with them in many versions.
//!
//! [`imports`] changes the slots through which objects call other objects, [`library`] knows the loaded HDF5 libraries
//! and asks them, [`hooks`] are the functions that the changed slots call, [`answers`] describes data sets. A library
//! that is linked into a program or another library has no slots and is not recorded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use dlio_tracer::kernel::memory::yield_now;
use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::Layer;
use dlio_tracer::thread::local::local;
use dlio_tracer::thread::stack::with_stack_space;
use libc::dl_phdr_info;

mod answers;
mod hooks;
mod imports;
mod library;

use imports::{Changed, Object};
use library::{LIBRARIES, Library, is_any_used};

/// Part of the file name of every HDF5 library.
const FILE_NAME: &[u8] = b"hdf5";

/// Number of objects that the loader has ever loaded, as of the last time that all slots were changed; and the number
/// of objects it has ever unloaded. The list of objects grows at its end while none is unloaded.
static LOADED: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU64 = AtomicU64::new(0);
static LISTED: AtomicUsize = AtomicUsize::new(0);
/// The thread that is changing slots, by the address of its state, or zero.
static CHANGING: AtomicUsize = AtomicUsize::new(0);

/// Changes the slots of the objects that are loaded with the program.
pub fn start() {
    if lifecycle::records(Layer::Hdf5) {
        with_stack_space(|| change_slots(true));
    }
}

/// Forgets the thread of the parent that was changing slots.
pub fn after_fork_in_child() {
    CHANGING.store(0, Relaxed);
}

/// Changes the slots of objects that were loaded since the last call.
fn look() {
    if lifecycle::records(Layer::Hdf5) && loads() != (LOADED.load(Acquire), UNLOADED.load(Relaxed)) {
        with_stack_space(|| change_slots(false));
    }
}

/// Returns the loader's counts of objects that it has loaded and unloaded.
fn loads() -> (u64, u64) {
    /// # Safety
    /// As the loader calls it.
    unsafe extern "C" fn count(info: *mut dl_phdr_info, _size: usize, into: *mut c_void) -> c_int {
        // SAFETY: the loader's description, and the pointer given below.
        unsafe { *into.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut counts = (0u64, 0u64);
    // SAFETY: the callback's data lives until it returns.
    unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut counts).cast()) };
    counts
}

/// Runs with all objects that the loader lists, which remain loaded until it returns.
fn for_each_object(mut each: impl FnMut(usize, &Object)) {
    struct Listing<'a> {
        number: usize,
        each: &'a mut dyn FnMut(usize, &Object),
    }
    /// # Safety
    /// As the loader calls it.
    unsafe extern "C" fn next(info: *mut dl_phdr_info, _size: usize, into: *mut c_void) -> c_int {
        // SAFETY: the loader's description, and the pointer given below.
        let (object, listing) = unsafe { (Object::of(&*info), &mut *into.cast::<Listing>()) };
        if let Some(object) = object {
            (listing.each)(listing.number, &object);
        }
        listing.number += 1;
        0
    }
    let mut listing = Listing { number: 0, each: &mut each };
    // SAFETY: the callback's data lives until it returns.
    unsafe { libc::dl_iterate_phdr(Some(next), (&raw mut listing).cast()) };
}

fn change_slots(is_start: bool) {
    let me = local().addr();
    while CHANGING.compare_exchange(0, me, Acquire, Relaxed).is_err() {
        // A signal handler, or a function of the loader that looks up another.
        if CHANGING.load(Relaxed) == me {
            return;
        }
        yield_now();
    }
    let (loaded, unloaded) = loads();
    let first = if unloaded == UNLOADED.load(Relaxed) { LISTED.load(Relaxed) } else { 0 };
    let listed = find_libraries(first, is_start);
    let mut all = Changed::Done;
    if is_any_used() {
        for_each_object(|number, object| {
            if number >= first && change_object(object) == Changed::Later {
                all = Changed::Later;
            }
        });
    }
    if all == Changed::Done {
        LISTED.store(listed, Relaxed);
        UNLOADED.store(unloaded, Relaxed);
        LOADED.store(loaded, Release);
    }
    CHANGING.store(0, Release);
}

/// Registers the HDF5 libraries among the objects from number `first`, and frees the entries of those that are gone.
/// Returns the number of objects.
fn find_libraries(first: usize, is_start: bool) -> usize {
    if first == 0 && is_any_used() {
        LIBRARIES.iter().for_each(|library| library.set_listed(false));
    }
    let mut listed = 0;
    for_each_object(|number, object| {
        listed = number + 1;
        if number < first || !has_name(object.path()) || object.defined(c"H5Dread").is_null() {
            return;
        }
        match LIBRARIES.iter().find(|library| library.is_at(object.base())) {
            Some(library) => library.set_listed(true),
            None => Library::register(object, is_start, hooks::names(), hooks::fill),
        }
    });
    if is_any_used() {
        LIBRARIES.iter().for_each(Library::free_unless_listed);
    }
    listed
}

/// Returns `true` for the path or name of an HDF5 library, or of a library that belongs to one.
fn has_name(path: &CStr) -> bool {
    let path = path.to_bytes();
    let name = path.iter().rposition(|&byte| byte == b'/').map_or(path, |at| &path[at + 1..]);
    name.windows(FILE_NAME.len()).any(|part| part == FILE_NAME)
}

/// Changes the slots through which an object calls HDF5.
fn change_object(object: &Object) -> Changed {
    let is_library = || LIBRARIES.iter().any(|library| library.is_at(object.base()));
    if !object.needed().any(has_name) || is_library() {
        return Changed::Done;
    }
    object.change(|name, slot| {
        let function = if name.to_bytes().starts_with(b"H5") {
            hooks::names().position(|known| known == name)?
        } else {
            return None;
        };
        let bound =
            || LIBRARIES.iter().find(|library| library.is_used() && library.real(function).addr() == slot.target);
        let library = bound().or_else(|| if object.contains(slot.target) { awaited(object) } else { None })?;
        let hook = library.hook(function);
        (!library.real(function).is_null()).then(|| hook.expose_provenance())
    })
}

/// Returns the library to which the loader will bind a slot of an object at its first call.
fn awaited(object: &Object) -> Option<&'static Library> {
    let global = LIBRARIES.iter().find(|library| library.is_global());
    let named = || object.needed().find_map(|name| LIBRARIES.iter().find(|library| library.is_named(name)));
    // An object may need only a library that belongs to HDF5, as its C++ interface.
    let mut used = LIBRARIES.iter().filter(|library| library.is_used());
    global.or_else(named).or_else(|| used.next().filter(|_| used.next().is_none()))
}

/// The continuation of a call of `dlsym`: the next `dlsym`, or an address to return.
#[repr(C)]
struct Continue {
    next: *mut c_void,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dlio_next_dlsym() -> *mut c_void;
}

/// Changes the slots of objects that were loaded before this call: programs that load a library look up a function in it before
/// they can call any. A function of HDF5 itself is replaced by its hook.
///
/// # Safety
/// As `dlsym`.
unsafe extern "C" fn before_dlsym(handle: *mut c_void, name: *const c_char) -> Continue {
    // SAFETY: finds a function.
    let next = unsafe { dlio_next_dlsym() };
    if next.is_null() {
        return Continue { next, address: next };
    }
    look();
    // SAFETY: a terminated name, as for the real call.
    let is_hooked = !name.is_null() && unsafe { *name == b'H' as c_char && *name.add(1) == b'5' as c_char };
    // The meaning of the two special handles depends on the caller.
    if !is_hooked || handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT {
        return Continue { next, address: std::ptr::null_mut() };
    }
    // SAFETY: the real call, with its arguments.
    let found = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(next)(
            handle, name,
        )
    };
    Continue { next: std::ptr::null_mut(), address: hook_of(found).unwrap_or(found) }
}

/// Returns the hook of a function of a library.
fn hook_of(function: *mut c_void) -> Option<*mut c_void> {
    if function.is_null() || !is_any_used() || !lifecycle::records(Layer::Hdf5) {
        return None;
    }
    LIBRARIES.iter().filter(|library| library.is_used()).find_map(|library| {
        let at = (0..hooks::FUNCTIONS).find(|&at| library.real(at) == function)?;
        Some(library.hook(at))
    })
}

/// Continues in the next `dlsym` as if that had been called: it searches in an order that depends on its caller.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "mov rax, rdx",
        "ret",
        before = sym before_dlsym,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {before}",
        "mov x16, x0",
        "mov x17, x1",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "mov x0, x17",
        "ret",
        before = sym before_dlsym,
    );
}
