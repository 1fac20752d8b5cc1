//! Predicts the training time with a change, as an interval.
//!
//! The replay must first reproduce the unchanged run. A prediction is the ratio between two replays, one with and one
//! without the change. It is computed at several corners, which are combinations of the possibilities that the trace
//! leaves open.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::fit::{Random, Slope, fitted, slope};
use super::pipeline::{Batch, Kind, Order, Pass, Pipeline, Start};
use super::player::{Played, World, play};

/// Maximum errors when the unchanged run is replayed, relative to its wait and to its time.
const WAIT_ERROR: f64 = 0.05;
const TIME_ERROR: f64 = 0.03;

/// Minimum half-width of an interval, as a share of the training time.
const HALF_MIN: f64 = 0.05;

/// Factor by which the share of computing in which readers had no free CPU is added to the half-width of the interval.
const BUSY_PART: f64 = 0.2;

/// Maximum number of batches that the proof and each prediction replay. Longer pipelines are sampled.
const PROVED_MAX: usize = 100_000;
const PREDICTED_MAX: usize = 4_000;

/// If an interval contains the measured time, and an end of it is further away than this share of the measured time, the effect
/// is unknown.
const WIDE: f64 = 0.15;

/// Fewer batches than this do not show a pattern.
const BATCHES_MIN: usize = 8;

/// Processes outside the trace that used fewer CPUs than this, on average, do not limit additional readers.
const TAKEN_CPUS: f64 = 0.25;

/// Number of resampled pipelines per prediction.
const RESAMPLES: u64 = 8;

/// The replay of a training run, and the predictions that are based on it.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Replay {
    /// Measured duration of the training, and its duration in a replay without changes.
    pub measured_ns: i64,
    pub replayed_ns: Option<i64>,
    pub wait_ns: i64,
    pub replayed_wait_ns: Option<i64>,
    /// The setup of the loader, as far as the batches show it.
    pub loader: Option<Loader>,
    /// Reason why nothing can be predicted.
    pub refused: Option<String>,
    pub changes: Vec<Prediction>,
    /// Predictions for the changes that findings recommend.
    pub remedies: Vec<Prediction>,
}

impl Replay {
    /// Returns the change with the largest savings among the changes whose names start with one of these prefixes, and
    /// its savings. If the interval contains the measured time, the savings are zero. Returns `None` if none of these
    /// changes was predicted.
    pub fn best(&self, remedies: &[&str]) -> Option<(&Prediction, i64)> {
        let is_one = |row: &&Prediction| remedies.iter().any(|name| row.change.starts_with(name));
        let gain = |row: &Prediction| {
            let gain = self.measured_ns - row.time_ns?;
            Some(if row.is_nothing(self.measured_ns) { 0 } else { gain.max(0) })
        };
        let rows = self.remedies.iter().filter(is_one).filter_map(|row| Some((row, gain(row)?)));
        rows.max_by_key(|(_, gain)| *gain)
    }
}

/// The setup of a loader.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Loader {
    pub readers: usize,
    /// Requests in flight per reader.
    pub prefetch: usize,
    pub any_order: bool,
    pub passes: usize,
    /// Number of passes that created new readers.
    pub fresh_passes: usize,
    pub batches: usize,
}

impl Loader {
    fn of(pipeline: &Pipeline) -> Loader {
        Loader {
            readers: pipeline.readers(),
            prefetch: pipeline.prefetch(),
            any_order: pipeline.order == Order::Any,
            passes: pipeline.passes.len(),
            fresh_passes: pipeline.passes.iter().filter(|pass| pass.is_fresh).count(),
            batches: pipeline.batches(),
        }
    }
}

/// Prediction for one change.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Prediction {
    pub change: String,
    /// Description in words, and the PyTorch arguments that make the change.
    pub what: String,
    pub code: String,
    /// Predicted training time, the ends of its interval, and the remaining wait; `null` if there is no prediction.
    pub time_ns: Option<i64>,
    pub low_ns: Option<i64>,
    pub high_ns: Option<i64>,
    pub wait_ns: Option<i64>,
    /// Reason why there is no prediction for this change.
    pub refused: Option<String>,
    pub notes: Vec<String>,
}

impl Prediction {
    /// Returns the savings that are certain. They are negative if the change may cost time.
    pub fn sure_ns(&self, measured_ns: i64) -> Option<i64> {
        Some(measured_ns - self.high_ns?)
    }

    /// Returns `true` if the interval contains the measured time.
    pub fn is_nothing(&self, measured_ns: i64) -> bool {
        self.low_ns.zip(self.high_ns).is_some_and(|(low, high)| low <= measured_ns && measured_ns <= high)
    }

