//! Computes the time range of the filters: between two times, or the range of some epochs and steps.
//!
//! Epochs and steps are numbers in spans. Their time is known only after reading all spans: it extends from the first
//! start to the last end of the selected ones. This range then filters all events, as if its two ends had been given.

use super::refusals::failure::Failure;
use super::selection::Selection;
use super::time_range::Numbers;
use crate::batch::{Batch, Wanted};
use crate::filter::{Filter, Sieve};
use crate::load::Trace;
use crate::load::sources::errors::LoadError;
use crate::scan::{Consumer, Progress, scan};

/// Returns the filter for this trace; `run` restricts the start of processes. Rejects a range that cannot contain any
/// event.
pub fn filter(
    selection: &Selection,
    run: Option<(i64, i64)>,
    trace: &Trace,
    threads: usize,
) -> Result<Filter, Failure> {
    let start = match run {
        Some((start, _)) => start,
        None if selection.is_relative() => beginning(trace, threads)?,
        None => trace.start(),
    };
    let (mut from, mut to) = selection.bounds(start);
    if selection.epoch.is_some() || selection.step.is_some() {
        let (first, end) = stretch(selection, run, trace, threads)?;
        from = from.max(Some(first));
        to = Some(to.map_or(end, |to| to.min(end)));
    }
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        return Err(Failure::Window(
            "cannot select this window: it ends before it starts; check --from, --to and --for".into(),
        ));
    }
    Ok(Filter {
        from,
        to,
        pids: selection.pid.clone(),
        ranks: selection.rank.clone(),
        files: selection.file.clone(),
        cats: selection.cat.clone(),
        calls: selection.call.clone(),
        min_dur_ns: selection.min_dur.unwrap_or(0),
        relations: false,
        run,
    })
}

/// Returns the start of the trace. Native files have it in their headers; other formats have to be read.
fn beginning(trace: &Trace, threads: usize) -> Result<i64, Failure> {
    if trace.sources.iter().all(|source| source.start().is_some()) {
        return Ok(trace.start());
    }
    let (all, known) = (Filter::default(), trace.sources.iter().filter_map(|source| source.start()).min());
    let sieve = Sieve::new(&all, &trace.catalog);
    let found = scan(trace, &sieve, Wanted::default(), threads, &Progress::default(), || First(known))
        .map_err(|error| Failure::Load(LoadError::Memory(error)))?;
    Ok(found.into_iter().filter_map(|First(ts)| ts).min().unwrap_or(0))
}

/// The earliest start that one thread has found.
struct First(Option<i64>);

impl Consumer for First {
    fn batch(&mut self, batch: &mut Batch) {
        self.0 = self.0.into_iter().chain(batch.ts.iter().copied()).min();
    }

    fn part_done(&mut self, _part: usize, _horizon: i64) {}
}

/// Returns a warning if filters select nothing, as far as that is known without reading all events.
pub fn filter_warning(filter: &Filter, trace: &Trace) -> Option<String> {
    let processes = trace.catalog.processes();
    // Processes of foreign formats are discovered while they are read.
    let all_known = trace.sources.iter().all(|source| source.start().is_some());
    if !all_known {
        return None;
    }
    let listed = |mut numbers: Vec<i32>| {
        numbers.sort_unstable();
        numbers.dedup();
        let more = if numbers.len() > 20 { ", ..." } else { "" };
        numbers.iter().take(20).map(i32::to_string).collect::<Vec<_>>().join(", ") + more
    };
    let pids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
    let ranks: Vec<i32> = processes.iter().filter_map(|process| process.rank).collect();
    if !filter.pids.is_empty() && !filter.pids.iter().any(|pid| pids.contains(pid)) {
        return Some(format!("no process has this id (--pid); the trace has {}", listed(pids)));
    }
    if !filter.ranks.is_empty() && !filter.ranks.iter().any(|rank| ranks.contains(rank)) {
        return Some(match ranks.is_empty() {
            true => "no process has a rank (--rank): no launcher such as mpirun or torchrun numbered them; select \
                     processes with --pid"
                .into(),
            false => format!("no process has this rank (--rank); the trace has {}", listed(ranks)),
        });
    }
    let (start, end) = (trace.start(), trace.units.iter().map(|unit| unit.last_end).max()?);
    let outside = filter.from.is_some_and(|from| from > end) || filter.to.is_some_and(|to| to <= start);
    let (length, began) = (end.saturating_sub(start) as f64 / 1e9, start as f64 / 1e9);
    outside.then(|| {
        format!(
            "the window is empty (--from, --to): the trace started at {began:.3} (Unix time) and took {length:.3} s"
        )
    })
}

/// Returns the range from the first start to the last end of the spans with these epochs and steps.
fn stretch(
    selection: &Selection,
    run: Option<(i64, i64)>,
    trace: &Trace,
    threads: usize,
) -> Result<(i64, i64), Failure> {
    let filter = Filter { pids: selection.pid.clone(), ranks: selection.rank.clone(), run, ..Filter::default() };
    let sieve = Sieve::new(&filter, &trace.catalog);
    let asked = Stretch { epoch: selection.epoch, step: selection.step, ..Stretch::default() };
    let found = scan(trace, &sieve, Wanted::default(), threads, &Progress::default(), || asked)
        .map_err(|error| Failure::Load(LoadError::Memory(error)))?;
    let found = found.into_iter().fold(asked, Stretch::and);
    match found.bounds {
        _ if found.is_ambiguous() => Err(Failure::Window(found.why_ambiguous())),
        Some(bounds) => Ok(bounds),
        None => Err(Failure::Window(found.why_none())),
    }
}

