//! The filter of a query: a run, a time window, processes, ranks, files, categories, calls, a minimum duration.
//!
//! A filter is applied to whole blocks first (their times and process are known without decoding), then row by row.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::batch::{Batch, Columns};
use crate::catalog::{Catalog, FILE_NONE, Kind, Process};
use crate::unit::{Categories, Unit};

/// The filter of a query. An empty list accepts everything.
#[derive(Clone, Default, Debug)]
pub struct Filter {
    /// Nanoseconds since the Unix epoch: events that overlap `from..to` are kept.
    pub from: Option<i64>,
    pub to: Option<i64>,
    pub pids: Vec<i32>,
    pub ranks: Vec<i32>,
    pub files: Vec<glob::Pattern>,
    pub cats: Vec<String>,
    /// Names of calls and spans.
    pub calls: Vec<String>,
    pub min_dur_ns: i64,
    /// `true` if an export also keeps calls outside the window that connect threads and processes: they show who ended waits
    /// inside it.
    pub relations: bool,
    /// The selected run, if there are several: a process belongs to it if it started in `from..to`.
    pub run: Option<(i64, i64)>,
}

impl Filter {
    /// Returns `true` if counts of many events cannot show which of them pass.
    pub fn asks_for_single_events(&self) -> bool {
        !self.files.is_empty() || self.asks_for_kinds() || self.asks_for_times()
    }

    /// Returns `true` if only some kinds of events pass.
    pub fn asks_for_kinds(&self) -> bool {
        !self.cats.is_empty() || !self.calls.is_empty()
    }

    fn asks_for_times(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.min_dur_ns > 0
    }

    /// Returns `true` if a window cuts a run, so that its start or end is not visible.
    pub fn cuts_runs(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Returns the filter without its window of time.
    pub fn without_window(&self) -> Filter {
        Filter { from: None, to: None, ..self.clone() }
    }

    /// Returns the part of an event inside the window.
    pub fn within(&self, start: i64, end: i64) -> (i64, i64) {
        let (from, to) = (self.from.unwrap_or(i64::MIN), self.to.unwrap_or(i64::MAX));
        let start = start.max(from);
        (start, end.min(to).max(start))
    }

    /// Returns the columns that the filter compares.
    pub fn columns(&self) -> Columns {
        // If the start of a process is unknown, the times of its events determine its run.
        let times =
            if self.asks_for_times() || self.run.is_some() { Columns::TS.and(Columns::DUR) } else { Columns::NONE };
        times.and(if self.files.is_empty() { Columns::NONE } else { Columns::FILE })
    }

    /// Returns `true` if a process is selected.
    pub fn takes_process(&self, pid: i32, rank: Option<i32>) -> bool {
        let (pids, ranks) = (&self.pids, &self.ranks);
        (pids.is_empty() || pids.contains(&pid)) && (ranks.is_empty() || rank.is_some_and(|rank| ranks.contains(&rank)))
    }

    /// Returns `true` if a process and its run are selected.
    pub fn takes(&self, process: &Process) -> bool {
        self.takes_process(process.pid, process.rank) && self.takes_run_of(process)
    }

    /// Returns `true` if a process may belong to the selected run. One with an unknown start may belong to any run.
    pub fn takes_run_of(&self, process: &Process) -> bool {
        let of_it = |(from, to): (i64, i64)| process.start_ts.is_none_or(|start| (from..to).contains(&start));
        self.run.is_none_or(of_it)
    }

    /// Returns the filter with its run as a window of time, for readers that do not know processes in advance.
    pub fn with_run_as_window(&self) -> Filter {
        let (first, end) = self.run.unwrap_or((i64::MIN, i64::MAX));
        let (from, to) = (self.run.map(|_| first).max(self.from), self.to.map_or(end, |to| to.min(end)));
        let to = (self.run.is_some() || self.to.is_some()).then_some(to);
        Filter { from, to, run: None, ..self.clone() }
    }

    /// Returns `true` if a category is selected.
    pub fn takes_category(&self, cat: &str) -> bool {
        self.cats.is_empty() || self.cats.iter().any(|wanted| wanted.eq_ignore_ascii_case(cat))
    }

    /// Returns `true` if the name of a call or span is selected.
    pub fn takes_call(&self, name: &str) -> bool {
        self.calls.is_empty() || self.calls.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    }

    /// Returns `true` if a path is selected.
    pub fn takes_path(&self, path: &str) -> bool {
        self.files.is_empty() || self.files.iter().any(|pattern| pattern.matches(path))
    }

    /// Returns `true` if all events pass.
    pub fn is_empty(&self) -> bool {
        self.run.is_none() && self.takes_whole_runs()
    }

    /// Returns `true` if all events of the selected run, or of all runs, pass.
    pub fn takes_whole_runs(&self) -> bool {
        let lists = self.pids.is_empty() && self.ranks.is_empty() && self.files.is_empty() && !self.asks_for_kinds();
        lists && self.from.is_none() && self.to.is_none() && self.min_dur_ns <= 0
    }
}

/// A filter with all lookups done, for comparisons with rows.
pub struct Sieve<'a> {
    filter: &'a Filter,
    catalog: &'a Catalog,
    procs: Option<HashSet<u32>>,
    /// Numbers known to pass; grows with the catalog.
    files: Mutex<Arc<Vec<bool>>>,
    kinds: Mutex<Arc<Vec<bool>>>,
    whole: bool,
    /// The selected categories, as bits of units.
    categories: u64,
}