    /// Returns `true` if the change may have no effect, but may also have an effect that is too large to ignore.
    pub fn is_unknown(&self, measured_ns: i64) -> bool {
        let ends = self.low_ns.zip(self.high_ns);
        self.is_nothing(measured_ns) && ends.is_some_and(|(low, high)| is_wide(low, high, measured_ns))
    }
}

/// Returns `true` if an interval around a measured time is too wide to show that a change has no effect.
pub fn is_wide(low_ns: i64, high_ns: i64, measured_ns: i64) -> bool {
    (measured_ns - low_ns).max(high_ns - measured_ns) as f64 > WIDE * measured_ns as f64
}

/// One combination of the possibilities that a trace leaves open.
#[derive(Clone, Copy)]
struct Corner {
    slope: f64,
    /// Storage does not deliver more than at the highest concurrency seen.
    saturates: bool,
    /// A server, or another process that readers wait for, does not respond faster than in the recorded run.
    served: bool,
    /// Additional readers start at half the cost.
    cheap_start: bool,
    /// Readers that compute at the same time share cores (hyperthreads), caches and the clock frequency.
    shared_cores: bool,
    /// Processes outside the trace keep the CPUs that they used.
    taken_cpus: bool,
    /// Slow batches are slow because of their reader.
    by_reader: bool,
    /// The change affects only part of the time that it might affect.
    lesser: bool,
}

/// A pipeline whose replay reproduces the measurements.
pub struct Proven {
    measured: Pipeline,
    slope: Slope,
    /// Each slope (the middle one first) and the sample that was fitted with it.
    fits: Vec<(f64, Pipeline)>,
    replay: Replay,
}

/// Checks that the replay of a pipeline reproduces the measurements.
pub fn prove(pipeline: &Pipeline) -> Result<Proven, Box<Replay>> {
    let (time, wait) = (pipeline.measured_ns, pipeline.wait_ns);
    let loader = Some(Loader::of(pipeline));
    let mut replay = Replay { measured_ns: time as i64, wait_ns: wait as i64, loader, ..Replay::default() };
    let refuse = |replay: Replay, why: String| Err(Box::new(Replay { refused: Some(why), ..replay }));
    if pipeline.batches() < BATCHES_MIN {
        return refuse(replay, format!("the training has fewer than {BATCHES_MIN} batches"));
    }
    let found = slope(&pipeline.reads);
    let sample = pipeline.sample(PROVED_MAX);
    let whole = sample.as_ref().unwrap_or(pipeline);
    let world = World { cores: pipeline.cores(), slope: found.mid, storage_readers: 0, slowness: Vec::new() };
    let fit = fitted(whole, &world);
    let played = play(&fit, &world, false);
    // If only a sample is replayed, the replay must reproduce the sample.
    let (passes, waited) = (whole.passes_ns().max(1.0), whole.waited_ns());
    // Time outside passes is constant.
    let rest = time - pipeline.passes_ns();
    let replayed = |part: f64, of: f64, whole: f64| whole * part / of.max(1.0);
    replay.replayed_ns = Some((replayed(played.time_ns, passes, pipeline.passes_ns()) + rest) as i64);
    let wait_error = played.wait_ns - waited;
    let time_error = played.time_ns - passes;
    replay.replayed_wait_ns = Some((wait + wait_error * pipeline.passes_ns() / passes) as i64);
    let allowed = (WAIT_ERROR * waited).max(TIME_ERROR * passes);
    if rest.abs() > (WAIT_ERROR * wait).max(TIME_ERROR * time) {
        let why =
            format!("its steps add up to {:.1} % of the training time", 100.0 * pipeline.passes_ns() / time.max(1.0));
        return refuse(replay, why);
    }
    if wait_error.abs() > allowed || time_error.abs() > allowed {
        let percent = |error: f64, of: f64| format!("{:+.1} %", 100.0 * error / of.max(1.0));
        let (of_time, of_wait) = (percent(time_error, passes), percent(wait_error, waited));
        let why = format!(
            "the replay of the unchanged run differs from the measured time by {of_time} and from the measured wait by {of_wait}"
        );
        return refuse(replay, why);
    }
    let part = whole.sample(PREDICTED_MAX);
    let part = part.as_ref().unwrap_or(whole);
    let mut slopes = vec![found.mid];
    if part.work()[Kind::Io as usize] > 0.01 * part.passes_ns() {
        slopes.extend([found.low, found.high].into_iter().filter(|slope| (slope - found.mid).abs() > 0.02));
    }
    let fits = slopes.into_iter().map(|slope| (slope, fitted(part, &World { slope, ..world.clone() }))).collect();
    Ok(Proven { measured: pipeline.clone(), slope: found, fits, replay })
}

