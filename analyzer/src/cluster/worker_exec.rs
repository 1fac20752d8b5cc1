//! Workers in a query's plan: an operator whose rows come from workers; the coordinator runs the operators above it.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Int32Type, SchemaRef};
use bytes::Bytes;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};
use dlio_cluster::dispatch::{Dispatched, dispatch};
use tokio::sync::{Mutex as Turn, mpsc};
use tokio::task::AbortHandle;

use super::coordinator::{Cluster, ClusterError, Question, totals, undone};
use super::plan::{Subqueries, encode};
use super::pushdown::{self, Number};
use super::result_buffer::{MemoryBudget, ResultBuffer};
use super::rows::{Failed, RowsIn, RowsTrailer, SentProcess};
use super::splits::splits;
use super::task::{Rows, Task};
use crate::catalog::{Catalog, Process};
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::tables::cancel::{LatestQuery, check_cancelled};
use crate::tables::leaf::EventsExec;
use crate::tables::query::QueryWorkers;
use crate::tables::split::Split;

/// The maximum memory for rows of workers before they pass through the plan, and its share of all memory.
const ROOM_MAX: u64 = 256 << 20;
const ROOM_SHARE: u64 = 4;

/// Workers, and the trace they read.
#[derive(Clone)]
pub struct WorkerExecConfig(Arc<About>);

struct About {
    cluster: Arc<Cluster>,
    trace: Arc<Trace>,
    given: Vec<String>,
    files: Vec<(PathBuf, bool)>,
    filter: Filter,
    memory: u64,
    room: Arc<MemoryBudget>,
    /// `true` if processes are discovered while reading.
    meets_processes: bool,
    /// Held while a worker's processes are matched with the coordinator's.
    finding: Mutex<()>,
    /// Statistics since they were last taken.
    done: Arc<Mutex<Dispatched>>,
}

impl WorkerExecConfig {
    pub fn new(
        cluster: Arc<Cluster>,
        trace: Arc<Trace>,
        given: Vec<String>,
        files: Vec<(PathBuf, bool)>,
        filter: Filter,
        memory: u64,
    ) -> WorkerExecConfig {
        let room = MemoryBudget::of((memory / ROOM_SHARE).min(ROOM_MAX));
        let meets_processes = trace.sources.iter().any(|source| source.processes().is_none());
        let (finding, done) = Default::default();
        WorkerExecConfig(Arc::new(About {
            cluster,
            trace,
            given,
            files,
            filter,
            memory,
            room,
            meets_processes,
            finding,
            done,
        }))
    }

    pub fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    /// Returns the work done, and the workers that disconnected, since the last call.
    pub fn take_done(&self) -> Dispatched {
        std::mem::take(&mut self.0.done.lock().expect("worker statistics"))
    }
}

impl About {
    fn question(&self) -> Question<'_> {
        let About { trace, given, files, filter, memory, .. } = self;
        Question { trace, given, files, filter, memory: *memory, units: false, exact: false }
    }
}

fn troubled(trouble: ClusterError) -> DataFusionError {
    DataFusionError::External(Box::new(trouble))
}

impl QueryWorkers for WorkerExecConfig {
    fn analyse(&self, progress: &Arc<Progress>) -> Result<Analysis> {
        // The planning thread belongs to a runtime, and must not block on another one.
        let counted = std::thread::scope(|scope| {
            scope.spawn(|| self.0.cluster.analyse(&self.0.question(), progress)).join().expect("a thread that waits")
        });
        let (analysis, dispatched) = counted.map_err(troubled)?;
        self.0.done.lock().expect("worker statistics").add(dispatched);
        Ok(analysis)
    }

    fn rule(&self, latest: &LatestQuery) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        Arc::new(PushdownRule { about: self.0.clone(), latest: latest.clone() })
    }
}

/// The optimizer rule that assigns parts of a plan to workers.
struct PushdownRule {
    about: Arc<About>,
    latest: LatestQuery,
}

