//! Other programs may truncate the ring's file while it is mapped: a cleanup script, or another user of a shared
//! directory. A store beyond the end of the file is then a SIGBUS, which would end the program.
//!
//! Our handler precedes the program's own. After a fault in a ring, private memory replaces the ring and the image
//! gets a successor: the ring's contents are lost, and its file shows that to a reader. Any other SIGBUS is forwarded
//! to the program's handler by a jump, or ends the process as it would have without us. Hooks of `sigaction` and
//! `signal` show the program only its own action.
//!
//! A thread that blocks SIGBUS is ended by the kernel, regardless of the handler, and so is a program that ignores
//! it.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

use crate::kernel::sys;
use crate::thread::thread_state;

/// Memory that maps a file, and the ring it belongs to.
struct Range {
    start: AtomicUsize,
    length: AtomicUsize,
    ring: AtomicU32,
}

/// Maximum number of guarded ranges: large programs have this many threads at a time, with one part of a ring each.
/// Further parts are not guarded.
const RANGES: usize = 4096;

crate::large! {
    static GUARDED: [Range; RANGES] = [const {
        Range { start: AtomicUsize::new(0), length: AtomicUsize::new(0), ring: AtomicU32::new(0) }
    }; RANGES];
}
static USED: AtomicUsize = AtomicUsize::new(0);

/// Number of rings so far, which is the number of the current one.
static RING: AtomicU32 = AtomicU32::new(0);
/// The ring that was truncated; zero if there is none.
static CUT: AtomicU32 = AtomicU32::new(0);
/// `true` while the kernel calls this module's handler.
static WATCHES: AtomicBool = AtomicBool::new(false);

