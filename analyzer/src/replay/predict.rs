//! Predictions: what a change would make of the training time, as an interval.
//!
//! The replay first proves itself on the run as it was. A prediction is the ratio of two replays, with and without the change,
//! at every corner of what the trace leaves open.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::fit::{Random, Slope, fitted, slope};
use super::pipeline::{Kind, Pass, Pipeline, Start};
use super::player::{Played, World, play};

/// The replay of the run as it was may differ by this part of the wait, or of the time.
const WAIT_ERROR: f64 = 0.05;
const TIME_ERROR: f64 = 0.03;

/// The least half of an interval, as a part of the training time.
const HALF_MIN: f64 = 0.05;

/// Longer pipelines are played in part: for the proof, and for predictions.
const PROVED_MAX: usize = 100_000;
const PREDICTED_MAX: usize = 4_000;

/// Fewer batches than this show no pattern.
const BATCHES_MIN: usize = 8;

/// Resampled pipelines for each prediction.
const RESAMPLES: u64 = 8;

/// The replay of a training.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// The training as measured, and as replayed without a change.
    pub measured_ns: i64,
    pub replayed_ns: Option<i64>,
    pub wait_ns: i64,
    pub replayed_wait_ns: Option<i64>,
    /// Why nothing can be predicted.
    pub refused: Option<String>,
    pub changes: Vec<Prediction>,
}

/// The prediction for one change.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Prediction {
    pub change: String,
    /// What it is, in words, and the arguments that make it, as PyTorch spells them.
    pub what: String,
    pub code: String,
    /// The training time, the ends of its interval, and the wait that is left; `null` if refused.
    pub time_ns: Option<i64>,
    pub low_ns: Option<i64>,
    pub high_ns: Option<i64>,
    pub wait_ns: Option<i64>,
    /// Why there is no prediction for this change.
    pub refused: Option<String>,
    pub notes: Vec<String>,
}

impl Prediction {
    /// The gain that is sure: negative if the change may cost time.
    pub fn sure_ns(&self, measured_ns: i64) -> Option<i64> {
        Some(measured_ns - self.high_ns?)
    }

    /// Returns `true` if the interval contains the measured time.
    pub fn is_nothing(&self, measured_ns: i64) -> bool {
        self.low_ns.zip(self.high_ns).is_some_and(|(low, high)| low <= measured_ns && measured_ns <= high)
    }
}

/// One of the possibilities that a trace leaves open.
#[derive(Clone, Copy)]
struct Corner {
    slope: f64,
    /// Storage gives no more than it gave at the highest concurrency seen.
    saturates: bool,
    /// Further readers start at half the cost.
    cheap_start: bool,
    /// Slow batches are slow because of their reader.
    by_reader: bool,
    /// Of a change whose effect is a part of what it names, the lesser part.
    lesser: bool,
}

/// A pipeline that replays as it was measured.
pub struct Proven {
    measured: Pipeline,
    slope: Slope,
    /// By slope (low, middle, high), the fitted sample.
    fits: Vec<(f64, Pipeline)>,
    replay: Replay,
}

