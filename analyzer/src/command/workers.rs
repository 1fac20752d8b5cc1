//! `--workers`: runs the question on several hosts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlio_cluster::dispatch::Dispatched;

use super::progress;
use super::question::Question;
use super::refusals::destination::Destination;
use super::refusals::failure::Failure;
use crate::cluster::coordinator;
pub use crate::cluster::coordinator::Cluster;
use crate::cluster::fleet::{AllowedPaths, Fleet, Workers};
use crate::cluster::parquet_output::WriteError;
pub use crate::cluster::worker_exec::WorkerExecConfig;
use crate::filter::Filter;
use crate::load::Trace;
use crate::load::bytes::bucket;
use crate::load::inputs::expand;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::many;

/// Connects to the requested workers, and waits until all of them are connected. Workers of this host share its CPUs:
/// they are not started for a trace with a single source, which one of them would read alone.
pub fn connect(question: &Question, sources: usize) -> Result<Option<Arc<Cluster>>, Failure> {
    let Some(wanted) = &question.workers else { return Ok(None) };
    let mut threads = question.threads;
    if let Workers::Local(number) = wanted.workers {
        if sources <= 1 {
            notice!(
                "dlio-analyze: the trace is one file, which one process reads; --workers local:{number} is not used"
            );
            return Ok(None);
        }
        // Only as many workers as there are sources have work.
        threads = threads * number / number.min(sources);
    }
    let inputs = places(&question.traces)?;
    let places = AllowedPaths { roots: roots(&inputs), writes: wanted.writes.iter().cloned().collect() };
    let ready = Fleet::ready(&wanted.workers, &places, wanted.token.as_deref(), threads);
    let fleet = ready.map_err(Failure::Cluster)?;
    Cluster::of(fleet, &inputs).map(|cluster| Some(Arc::new(cluster))).map_err(|trouble| Failure::Cluster(trouble.0))
}

/// Returns the locations of the inputs.
fn places(typed: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut places = Vec::new();
    for input in typed {
        if bucket::is_object(Path::new(input)) {
            places.push(bucket::fixed(input).into());
            continue;
        }
        match std::fs::canonicalize(input) {
            Ok(place) => places.push(place),
            // A pattern: return the locations of its matches.
            Err(_) => {
                let files = expand(std::slice::from_ref(input)).map_err(Failure::Load)?;
                places.extend(files.iter().filter_map(|(path, _)| std::fs::canonicalize(path).ok()));
            }
        }
    }
    Ok(places)
}

/// Returns the directories of the inputs, and bucket prefixes.
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

/// Workers, and the files that they read.
#[derive(Clone)]
pub struct WorkerInputs {
    pub cluster: Arc<Cluster>,
    /// Each file, and whether it was given by name.
    pub files: Vec<(PathBuf, bool)>,
}

/// Counts all events that pass a filter, on all workers.
pub fn analyse(
    question: &Question,
    WorkerInputs { cluster, files }: &WorkerInputs,
    trace: &Trace,
    filter: &Filter,
) -> Result<Analysis, Failure> {
    let (given, memory) = (&question.traces, question.memory);
    let (units, exact) = (question.uses_cache && filter.is_empty(), question.exact);
    let request = coordinator::Question { trace, given, files, filter, memory, units, exact };
    let progress = Arc::new(Progress::default());
    let work = || cluster.analyse(&request, &progress);
    let shown = progress::shown(&progress, trace.size(), question.progress, work);
    let (analysis, dispatched) = shown.map_err(|trouble| Failure::Cluster(trouble.0))?;
    report_stats(cluster, &dispatched);
    Ok(analysis)
}

/// Lets workers write Parquet. Reports the reason and returns `false` if they cannot.
pub fn write_parquet(
    question: &Question,
    WorkerInputs { cluster, files }: &WorkerInputs,
    (trace, filter): (&Trace, &Filter),
    analysis: &Analysis,
    folder: &Path,
) -> Result<bool, Failure> {
    let (given, memory) = (&question.traces, question.memory);
    let request = coordinator::Question { trace, given, files, filter, memory, units: false, exact: false };
    let progress = Arc::new(Progress::default());
    let work = || cluster.write(&request, (analysis, &question.limits), folder, &progress);
    match progress::shown(&progress, trace.size(), question.progress, work) {
        Ok(dispatched) => {
            report_stats(cluster, &dispatched);
            Ok(true)
        }
        Err(WriteError::NotTheirs(why)) => {
            notice!("dlio-analyze: {} is written by this process only: {why}", folder.display());
            Ok(false)
        }
        Err(WriteError::Workers(trouble)) => Err(Failure::Cluster(trouble.0)),
        Err(WriteError::Here(error)) => Err(Destination::Parquet(folder.to_path_buf(), error).into()),
    }
}

/// Returns the workers in the form that queries use.
pub fn for_queries(
    question: &Question,
    inputs: &WorkerInputs,
    trace: &Arc<Trace>,
    filter: &Filter,
) -> WorkerExecConfig {
    let (cluster, given, files) = (inputs.cluster.clone(), question.traces.clone(), inputs.files.clone());
    WorkerExecConfig::new(cluster, trace.clone(), given, files, filter.clone(), question.memory)
}

/// Reports on the workers after a query.
pub fn report_query(asking: &WorkerExecConfig) {
    report_stats(asking.cluster(), &asking.take_done());
}

/// Reports which workers disconnected, and that nothing is missing because of it.
fn report_stats(cluster: &Cluster, dispatched: &Dispatched) {
    if !dispatched.lost.is_empty() {
        let each = dispatched.lost.iter().map(|lost| format!("{} ({})", lost.address, lost.why));
        notice!(
            "dlio-analyze: of {}, {} disconnected: {}; the remaining workers read their part, and no event is missing",
            many(cluster.workers() as u64, "worker", "workers"),
            dispatched.lost.len(),
            each.collect::<Vec<_>>().join(", ")
        );
    }
    if std::env::var_os(MEASURE).is_some() {
        notice!("dlio-analyze: {} B sent to workers, {} B received", dispatched.sent, dispatched.received);
    }
}

/// The variable that enables output of the bytes sent and received, for measurements.
const MEASURE: &str = "DLIO_CLUSTER_MEASURE";
