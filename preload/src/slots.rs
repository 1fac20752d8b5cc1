//! Changes the slots through which objects call functions of HDF5, MPI, CUDA and HIP, when the program starts and when it looks up a
//! function.
//!
//! A library that is linked into a program or another library has no slots and is not recorded.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use dlio_tracer::kernel::memory::yield_now;
use dlio_tracer::life::lifecycle;
use dlio_tracer::ops::Layer;
use dlio_tracer::spans::cupti::client;
use dlio_tracer::thread::local::local;
use dlio_tracer::thread::stack::with_stack_space;
use libc::dl_phdr_info;

use crate::device::Device;
use crate::hdf5::Hdf5;
use crate::libraries::imports::{self, Changed, Object};
use crate::libraries::{Family, is_any_used, is_library, libraries};
use crate::mpi::Mpi;
use crate::rocm;

/// Number of objects that the loader has ever loaded, as of the last time that all slots were changed; and the number
/// of objects it has ever unloaded. The list of objects grows at its end while none is unloaded.
static LOADED: AtomicU64 = AtomicU64::new(0);
static UNLOADED: AtomicU64 = AtomicU64::new(0);
static LISTED: AtomicUsize = AtomicUsize::new(0);
/// The thread that is changing slots, by the address of its state, or zero.
static CHANGING: AtomicUsize = AtomicUsize::new(0);

/// Changes the slots of the objects that are loaded with the program.
pub fn start() {
    if is_recorded() {
        with_stack_space(|| change_slots(true));
    }
}

/// Forgets the thread of the parent that was changing slots.
pub fn after_fork_in_child() {
    CHANGING.store(0, Relaxed);
}

/// Changes the slots of objects that were loaded since the last call.
fn look() {
    if is_recorded() && loads() != (LOADED.load(Acquire), UNLOADED.load(Relaxed)) {
        with_stack_space(|| change_slots(false));
    }
}

fn is_recorded() -> bool {
    [Layer::Hdf5, Layer::Mpi, Layer::Device].into_iter().any(lifecycle::records)
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

/// Runs with the loader's descriptions of all objects, which remain loaded until it returns.
fn for_each_listed(mut each: impl FnMut(usize, &dl_phdr_info)) {
    struct Listing<'a> {
        number: usize,
        each: &'a mut dyn FnMut(usize, &dl_phdr_info),
    }
    /// # Safety
    /// As the loader calls it.
    unsafe extern "C" fn next(info: *mut dl_phdr_info, _size: usize, into: *mut c_void) -> c_int {
        // SAFETY: the loader's description, and the pointer given below.
        let (info, listing) = unsafe { (&*info, &mut *into.cast::<Listing>()) };
        (listing.each)(listing.number, info);
        listing.number += 1;
        0
    }
    let mut listing = Listing { number: 0, each: &mut each };
    // SAFETY: the callback's data lives until it returns.
    unsafe { libc::dl_iterate_phdr(Some(next), (&raw mut listing).cast()) };
}

/// Runs with all objects that the loader lists, which remain loaded until it returns.
fn for_each_object(mut each: impl FnMut(usize, &Object)) {
    for_each_listed(|number, info| {
        // SAFETY: the loader has just listed it.
        if let Some(object) = unsafe { Object::of(info) } {
            each(number, &object);
        }
    });
}

/// Replaces the calls of a function in all objects that are loaded now, except through pointers that they looked up.
pub fn replace_calls(function: &CStr, hook: *const c_void) {
    let chosen = |name: &CStr, _| (name == function).then_some(hook.addr());
    with_stack_space(|| for_each_object(|_, object| _ = object.change(chosen)));
}