/// Proves that a pipeline replays as it was measured.
pub fn prove(pipeline: &Pipeline) -> Result<Proven, Replay> {
    let (time, wait) = (pipeline.measured_ns, pipeline.wait_ns);
    let mut replay = Replay { measured_ns: time as i64, wait_ns: wait as i64, ..Replay::default() };
    let refuse = |replay: Replay, why: String| Err(Replay { refused: Some(why), ..replay });
    if pipeline.batches() < BATCHES_MIN {
        return refuse(replay, format!("the training has fewer than {BATCHES_MIN} batches"));
    }
    let found = slope_of(pipeline);
    let sample = pipeline.sample(PROVED_MAX);
    let whole = sample.as_ref().unwrap_or(pipeline);
    let world = World { cores: pipeline.cores(), slope: found.mid, storage_readers: 0, slowness: Vec::new() };
    let fit = fitted(whole, &world);
    let played = play(&fit, &world, false);
    // Of a part, the replay of the part has to be right.
    let (passes, waited) = (whole.passes_ns().max(1.0), whole.waited_ns());
    // Time that is in no pass takes as long as it took.
    let rest = time - pipeline.passes_ns();
    let replayed = |part: f64, of: f64, whole: f64| whole * part / of.max(1.0);
    replay.replayed_ns = Some((replayed(played.time_ns, passes, pipeline.passes_ns()) + rest) as i64);
    let wait_error = played.wait_ns - waited;
    let time_error = played.time_ns - passes;
    replay.replayed_wait_ns = Some((wait + wait_error * pipeline.passes_ns() / passes) as i64);
    let allowed = (WAIT_ERROR * waited).max(TIME_ERROR * passes);
    if rest.abs() > (WAIT_ERROR * wait).max(TIME_ERROR * time) {
        let why = format!("its steps add up to {:.1} % of its time", 100.0 * pipeline.passes_ns() / time.max(1.0));
        return refuse(replay, why);
    }
    if wait_error.abs() > allowed || time_error.abs() > allowed {
        let percent = |error: f64, of: f64| format!("{:+.1} %", 100.0 * error / of.max(1.0));
        let (of_time, of_wait) = (percent(time_error, passes), percent(wait_error, waited));
        let why = format!("the replay of the run as it was differs: {of_time} of its time, {of_wait} of its wait");
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

/// How storage slows down under load in this pipeline.
fn slope_of(pipeline: &Pipeline) -> Slope {
    let all = pipeline.passes.iter().flat_map(|pass| &pass.batches);
    let io = |work: &[f64]| work[Kind::Io as usize];
    let samples: Vec<(f64, f64)> =
        all.filter(|batch| io(&batch.work) > 0.0).map(|batch| (batch.beside, io(&batch.work))).take(20_000).collect();
    slope(&samples)
}

impl Proven {
    /// The replay without any change.
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
        let spread = self.spread(change, &corners[0], ratios[0]);
        let time = self.measured.measured_ns;
        let (low, high) = ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), &r| (low.min(r), high.max(r)));
        let half = (2.0 * spread).max(HALF_MIN);
        found.time_ns = Some((time * ratios[0]) as i64);
        found.low_ns = Some((time * (low.min(ratios[0] - half)).max(0.0)) as i64);
        found.high_ns = Some((time * high.max(ratios[0] + half)) as i64);
        found.wait_ns = Some(wait.max(0.0) as i64);
        found
    }

    /// The whole training in units of the sample.
    fn scale(&self) -> f64 {
        self.measured.passes_ns() / self.fits[0].1.passes_ns().max(1.0)
    }

    fn refusal(&self, change: &Change) -> Option<String> {
        let own = &self.measured;
        let cpu = own.work()[Kind::Cpu as usize];
        if change.needs_cpu() && !own.is_counted && cpu > 0.0 {
            return Some("the trace has no CPU times of the readers: computing cannot be told from waiting".into());
        }
        if (change.needs_cpu() || change.workers.is_some()) && own.cpus.is_none() && cpu > 0.05 * own.passes_ns() {
            return Some("the trace does not show how many CPUs the processes may use".into());
        }
        if (change.needs_cpu() || change.workers.is_some()) && !own.is_quota_known && cpu > 0.05 * own.passes_ns() {
            return Some("the trace does not show whether a CPU quota applies".into());
        }
        if (change.needs_storage() || change.decode != 1.0) && 2 * own.mapped > own.batches() && !own.is_counted {
            return Some("readers map files: reading cannot be told from decoding".into());
        }
        None
    }

    fn corners(&self, change: &Change, notes: &mut Vec<String>) -> Vec<Corner> {
        let first =
            Corner { slope: self.fits[0].0, saturates: false, cheap_start: false, by_reader: false, lesser: false };
        let mut corners = vec![first];
        corners.extend(self.fits[1..].iter().map(|(slope, _)| Corner { slope: *slope, ..first }));
        let reads = self.measured.work()[Kind::Io as usize] > 0.05 * self.measured.passes_ns();
        let readers = self.measured.readers();
        if change.workers.is_some_and(|workers| workers > readers) {
            if reads {
                corners.push(Corner { saturates: true, ..first });
                let seen = self.slope.seen;
                notes.push(format!("storage was seen with {seen} readers at once: a run with more narrows this"));
            }
            corners.push(Corner { cheap_start: true, ..first });
        }
        if (change.any_order || change.workers.is_some()) && self.slowness().iter().any(|slow| (slow - 1.0).abs() > 0.2)
        {
            corners.push(Corner { by_reader: true, ..first });
            notes.push("the trace does not show whether batches or a reader are slow: a shuffled pass would".into());
        }
        if change.no_handover || change.latency != 1.0 || change.bandwidth != 1.0 {
            corners.push(Corner { lesser: true, ..first });
        }
        corners
    }

    /// By reader, the mean production relative to that of all.
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

    /// Replays without and with a change.
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
        (before, play(&changed, &world, false))
    }

    /// The standard deviation of a ratio over resampled rounds of batches.
    fn spread(&self, change: &Change, corner: &Corner, _ratio: f64) -> f64 {
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

/// Replaces each round of batches, one per reader, by any round of its pass.
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
                pass.batches[at * round + i] = super::pipeline::Batch { reader, ..all[from + i] };
            }
        }
    }
}