impl Debug for PushdownRule {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PhysicalOptimizerRule for PushdownRule {
    fn name(&self) -> &str {
        "sharing_out"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let shared = plan.transform_down(|node| {
            let Some(columns) = pushdown::columns(&node, self.about.meets_processes) else {
                return Ok(Transformed::no(node));
            };
            // An operator that cannot be sent runs here, on the rows of those that can.
            if encode(&node, Subqueries::Pending).is_err() {
                return Ok(Transformed::no(node));
            }
            let asks: Arc<dyn ExecutionPlan> = Arc::new(WorkersExec::new(self, node.clone(), &columns));
            let whole = if pushdown::is_done_twice(&node) { replaced(node, asks)? } else { asks };
            Ok(Transformed::new(whole, true, TreeNodeRecursion::Jump))
        });
        Ok(shared?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns an operator with another input.
fn replaced(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The operator that represents the workers: each of its partitions takes the rows of the next available split.
struct WorkersExec {
    about: Arc<About>,
    progress: Arc<Progress>,
    /// The plan that workers run.
    plan: Arc<dyn ExecutionPlan>,
    /// Properties of their rows, which have no order.
    properties: Arc<PlanProperties>,
    numbers: Vec<(u32, Number)>,
    /// Runs with partitions that are not taken yet: a plan may run several times.
    begun: Mutex<Vec<StartedRun>>,
}

struct StartedRun {
    run: Arc<Run>,
    taken: Vec<bool>,
}

impl WorkersExec {
    fn new(by: &PushdownRule, plan: Arc<dyn ExecutionPlan>, columns: &[Option<Number>]) -> WorkersExec {
        let numbers = (0u32..).zip(columns).filter_map(|(place, number)| Some((place, (*number)?))).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(plan.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative));
        let (about, progress) = (by.about.clone(), by.latest.get());
        WorkersExec { about, progress, plan, properties, numbers, begun: Mutex::default() }
    }

    fn leaf(&self) -> Result<&EventsExec> {
        let mut node = &self.plan;
        loop {
            match (node.downcast_ref::<EventsExec>(), node.children().first()) {
                (Some(leaf), _) => return Ok(leaf),
                (None, Some(below)) => node = below,
                (None, None) => return Err(DataFusionError::Internal("a part of a plan without events".into())),
            }
        }
    }

    /// Returns the run for a partition: a new one if the partition is taken in all existing runs.
    fn run(&self, partition: usize, context: &TaskContext) -> Result<Arc<Run>> {
        let mut begun = self.begun.lock().expect("runs");
        let at = match begun.iter().position(|begun| !begun.taken[partition]) {
            Some(at) => at,
            None => {
                let run = Run::begin(&self.about, self.pieces(context)?, self.progress.clone());
                let taken = vec![false; self.plan.output_partitioning().partition_count()];
                begun.push(StartedRun { run, taken });
                begun.len() - 1
            }
        };
        begun[at].taken[partition] = true;
        let run = begun[at].run.clone();
        begun.retain(|begun| !begun.taken.iter().all(|taken| *taken));
        Ok(run)
    }

    fn pieces(&self, context: &TaskContext) -> Result<Vec<Bytes>> {
        let asked = self.leaf()?.request();
        let plan = encode(&self.plan, Subqueries::Answered)?;
        let trace = Arc::new(self.about.question().described().map_err(troubled)?);
        let time_zone = &context.session_config().options().execution.time_zone;
        let mut splits = splits(&self.about.trace, &asked.filter, self.about.cluster.workers(), asked.stored);
        if splits.is_empty() {
            // An empty input has groups too: the total of a rollup.
            splits.push(Split::default());
        }
        let task = |split| {
            let (plan, numbers, time_zone) = (plan.clone(), self.numbers.clone(), time_zone.clone());
            Task::Rows { trace: trace.clone(), asked: Rows { plan, split, numbers, time_zone } }.packed()
        };
        splits.into_iter().map(task).collect::<Result<_, _>>().map_err(|why| troubled(ClusterError(why)))
    }
}

impl Debug for WorkersExec {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("WorkersExec").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl DisplayAs for WorkersExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        let mut does = vec![self.plan.name().to_string()];
        let mut node = &self.plan;
        while let Some(below) = node.children().first() {
            does.push(below.name().to_string());
            node = below;
        }
        write!(f, "WorkersExec: workers={}, does=[{}]", self.about.cluster.workers(), does.join(", "))
    }
}

impl ExecutionPlan for WorkersExec {
    fn name(&self) -> &str {
        "WorkersExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => Err(DataFusionError::Internal("workers have no children".into())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let arriving = Arriving {
            run: self.run(partition, &context)?,
            progress: self.progress.clone(),
            schema: self.schema(),
            numbers: self.numbers.clone(),
            split: None,
        };
        let rows = futures::stream::try_unfold(arriving, |mut arriving| async move {
            Ok::<_, DataFusionError>(arriving.next().await?.map(|batch| (batch, arriving)))
        });
        Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows))))
    }
}

