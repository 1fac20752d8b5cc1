//! Measures the cost of a span in Rust: nanoseconds of elapsed time, the minimum of many rounds, next to the two
//! clock readings that every span makes.

use std::hint::black_box;
use std::time::Instant;

use dlio_tracer::span;

const ROUNDS: usize = 300;
const SPANS: u32 = 10_000;

fn least(work: impl Fn()) -> f64 {
    let round = || {
        let began = Instant::now();
        (0..SPANS).for_each(|_| work());
        began.elapsed().as_nanos() as f64 / SPANS as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let floor = least(|| {
        black_box(0);
    });
    let span = least(|| drop(span!("step", cat = "compute")));
    println!("Rust span!             {:6.1} ns", span - floor);
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has this instruction.
        let clock = least(|| unsafe {
            black_box(core::arch::x86_64::_rdtsc());
            black_box(core::arch::x86_64::_rdtsc());
        });
        println!("two readings of the TSC {:5.1} ns", clock - floor);
    }
}