impl Proven {
    /// Returns the replay of the unchanged run.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.measured
    }

    /// Predicts the training time with a change.
    pub fn predict(&self, change: &Change) -> Prediction {
        let mut found = Prediction {
            change: change.name.clone(),
            what: change.words(&self.measured),
            code: change.code(),
            ..Prediction::default()
        };
        if let Some(why) = self.refusal(change) {
            found.refused = Some(why);
            return found;
        }
        let corners = self.corners(change, &mut found.notes);
        let (mut ratios, mut wait) = (Vec::new(), 0.0);
        for corner in &corners {
            let (base, changed) = self.both(change, corner, None);
            ratios.push(changed.time_ns / base.time_ns.max(1.0));
            if ratios.len() == 1 {
                wait = self.measured.wait_ns + (changed.wait_ns - base.wait_ns) * self.scale();
            }
        }
        let spread = self.spread(change, &corners[0]);
        let time = self.measured.measured_ns;
        let (low, high) = ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), &r| (low.min(r), high.max(r)));
        // The load of CPUs shared with other programs varies between runs.
        let busy = if change.needs_cpu() || change.workers.is_some() { BUSY_PART * self.measured.starved } else { 0.0 };
        let half = (2.0 * spread).max(HALF_MIN) + busy;
        found.time_ns = Some((time * ratios[0]) as i64);
        found.low_ns = Some((time * (low.min(ratios[0] - half)).max(0.0)) as i64);
        found.high_ns = Some((time * high.max(ratios[0] + half)) as i64);
        found.wait_ns = Some(wait.max(0.0) as i64);
        found
    }

    /// Returns the ratio of the whole training to the sample.
    fn scale(&self) -> f64 {
        self.measured.passes_ns() / self.fits[0].1.passes_ns().max(1.0)
    }

    fn refusal(&self, change: &Change) -> Option<String> {
        let own = &self.measured;
        let cpu = own.work()[Kind::Cpu as usize];
        if (change.any_order || change.workers.is_some()) && self.has_slow_reader() {
            return Some(
                "one reader is slower than the others, and the other readers may be unable to make its batches".into(),
            );
        }
        if change.any_order && own.channels > 1 {
            return Some(format!(
                "batches arrive through {} channels, which may belong to separate loaders, each with its own order",
                own.channels
            ));
        }
        if change.needs_cpu() && !own.is_counted && cpu > 0.0 {
            return Some(
                "the trace has no CPU times for the readers, so computing cannot be distinguished from waiting".into(),
            );
        }
        if (change.needs_cpu() || change.workers.is_some()) && own.cpus.is_none() && cpu > 0.05 * own.passes_ns() {
            return Some("the trace does not show how many CPUs the processes may use".into());
        }
        if (change.needs_cpu() || change.workers.is_some()) && !own.is_quota_known && cpu > 0.05 * own.passes_ns() {
            return Some("the trace does not show whether a CPU quota applies".into());
        }
        if (change.needs_storage() || change.decode != 1.0) && 2 * own.mapped > own.batches() && !own.is_counted {
            return Some("readers map files, so reading cannot be distinguished from decoding".into());
        }
        None
    }

    fn corners(&self, change: &Change, notes: &mut Vec<String>) -> Vec<Corner> {
        let first = Corner {
            slope: self.fits[0].0,
            saturates: false,
            served: false,
            cheap_start: false,
            shared_cores: false,
            taken_cpus: false,
            by_reader: false,
            lesser: false,
        };
        let mut corners = vec![first];
        corners.extend(self.fits[1..].iter().map(|(slope, _)| Corner { slope: *slope, ..first }));
        let reads = self.measured.work()[Kind::Io as usize] > 0.05 * self.measured.passes_ns();
        let readers = self.measured.readers();
        if change.workers.is_some_and(|workers| workers > readers) {
            if reads {
                corners.push(Corner { saturates: true, ..first });
                let seen = self.slope.seen;
                let readers = if seen == 1 { "reader" } else { "concurrent readers" };
                notes.push(format!(
                    "storage was observed with at most {seen} {readers}; record a run with more to narrow the interval"
                ));
            }
            if self.measured.served_ns > 0.05 * self.measured.passes_ns() {
                corners.push(Corner { served: true, ..first });
                notes.push(
                    "readers wait for a server or another process, which may be unable to serve more readers; \
                     record a run with more to find out"
                        .into(),
                );
            }
            let slopes = self.fits.iter().map(|(slope, _)| *slope);
            let least = slopes.fold(first.slope, f64::min);
            corners.push(Corner { cheap_start: true, slope: least, ..first });
            if self.measured.work()[Kind::Cpu as usize] > 0.05 * self.measured.passes_ns() {
                corners.push(Corner { shared_cores: true, ..first });
                if self.measured.taken_cpus >= TAKEN_CPUS {
                    corners.push(Corner { taken_cpus: true, ..first });
                    let taken = self.measured.taken_cpus;
                    notes.push(format!(
                        "processes outside the trace used {taken:.1} CPUs, which may be free on an idle host"
                    ));
                }
            }
        }
        if (change.any_order || change.workers.is_some()) && self.slowness().iter().any(|slow| (slow - 1.0).abs() > 0.2)
        {
            corners.push(Corner { by_reader: true, ..first });
            notes.push(
                "the trace does not show whether some batches or one of the readers are slow; a shuffled pass would show it"
                    .into(),
            );
        }
        let prepares = || self.measured.passes.iter().flat_map(|pass| &pass.starts).any(|start| start.first_ns > 0.0);
        let prepares = change.persistent && prepares();
        if prepares || change.no_handover || change.latency != 1.0 || change.bandwidth != 1.0 || change.compute != 1.0 {
            corners.push(Corner { lesser: true, ..first });
        }
        corners
    }

    /// Returns `true` if one reader takes longer than the others for most of its batches, not only for a few large ones.
    fn has_slow_reader(&self) -> bool {
        let mut times = vec![Vec::new(); self.measured.readers()];
        for batch in self.measured.passes.iter().flat_map(|pass| &pass.batches) {
            times.get_mut(batch.reader as usize).into_iter().for_each(|times| times.push(batch.made_ns));
        }
        let middle = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        let mut medians: Vec<f64> = times.into_iter().filter_map(middle).collect();
        medians.sort_by(f64::total_cmp);
        let slowest = medians.pop();
        slowest.zip(middle(medians)).is_some_and(|(slowest, others)| slowest >= SLOW_READER * others)
    }

    /// Returns each reader's mean production time relative to the overall mean.
    fn slowness(&self) -> Vec<f64> {
        let mut sums = vec![[0.0; 2]; self.measured.readers()];
        for batch in self.measured.passes.iter().flat_map(|pass| &pass.batches) {
            if let Some(sum) = sums.get_mut(batch.reader as usize) {
                *sum = [sum[0] + batch.made_ns, sum[1] + 1.0];
            }
        }
        let all = sums.iter().fold([0.0; 2], |all, sum| [all[0] + sum[0], all[1] + sum[1]]);
        let mean = all[0] / f64::max(all[1], 1.0);
        sums.iter().map(|[ns, n]| if *n > 0.0 && mean > 0.0 { ns / n / mean } else { 1.0 }).collect()
    }

    /// Replays the pipeline at one corner, without and with a change.
    fn both(&self, change: &Change, corner: &Corner, resample: Option<u64>) -> (Played, Played) {
        let fit = self.fits.iter().find(|(slope, _)| *slope == corner.slope).map_or(&self.fits[0].1, |(_, fit)| fit);
        let mut base = fit.clone();
        let slowness = if corner.by_reader { self.slowness() } else { Vec::new() };
        for batch in base.passes.iter_mut().flat_map(|pass| &mut pass.batches).filter(|_| corner.by_reader) {
            let slow = slowness.get(batch.reader as usize).copied().unwrap_or(1.0).max(0.01);
            batch.work = batch.work.map(|ns| ns / slow);
        }
        if let Some(seed) = resample {
            shuffle(&mut base, seed);
        }
        let world = World { cores: base.cores(), slope: corner.slope, storage_readers: 0, slowness };
        let before = play(&base, &world, false);
        let mut world = world;
        if corner.saturates {
            world.storage_readers = self.slope.seen;
        }
        let mut changed = base;
        apply(change, &mut changed, corner);
        world.cores = changed.cores();
        if corner.taken_cpus {
            world.cores = (world.cores - self.measured.taken_cpus).max(1.0);
        }
        (before, play(&changed, &world, false))
    }

    /// Returns the standard deviation of the ratio over resampled rounds of batches.
    fn spread(&self, change: &Change, corner: &Corner) -> f64 {
        let ratios = (1..=RESAMPLES).map(|seed| {
            let (base, changed) = self.both(change, corner, Some(seed));
            changed.time_ns / base.time_ns.max(1.0)
        });
        let ratios: Vec<f64> = ratios.collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
        (squares / (ratios.len() - 1).max(1) as f64).sqrt()
    }
}