/// The range of the epochs and steps that one thread has found.
#[derive(Clone, Copy, Default)]
struct Stretch {
    epoch: Option<Numbers>,
    step: Option<Numbers>,
    bounds: Option<(i64, i64)>,
    /// The epochs in which the first selected step occurs.
    epochs_of_step: Option<Numbers>,
    epochs_seen: Option<Numbers>,
    steps_seen: Option<Numbers>,
}

impl Stretch {
    fn and(mut self, other: Stretch) -> Stretch {
        other.bounds.iter().for_each(|(from, to)| self.reach(*from, *to));
        let both = |own: Option<Numbers>, other: Option<Numbers>| {
            other.map_or(own, |other| Numbers::with(Numbers::with(own, other.first), other.last))
        };
        self.epochs_of_step = both(self.epochs_of_step, other.epochs_of_step);
        self.epochs_seen = both(self.epochs_seen, other.epochs_seen);
        self.steps_seen = both(self.steps_seen, other.steps_seen);
        self
    }

    fn reach(&mut self, from: i64, to: i64) {
        let grown = |known: (i64, i64)| (known.0.min(from), known.1.max(to));
        self.bounds = Some(self.bounds.map_or((from, to), grown));
    }

    /// Returns `true` if several epochs have the selected steps: they are not one stretch of time.
    fn is_ambiguous(&self) -> bool {
        self.epoch.is_none() && self.epochs_of_step.is_some_and(|epochs| epochs.first < epochs.last)
    }

    fn why_ambiguous(&self) -> String {
        let asked = self.step.map_or(String::new(), |steps| steps.to_string());
        let epochs = self.epochs_of_step.map_or(String::new(), |epochs| epochs.to_string());
        format!("epochs {epochs} have step {asked} each; choose one of them: --epoch N")
    }

    fn why_none(&self) -> String {
        let asked = [("epoch", self.epoch), ("step", self.step)];
        let asked: Vec<_> = asked.iter().filter_map(|(word, n)| n.map(|n| format!("{word} {n}"))).collect();
        let seen = [("epochs", self.epochs_seen), ("steps", self.steps_seen)];
        let seen: Vec<_> = seen.iter().filter_map(|(word, n)| n.map(|n| format!("{word} {n}"))).collect();
        let seen = if seen.is_empty() {
            "the trace has no spans with epochs or steps; select a time with --from and --to".into()
        } else {
            format!("the trace has {}", seen.join(", "))
        };
        format!("no span has {}; {seen}", asked.join(" and "))
    }
}

impl Consumer for Stretch {
    fn batch(&mut self, batch: &mut Batch) {
        // The column is as long as the rest, or empty.
        for i in 0..batch.epoch.len() {
            let (epoch, step) = (batch.epoch[i], batch.step[i]);
            self.epochs_seen = Numbers::with(self.epochs_seen, epoch);
            self.steps_seen = Numbers::with(self.steps_seen, step);
            let meant = self.epoch.is_none_or(|numbers| numbers.hold(epoch)) && self.step.is_none_or(|n| n.hold(step));
            if meant {
                self.reach(batch.ts[i], batch.ts[i].saturating_add(batch.dur[i].max(1)));
            }
            if meant && self.step.is_some_and(|steps| steps.first == step) {
                self.epochs_of_step = Numbers::with(self.epochs_of_step, epoch);
            }
        }
    }

    fn part_done(&mut self, _part: usize, _horizon: i64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::ABSENT_32;
    use crate::command::time_range::parse_numbers;

    #[test]
    fn a_stretch_reaches_from_the_first_to_the_last_that_is_meant() {
        let mut batch = Batch { ts: vec![0, 10, 30, 50], dur: vec![100, 5, 5, 5], ..Batch::default() };
        batch.epoch = vec![ABSENT_32, 1, 1, 2];
        batch.step = vec![ABSENT_32, 0, 1, 0];
        let found = |epoch: Option<&str>, step: Option<&str>| {
            let numbers = |text: Option<&str>| text.map(|text| parse_numbers(text).unwrap());
            let mut stretch = Stretch { epoch: numbers(epoch), step: numbers(step), ..Stretch::default() };
            stretch.batch(&mut batch.clone());
            stretch
        };
        assert_eq!(found(Some("1"), None).bounds, Some((10, 35)));
        let several = found(None, Some("0"));
        assert!(several.is_ambiguous());
        assert_eq!(several.why_ambiguous(), "epochs 1..2 have step 0 each; choose one of them: --epoch N");
        assert_eq!(found(None, Some("1")).bounds, Some((30, 35)));
        assert_eq!(found(Some("2"), Some("0..5")).bounds, Some((50, 55)));
        let none = found(Some("7"), None);
        assert_eq!(
            (none.bounds, none.why_none()),
            (None, "no span has epoch 7; the trace has epochs 1..2, steps 0..1".into())
        );
    }
}
