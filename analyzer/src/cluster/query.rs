//! A part of a query, done by a worker.

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
use super::rows::{Failed, Rest, RowsOut, SentProcess};
use super::task::Rows;
use crate::catalog::Catalog;
use crate::load::Trace;
use crate::scan::Progress;
use crate::tables::events::Reading;
use crate::tables::query::context;

/// Batches of a thread that are made before the one that was made last is sent.
const AHEAD: usize = 2;

/// Threads, and what was asked of them.
pub struct Running {
    pub trace: Arc<Trace>,
    pub threads: usize,
    /// Bytes that the query may take here.
    pub memory: u64,
    pub progress: Arc<Progress>,
}

impl Running {
    /// Runs it, and sends its rows. What follows them is `conclude`'s, which is told what the rows name. An error is one of
    /// sending; that the query failed is sent.
    pub fn send(
        &self,
        asked: &Rows,
        out: Out,
        conclude: impl FnOnce(Rest) -> std::result::Result<Rest, String>,
    ) -> std::result::Result<(), String> {
        let runtime =
            Builder::new_multi_thread().worker_threads(self.threads).thread_name("query").enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
        let sent = self.send_by(&runtime, asked, out, conclude);
        // Where that failed threads are still at it.
        self.progress.stopped.store(true, Ordering::Relaxed);
        runtime.shutdown_background();
        sent
    }

    fn send_by(
        &self,
        runtime: &Runtime,
        asked: &Rows,
        out: Out,
        conclude: impl FnOnce(Rest) -> std::result::Result<Rest, String>,
    ) -> std::result::Result<(), String> {
        let words = |error: DataFusionError| format!("the query cannot run on a worker ({})", error.strip_backtrace());
        let context = context(self.threads, self.memory, asked.time_zone.clone(), Vec::new()).map_err(words)?;
        let plan = decode(&asked.plan, &context.task_ctx(), self.reading(asked)).map_err(words)?;
        let mut named = Named::new(&asked.numbers);
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
        let rest = Rest { failed, ..named.rest(&self.trace.catalog) };
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

/// Begins all partitions of a plan. One that panics is an error.
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

/// The numbers that rows name.
struct Named<'a> {
    columns: &'a [(u32, Number)],
    files: HashSet<i32>,
    processes: HashSet<i32>,
}

impl Named<'_> {
    fn new(columns: &[(u32, Number)]) -> Named<'_> {
        Named { columns, files: HashSet::new(), processes: HashSet::new() }
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

    /// What they mean. Of a process that is named all of its file's are, in the order in which they were met: of some nothing
    /// else tells them apart.
    fn rest(self, catalog: &Catalog) -> Rest {
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
        Rest { files, processes: processes.collect(), ..Rest::default() }
    }
}

/// Gives the processes of rows the names that their files have where they were asked for.
pub fn rename_sources(rest: &mut Rest, name: impl Fn(&Path) -> String) {
    rest.processes.iter_mut().for_each(|sent| sent.process.source = name(Path::new(&sent.process.source)));
}