/// Replaces each round of batches (one per reader) with a randomly chosen round of the same pass.
fn shuffle(pipeline: &mut Pipeline, seed: u64) {
    let mut random = Random::new(seed);
    for pass in &mut pipeline.passes {
        let round = pass.starts.len().max(1);
        let rounds = pass.batches.len() / round;
        if rounds < 2 {
            continue;
        }
        let all = pass.batches.clone();
        for at in 0..rounds {
            let from = random.below(rounds) * round;
            for i in 0..round {
                let reader = pass.batches[at * round + i].reader;
                pass.batches[at * round + i] = Batch { reader, ..all[from + i] };
            }
        }
    }
}

/// Applies a change to a pipeline.
fn apply(change: &Change, pipeline: &mut Pipeline, corner: &Corner) {
    // The trace does not separate latency from bandwidth.
    let partial = change.latency.max(1.0) * change.bandwidth.max(1.0);
    let storage = change.storage * if corner.lesser { 1.0 } else { partial };
    // Only part of a step is compute; without spans, a step also includes unpacking its batch.
    let lesser = LESSER_COMPUTE[pipeline.by_spans as usize];
    let compute = 1.0 - (1.0 - 1.0 / change.compute) * if corner.lesser { lesser } else { 1.0 };
    let on_cpu = computes_on_cpu(pipeline);
    let order = change.order(pipeline);
    let was = pipeline.readers();
    // If the server does not handle more requests, each reader waits longer when there are more readers.
    let shared = change.workers.filter(|_| corner.served).map_or(1.0, |workers| workers as f64 / was.max(1) as f64);
    let slower = match change.workers.is_some_and(|workers| workers > was) {
        true if (was as f64) < pipeline.cores() => SHARED_CORES[corner.shared_cores as usize],
        true => CROWDED_CORES[corner.shared_cores as usize],
        false => 1.0,
    };
    let prefetch = pipeline.prefetch();
    pipeline.order = order;
    pipeline.cpus = change.cores.or(pipeline.cpus);
    if change.no_quota {
        pipeline.quota = None;
    }
    // Faster decoding does not shorten file calls.
    let decode = pipeline.in_calls + (1.0 - pipeline.in_calls) / change.decode;
    let last = pipeline.passes.len().saturating_sub(1);
    let (per_reader, cores) = (per_reader(pipeline), pipeline.cores());
    for (number, pass) in pipeline.passes.iter_mut().enumerate() {
        for batch in &mut pass.batches {
            batch.work[Kind::Io as usize] /= storage;
            batch.work[Kind::Fixed as usize] *= shared.max(1.0);
            batch.work[Kind::Cpu as usize] *= slower * decode;
            batch.work[Kind::Hand as usize] *= slower;
            batch.think_cpu_ns *= if on_cpu { compute } else { 1.0 };
            batch.think_ns = batch.own_ns + (batch.think_ns - batch.own_ns) * compute;
            if change.no_handover {
                let left = if corner.lesser { 0.5 } else { 0.0 };
                let Batch { ship_ns, take_ns, gil_ns, turn_ns, return_ns, .. } = batch;
                for ns in [ship_ns, take_ns, gil_ns, turn_ns, return_ns] {
                    *ns *= left;
                }
                batch.work[Kind::Hand as usize] *= left;
            }
        }
        if let Some(workers) = change.workers.filter(|workers| *workers != was) {
            resize(pass, workers, (per_reader, cores), corner);
        }
        if change.workers.is_some() || change.prefetch.is_some() {
            let per_reader = change.prefetch.unwrap_or(prefetch);
            pass.requested = per_reader * pass.starts.len();
        }
        if change.persistent && pass.is_fresh {
            if number > 0 {
                // Readers may prepare in each pass, such as by filling a buffer, and not only in the first one.
                let first_ns = |start: &Start| if corner.lesser { start.first_ns } else { 0.0 };
                pass.starts
                    .iter_mut()
                    .for_each(|start| *start = Start { first_ns: first_ns(start), ..Start::default() });
                pass.lead_ns = pass.lead_ns.min(RESUME_NS);
            }
            if number < last {
                pass.tail_ns = pass.tail_ns.min(RESUME_NS);
            }
        }
    }
}

