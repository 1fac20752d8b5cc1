//! The clock of event timestamps: the TSC if the kernel itself trusts it, otherwise CLOCK_MONOTONIC.
//!
//! Two readings of the TSC cost half as much as two of CLOCK_MONOTONIC. Ticks are converted to time only when a trace
//! is read: from time to time an [`Anchor`] records the values of all clocks.

use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::clock::Anchor;

use crate::kernel::switches::SWITCHES;
use crate::kernel::{machine, sys, vdso};

/// The time at which [`start`] ran; the tick rate is measured from it.
static STARTED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// State when the TSC was abandoned: ticks, boot time, and rate in ticks per second. Zero before that.
static LEFT: [AtomicU64; 3] = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];

/// Chooses the clock. Before this, CLOCK_MONOTONIC would be read, but nothing is recorded before this.
pub fn start() {
    SWITCHES.tsc.store(tsc_is_trusted(), Relaxed);
    let anchor = anchor();
    STARTED[0].store(anchor.ticks, Relaxed);
    STARTED[1].store(anchor.boot_ns, Relaxed);
}

/// Returns the current time in ticks.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SWITCHES.tsc.load(Relaxed) {
        // SAFETY: every x86-64 processor has this instruction; if the program forbids it, the switch is off.
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

/// Stops using the TSC, because the program is about to forbid it: reading it is a SIGSEGV after that, in this thread
/// and all threads it starts. From now on every thread makes a real system call for the time, because the vDSO also
/// reads the TSC. Ticks continue at the same rate, so times before and after are on one clock; anchors keep it
/// accurate.
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

/// Returns `true` if ticks come from the TSC or continue at its rate.
fn counts_tsc() -> bool {
    SWITCHES.tsc.load(Relaxed) || LEFT[2].load(Relaxed) != 0
}

pub fn name() -> &'static str {
    if counts_tsc() { "tsc" } else { "monotonic" }
}

/// Reads three clocks at one point in time: ticks are read before and after the boot clock, and their midpoint is
/// used.
pub fn anchor() -> Anchor {
    let before = ticks();
    let boot_ns = sys::clock_ns(libc::CLOCK_BOOTTIME);
    let after = ticks();
    let real_ns = sys::clock_ns(libc::CLOCK_REALTIME);
    Anchor { ticks: before + (after - before) / 2, boot_ns, real_ns }
}

/// Returns the ticks at which [`start`] ran.
pub fn started() -> u64 {
    STARTED[0].load(Relaxed)
}

/// Returns the time since [`start`].
pub fn age_ns(now: &Anchor) -> u64 {
    now.boot_ns.saturating_sub(STARTED[1].load(Relaxed))
}

/// Ticks in ten microseconds; zero until the process has run long enough to measure the rate.
static TEN_US: AtomicU64 = AtomicU64::new(0);

/// Run time after which the process's own measurement of the rate is accurate enough for [`TEN_US`].
const MEASURED_NS: u64 = 1_000_000;

/// Returns the number of ticks in ten microseconds, never zero.
#[inline(always)]
pub fn ten_us() -> u64 {
    let known = TEN_US.load(Relaxed);
    if known != 0 { known } else { measure_ten_us() }
}

/// Returns `true` once [`ten_us`] no longer changes.
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

/// Returns the ticks per second, measured since [`start`]: rough after a millisecond, accurate after a second.
pub fn rate_hz(now: &Anchor) -> u64 {
    let ticks = now.ticks.saturating_sub(STARTED[0].load(Relaxed));
    let ns = age_ns(now);
    match counts_tsc() && ns > 0 {
        true => (ticks as u128 * 1_000_000_000 / ns as u128) as u64,
        false => 1_000_000_000,
    }
}

/// Returns `true` if the processor guarantees a constant rate in every state, and the kernel's own clock uses the
/// TSC.
#[cfg(target_arch = "x86_64")]
fn tsc_is_trusted() -> bool {
    machine::has_steady_tsc().unwrap_or_else(is_tsc_steady)
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn is_tsc_steady() -> bool {
    const INVARIANT: u32 = 1 << 8;
    // Queried once, without first checking that the leaf exists: each CPUID query costs a virtual machine 15 us, and
    // every 64-bit processor supports leaves up to 0x8000_0008, which has its address widths.
    let invariant = core::arch::x86_64::__cpuid(0x8000_0007).edx & INVARIANT != 0;
    invariant && (kernel_reads_tsc() || kernel_says_tsc())
}

/// Returns `true` if the kernel's clock is so fast that it must be the TSC: other clocks are outside the processor
/// and take several hundred nanoseconds. Reading the clock's name takes much longer, which matters in a short-lived
/// process. One uninterrupted reading is enough; a slow host falls back to the name.
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
    // In a virtual machine the kernel's clock may scale the TSC. If /sys cannot be read, the clock is unknown.
    let built_on_it = [&b"tsc"[..], b"kvm-clock", b"hyperv_clocksource_tsc_page", b""];
    built_on_it.contains(&source.trim_ascii())
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_trusted() -> bool {
    false
}