/// Returns `true` if an object that is loaded now calls a function of another object, but not the `newer` one.
pub fn is_called_without(function: &CStr, newer: &CStr) -> bool {
    let mut found = false;
    with_stack_space(|| {
        for_each_object(|_, object| {
            let is_user = object.defined(function).is_null() && object.calls(function);
            found |= is_user && !object.calls(newer);
        });
    });
    found
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
    if is_any_used::<Hdf5>() || is_any_used::<Mpi>() || is_any_used::<Device>() {
        for_each_object(|number, object| {
            let change =
                || [change_object::<Hdf5>(object), change_object::<Mpi>(object), change_object::<Device>(object)];
            if number >= first && change().contains(&Changed::Later) {
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

/// Registers the libraries among the objects from number `first`, and frees the entries of those that are gone.
/// Returns the number of objects.
fn find_libraries(first: usize, is_start: bool) -> usize {
    if first == 0 {
        set_unlisted::<Hdf5>();
        set_unlisted::<Mpi>();
        set_unlisted::<Device>();
    }
    let mut listed = 0;
    for_each_listed(|number, info| {
        listed = number + 1;
        if number < first {
            return;
        }
        // Almost all objects have other names: nothing else of them is read.
        let name = file_name(imports::path_of(info));
        if Hdf5::has_name(name) {
            register::<Hdf5>(info, is_start);
        }
        if Mpi::has_name(name) {
            register::<Mpi>(info, is_start);
        }
        if Device::has_name(name) {
            register::<Device>(info, is_start);
        }
    });
    free_unlisted::<Hdf5>();
    free_unlisted::<Mpi>();
    free_unlisted::<Device>();
    listed
}

fn set_unlisted<F: Family>() {
    if is_any_used::<F>() {
        libraries::<F>().for_each(|library| F::entry(library).set_listed(false));
    }
}

/// Frees the entries of libraries that the loader no longer lists.
fn free_unlisted<F: Family>() {
    if is_any_used::<F>() {
        let freed = libraries::<F>().filter(|&library| F::entry(library).free_unless_listed()).count();
        F::used().fetch_sub(freed, Relaxed);
    }
}

/// Takes a free entry for an object with the name of a library if it is one that has none.
#[cold]
fn register<F: Family>(info: &dl_phdr_info, is_start: bool) {
    // SAFETY: the loader has just listed it.
    let Some(object) = (unsafe { Object::of(info) }) else { return };
    if !lifecycle::records(F::LAYER) || !F::is_main(&object) {
        return;
    }
    if let Some(library) = libraries::<F>().find(|&library| F::entry(library).is_at(object.base())) {
        return F::entry(library).set_listed(true);
    }
    match (0..F::LIBRARIES).find(|&library| !F::entry(library).is_used()) {
        Some(library) => {
            F::fill(library, &object);
            F::entry(library).occupy(&object, is_start);
            F::used().fetch_add(1, Relaxed);
        }
        None => F::reject(),
    }
}

/// Returns the part of a path after the last slash.
fn file_name(path: &CStr) -> &[u8] {
    let path = path.to_bytes();
    path.iter().rposition(|&byte| byte == b'/').map_or(path, |at| &path[at + 1..])
}

/// Changes the slots through which an object calls libraries of a family.
fn change_object<F: Family>(object: &Object) -> Changed {
    if !is_any_used::<F>() || !object.needed().any(|name| F::has_name(file_name(name))) || is_library::<F>(object) {
        return Changed::Done;
    }
    object.change(|name, slot| {
        let function = F::function(name)?;
        let bound = || libraries::<F>().find(|&library| F::real(library, function).addr() == slot.target);
        let awaited =
            || (object.contains(slot.target) && is_defined_by::<F>(name)).then(|| awaited::<F>(object, function))?;
        let library = bound().or_else(awaited)?;
        Some(F::hook(library, function).expose_provenance())
    })
}

/// Returns `true` if the first object that defines a function is a library of the family. It may also be a tool that wraps
/// the function, whose own calls of the library are hooked then.
fn is_defined_by<F: Family>(name: &CStr) -> bool {
    let mut first = None;
    for_each_object(|_, object| {
        if first.is_none() && !object.defined(name).is_null() {
            first = Some(is_library::<F>(object));
        }
    });
    first == Some(true)
}

/// Returns the library to which the loader will bind a slot of an object for a function at its first call.
fn awaited<F: Family>(object: &Object, function: usize) -> Option<usize> {
    let with_it = || libraries::<F>().filter(|&library| !F::real(library, function).is_null());
    let global = with_it().find(|&library| F::entry(library).is_global());
    let named = || object.needed().find_map(|name| with_it().find(|&library| F::entry(library).is_named(name)));
    // An object may need only a library that belongs to another, as its C++ interface.
    let mut used = with_it();
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
/// they can call any. A function of a library is replaced by its hook.
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
    unsafe { rocm::before_lookup(name) };
    // SAFETY: as above.
    let starts = |with: &[u8]| with.iter().enumerate().all(|(at, &byte)| unsafe { *name.add(at) } == byte as c_char);
    let is_likely = || starts(b"H5") || starts(b"MPI_") || starts(b"PMPI_") || starts(b"cu") || starts(b"hip");
    let is_hooked = !name.is_null() && is_likely();
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
    Continue {
        next: std::ptr::null_mut(),
        address: hook_of::<Hdf5>(found)
            .or_else(|| hook_of::<Mpi>(found))
            .or_else(|| hook_of::<Device>(found))
            .or_else(|| client::replacement_of(found))
            .unwrap_or(found),
    }
}

/// Returns the hook of a function of a library.
fn hook_of<F: Family>(function: *mut c_void) -> Option<*mut c_void> {
    if function.is_null() || !is_any_used::<F>() || !lifecycle::records(F::LAYER) {
        return None;
    }
    libraries::<F>().find_map(|library| {
        let at = (0..F::FUNCTIONS).find(|&at| F::real(library, at) == function)?;
        Some(F::hook(library, at))
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