/// A part of a query that workers run; it ends when its rows are no longer needed.
struct Run {
    about: Arc<About>,
    results: Turn<mpsc::Receiver<ResultBuffer>>,
    /// Set before the last result is taken, for all partitions: all splits are done, or an error.
    ending: Arc<OnceLock<Result<(), String>>>,
    task: AbortHandle,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Run {
    fn begin(about: &Arc<About>, pieces: Vec<Bytes>, progress: Arc<Progress>) -> Arc<Run> {
        // One result waits for its turn in the plan; then workers block too.
        let (sender, results) = mpsc::channel(1);
        let (ending, room) = (Arc::new(OnceLock::new()), about.room.clone());
        let (told, connections) = (totals(pieces.len(), progress), about.cluster.connections().to_vec());
        let (said, by) = (ending.clone(), about.done.clone());
        let task = about.cluster.runtime().spawn(async move {
            let take = |_, held: ResultBuffer| {
                let sender = sender.clone();
                async move { sender.send(held).await.map_err(|_| "the receiver is gone".to_string()) }
            };
            let dispatched = dispatch(&connections, pieces, told, move || ResultBuffer::new(room.clone()), take).await;
            let _ = said.set(match dispatched {
                Ok(dispatched) => {
                    by.lock().expect("worker statistics").add(dispatched);
                    Ok(())
                }
                Err(why) => Err(undone(why).0),
            });
        });
        Arc::new(Run { about: about.clone(), results: Turn::new(results), ending, task: task.abort_handle() })
    }

    /// Returns the rows of one more split.
    async fn next(&self) -> Result<Option<ResultBuffer>> {
        match self.results.lock().await.recv().await {
            Some(held) => Ok(Some(held)),
            None => match self.ending.get() {
                Some(Ok(())) => Ok(None),
                Some(Err(why)) => Err(troubled(ClusterError(why.clone()))),
                None => Err(DataFusionError::Execution("the workers' rows ended early".into())),
            },
        }
    }
}

/// Rows of workers in one partition.
struct Arriving {
    run: Arc<Run>,
    progress: Arc<Progress>,
    schema: SchemaRef,
    numbers: Vec<(u32, Number)>,
    /// The rows of a split, and the coordinator's numbers for the worker's.
    split: Option<(RowsIn, Meanings)>,
}

impl Arriving {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            check_cancelled(&self.progress)?;
            if let Some((rows, meanings)) = &mut self.split {
                if let Some(batch) = rows.next() {
                    return meanings.applied(batch?, &self.numbers, &self.schema).map(Some);
                }
                self.split = None;
            }
            let Some(held) = self.run.next().await? else { return Ok(None) };
            let (rows, rest) = RowsIn::of(held)?;
            self.split = Some((rows, self.run.about.meanings(rest)?));
        }
    }
}

/// The coordinator's numbers for those of a worker.
#[derive(Default)]
struct Meanings {
    files: HashMap<i32, i32>,
    processes: HashMap<i32, i32>,
}

impl About {
    /// Returns the meanings of the numbers in a worker's rows.
    fn meanings(&self, rest: RowsTrailer) -> Result<Meanings> {
        let RowsTrailer { failed, notes, files, processes } = rest;
        match failed {
            Some(Failed::Memory(what)) => return Err(DataFusionError::ResourcesExhausted(what)),
            Some(Failed::Otherwise(why)) => return Err(troubled(ClusterError(why))),
            None => {}
        }
        notes.into_iter().for_each(|note| self.trace.note(note.note()));
        let catalog = &self.trace.catalog;
        let (theirs, paths): (Vec<i32>, Vec<String>) = files.into_iter().unzip();
        let ours = catalog.file_numbers(paths.iter().map(|path| path.into()));
        let files = theirs.into_iter().zip(ours.into_iter().map(|file| file as i32)).collect();
        let _alone = self.finding.lock().expect("processes");
        Ok(Meanings { files, processes: match_processes(catalog, processes) })
    }
}