/// Returns `true` if the training thread spends most of its steps on a CPU. Otherwise, a device computes, and the code around
/// the device's work uses the CPU time.
fn computes_on_cpu(pipeline: &Pipeline) -> bool {
    let batches = || pipeline.passes.iter().flat_map(|pass| &pass.batches);
    let waits: f64 = batches().map(|batch| batch.think_ns - batch.own_ns).sum();
    batches().map(|batch| batch.think_cpu_ns).sum::<f64>() >= waits
}

/// Computing time with more readers, relative to the time with the recorded number of readers. First value: as measured in jobs
/// that ran with both numbers; second value: if the readers share cores.
const SHARED_CORES: [f64; 2] = [1.1, 1.25];

/// Likewise, if the recorded readers already use all cores. In the best case, more readers do not slow each other down further.
const CROWDED_CORES: [f64; 2] = [1.0, 1.25];

/// Minimum share of a step that a faster device shortens: without spans, and with spans.
const LESSER_COMPUTE: [f64; 2] = [0.4, 0.5];

/// Cost of a pass whose readers already exist: a message to each reader, and its response.
const RESUME_NS: f64 = 2e6;

/// Returns the trainer's time to create one more reader. Other work may delay the creation, so the lowest time of all
/// passes counts.
fn per_reader(pipeline: &Pipeline) -> f64 {
    let cost = |pass: &Pass| {
        let created = pass.starts.iter().map(|start| start.created_ns);
        let (first, last) = (created.clone().fold(f64::MAX, f64::min), created.fold(0.0, f64::max));
        match pass.starts.len() {
            1 => last,
            readers => (last - first) / (readers.max(2) - 1) as f64,
        }
    };
    let fresh = pipeline.passes.iter().filter(|pass| pass.is_fresh && !pass.starts.is_empty());
    fresh.map(cost).min_by(f64::total_cmp).unwrap_or(0.0)
}

