//! Runs a part of a query on a worker.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use dlio_cluster::work::Out;
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::plan::decode;
use super::pushdown::Number;
use super::rows::{Failed, RowsOut, RowsTrailer, SentProcess};
use super::task::Rows;
use crate::catalog::Catalog;
use crate::load::Trace;
use crate::scan::Progress;
use crate::tables::events::Reading;
use crate::tables::query::context;

/// Batches that a thread produces ahead of sending.
const AHEAD: usize = 2;

/// A running query: its threads and limits.
pub struct RunningQuery {
    pub trace: Arc<Trace>,
    pub threads: usize,
    /// Bytes of memory that the query may use here.
    pub memory: u64,
    pub progress: Arc<Progress>,
}

impl RunningQuery {
    /// Runs the query and sends its rows. `conclude` gets the names in the rows and returns the data that follow them.
    /// The error is one of sending; a failure of the query itself is sent.
    pub fn send(
        &self,
        asked: &Rows,
        out: Out,
        conclude: impl FnOnce(RowsTrailer) -> std::result::Result<RowsTrailer, String>,
    ) -> std::result::Result<(), String> {
        let runtime =
            Builder::new_multi_thread().worker_threads(self.threads).thread_name("query").enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
        let sent = self.send_by(&runtime, asked, out, conclude);
        // After an error threads are still running.
        self.progress.stopped.store(true, Ordering::Relaxed);
        runtime.shutdown_background();
        sent
    }

    fn send_by(
        &self,
        runtime: &Runtime,
        asked: &Rows,
        out: Out,
        conclude: impl FnOnce(RowsTrailer) -> std::result::Result<RowsTrailer, String>,
    ) -> std::result::Result<(), String> {
        let words = |error: DataFusionError| format!("the query cannot run on a worker ({})", error.strip_backtrace());
        let context = context(self.threads, self.memory, asked.time_zone.clone(), Vec::new()).map_err(words)?;
        let plan = decode(&asked.plan, &context.task_ctx(), self.reading(asked)).map_err(words)?;
        let mut named = RowReferences::new(&asked.numbers);
        let mut rows = RowsOut::new(&plan.schema(), out).map_err(|error| error.to_string())?;
        let mut batches = begin(runtime, &plan, &context.task_ctx());
        let mut failed = None;
        while let Some(batch) = runtime.block_on(batches.recv()) {
            match batch {
                Ok(batch) => {
                    named.note(&batch);
                    rows.write(batch).map_err(|error| error.to_string())?;
                }
                Err(error) => {
                    failed = Some(Failed::of(&error));
                    break;
                }
            }
        }
        let rest = RowsTrailer { failed, ..named.trailer(&self.trace.catalog) };
        rows.finish(&conclude(rest)?).map_err(|error| error.to_string())
    }

    fn reading(&self, asked: &Rows) -> Reading {
        Reading {
            trace: self.trace.clone(),
            split: Some(Arc::new(asked.split.clone())),
            threads: self.threads,
            partitions_min: 1,
            progress: self.progress.clone(),
        }
    }
}

/// Starts all partitions of a plan. A panic becomes an error.
fn begin(
    runtime: &Runtime,
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> mpsc::Receiver<Result<RecordBatch>> {
    let partitions = plan.output_partitioning().partition_count();
    let (sender, batches) = mpsc::channel(AHEAD * partitions.max(1));
    for partition in 0..partitions {
        let (plan, context, sender) = (plan.clone(), context.clone(), sender.clone());
        let running = runtime.spawn(send(plan, partition, context, sender.clone()));
        runtime.spawn(async move {
            if let Err(ended) = running.await {
                let panicked = DataFusionError::Execution(format!("a thread of a worker panicked ({ended})"));
                let _ = sender.send(Err(panicked)).await;
            }
        });
    }
    batches
}

async fn send(
    plan: Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
    sender: mpsc::Sender<Result<RecordBatch>>,
) {
    let mut rows = match plan.execute(partition, context) {
        Ok(rows) => rows,
        Err(error) => return drop(sender.send(Err(error)).await),
    };
    while let Some(batch) = rows.next().await {
        if sender.send(batch).await.is_err() {
            return;
        }
    }
}

/// The numbers that occur in rows.
struct RowReferences<'a> {
    columns: &'a [(u32, Number)],
    files: HashSet<i32>,
    processes: HashSet<i32>,
}

impl RowReferences<'_> {
    fn new(columns: &[(u32, Number)]) -> RowReferences<'_> {
        RowReferences { columns, files: HashSet::new(), processes: HashSet::new() }
    }

    fn note(&mut self, rows: &RecordBatch) {
        for (column, number) in self.columns {
            let into = match number {
                Number::File => &mut self.files,
                Number::Process => &mut self.processes,
            };
            let numbers = rows.column(*column as usize).as_primitive::<Int32Type>();
            into.extend(numbers.iter().flatten());
        }
    }

    /// Returns their meanings. If a process occurs, all processes of its file are included in the order of discovery:
    /// nothing else distinguishes some of them.
    fn trailer(self, catalog: &Catalog) -> RowsTrailer {
        let paths = if self.files.is_empty() { Vec::new() } else { catalog.files() };
        let path = |number: i32| Some((number, paths.get(number as usize)?.to_string()));
        let files = self.files.into_iter().filter_map(path).collect();
        let (all, hosts) = match self.processes.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => (catalog.processes(), catalog.hosts()),
        };
        let named = self.processes.iter().filter_map(|number| all.get(*number as usize));
        let sources: HashSet<String> = named.map(|process| process.source.clone()).collect();
        let of_sources = (0i32..).zip(all).filter(|(_, process)| sources.contains(&process.source));
        let processes = of_sources.map(|(number, process)| {
            let host = hosts.get(process.host as usize).cloned().unwrap_or_default();
            SentProcess { number, process, host }
        });
        RowsTrailer { files, processes: processes.collect(), ..RowsTrailer::default() }
    }
}

/// Renames the sources of processes in rows to the coordinator's file names.
pub fn rename_sources(rest: &mut RowsTrailer, name: impl Fn(&Path) -> String) {
    rest.processes.iter_mut().for_each(|sent| sent.process.source = name(Path::new(&sent.process.source)));
}