impl<'a> Sieve<'a> {
    pub fn new(filter: &'a Filter, catalog: &'a Catalog) -> Sieve<'a> {
        Sieve {
            filter,
            catalog,
            procs: None,
            files: Mutex::default(),
            kinds: Mutex::default(),
            whole: filter.is_empty(),
            categories: Categories::ANY,
        }
        .with_processes()
    }

    fn with_processes(mut self) -> Sieve<'a> {
        if !self.filter.pids.is_empty() || !self.filter.ranks.is_empty() || self.filter.run.is_some() {
            let numbers = self.catalog.processes_where(|process| self.filter.takes(process));
            self.procs = Some(numbers.into_iter().collect());
        }
        self
    }

    /// Looks up the selected categories among those of a trace's units.
    pub fn of_categories(mut self, known: &Categories) -> Sieve<'a> {
        if !self.filter.cats.is_empty() && !known.names().is_empty() {
            self.categories = known.mask(|cat| self.filter.takes_category(cat));
        }
        self
    }

    /// Returns `true` if an event of the unit may pass, as far as that is known without reading it.
    pub fn may_take(&self, unit: &Unit) -> bool {
        if self.whole {
            return true;
        }
        let ended_before = self.filter.from.is_some_and(|from| unit.last_end < from);
        let begins_after = self.filter.to.is_some_and(|to| unit.first_start >= to);
        let other_process =
            unit.pid.is_some_and(|pid| !self.filter.pids.is_empty() && !self.filter.pids.contains(&pid));
        let other_categories = unit.categories & self.categories == 0;
        !(ended_before || begins_after || other_process || other_categories)
            && unit.proc.is_none_or(|proc| self.takes_proc(proc))
    }

    /// Returns `true` if a process passes. Processes of foreign formats are discovered while they are read, so a number
    /// may be new.
    pub fn takes_proc(&self, proc: u32) -> bool {
        match &self.procs {
            None => true,
            Some(procs) if procs.contains(&proc) => true,
            Some(_) => self.catalog.is_process(proc, |process| self.filter.takes(process)),
        }
    }

    /// Keeps the rows that pass.
    pub fn sift(&self, batch: &mut Batch) {
        if self.whole {
            return;
        }
        if !self.takes_proc(batch.proc) {
            batch.clear();
            return;
        }
        let mut keep = vec![true; batch.len()];
        let is_undated = || self.catalog.is_process(batch.proc, |process| process.start_ts.is_none());
        let run = self.filter.run.filter(|_| is_undated());
        if self.filter.asks_for_times() || run.is_some() {
            let (first, end) = run.unwrap_or((i64::MIN, i64::MAX));
            let (from, to) = (self.filter.from.unwrap_or(first).max(first), self.filter.to.unwrap_or(end).min(end));
            let shortest = self.filter.min_dur_ns;
            let passes = |ts: i64, dur: i64| ts < to && ts.saturating_add(dur.max(1)) > from && dur >= shortest;
            let times = batch.ts.iter().zip(&batch.dur);
            keep.iter_mut().zip(times).for_each(|(keep, (&ts, &dur))| *keep = passes(ts, dur));
        }
        if !self.filter.files.is_empty() {
            let passes = self.passing(&self.files, &batch.file, |from| self.files_from(from));
            keep.iter_mut().zip(&batch.file).for_each(|(keep, &file)| *keep &= passes[file as usize]);
        }
        if self.filter.asks_for_kinds() {
            let passes = self.passing(&self.kinds, &batch.kind, |from| self.kinds_from(from));
            keep.iter_mut().zip(&batch.kind).for_each(|(keep, &kind)| *keep &= passes[kind as usize]);
        }
        batch.retain(&keep);
    }

    /// Returns which numbers pass, for every number in the column.
    fn passing(
        &self,
        known: &Mutex<Arc<Vec<bool>>>,
        numbers: &[u32],
        more: impl Fn(usize) -> Vec<bool>,
    ) -> Arc<Vec<bool>> {
        let mut known = known.lock().expect("what passes");
        let largest = numbers.iter().copied().max().unwrap_or(0) as usize;
        if largest >= known.len() {
            let from = known.len();
            Arc::make_mut(&mut known).extend(more(from));
        }
        known.clone()
    }

    fn files_from(&self, from: usize) -> Vec<bool> {
        let files = (from..).zip(self.catalog.files_from(from));
        files.map(|(file, path)| file != FILE_NONE as usize && self.filter.takes_path(&path)).collect()
    }

    fn kinds_from(&self, from: usize) -> Vec<bool> {
        let takes = |kind: &Kind| self.filter.takes_category(&kind.cat) && self.filter.takes_call(&kind.name);
        self.catalog.kinds_from(from).iter().map(takes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Row;

    fn sifted(filter: Filter) -> Vec<i64> {
        let catalog = Catalog::default();
        let (read, open) = (catalog.call("read", "posix"), catalog.call("fopen", "stdio"));
        let (a, b) = (catalog.file("/data/a.npz"), catalog.file("/etc/b"));
        let mut batch = Batch::default();
        batch.push(&Row { file: a, ..Row::new(0, 10, read) });
        batch.push(&Row { file: b, ..Row::new(20, 5, open) });
        batch.push(&Row::new(30, 0, read));
        Sieve::new(&filter, &catalog).sift(&mut batch);
        batch.ts
    }

    #[test]
    fn events_that_overlap_the_window_are_kept() {
        assert_eq!(sifted(Filter { from: Some(9), to: Some(21), ..Filter::default() }), [0, 20]);
        assert_eq!(sifted(Filter { from: Some(10), to: Some(20), ..Filter::default() }), [0i64; 0]);
        assert_eq!(sifted(Filter { from: Some(30), to: Some(31), ..Filter::default() }), [30]);
    }

    #[test]
    fn a_process_is_of_the_run_in_which_it_began() {
        let catalog = Catalog::default();
        let read = catalog.call("read", "posix");
        for start_ts in [Some(5), Some(25), None] {
            catalog.add_process(Process { start_ts, ..Process::default() });
        }
        let left = |proc: u32| {
            let mut batch = Batch { proc, ..Batch::default() };
            [10, 30].iter().for_each(|&ts| batch.push(&Row::new(ts, 1, read)));
            Sieve::new(&Filter { run: Some((20, 40)), ..Filter::default() }, &catalog).sift(&mut batch);
            batch.ts
        };
        // If its start is unknown, its events decide.
        assert_eq!([left(0), left(1), left(2)], [vec![], vec![10, 30], vec![30]]);
        let filter = Filter { from: Some(25), run: Some((20, i64::MAX)), ..Filter::default() }.with_run_as_window();
        assert_eq!((filter.from, filter.to, filter.run), (Some(25), Some(i64::MAX), None));
        let filter = Filter { to: Some(90), run: Some((20, 40)), ..Filter::default() }.with_run_as_window();
        assert_eq!((filter.from, filter.to), (Some(20), Some(40)));
        assert!(Filter::default().with_run_as_window().is_empty());
    }

    #[test]
    fn files_categories_and_durations_filter_each_row() {
        let npz = glob::Pattern::new("*.npz").unwrap();
        assert_eq!(sifted(Filter { files: vec![npz], ..Filter::default() }), [0]);
        assert_eq!(sifted(Filter { cats: vec!["STDIO".into()], ..Filter::default() }), [20]);
        assert_eq!(sifted(Filter { calls: vec!["fopen".into()], ..Filter::default() }), [20]);
        let both =
            Filter { calls: vec!["fopen".into(), "read".into()], cats: vec!["posix".into()], ..Filter::default() };
        assert_eq!(sifted(both), [0, 30]);
        assert_eq!(sifted(Filter { min_dur_ns: 6, ..Filter::default() }), [0]);
        assert_eq!(sifted(Filter::default()), [0, 20, 30]);
    }
}