/// A reader is slow if its median time per batch is at least this many times that of the other readers.
const SLOW_READER: f64 = 2.0;

/// Minimum share of the time to stop readers that grows with their number. Readers exit in parallel if enough cores are free.
const JOIN_PART: f64 = 0.3;

/// Changes the number of readers of a pass.
fn resize(pass: &mut Pass, workers: usize, (per_reader, cores): (f64, f64), corner: &Corner) {
    let was = pass.starts.len().max(1);
    let last = pass.starts.iter().map(|start| start.created_ns).fold(0.0, f64::max);
    let cost = if corner.cheap_start && workers > was { 0.5 } else { 1.0 };
    let mean = pass.starts.iter().fold(Start::default(), |sum, start| Start {
        created_ns: 0.0,
        work: std::array::from_fn(|kind| sum.work[kind] + start.work[kind] / was as f64),
        first_ns: sum.first_ns + start.first_ns / was as f64,
    });
    for number in was..workers {
        let further = (number + 1 - was) as f64;
        let work = mean.work.map(|ns| ns * cost);
        pass.starts.push(Start {
            created_ns: last + further * per_reader * cost,
            work,
            first_ns: mean.first_ns * cost,
        });
    }
    pass.starts.truncate(workers);
    if pass.is_fresh {
        let more = workers as f64 - was as f64;
        pass.lead_ns = (pass.lead_ns + more * per_reader * cost).max(0.0);
        let turns = |readers: usize| (readers as f64 / cores).max(1.0);
        let longer = (1.0 + JOIN_PART * more / was as f64).max(turns(workers) / turns(was));
        pass.tail_ns = (pass.tail_ns * (1.0 + (longer - 1.0) * cost)).max(0.0);
    }
    for (number, batch) in pass.batches.iter_mut().enumerate() {
        batch.reader = (number % workers) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// Returns a pipeline of one pass, in which each batch needs this work and each step takes this long. Its measurements
    /// equal its replay.
    fn pipeline(batches: usize, readers: usize, kind: Kind, work: impl Fn(usize) -> f64, think: f64) -> Pipeline {
        let batch = |number: usize| {
            let mut own = Batch { reader: (number % readers) as u32, think_ns: think * MS, ..Batch::default() };
            own.work[kind as usize] = work(number) * MS;
            own.made_ns = work(number) * MS;
            own
        };
        let pass = Pass {
            starts: vec![Start::default(); readers],
            requested: 2 * readers,
            batches: (0..batches).map(batch).collect(),
            ..Pass::default()
        };
        let mut made = Pipeline {
            taken_cpus: 0.0,
            passes: vec![pass],
            cpus: Some(64.0),
            is_quota_known: true,
            is_counted: true,
            reads: (0..40).map(|call| (1.0 + f64::from(call % 2), MS)).collect(),
            ..Pipeline::default()
        };
        let world = World { cores: 64.0, slope: 0.0, storage_readers: 0, slowness: Vec::new() };
        let played = play(&made, &world, false);
        (made.measured_ns, made.wait_ns) = (played.time_ns, played.wait_ns);
        let each = played.wait_ns / batches as f64;
        made.passes[0].batches.iter_mut().for_each(|batch| batch.wait_ns = each);
        made
    }

    fn near(ns: impl Into<f64>, ms: f64) -> bool {
        (ns.into() / MS - ms).abs() <= 0.01 * ms
    }

    fn predicted(pipeline: &Pipeline, change: &str) -> Prediction {
        let proven = prove(pipeline).unwrap_or_else(|replay| panic!("{:?}", replay.refused));
        proven.predict(&Change::parse(change).unwrap())
    }

    #[test]
    fn readers_that_are_slower_than_the_training_set_its_pace() {
        // Two readers need 20 ms per batch each: a batch arrives every 10 ms, and steps of 4 ms wait for it.
        let slow = pipeline(200, 2, Kind::Io, |_| 20.0, 4.0);
        assert!(near(slow.measured_ns, 200.0 * 10.0 + 14.0), "{}", slow.measured_ns);
        let half = predicted(&slow, "storage=2");
        assert!(near(half.time_ns.unwrap() as f64, 200.0 * 5.0 + 9.0), "{half:?}");
        let four = predicted(&slow, "workers=4");
        assert!(near(four.time_ns.unwrap() as f64, 200.0 * 5.0 + 19.0), "{four:?}");
        let free = predicted(&slow, "storage=inf");
        assert!(near(free.time_ns.unwrap() as f64, 200.0 * 4.0), "{free:?}");
        assert!(predicted(&slow, "prefetch=8").is_nothing(slow.measured_ns as i64));
        assert!(predicted(&slow, "decode=2").is_nothing(slow.measured_ns as i64));
    }

    #[test]
    fn readers_that_are_faster_than_the_training_do_not_set_its_pace() {
        let fast = pipeline(200, 2, Kind::Cpu, |_| 10.0, 20.0);
        assert!(near(fast.measured_ns, 200.0 * 20.0 + 10.0));
        assert!(predicted(&fast, "decode=2").is_nothing(fast.measured_ns as i64));
        assert!(near(predicted(&fast, "compute=4").time_ns.unwrap() as f64, 200.0 * 5.0 + 10.0));
        assert!(predicted(&fast, "compute=4").sure_ns(fast.measured_ns as i64).unwrap() > 0);
    }

    #[test]
    fn readers_share_cpus_storage_and_locks() {
        let world = |cores: f64, slope: f64| World { cores, slope, storage_readers: 0, slowness: Vec::new() };
        let decode = pipeline(400, 4, Kind::Cpu, |_| 20.0, 1.0);
        assert!(near(play(&decode, &world(2.0, 0.0), false).time_ns, 400.0 * 10.0));
        let read = pipeline(400, 4, Kind::Io, |_| 20.0, 1.0);
        assert!(near(play(&read, &world(2.0, 0.0), false).time_ns, 400.0 * 5.0));
        assert!(near(play(&read, &world(2.0, 1.0), false).time_ns, 400.0 * 20.0));
        let locked = pipeline(400, 4, Kind::Lock, |_| 20.0, 1.0);
        assert!(near(play(&locked, &world(2.0, 0.0), false).time_ns, 400.0 * 20.0));
    }

    #[test]
    fn a_slow_batch_delays_later_batches_only_if_they_are_in_order() {
        let work = |number: usize| if number.is_multiple_of(8) { 80.0 } else { 4.0 };
        let uneven = pipeline(400, 2, Kind::Fixed, work, 8.0);
        let any = predicted(&uneven, "order=any");
        assert!(any.sure_ns(uneven.measured_ns as i64).unwrap() > 0, "{any:?}");
        let order = Change::parse("order=any").unwrap().order(&uneven);
        assert_eq!((uneven.order, order), (Order::InOrder, Order::Any));
    }

    #[test]
    fn other_readers_may_be_unable_to_make_the_batches_of_a_slow_reader() {
        let work = |number: usize| if number.is_multiple_of(2) { 80.0 } else { 4.0 };
        for change in ["order=any", "workers=4"] {
            let found = predicted(&pipeline(400, 2, Kind::Fixed, work, 8.0), change);
            assert!(found.refused.is_some_and(|why| why.contains("one reader is slower")), "{change}");
        }
    }

    #[test]
    fn persistent_readers_start_only_once() {
        let mut restarts = pipeline(20, 2, Kind::Fixed, |_| 2.0, 4.0);
        let mut start = Start { created_ns: 5.0 * MS, ..Start::default() };
        start.work[Kind::Fixed as usize] = 150.0 * MS;
        (restarts.passes[0].is_fresh, restarts.passes[0].starts) = (true, vec![start; 2]);
        restarts.passes = vec![restarts.passes[0].clone(); 5];
        let world = World { cores: 64.0, slope: 0.0, storage_readers: 0, slowness: Vec::new() };
        let played = play(&restarts, &world, false);
        (restarts.measured_ns, restarts.wait_ns) = (played.time_ns, played.wait_ns);
        let each = played.wait_ns / restarts.batches() as f64;
        restarts.passes.iter_mut().flat_map(|pass| &mut pass.batches).for_each(|batch| batch.wait_ns = each);
        let saved = predicted(&restarts, "persistent=1").sure_ns(restarts.measured_ns as i64).unwrap();
        assert!(saved as f64 > 4.0 * 140.0 * MS - 0.05 * restarts.measured_ns, "{saved}");
    }

    #[test]
    fn a_replay_that_differs_from_the_measurement_predicts_nothing() {
        let mut odd = pipeline(200, 2, Kind::Io, |_| 20.0, 4.0);
        odd.passes[0].batches.iter_mut().for_each(|batch| batch.wait_ns *= 1.2);
        odd.measured_ns = odd.passes_ns();
        let refused = prove(&odd).err().and_then(|replay| replay.refused);
        assert!(refused.is_some_and(|why| why.contains("the replay of the unchanged run differs")));
        let few = pipeline(5, 2, Kind::Io, |_| 20.0, 4.0);
        assert!(prove(&few).err().and_then(|replay| replay.refused).is_some_and(|why| why.contains("fewer than")));
        let mut unknown = pipeline(200, 2, Kind::Io, |_| 20.0, 4.0);
        unknown.measured_ns *= 1.5;
        assert!(prove(&unknown).err().and_then(|replay| replay.refused).is_some_and(|why| why.contains("add up to")));
    }

    #[test]
    fn faster_decoding_does_not_shorten_file_calls() {
        let decode = pipeline(200, 2, Kind::Cpu, |_| 20.0, 4.0);
        let calls = Pipeline { in_calls: 1.0, ..decode.clone() };
        let saved =
            |pipeline: &Pipeline| 1.0 - predicted(pipeline, "decode=2").time_ns.unwrap() as f64 / pipeline.measured_ns;
        assert!(saved(&decode) > 0.3 && saved(&calls) < 0.01, "{} {}", saved(&decode), saved(&calls));
    }

    #[test]
    fn changes_of_order_are_not_predicted_for_several_channels() {
        let one = pipeline(200, 2, Kind::Io, |_| 20.0, 4.0);
        let two = Pipeline { channels: 2, ..one.clone() };
        assert_eq!(predicted(&one, "order=any").refused, None);
        assert!(predicted(&two, "order=any").refused.is_some_and(|why| why.contains("2 channels")));
    }

    #[test]
    fn predictions_for_cpu_work_need_cpu_times_and_cpu_limits() {
        let decode = pipeline(200, 2, Kind::Cpu, |_| 20.0, 4.0);
        let refused = |pipeline: &Pipeline, change: &str| predicted(pipeline, change).refused;
        assert_eq!(refused(&decode, "decode=2"), None);
        let uncounted = Pipeline { is_counted: false, ..decode.clone() };
        assert!(refused(&uncounted, "decode=2").is_some_and(|why| why.contains("no CPU times")));
        let no_cpus = Pipeline { cpus: None, ..decode.clone() };
        assert!(refused(&no_cpus, "workers=4").is_some_and(|why| why.contains("how many CPUs")));
        let no_quota = Pipeline { is_quota_known: false, ..decode };
        assert!(refused(&no_quota, "decode=2").is_some_and(|why| why.contains("quota")));
    }

    #[test]
    fn more_readers_than_recorded_have_a_wide_interval() {
        let mut one = pipeline(200, 1, Kind::Io, |_| 20.0, 4.0);
        one.reads.clear();
        let four = predicted(&one, "workers=4");
        // Storage may have the same total bandwidth for four readers as for one.
        assert!(
            four.is_nothing(one.measured_ns as i64) && four.low_ns.unwrap() < (0.5 * one.measured_ns) as i64,
            "{four:?}"
        );
        assert!(four.notes.iter().any(|note| note.contains("narrow the interval")));
    }

    #[test]
    fn thousands_of_readers_and_long_runs_are_replayed() {
        let many = pipeline(20_000, 1_000, Kind::Io, |_| 20.0, 1.0);
        assert!(near(many.measured_ns, 20_000.0 + 20.0));
        let long = pipeline(300_000, 2, Kind::Io, |number| 18.0 + (number % 5) as f64, 4.0);
        let half = predicted(&long, "storage=2");
        assert!(near(half.time_ns.unwrap() as f64, 0.5 * long.measured_ns / MS), "{half:?}");
    }
}