/// The action that the program has set.
struct Action(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written by the program's own calls, which it has to synchronize itself.
unsafe impl Sync for Action {}
static PROGRAMS: Action = Action(UnsafeCell::new(MaybeUninit::zeroed()));
/// A copy of its handler and flags, for this module's handler.
static HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static FLAGS: AtomicU32 = AtomicU32::new(0);

/// Guards the first part of a new ring, which replaces the previous one.
pub fn guard_first(start: *mut u8, length: usize) {
    RING.fetch_add(1, AcqRel);
    guard_part(start, length);
}

/// Guards a further part of the ring.
pub fn guard_part(start: *mut u8, length: usize) {
    guard(start, length, RING.load(Acquire));
}

/// Copies the current ring, sealed, to private memory, because the tracer itself is about to truncate its file.
/// Threads whose calls have just returned check there whether they may still record.
pub fn leave_file() {
    let ring = RING.load(Acquire);
    for range in GUARDED[..USED.load(Acquire).min(RANGES)].iter().filter(|range| range.ring.load(Relaxed) == ring) {
        let (start, length) = (range.start.load(Acquire) as *mut u8, range.length.load(Relaxed));
        let copy = sys::map_memory(length);
        if !copy.is_null() {
            // SAFETY: both are mapped with that length; nothing in a sealed ring changes except counters.
            unsafe { copy.copy_from_nonoverlapping(start, length) };
            sys::move_memory(copy, length, start);
        }
    }
}

/// Guards a file that is mapped temporarily for reading.
pub fn guard_reading(start: *mut u8, length: usize) {
    guard(start, length, 0);
}

fn guard(start: *mut u8, length: usize, ring: u32) {
    if start.is_null() {
        return;
    }
    let place = USED.fetch_add(1, AcqRel);
    let Some(range) = GUARDED.get(place) else { return USED.store(RANGES, Release) };
    range.length.store(length, Relaxed);
    range.ring.store(ring, Relaxed);
    range.start.store(start.addr(), Release);
}

/// Releases a guarded range that is about to be unmapped.
pub fn release(start: *const u8) {
    let used = USED.load(Acquire).min(RANGES);
    let found = GUARDED[..used].iter().rev().find(|range| range.start.load(Relaxed) == start.addr());
    found.into_iter().for_each(|range| range.start.store(0, Release));
}

/// Returns `true` if the current ring was truncated.
pub fn is_cut() -> bool {
    let cut = CUT.load(Acquire);
    cut != 0 && cut == RING.load(Acquire)
}

/// Notes that the current ring was truncated.
pub fn note_cut() {
    CUT.store(RING.load(Acquire), Release);
}

/// Returns `true` if this module's handler is installed.
pub fn watches() -> bool {
    WATCHES.load(Acquire)
}

/// A signal action in the kernel's layout.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

const NO_ACTION: KernelAction = KernelAction { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
const SA_RESTORER: u64 = 0x0400_0000;
/// Uses the program's alternate signal stack if it has one: the fault may be at the end of a small stack.
const FLAGS_OF_DEFAULT: i32 = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;

/// Installs the handler, in front of the program's own if it has one.
#[cfg(target_arch = "x86_64")]
pub fn watch() {
    if WATCHES.swap(true, AcqRel) {
        return;
    }
    let ours = |flags: u64, mask| KernelAction {
        handler: entry as *const () as usize,
        flags: flags | SA_RESTORER | libc::SA_SIGINFO as u64,
        restorer: back as *const () as usize,
        mask,
    };
    let mut before = NO_ACTION;
    set(&ours(FLAGS_OF_DEFAULT as u64, 0), &mut before);
    if before.handler == libc::SIG_IGN {
        // An ignored signal remains ignored in executed programs.
        set(&before, &mut NO_ACTION.clone());
        WATCHES.store(false, Release);
        return;
    }
    // SAFETY: a struct of integers whose beginning is the kernel's structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = before.handler;
    action.sa_flags = before.flags as i32;
    // SAFETY: the first word of the mask contains all signals of the kernel.
    unsafe { (&raw mut action.sa_mask).cast::<u64>().write(before.mask) };
    keep(&action);
    if before.handler != libc::SIG_DFL {
        set(&ours(before.flags & !(libc::SA_RESETHAND as u32 as u64), before.mask), &mut NO_ACTION.clone());
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn watch() {}

fn set(new: &KernelAction, before: &mut KernelAction) {
    sys::set_action(libc::SIGBUS, (&raw const *new).cast(), (&raw mut *before).cast());
}

fn keep(action: &libc::sigaction) {
    // SAFETY: see the type.
    unsafe { (*PROGRAMS.0.get()).write(*action) };
    FLAGS.store(action.sa_flags as u32, Relaxed);
    HANDLER.store(action.sa_sigaction, Release);
}

/// Returns the action for SIGBUS that the program is shown while this module's handler is installed.
pub fn shown() -> libc::sigaction {
    // SAFETY: a struct of integers, zeroed or written as a whole.
    let action = unsafe { (*PROGRAMS.0.get()).assume_init() };
    // A one-shot handler may already have been used.
    libc::sigaction { sa_sigaction: HANDLER.load(Acquire), ..action }
}

/// Stores the program's new action for SIGBUS, and returns the action to pass to the kernel instead. Call
/// [`note_set`] afterwards.
pub fn in_place_of(action: &libc::sigaction) -> libc::sigaction {
    let mut instead = *action;
    match action.sa_sigaction {
        libc::SIG_IGN => return instead,
        libc::SIG_DFL => instead.sa_flags = FLAGS_OF_DEFAULT,
        _ => instead.sa_flags = action.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO,
    }
    #[cfg(target_arch = "x86_64")]
    {
        instead.sa_sigaction = entry as *const () as usize;
    }
    // The kernel's handler reads this as soon as it is installed.
    keep(action);
    instead
}

/// Notes that the program's action for SIGBUS is set.
pub fn note_set(action: &libc::sigaction) {
    keep(action);
    if action.sa_sigaction == libc::SIG_IGN {
        WATCHES.store(false, Release);
    }
}

/// Returns `true` if an action is that of this module.
pub fn is_own(action: &libc::sigaction) -> bool {
    cfg!(target_arch = "x86_64") && action.sa_sigaction == own_address()
}

#[cfg(target_arch = "x86_64")]
fn own_address() -> usize {
    entry as *const () as usize
}

#[cfg(not(target_arch = "x86_64"))]
fn own_address() -> usize {
    usize::MAX
}

/// The signal handler. It enters the program's own handler by a jump, so that registers, stack and return address are
/// as if it had been called directly.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn entry() {
    std::arch::naked_asm!(
        "push rdi", "push rsi", "push rdx",
        "call {decide}",
        "pop rdx", "pop rsi", "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "ret",
        decide = sym decide,
    )
}

/// The return address of every handler: unwinders recognize it by these two instructions.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn back() {
    std::arch::naked_asm!("mov rax, {number}", "syscall", number = const libc::SYS_rt_sigreturn)
}

/// Repairs a fault in one of our mappings, or returns the handler to continue with. Makes only system calls.
#[cfg(target_arch = "x86_64")]
extern "C" fn decide(signal: i32, info: *const libc::siginfo_t) -> usize {
    // SAFETY: the kernel has written it.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // Caused by an instruction, and not by a signal that was sent.
    let is_fault = (1..=LAST_FAULT).contains(&code);
    if is_fault && repair(address) {
        return 0;
    }
    let handler = HANDLER.load(Acquire);
    if ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler) {
        if FLAGS.load(Relaxed) & libc::SA_RESETHAND as u32 != 0 {
            HANDLER.store(libc::SIG_DFL, Release);
        }
        return handler;
    }
    // The instruction faults again, or the signal is raised again once this handler has returned.
    set(&NO_ACTION, &mut NO_ACTION.clone());
    if !is_fault {
        sys::raise(signal);
    }
    0
}

#[cfg(target_arch = "x86_64")]
/// The next code is the loss of memory that is not in use now.
const LAST_FAULT: i32 = 4;

/// Replaces the guarded range that contains an address with private memory; returns `false` if the address is not in
/// one.
#[cfg(target_arch = "x86_64")]
fn repair(address: usize) -> bool {
    let holds = |range: &&Range| {
        let start = range.start.load(Acquire);
        start != 0 && (start..start + range.length.load(Relaxed)).contains(&address)
    };
    let Some(range) = GUARDED[..USED.load(Acquire).min(RANGES)].iter().find(holds) else { return false };
    if !sys::map_memory_over(range.start.load(Relaxed) as *mut u8, range.length.load(Relaxed)) {
        return false;
    }
    let ring = range.ring.load(Relaxed);
    if ring != 0 && ring == RING.load(Acquire) {
        CUT.store(ring, Release);
        thread_state::retire_all();
    }
    true
}
