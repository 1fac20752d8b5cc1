//! Who asks the workers, and makes one answer of theirs.

use std::future::{Future, ready};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use dlio_cluster::client::{Connection, Fault};
use dlio_cluster::dispatch::{Dispatched, Undone, dispatch};
use dlio_cluster::work::Done;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::fleet::Fleet;
use super::task::{Count, Described, Found, SentFile, SentFilter, SentPath, Task, unpack};
use super::work_items::cut;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::summary::exact_quantiles::{Again, Buckets};
use crate::summary::figures::quantiles::Counts;
use crate::summary::partial::{Asked, Merging};

/// Why workers give no answer. One sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble(pub String);

impl std::error::Error for Trouble {}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Threads of the coordinator's own, which wait for the network and unpack.
const THREADS: usize = 2;

/// Workers that have been asked whether they are there.
pub struct Cluster {
    runtime: Runtime,
    connections: Vec<Connection>,
    /// After what is connected with it.
    _fleet: Fleet,
}

/// A question about a trace, as far as workers have to know.
pub struct Question<'a> {
    pub trace: &'a Trace,
    pub given: &'a [String],
    pub files: &'a [(PathBuf, bool)],
    pub filter: &'a Filter,
    pub memory: u64,
    /// What each unit holds is wanted too, to be kept.
    pub units: bool,
    /// Quantiles of durations are to be exact.
    pub exact: bool,
}

impl Cluster {
    /// Connects with workers, all of which have to be there and to have the inputs.
    pub fn of(fleet: Fleet, inputs: &[PathBuf]) -> Result<Cluster, Trouble> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("cluster").enable_all().build();
        let runtime = runtime.map_err(|error| Trouble(format!("cannot start threads: {error}")))?;
        let inputs = inputs.iter().map(|path| SentPath::of(path)).collect();
        let greeting = Task::Greeting { inputs }.packed().map_err(Trouble)?;
        let connections = runtime.block_on(greet(&fleet, greeting))?;
        Ok(Cluster { runtime, connections, _fleet: fleet })
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.connections.len()
    }

    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Where what waits for workers runs.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Counts all events that pass the filter.
    pub fn analyse(&self, question: &Question, progress: &Arc<Progress>) -> Result<(Analysis, Dispatched), Trouble> {
        let trace = question.trace;
        let described = Arc::new(question.described()?);
        let pieces = cut(trace, self.workers(), question.units).into_iter();
        let pieces = pieces.map(|asked| Task::Count { trace: described.clone(), asked }.packed());
        let pieces = pieces.collect::<Result<Vec<_>, _>>().map_err(Trouble)?;
        let told = totals(pieces.len(), progress.clone());
        let mut merging = Merging::new(trace, question.filter);
        let mut add = |bytes: &[u8]| {
            let Count { partial, notes } = unpack(bytes)?;
            notes.into_iter().for_each(|note| trace.note(note.note()));
            merging.add(partial).map_err(str::to_string)
        };
        let take = |_, bytes: Vec<u8>| ready(add(&bytes));
        let done = dispatch(&self.connections, pieces, told, Vec::new, take);
        let mut dispatched = self.wanted(done, progress)?;
        let mut analysis = merging.finish();
        if question.exact && analysis.durations.is_none() {
            dispatched.add(self.refine(question, &described, &mut analysis, progress)?);
        }
        Ok((analysis, dispatched))
    }

    /// Makes the quantiles of durations exact: all that was counted is read once more.
    fn refine(
        &self,
        question: &Question,
        described: &Arc<Described>,
        analysis: &mut Analysis,
        progress: &Progress,
    ) -> Result<Dispatched, Trouble> {
        let trace = question.trace;
        let (buckets, rows) = Buckets::of(analysis, &trace.catalog);
        let again = |asked: Asked| Again { sources: asked.sources, buckets: buckets.clone() };
        let task = |asked| Task::CountAgain { trace: described.clone(), again: again(asked) };
        let pieces = cut(trace, self.workers(), false).into_iter().map(|asked| task(asked).packed());
        let pieces = pieces.collect::<Result<Vec<_>, _>>().map_err(Trouble)?;
        let mut counts = Counts::default();
        let mut add = |bytes: &[u8]| {
            let more: Counts = unpack(bytes)?;
            let is_listed = more.sorted().iter().all(|(place, ..)| (*place as usize) < rows.len());
            counts.merge(&more.renumbered(|place| rows.get(place as usize).copied().unwrap_or(0)));
            is_listed.then_some(()).ok_or("its values do not match the request".to_string())
        };
        let take = |_, bytes: Vec<u8>| ready(add(&bytes));
        let done = dispatch(&self.connections, pieces, |_, _| (), Vec::new, take);
        let dispatched = self.wanted(done, progress)?;
        analysis.durations = Some(counts);
        Ok(dispatched)
    }

    /// Waits until all is done, or nobody wants the answer any more.
    fn wanted(
        &self,
        done: impl Future<Output = Result<Dispatched, Undone>>,
        progress: &Progress,
    ) -> Result<Dispatched, Trouble> {
        self.runtime.block_on(async {
            tokio::select! {
                done = done => done.map_err(undone),
                () = given_up(progress) => Err(Trouble("interrupted".into())),
            }
        })
    }
}

