//! `--workers`: the same question, asked of many machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dlio_cluster::dispatch::Dispatched;

use super::arguments::Arguments;
use super::failure::Failure;
use super::progress;
pub use crate::cluster::coordinator::Cluster;
use crate::cluster::coordinator::Question;
use crate::cluster::fleet::Fleet;
use crate::filter::Filter;
use crate::load::inputs::expand;
use crate::load::{Trace, bucket};
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::summary::units::many;

/// The workers that were asked for, once all of them are there.
pub fn asked(arguments: &Arguments) -> Result<Option<Arc<Cluster>>, Failure> {
    let Some(workers) = &arguments.workers else { return Ok(None) };
    if arguments.exact {
        return Err(Failure::Cluster(
            "--exact reads the trace twice, which workers do not; leave out one of --exact and --workers".into(),
        ));
    }
    if let Some(bucket) = arguments.traces.iter().find(|typed| bucket::is_object(Path::new(typed))) {
        return Err(Failure::Cluster(format!(
            "{bucket}: workers read files that all machines see, and no buckets; leave out --workers, or mount the bucket"
        )));
    }
    let inputs = places(&arguments.traces)?;
    let roots = roots(&inputs);
    let ready = Fleet::ready(workers, &roots, arguments.token.as_deref(), arguments.threads());
    let fleet = ready.map_err(Failure::Cluster)?;
    Cluster::of(fleet, &inputs).map(|cluster| Some(Arc::new(cluster))).map_err(|trouble| Failure::Cluster(trouble.0))
}

/// Where the inputs lie.
fn places(typed: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut places = Vec::new();
    for input in typed {
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

/// The folders in which they lie.
fn roots(places: &[PathBuf]) -> Vec<PathBuf> {
    let folder = |place: &PathBuf| match place.is_dir() {
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
    let question = Question { trace, given, files, filter, memory, units };
    let progress = Arc::new(Progress::default());
    let work = || cluster.analyse(&question, &progress);
    let shown = progress::shown(&progress, trace.size(), !arguments.no_progress, work);
    let (analysis, dispatched) = shown.map_err(|trouble| Failure::Cluster(trouble.0))?;
    say(cluster, &dispatched);
    Ok(analysis)
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
