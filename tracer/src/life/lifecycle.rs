//! The tracer's life in a process: start, fork, exec, end.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use dlio_schemas::decimal::decimal;
use dlio_schemas::ops::Layer;

use crate::kernel::switches::SWITCHES;
use crate::kernel::{clock, single_thread_atomics, sys, thread_end, vdso};
use crate::known::{descriptors, folders, mappings, wakers};
use crate::life::finish::Ending;
use crate::life::{environment, finish};
use crate::process::{config, process_info};
use crate::recording::{counters, image, phase, ring, wiped_page};
use crate::thread::evidence::{self, Evidence};
use crate::thread::local::{self, forget_own_id, local};
use crate::thread::stack;
use crate::trace::{header_page, spool};

/// Set by the first thread that starts the engine.
static STARTING: AtomicBool = AtomicBool::new(false);

/// Prints a message for the user.
pub fn say(parts: &[&[u8]]) {
    sys::say(parts);
}

/// Prints the location of a bug in the tracer and nothing else: a backtrace needs memory and locks that the program
/// may not leave us.
pub fn say_fault(file: &str, line: u32) {
    let mut digits = [0; 20];
    say(&[b"internal error of the tracer in ", file.as_bytes(), b", line ", decimal(line as i64, &mut digits)]);
}

/// Notes that the functions of the C library are now patched.
pub fn patched() {
    SWITCHES.patched.store(true, Release);
}

/// Returns `true` if the environment requests patching.
pub fn wants_patches() -> bool {
    records_anything() && config::get().inline
}

/// Notes the arguments that the loader reports on the process's first thread.
///
/// # Safety
/// `arguments` are `count` strings that live as long as the process.
pub unsafe fn note_command(count: i32, arguments: *const *const libc::c_char) {
    local::note_first_thread();
    // SAFETY: by the contract above.
    unsafe { process_info::note_command(count, arguments) };
}

/// Notes that the C library is musl, which does not report the program's arguments.
pub fn note_musl() {
    local::note_first_thread();
}

/// Reads the configuration and registers for the process's end. Later calls do nothing.
pub fn start() {
    if !STARTING.swap(true, AcqRel) {
        // The first thread to get here may have a small stack.
        stack::with_stack_space(start_with_stack_space);
    }
}

fn start_with_stack_space() {
    vdso::find();
    process_info::note_start();
    process_info::find_command();
    clock::start();
    let config = config::load();
    if config.on {
        environment::remember(config);
        if config.has_spool() {
            spool::bring_home(config.dir_path());
        }
        register();
        SWITCHES.min_ticks.store(ticks_of_us(config.min_us), Relaxed);
    }
    wiped_page::next_generation();
    phase::start(if config.on { config.layers } else { 0 });
}

/// Detects an unannounced child. Call this before any lookup of cached data, which would be the parent's.
pub fn detect_child() {
    if phase::is_unannounced() {
        after_fork_in_child();
    }
}

/// Notes that the process is about to have a second thread.
pub fn before_thread() {
    detect_child();
    single_thread_atomics::ends();
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if records_anything() && !IS_SAID.swap(true, Relaxed) {
        sys::allow_barriers();
    }
}

/// Returns `true` if a layer is recorded. Never starts the engine.
#[inline(always)]
pub fn records(layer: Layer) -> bool {
    let mode = phase::mode();
    (mode & 1 << layer as u32 != 0 || mode < phase::STARTED && records_again(layer, mode)) && !phase::is_strict()
}

/// Returns `true` if a layer is recorded after the image is reopened, or after a child is recognized as one.
#[cold]
fn records_again(layer: Layer, mode: u32) -> bool {
    if mode == phase::CLOSED {
        phase::await_end()
    } else {
        detect_child()
    }
    phase::mode() & 1 << layer as u32 != 0
}

/// Returns `true` if any layer is recorded. Never starts the engine.
pub fn records_anything() -> bool {
    if phase::is_strict() {
        return false;
    }
    detect_child();
    phase::is_recording()
}

/// Needs the tick rate immediately; a process without a minimum duration never has to measure it.
fn ticks_of_us(us: u64) -> u64 {
    const MEASURED_NS: u64 = 2_000_000;
    if us == 0 {
        return 0;
    }
    let until = sys::clock_ns(libc::CLOCK_BOOTTIME) + MEASURED_NS;
    while sys::clock_ns(libc::CLOCK_BOOTTIME) < until {
        std::hint::spin_loop();
    }
    (us as u128 * clock::rate_hz(&clock::anchor()) as u128 / 1_000_000) as u64
}