/// Makes a change in a pipeline.
fn apply(change: &Change, pipeline: &mut Pipeline, corner: &Corner) {
    // Of latency and bandwidth, the trace does not show which part is which.
    let partial = change.latency.max(1.0) * change.bandwidth.max(1.0);
    let storage = change.storage * if corner.lesser { 1.0 } else { partial };
    let order = change.order(pipeline);
    let was = pipeline.readers();
    let prefetch = pipeline.prefetch();
    pipeline.order = order;
    pipeline.cpus = change.cores.or(pipeline.cpus);
    if change.no_quota {
        pipeline.quota = None;
    }
    let last = pipeline.passes.len().saturating_sub(1);
    for (number, pass) in pipeline.passes.iter_mut().enumerate() {
        for batch in &mut pass.batches {
            batch.work[Kind::Io as usize] /= storage;
            batch.work[Kind::Cpu as usize] /= change.decode;
            batch.think_cpu_ns /= change.compute;
            batch.think_ns /= change.compute;
            if change.no_handover {
                let left = if corner.lesser { 0.5 } else { 0.0 };
                for ns in [&mut batch.ship_ns, &mut batch.take_ns, &mut batch.gil_ns] {
                    *ns *= left;
                }
                batch.work[Kind::Hand as usize] *= left;
            }
        }
        if let Some(workers) = change.workers.filter(|workers| *workers != was) {
            resize(pass, workers, corner);
        }
        if change.workers.is_some() || change.prefetch.is_some() {
            let per_reader = change.prefetch.unwrap_or(prefetch);
            pass.requested = per_reader * pass.starts.len();
        }
        if change.persistent && pass.is_fresh {
            if number > 0 {
                pass.starts.iter_mut().for_each(|start| *start = Start::default());
                pass.lead_ns = pass.lead_ns.min(RESUME_NS);
            }
            if number < last {
                pass.tail_ns = pass.tail_ns.min(RESUME_NS);
            }
        }
    }
}

/// What a pass costs whose readers exist: a message to each, and its answer.
const RESUME_NS: f64 = 2e6;

/// Gives a pass another number of readers.
fn resize(pass: &mut Pass, workers: usize, corner: &Corner) {
    let was = pass.starts.len().max(1);
    let per_reader = pass.starts.last().map_or(0.0, |last| last.created_ns) / was as f64;
    let cost = if corner.cheap_start && workers > was { 0.5 } else { 1.0 };
    let mean = pass.starts.iter().fold(Start::default(), |sum, start| Start {
        created_ns: 0.0,
        work: std::array::from_fn(|kind| sum.work[kind] + start.work[kind] / was as f64),
        first_ns: sum.first_ns + start.first_ns / was as f64,
    });
    let last = pass.starts.last().map_or(0.0, |start| start.created_ns);
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
        pass.tail_ns = (pass.tail_ns * (1.0 + cost * more / was as f64)).max(0.0);
    }
    for (number, batch) in pass.batches.iter_mut().enumerate() {
        batch.reader = (number % workers) as u32;
    }
}
