//! A trace that was typed: what is remembered of it, opening it, counting it.

use std::io;
use std::path::PathBuf;

use super::arguments::Arguments;
use super::progress;
use super::refusals::failure::Failure;
use crate::cache::{Cache, Remembered};
use crate::load::sources::errors::LoadError;
use crate::load::{Trace, inputs};
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::summary::report::Summary;

/// Files that are there, and not opened yet.
pub struct Input {
    typed: Vec<String>,
    files: Vec<(PathBuf, bool)>,
    cache: Option<Cache>,
    remembered: Option<Remembered>,
}

impl Input {
    pub fn find(arguments: &Arguments, typed: &[String]) -> Result<Input, Failure> {
        let files = inputs::expand(typed).map_err(Failure::Load)?;
        let cache = if arguments.no_cache { None } else { Cache::of(typed, &files) };
        let remembered = cache.as_ref().and_then(Cache::load);
        Ok(Input { typed: typed.to_vec(), files, cache, remembered })
    }

    /// The summary of all events, if it was counted earlier and nothing has changed since.
    pub fn known(&self) -> Option<Summary> {
        self.remembered.as_ref().and_then(Remembered::summary)
    }

    /// All files, and whether each was given by name.
    pub fn files(&self) -> &[(PathBuf, bool)] {
        &self.files
    }

    pub fn open(self, arguments: &Arguments) -> Result<(Trace, Option<Cache>), Failure> {
        let found = inputs::tell(self.files).map_err(Failure::Load)?;
        let index = self.cache.as_ref().map(Cache::index).unwrap_or_default();
        let mut trace = Trace::of(found, &self.typed, arguments.threads(), &index).map_err(Failure::Load)?;
        if let Some(cache) = self.cache.as_ref().filter(|_| trace.settled) {
            cache.store_index(&index);
        }
        trace.catalog.allow_names(arguments.memory);
        if let (Some(cache), Some(remembered)) = (&self.cache, &self.remembered) {
            cache.recall(remembered, &mut trace);
        }
        Ok((trace, self.cache))
    }
}

/// Traces of fewer events are counted again in less time than it takes to look for what is known of them.
const WORTH_KEEPING: u64 = 1_000_000;

/// Keeps what was counted of all events, for the next time.
pub fn keep(cache: Option<&Cache>, trace: &Trace, analysis: &Analysis, summary: &Summary) {
    if let Some(cache) = cache.filter(|_| analysis.filter.is_empty() && analysis.events() >= WORTH_KEEPING) {
        cache.store(trace, analysis, summary);
    }
}

/// Counts with a progress bar.
pub fn analysed(
    arguments: &Arguments,
    trace: &Trace,
    count: impl FnOnce(&Progress) -> io::Result<Analysis> + Send,
) -> Result<Analysis, Failure> {
    let progress = Progress::default();
    let shown = progress::shown(&progress, trace.size(), !arguments.no_progress, || count(&progress));
    shown.map_err(|error| Failure::Load(LoadError::Memory(error)))
}