/// Time between two looks whether an answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Waits until nobody wants the answer any more.
async fn given_up(progress: &Progress) {
    while !progress.stopped.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

impl Question<'_> {
    /// The trace as workers are told of it.
    pub fn described(&self) -> Result<Described, Trouble> {
        let gone = |path: &PathBuf, error| Trouble(format!("{}: it no longer exists ({error})", path.display()));
        let file = |(path, named): &(PathBuf, bool)| SentFile::of(path, *named).map_err(|error| gone(path, error));
        let here = std::env::current_dir().map_err(|error| gone(&".".into(), error))?;
        Ok(Described {
            here: SentPath::of(&here),
            given: self.given.to_vec(),
            files: self.files.iter().map(file).collect::<Result<_, _>>()?,
            filter: SentFilter::of(self.filter),
            memory: self.memory,
            index: self.trace.indexed,
            found: Found::of(self.trace),
        })
    }
}

/// Connects with all workers at once, and asks each whether it has what is asked about.
async fn greet(fleet: &Fleet, greeting: Bytes) -> Result<Vec<Connection>, Trouble> {
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
    if not.is_empty() { Ok(there.into_iter().flatten().collect()) } else { Err(Trouble(not.join("\n"))) }
}

/// What is wrong with a worker that is not there or does not answer, and what to do.
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

pub fn undone(undone: Undone) -> Trouble {
    Trouble(match undone {
        Undone::Refused { address, why } => format!("worker {address} does not respond: {why}"),
        Undone::Unusable { address, why } => format!("worker {address}: {why}"),
        Undone::NobodyLeft(lost) => {
            let each =
                lost.iter().map(|lost| format!("{} ({})", lost.address, lost.why)).collect::<Vec<_>>().join(", ");
            format!(
                "all workers disconnected, and part of the trace was not read: {each}; start them again, or start \
                 more of them"
            )
        }
    })
}

/// Adds up how far all pieces have come.
pub fn totals(pieces: usize, progress: Arc<Progress>) -> impl Fn(usize, Done) + Send + Sync + 'static {
    let known = Mutex::new(vec![Done::default(); pieces]);
    move |piece, done| {
        let before = std::mem::replace(&mut known.lock().expect("progress")[piece], done);
        progress.events.fetch_add(done.events.wrapping_sub(before.events), Ordering::Relaxed);
        progress.bytes.fetch_add(done.bytes.wrapping_sub(before.bytes), Ordering::Relaxed);
    }
}
