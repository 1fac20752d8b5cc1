//! Sends a question to the workers and merges their results.

use std::future::{Future, ready};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dlio_cluster::client::{Connection, Fault};
use dlio_cluster::dispatch::{DispatchError, Dispatched, dispatch};
use dlio_cluster::work::Done;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::fleet::Fleet;
use super::task::{Count, SentFile, SentFilter, SentPath, Task, TraceDescription, TraceSize, unpack};
use super::work_items::cut;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::summary::exact_quantiles::{Buckets, RefineRequest};
use crate::summary::figures::quantiles::Counts;
use crate::summary::partial::{Merging, PartRequest};

/// Why workers return no result. One sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterError(pub String);

impl std::error::Error for ClusterError {}

impl std::fmt::Display for ClusterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Threads of the coordinator, which wait for the network and decompress.
const THREADS: usize = 2;

/// Workers that have been contacted successfully.
pub struct Cluster {
    runtime: Runtime,
    connections: Vec<Connection>,
    /// Declared after the connections, so that workers end after them.
    _fleet: Fleet,
}

/// A question about a trace, as workers need it.
pub struct Question<'a> {
    pub trace: &'a Trace,
    pub given: &'a [String],
    pub files: &'a [(PathBuf, bool)],
    pub filter: &'a Filter,
    pub memory: u64,
    /// The content of each unit is requested too, to be cached.
    pub units: bool,
    /// Exact quantiles of durations are requested.
    pub exact: bool,
}

impl Cluster {
    /// Connects to the workers, all of which must be reachable and have the inputs.
    pub fn of(fleet: Fleet, inputs: &[PathBuf]) -> Result<Cluster, ClusterError> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("cluster").enable_all().build();
        let runtime = runtime.map_err(|error| ClusterError(format!("cannot start threads: {error}")))?;
        let inputs = inputs.iter().map(|path| SentPath::of(path)).collect();
        let greeting = Task::Greeting { inputs }.packed().map_err(ClusterError)?;
        let connections = runtime.block_on(greet(&fleet, greeting))?;
        Ok(Cluster { runtime, connections, _fleet: fleet })
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.connections.len()
    }

    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Returns the runtime of tasks that wait for workers.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Counts all events that pass the filter.
    pub fn analyse(
        &self,
        question: &Question,
        progress: &Arc<Progress>,
    ) -> Result<(Analysis, Dispatched), ClusterError> {
        let trace = question.trace;
        let described = Arc::new(question.described()?);
        let pieces = cut(trace, self.workers(), question.units).into_iter();
        let pieces = pieces.map(|asked| Task::Count { trace: described.clone(), asked }.packed());
        let pieces = pieces.collect::<Result<Vec<_>, _>>().map_err(ClusterError)?;
        let told = totals(pieces.len(), progress.clone());
        let mut merging = Merging::new(trace, question.filter);
        let mut add = |bytes: &[u8]| {
            let Count { partial, notes } = unpack(bytes)?;
            notes.into_iter().for_each(|note| trace.note(note.note()));
            merging.add(partial).map_err(str::to_string)
        };
        let take = |_, bytes: Vec<u8>| ready(add(&bytes));
        let done = dispatch(&self.connections, pieces, told, Vec::new, take);
        let mut dispatched = self.unless_abandoned(done, progress)?;
        let mut analysis = merging.finish();
        if question.exact && analysis.durations.is_none() {
            dispatched.add(self.refine(question, &described, &mut analysis, progress)?);
        }
        Ok((analysis, dispatched))
    }

    /// Makes the quantiles of durations exact, by reading all counted events again.
    fn refine(
        &self,
        question: &Question,
        described: &Arc<TraceDescription>,
        analysis: &mut Analysis,
        progress: &Progress,
    ) -> Result<Dispatched, ClusterError> {
        let trace = question.trace;
        let (buckets, rows) = Buckets::of(analysis, &trace.catalog);
        let again = |asked: PartRequest| RefineRequest { sources: asked.sources, buckets: buckets.clone() };
        let task = |asked| Task::CountAgain { trace: described.clone(), again: again(asked) };
        let pieces = cut(trace, self.workers(), false).into_iter().map(|asked| task(asked).packed());
        let pieces = pieces.collect::<Result<Vec<_>, _>>().map_err(ClusterError)?;
        let mut counts = Counts::default();
        let mut add = |bytes: &[u8]| {
            let more: Counts = unpack(bytes)?;
            let is_listed = more.sorted().iter().all(|(place, ..)| (*place as usize) < rows.len());
            counts.merge(&more.renumbered(|place| rows.get(place as usize).copied().unwrap_or(0)));
            is_listed.then_some(()).ok_or("its values do not match the request".to_string())
        };
        let take = |_, bytes: Vec<u8>| ready(add(&bytes));
        let done = dispatch(&self.connections, pieces, |_, _| (), Vec::new, take);
        let dispatched = self.unless_abandoned(done, progress)?;
        analysis.durations = Some(counts);
        Ok(dispatched)
    }

    /// Waits until all work is done, or the result is no longer needed.
    fn unless_abandoned(
        &self,
        done: impl Future<Output = Result<Dispatched, DispatchError>>,
        progress: &Progress,
    ) -> Result<Dispatched, ClusterError> {
        self.runtime.block_on(async {
            tokio::select! {
                done = done => done.map_err(undone),
                () = until_abandoned(progress) => Err(ClusterError("interrupted".into())),
            }
        })
    }
}