impl Meanings {
    /// Returns rows with the coordinator's numbers.
    fn applied(&self, rows: RecordBatch, numbers: &[(u32, Number)], schema: &SchemaRef) -> Result<RecordBatch> {
        let (_, mut columns, count) = rows.into_parts();
        for (place, number) in numbers {
            let known = match number {
                Number::File => &self.files,
                Number::Process => &self.processes,
            };
            let place = *place as usize;
            let renumbered = columns.get(place).and_then(|column| renumbered(column, known));
            columns[place] =
                renumbered.ok_or_else(|| troubled(ClusterError("a worker's rows refer to unlisted entries".into())))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
    }
}

fn renumbered(column: &ArrayRef, known: &HashMap<i32, i32>) -> Option<ArrayRef> {
    let numbers = column.as_primitive_opt::<Int32Type>()?.iter();
    let ours = numbers.map(|number| number.map(|number| known.get(&number).copied()));
    let ours = ours.map(|number| match number {
        Some(None) => None,
        Some(known) => Some(known),
        None => Some(None),
    });
    Some(Arc::new(ours.collect::<Option<Int32Array>>()?))
}

/// The identity of a process: file, host, boot, process id, and an index among processes for which these are equal.
type Identity = (String, String, Option<String>, i32, usize);

/// Identities of processes, in order.
#[derive(Default)]
struct Identities(HashMap<(String, String, Option<String>, i32), usize>);

impl Identities {
    fn next(&mut self, process: &Process, host: &str, boot: &Option<String>) -> Identity {
        let (source, host, boot) = (process.source.clone(), host.to_string(), boot.clone());
        let nth = self.0.entry((source.clone(), host.clone(), boot.clone(), process.pid)).or_default();
        *nth += 1;
        (source, host, boot, process.pid, *nth)
    }
}

/// Returns the coordinator's numbers of processes that a worker discovered; unknown ones are added.
fn match_processes(catalog: &Catalog, theirs: Vec<SentProcess>) -> HashMap<i32, i32> {
    if theirs.is_empty() {
        return HashMap::new();
    }
    let (mut identities, hosts) = (Identities::default(), catalog.hosts());
    let mut known: HashMap<Identity, i32> = (0i32..)
        .zip(catalog.processes())
        .map(|(number, process)| {
            let host = hosts.get(process.host as usize).cloned().unwrap_or_default();
            (identities.next(&process, &host.name, &host.boot_id), number)
        })
        .collect();
    let mut identities = Identities::default();
    let number = |SentProcess { number, process, host }| {
        let identity = identities.next(&process, &host.name, &host.boot_id);
        let ours = *known.entry(identity).or_insert_with(|| {
            let host = catalog.host(host);
            catalog.add_process(Process { host, ..process }) as i32
        });
        (number, ours)
    };
    theirs.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Host;

    #[test]
    fn worker_processes_are_matched_by_identity() {
        let catalog = Catalog::default();
        let host = |name: &str| Host { name: name.into(), ..Host::default() };
        let process = |host, pid, source: &str| Process { host, pid, source: source.into(), ..Process::default() };
        let (one, other) = (catalog.host(host("one")), catalog.host(host("other")));
        for known in [process(one, 7, "/a"), process(other, 7, "/a"), process(one, 7, "/b"), process(one, 7, "/a")] {
            catalog.add_process(known);
        }
        let sent = |number, name: &str, pid, source: &str| SentProcess {
            number,
            process: process(0, pid, source),
            host: host(name),
        };
        let theirs =
            vec![sent(0, "other", 7, "/a"), sent(1, "one", 7, "/a"), sent(2, "one", 7, "/a"), sent(3, "new", 8, "/c")];
        assert_eq!(match_processes(&catalog, theirs), HashMap::from([(0, 1), (1, 0), (2, 3), (3, 4)]));
        assert_eq!(catalog.processes()[4].host, 2);
    }
}