fn register() {
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(i32, *mut libc::c_void), argument: *mut libc::c_void) -> i32;
    }
    extern "C" fn at_exit(status: i32, _: *mut libc::c_void) {
        end(Ending::Exit(status));
    }
    extern "C" fn thread_ends(_: *mut libc::c_void) {
        if !phase::is_strict() {
            counters::at_end();
            ring::end_thread();
            local::release_ranges();
        }
    }
    // SAFETY: plain registrations of functions that live as long as the process. They are registered before the
    // program's own and the loader's, so they run last, after every destructor.
    unsafe {
        on_exit(at_exit, std::ptr::null_mut());
        on_fork(after_fork_in_child);
    }
    thread_end::register(thread_ends);
}

/// Registers a function that the child of each fork calls and that lives as long as the process. This is what
/// `pthread_atfork` does; that function's few instructions are linked into every library, here on a page that is
/// needed for nothing else.
///
/// # Safety
/// The function may be called in a child of any thread.
pub unsafe fn on_fork(child: extern "C" fn()) {
    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn __register_atfork(prepare: Handler, parent: Handler, child: Handler, library: *const libc::c_void) -> i32;
    }
    // SAFETY: by the contract above; without a library handle it is never unregistered.
    unsafe { __register_atfork(None, None, Some(child), std::ptr::null()) };
}

/// Resets the tracer in the child of a fork, which starts its own image at its first event.
pub extern "C" fn after_fork_in_child() {
    let line = local();
    // SAFETY: the line is this thread's own, and there is no other thread.
    unsafe {
        (*line).thread = std::ptr::null_mut();
        (*line).busy = 0;
        (*line).passing = 0;
        (*line).depth = 0;
        (*line).inside = 0;
        (*line).evidence = Evidence::NONE;
    }
    forget_own_id();
    evidence::close_inherited();
    wakers::forget();
    phase::after_fork_in_child();
    process_info::note_fork();
    image::forget();
    folders::after_fork_in_child();
    descriptors::forget_files();
    mappings::forget_files();
    descriptors::shared_with_child();
}

/// The functions that record the rest at the end of an image: those of rings of requests, of the waits of a GPU and of its
/// work by each library. Null if unused.
static BEFORE_END: [AtomicPtr<()>; 4] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 4];

/// Registers a function that is called before an image is closed, while events can still be recorded.
pub fn before_end(record: fn()) {
    let is_free = |place: &&AtomicPtr<()>| {
        place.compare_exchange(std::ptr::null_mut(), record as *mut (), AcqRel, Relaxed).is_ok()
    };
    let place = BEFORE_END.iter().find(is_free);
    debug_assert!(place.is_some(), "one place for each caller");
}

fn record_rest() {
    for record in BEFORE_END.each_ref().map(|place| place.load(Acquire)) {
        if !record.is_null() && records_anything() {
            // SAFETY: only such functions are stored.
            unsafe { std::mem::transmute::<*mut (), fn()>(record)() };
        }
    }
}

/// Writes all data and converts the trace to the requested format. A signal handler that interrupted the tracer
/// itself does nothing here: the recorded events are in the ring, where a reader finds them.
///
/// The calls of other threads block in the meantime. Without the tracer these threads would already have ended. If
/// they continued, they would do more work during the conversion, and none of it would be in the trace.
pub fn end(ending: Ending) {
    if borrows_memory() {
        return;
    }
    record_rest();
    if !phase::is_strict() {
        counters::at_end();
    }
    if !phase::begin_end() {
        return;
    }
    let before = phase::close();
    // If nothing was recorded, there is nothing to forget, and searching for it takes longer than the rest.
    if before.records() && finish::is_needed() {
        stack::with_stack_space(|| finish::finish(ending));
        image::forget();
        descriptors::forget_files();
        mappings::forget_files();
    }
    match ending {
        Ending::Exit(_) => phase::end(),
        // Other threads wait until the kernel ends them, or until the exec has failed.
        Ending::Exec => phase::end_for_exec(before),
        Ending::Detach => phase::resume(before),
    }
}

/// Prepares for this thread's confinement to reading and writing (strict seccomp).
pub fn before_strict() {
    if phase::is_passing() {
        return;
    }
    if records_anything() {
        // Otherwise a loss could not be reported.
        stack::on_large_stack(image::ensure);
        header_page::refresh_anchor();
    }
    phase::confine();
}

/// Returns `true` if the process that ends or executes another program here is a child on its parent's memory, which
/// contains the parent's image: a child of a vfork, or of a clone that shares memory. The image of a child with
/// separate memory is on pages that the kernel has wiped.
pub fn borrows_memory() -> bool {
    phase::is_passing() || image::is_anothers()
}
