//! Fits two things: how long work takes when no resource is shared, and how much storage slows down under load.

use super::pipeline::{Kind, Pipeline};
use super::player::{World, play};

/// Number of rounds in which work is fitted. Each round corrects most of the remaining error.
const ROUNDS: usize = 4;

/// Minimum of the fitted work, as a share of the measured time.
const LEAST: f64 = 0.02;

/// Fits the work of productions and steps so that each takes its measured time in a replay without changes.
pub fn fitted(measured: &Pipeline, world: &World) -> Pipeline {
    let mut fitted = measured.clone();
    for _ in 0..ROUNDS {
        let played = play(&fitted, world, true);
        charge_gil(&mut fitted, measured, played.gil_ns);
        let mut at = 0;
        for (pass, own) in fitted.passes.iter_mut().zip(&measured.passes) {
            for (batch, own) in pass.batches.iter_mut().zip(&own.batches) {
                let (shared, thought) = (played.shared[at] as f64, played.thought[at] as f64);
                at += 1;
                let wanted: f64 = SHARED.iter().map(|&kind| own.work[kind as usize]).sum();
                for kind in SHARED.map(|kind| kind as usize).into_iter().filter(|_| shared > 0.0) {
                    let scaled = batch.work[kind] * wanted / shared;
                    batch.work[kind] = scaled.clamp(LEAST * own.work[kind], own.work[kind]);
                }
                let thinks = own.think_cpu_ns + own.think_ns;
                let cpu = batch.think_cpu_ns - (thought - thinks);
                batch.think_cpu_ns = cpu.clamp(LEAST * own.think_cpu_ns, own.think_cpu_ns);
            }
        }
    }
    fitted
}

/// Scales the waits for the readers' interpreter locks so that a replay has as much of this waiting as was measured. If the
/// readers in the replay rarely work during these waits, the waits had another cause, and their duration becomes
/// independent of the readers.
fn charge_gil(fitted: &mut Pipeline, measured: &Pipeline, charged: f64) {
    let wanted: f64 = measured.passes.iter().flat_map(|pass| &pass.batches).map(|batch| batch.gil_ns).sum();
    for batch in fitted.passes.iter_mut().flat_map(|pass| &mut pass.batches) {
        if charged * GIL_MOST < wanted {
            batch.take_ns += std::mem::take(&mut batch.gil_ns);
        } else if charged > 0.0 {
            batch.gil_ns *= wanted / charged;
        }
    }
}

/// Maximum ratio of measured waits to the waits in a replay.
const GIL_MOST: f64 = 2.5;

/// The kinds of work that slow down when several readers do them at the same time.
const SHARED: [Kind; 3] = [Kind::Io, Kind::Cpu, Kind::Hand];

/// Slowdown of storage per additional reader: the most probable value, and the ends of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slope {
    pub low: f64,
    pub mid: f64,
    pub high: f64,
    /// Largest mean number of readers in storage calls during one call, rounded to the nearest integer; at least one.
    pub seen: usize,
}

/// Fits the slope from storage calls with few and with many concurrent calls. Each sample consists of the mean number of
/// readers in storage calls during one call, and the duration of this call.
pub fn slope(samples: &[(f64, f64)]) -> Slope {
    let seen = samples.iter().map(|(beside, _)| *beside).fold(1.0, f64::max).round().max(1.0) as usize;
    let unknown = Slope { low: 0.0, mid: 0.1, high: 1.0, seen };
    if samples.len() < SAMPLES_MIN {
        return unknown;
    }
    let Some(mid) = regression(samples.iter().copied()) else { return unknown };
    let mut found: Vec<f64> = (0..RESAMPLES)
        .filter_map(|round| {
            let mut random = Random::new(round as u64 + 1);
            regression((0..samples.len()).map(|_| samples[random.below(samples.len())]))
        })
        .collect();
    if found.len() < RESAMPLES / 2 {
        return unknown;
    }
    found.sort_by(f64::total_cmp);
    let at = |part: f64| found[((found.len() - 1) as f64 * part) as usize];
    // With a slope above one, two readers together would get less than one reader, so a middle value above one is noise.
    let [low, mid, high] = [at(0.05), mid.min(1.0), at(0.95)].map(|slope| slope.clamp(0.0, 1.5));
    Slope { low: low.min(mid), mid, high: high.max(mid), seen }
}

const SAMPLES_MIN: usize = 10;
const RESAMPLES: usize = 40;

/// Returns the slope of a line through the samples, relative to the value of the line at one reader.
fn regression(samples: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (beside, ns) in samples {
        let extra = beside - 1.0;
        (n, x, y, xx, xy) = (n + 1.0, x + extra, y + ns, xx + extra * extra, xy + extra * ns);
    }
    let spread = n * xx - x * x;
    // If all calls had the same concurrency, they do not show how it affects storage.
    if spread < 1e-3 * n * n {
        return None;
    }
    let rise = (n * xy - x * y) / spread;
    let base = (y - rise * x) / n;
    (base > 0.0).then(|| rise / base)
}

/// A small random number generator with a fixed seed, because resampling must give the same result each time.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}
