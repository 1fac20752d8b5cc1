//! `--workers`: the same question, asked of many machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlio_cluster::dispatch::Dispatched;

use super::arguments::Arguments;
use super::progress;
use super::refusals::destination::Destination;
use super::refusals::failure::Failure;
pub use crate::cluster::coordinator::Cluster;
use crate::cluster::coordinator::Question;
use crate::cluster::fleet::{Fleet, Places};
use crate::cluster::parquet_output::Unwritten;
pub use crate::cluster::worker_exec::Asking;
use crate::filter::Filter;
use crate::load::Trace;
use crate::load::bytes::bucket;
use crate::load::inputs::expand;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::many;

/// The workers that were asked for, once all of them are there.
pub fn asked(arguments: &Arguments) -> Result<Option<Arc<Cluster>>, Failure> {
    let Some(workers) = &arguments.workers else { return Ok(None) };
    let inputs = places(&arguments.traces)?;
    let writes = arguments.parquet.iter().filter_map(|folder| std::path::absolute(folder).ok()).collect();
    let places = Places { roots: roots(&inputs), writes };
    let ready = Fleet::ready(workers, &places, arguments.token.as_deref(), arguments.threads());
    let fleet = ready.map_err(Failure::Cluster)?;
    Cluster::of(fleet, &inputs).map(|cluster| Some(Arc::new(cluster))).map_err(|trouble| Failure::Cluster(trouble.0))
}

/// Where the inputs lie.
fn places(typed: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut places = Vec::new();
    for input in typed {
        if bucket::is_object(Path::new(input)) {
            places.push(bucket::fixed(input).into());
            continue;
        }
        match std::fs::canonicalize(input) {
            Ok(place) => places.push(place),
            // A pattern: where what it matches lies.
            Err(_) => {
                let files = expand(std::slice::from_ref(input)).map_err(Failure::Load)?;
                places.extend(files.iter().filter_map(|(path, _)| std::fs::canonicalize(path).ok()));
            }
        }
    }
    Ok(places)
}

/// The folders in which they lie, and places in buckets.
fn roots(places: &[PathBuf]) -> Vec<PathBuf> {
    let folder = |place: &PathBuf| match bucket::is_object(place) || place.is_dir() {
        true => place.clone(),
        false => place.parent().unwrap_or(Path::new("/")).to_path_buf(),
    };
    let mut roots: Vec<_> = places.iter().map(folder).collect();
    roots.sort();
    roots.dedup();
    roots
}

/// Workers, and the files that they are to read.
pub type Helpers<'a> = (&'a Arc<Cluster>, &'a [(PathBuf, bool)]);

/// Counts all events that pass a filter, on all workers.
pub fn analysed(
    arguments: &Arguments,
    (cluster, files): Helpers,
    trace: &Trace,
    filter: &Filter,
) -> Result<Analysis, Failure> {
    let (given, memory, units) = (&arguments.traces, arguments.memory, !arguments.no_cache && filter.is_empty());
    let question = Question { trace, given, files, filter, memory, units, exact: arguments.exact };
    let progress = Arc::new(Progress::default());
    let work = || cluster.analyse(&question, &progress);
    let shown = progress::shown(&progress, trace.size(), !arguments.no_progress, work);
    let (analysis, dispatched) = shown.map_err(|trouble| Failure::Cluster(trouble.0))?;
    say(cluster, &dispatched);
    Ok(analysis)
}

/// Has workers write Parquet; `false` if they do not, and why was said.
pub fn wrote_parquet(
    arguments: &Arguments,
    (cluster, files): Helpers,
    trace: &Trace,
    analysis: &Analysis,
    folder: &Path,
) -> Result<bool, Failure> {
    let (given, memory, filter) = (&arguments.traces, arguments.memory, arguments.filter(trace.start()));
    let question = Question { trace, given, files, filter: &filter, memory, units: false, exact: false };
    let progress = Arc::new(Progress::default());
    let work = || cluster.write(&question, analysis, folder, &progress);
    match progress::shown(&progress, trace.size(), !arguments.no_progress, work) {
        Ok(dispatched) => {
            say(cluster, &dispatched);
            Ok(true)
        }
        Err(Unwritten::NotTheirs(why)) => {
            notice!("dlio-analyze: {} is written by this process alone: {why}", folder.display());
            Ok(false)
        }
        Err(Unwritten::Workers(trouble)) => Err(Failure::Cluster(trouble.0)),
        Err(Unwritten::Here(error)) => Err(Destination::Parquet(folder.to_path_buf(), error).into()),
    }
}

/// The workers, to be asked by queries.
pub fn asking(arguments: &Arguments, (cluster, files): Helpers, trace: &Arc<Trace>, filter: &Filter) -> Asking {
    let (given, files) = (arguments.traces.clone(), files.to_vec());
    Asking::new(cluster.clone(), trace.clone(), given, files, filter.clone(), arguments.memory)
}

/// Says what there is to say after a query.
pub fn say_done(asking: &Asking) {
    say(asking.cluster(), &asking.take_done());
}

/// Says which workers went away, and that nothing is missing for it.
fn say(cluster: &Cluster, dispatched: &Dispatched) {
    if !dispatched.lost.is_empty() {
        let each = dispatched.lost.iter().map(|lost| format!("{} ({})", lost.address, lost.why));
        notice!(
            "dlio-analyze: of {}, {} went away: {}; what they had was read by the others, and no event is missing",
            many(cluster.workers() as u64, "worker", "workers"),
            dispatched.lost.len(),
            each.collect::<Vec<_>>().join(", ")
        );
    }
    if std::env::var_os(MEASURE).is_some() {
        notice!("dlio-analyze: {} B sent to workers, {} B received", dispatched.sent, dispatched.received);
    }
}

/// The variable that has the bytes sent and received said: for measurements.
const MEASURE: &str = "DLIO_CLUSTER_MEASURE";
