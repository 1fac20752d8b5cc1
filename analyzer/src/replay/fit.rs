//! Work without the slowdown of sharing, and how storage slows down under load.

use super::pipeline::{Kind, Pipeline};
use super::player::{World, play};

/// Rounds in which work is fitted: each corrects most of what is left.
const ROUNDS: usize = 4;

/// Work is at least this part of the measured time.
const LEAST: f64 = 0.02;

/// Fits the work of productions and steps: played as it was, each takes as long as it was measured to take.
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

/// Charges as much for waiting for readers' interpreters as was measured. If readers are hardly ever at work then, it was something
/// else, which takes its time whatever readers do.
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

/// Waits that were measured are at most so many times those that a replay has.
const GIL_MOST: f64 = 2.5;

/// Work that is slowed down by other work of its kind.
const SHARED: [Kind; 3] = [Kind::Io, Kind::Cpu, Kind::Hand];

/// How much each further reader slows storage: the most probable value, and the ends of an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slope {
    pub low: f64,
    pub mid: f64,
    pub high: f64,
    /// The most readers that were seen in storage calls at the same time, rounded up.
    pub seen: usize,
}

/// Fits the slope from storage calls beside few and beside many others: by call, the mean number of readers in storage calls
/// meanwhile, and its duration.
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
    // Above one, two readers get less than one does: nothing but noise has that in the middle.
    let [low, mid, high] = [at(0.05), mid.min(1.0), at(0.95)].map(|slope| slope.clamp(0.0, 1.5));
    Slope { low: low.min(mid), mid, high: high.max(mid), seen }
}

const SAMPLES_MIN: usize = 10;
const RESAMPLES: usize = 40;

/// The slope of a line through samples, relative to its value at one reader.
fn regression(samples: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (beside, ns) in samples {
        let extra = beside - 1.0;
        (n, x, y, xx, xy) = (n + 1.0, x + extra, y + ns, xx + extra * extra, xy + extra * ns);
    }
    let spread = n * xx - x * x;
    // Batches that were all read beside the same number of others show nothing.
    if spread < 1e-3 * n * n {
        return None;
    }
    let rise = (n * xy - x * y) / spread;
    let base = (y - rise * x) / n;
    (base > 0.0).then(|| rise / base)
}

/// A small generator of random numbers: resampling has to give the same result each time.
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
