//! The clock events are stamped with: the TSC where the kernel itself trusts it, CLOCK_MONOTONIC elsewhere.
//!
//! Two readings of the TSC cost half of what two of CLOCK_MONOTONIC do. Ticks become time only when a trace is read: an
//! [`Anchor`] now and then says where the clocks stood.

use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::clock::Anchor;

use crate::kernel::switches::SWITCHES;
use crate::kernel::{machine, sys, vdso};

/// The moment [`start`] ran, against which the rate is measured later.
static STARTED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Where ticks stood and how fast they came, a second, when the TSC was left: ticks, boot time, rate. Zeros before.
static LEFT: [AtomicU64; 3] = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];

/// Chooses the clock. Before this, CLOCK_MONOTONIC would be read; nothing is recorded before this.
pub fn start() {
    SWITCHES.tsc.store(tsc_is_trusted(), Relaxed);
    let anchor = anchor();
    STARTED[0].store(anchor.ticks, Relaxed);
    STARTED[1].store(anchor.boot_ns, Relaxed);
}

/// Now.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SWITCHES.tsc.load(Relaxed) {
        // SAFETY: every x86-64 processor has this instruction; where it may not be used, the switch is off.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    without_tsc()
}

#[cold]
fn without_tsc() -> u64 {
    match LEFT.each_ref().map(|number| number.load(Relaxed)) {
        [.., 0] => sys::clock_ns(libc::CLOCK_MONOTONIC),
        [ticks, boot_ns, rate] => {
            let gone_ns = sys::clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(boot_ns);
            ticks + (gone_ns as u128 * rate as u128 / 1_000_000_000) as u64
        }
    }
}

/// The program is about to forbid itself the TSC, which is a SIGSEGV from then on, in this thread and those it starts. All of them
/// ask the kernel from now on, by a real call: what it maps into the process reads the TSC, too. Ticks go on at the rate they had,
/// so that what comes before and after is on one clock; anchors keep it right.
pub fn leave_tsc() {
    if SWITCHES.tsc.load(Relaxed) {
        let now = anchor();
        for (place, number) in LEFT.iter().zip([now.ticks, now.boot_ns, rate_hz(&now)]) {
            place.store(number, Relaxed);
        }
        SWITCHES.tsc.store(false, Release);
    }
    vdso::forget();
}

/// True if ticks are those of the TSC, or go on at its rate.
fn counts_tsc() -> bool {
    SWITCHES.tsc.load(Relaxed) || LEFT[2].load(Relaxed) != 0
}

pub fn name() -> &'static str {
    if counts_tsc() { "tsc" } else { "monotonic" }
}

/// The same moment on three clocks: ticks are read on both sides of the boot clock and their middle taken.
pub fn anchor() -> Anchor {
    let before = ticks();
    let boot_ns = sys::clock_ns(libc::CLOCK_BOOTTIME);
    let after = ticks();
    let real_ns = sys::clock_ns(libc::CLOCK_REALTIME);
    Anchor { ticks: before + (after - before) / 2, boot_ns, real_ns }
}

/// When [`start`] ran.
pub fn started() -> u64 {
    STARTED[0].load(Relaxed)
}

/// The time since [`start`].
pub fn age_ns(now: &Anchor) -> u64 {
    now.boot_ns.saturating_sub(STARTED[1].load(Relaxed))
}

/// Ticks in ten microseconds; zero while the process has not run long enough to tell.
static TEN_US: AtomicU64 = AtomicU64::new(0);

/// The time the process has to have run before its own clock is good enough for that.
const MEASURED_NS: u64 = 1_000_000;

/// Ticks in ten microseconds, never zero.
#[inline(always)]
pub fn ten_us() -> u64 {
    let known = TEN_US.load(Relaxed);
    if known != 0 { known } else { measure_ten_us() }
}

/// True once that number stays as it is.
pub fn knows_ten_us() -> bool {
    TEN_US.load(Relaxed) != 0
}

#[cold]
fn measure_ten_us() -> u64 {
    let now = anchor();
    let ticks = (10_000 * rate_hz(&now) as u128 / 1_000_000_000).max(1) as u64;
    if age_ns(&now) >= MEASURED_NS {
        TEN_US.store(ticks, Relaxed);
    }
    ticks
}

/// Ticks a second, from the time since [`start`]: rough after a millisecond, good after a second.
pub fn rate_hz(now: &Anchor) -> u64 {
    let ticks = now.ticks.saturating_sub(STARTED[0].load(Relaxed));
    let ns = age_ns(now);
    match counts_tsc() && ns > 0 {
        true => (ticks as u128 * 1_000_000_000 / ns as u128) as u64,
        false => 1_000_000_000,
    }
}

/// The processor must promise a constant rate in every state, and the kernel must build its own time on it.
#[cfg(target_arch = "x86_64")]
fn tsc_is_trusted() -> bool {
    machine::has_steady_tsc().unwrap_or_else(is_tsc_steady)
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn is_tsc_steady() -> bool {
    const INVARIANT: u32 = 1 << 8;
    // Asked once and not whether it may be: each question takes a virtual machine 15 us, and every processor of 64 bits answers
    // up to 0x8000_0008, where its widths of addresses are.
    let invariant = core::arch::x86_64::__cpuid(0x8000_0007).edx & INVARIANT != 0;
    invariant && (kernel_reads_tsc() || kernel_says_tsc())
}

/// Whether the kernel's clock is read so fast that it can only be the TSC: other clocks lie outside the processor, and take
/// several hundred nanoseconds. Asking what it is called takes a process that does little much longer. One reading that is
/// not interrupted is enough; a slow machine asks.
#[cfg(target_arch = "x86_64")]
fn kernel_reads_tsc() -> bool {
    const READINGS: usize = 5;
    const FAST_NS: std::ops::Range<u64> = 1..150;
    let readings = [(); READINGS].map(|()| sys::clock_ns(libc::CLOCK_MONOTONIC));
    vdso::is_found() && readings.windows(2).any(|pair| FAST_NS.contains(&pair[1].wrapping_sub(pair[0])))
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn kernel_says_tsc() -> bool {
    let mut name = [0; 64];
    let source = sys::read_small(c"/sys/devices/system/clocksource/clocksource0/current_clocksource", &mut name);
    // Inside a virtual machine the kernel's clock may be one that scales the TSC; an unreadable /sys says nothing.
    let built_on_it = [&b"tsc"[..], b"kvm-clock", b"hyperv_clocksource_tsc_page", b""];
    built_on_it.contains(&source.trim_ascii())
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_trusted() -> bool {
    false
}