/// Pause between two checks whether the result is still needed.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until the result is no longer needed.
async fn until_abandoned(progress: &Progress) {
    while !progress.stopped.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

impl Question<'_> {
    /// Returns the description of the trace for workers.
    pub fn described(&self) -> Result<TraceDescription, ClusterError> {
        let gone = |path: &PathBuf, error| ClusterError(format!("{}: it no longer exists ({error})", path.display()));
        let file = |(path, named): &(PathBuf, bool)| SentFile::of(path, *named).map_err(|error| gone(path, error));
        let here = std::env::current_dir().map_err(|error| gone(&".".into(), error))?;
        Ok(TraceDescription {
            here: SentPath::of(&here),
            given: self.given.to_vec(),
            files: self.files.iter().map(file).collect::<Result<_, _>>()?,
            filter: SentFilter::of(self.filter),
            memory: self.memory,
            index: self.trace.indexed,
            found: TraceSize::of(self.trace),
        })
    }
}

/// Connects to all workers in parallel, and checks that each has the inputs.
async fn greet(fleet: &Fleet, greeting: Bytes) -> Result<Vec<Connection>, ClusterError> {
    let mut asked = JoinSet::new();
    for (place, address) in fleet.addresses.iter().cloned().enumerate() {
        let (guard, greeting) = (fleet.guard(&address), greeting.clone());
        asked.spawn(async move {
            let greeted = async {
                let connection = Connection::open(&address, &guard).await?;
                connection.perform(greeting, |_| (), |_| Ok(())).await.map(|_| connection)
            };
            (place, greeted.await.map_err(|fault: Fault| refusal(&address, &fault)))
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    let (there, not): (Vec<_>, Vec<_>) = answers.into_iter().map(|(_, answer)| answer).partition(Result::is_ok);
    let not: Vec<String> = not.into_iter().filter_map(Result::err).collect();
    if not.is_empty() { Ok(there.into_iter().flatten().collect()) } else { Err(ClusterError(not.join("\n"))) }
}

/// Returns the problem of a worker that is unreachable or does not answer, and the remedy.
fn refusal(address: &str, fault: &Fault) -> String {
    match fault {
        Fault::Unreachable(why) | Fault::Lost(why) => {
            let port = address.rsplit_once(':').map_or("7070", |(_, port)| port);
            format!(
                "cannot reach worker {address}: {why}; start it on that host: dlio-analyze worker --listen \
                 0.0.0.0:{port} --root DIR"
            )
        }
        Fault::NotBelieved(why) => format!(
            "worker {address} failed authentication: {why}; pass the token it was \
            started with"
        ),
        Fault::Refused(why) | Fault::Unusable(why) => format!("worker {address} does not respond: {why}"),
    }
}

pub fn undone(undone: DispatchError) -> ClusterError {
    ClusterError(match undone {
        DispatchError::Refused { address, why } => format!("worker {address} does not respond: {why}"),
        DispatchError::Unusable { address, why } => format!("worker {address}: {why}"),
        DispatchError::NoWorkersLeft(lost) => {
            let each =
                lost.iter().map(|lost| format!("{} ({})", lost.address, lost.why)).collect::<Vec<_>>().join(", ");
            format!(
                "all workers disconnected, and part of the trace was not read: {each}; start them again, or start \
                 more of them"
            )
        }
    })
}

/// Adds up the progress of all work items.
pub fn totals(pieces: usize, progress: Arc<Progress>) -> impl Fn(usize, Done) + Send + Sync + 'static {
    let known = Mutex::new(vec![Done::default(); pieces]);
    move |piece, done| {
        let before = std::mem::replace(&mut known.lock().expect("progress")[piece], done);
        progress.events.fetch_add(done.events.wrapping_sub(before.events), Ordering::Relaxed);
        progress.bytes.fetch_add(done.bytes.wrapping_sub(before.bytes), Ordering::Relaxed);
    }
}
