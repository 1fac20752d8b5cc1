//! Runs queries: each runs on separate threads, while this thread waits for Ctrl-C and writes the result.
//!
//! A thread in the middle of a join does not notice an interrupt. If the waiting thread computed as well, a query could
//! not be interrupted before it is done.

use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use datafusion::error::DataFusionError;
use futures::StreamExt;
use futures::future::{Either, select};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::interrupts::Interrupts;
use super::open_trace::OpenTrace;
use super::question::{ProgressDisplay, Question};
use super::refusals::failure::Failure;
use super::stdout::unwritten;
use super::{progress, workers};
use crate::tables::output::{Format, RowWriter};
use crate::tables::query::{Query, QueryWorkers, Session};

/// The number of batches computed ahead of the one being written.
const AHEAD: usize = 2;

/// How long to wait for threads that are no longer needed. Most end immediately; the rest are abandoned.
const PARTING: Duration = Duration::from_millis(300);

/// The tables of a trace, for several queries.
pub struct Queries {
    session: Session,
    /// The workers that read and count for queries.
    asking: Option<workers::WorkerExecConfig>,
    format: Format,
    threads: usize,
    /// The size of the trace, which progress refers to.
    bytes: u64,
    /// How progress is shown until the first rows: a bar must not mix with them, so it is for workers only.
    until_rows: ProgressDisplay,
    /// How it is shown until the last row.
    until_end: ProgressDisplay,
}

impl Queries {
    pub fn of(question: &Question, opened: &OpenTrace) -> Result<Queries, Failure> {
        let wrong = |error| Failure::Query(String::new(), error);
        let (trace, filter, threads) = (&opened.trace, &opened.filter, question.threads);
        let asking = opened.workers.as_ref().map(|inputs| workers::for_queries(question, inputs, trace, filter));
        let helping = asking.clone().map(|asking| Arc::new(asking) as Arc<dyn QueryWorkers>);
        let session = Session::helped(trace.clone(), filter.clone(), threads, question.memory, helping);
        let session = session.map_err(wrong)?.with_files(question.opens_files).with_limits(question.limits.clone());
        if let Some(analysis) = &*opened.analysis.borrow() {
            session.fill(analysis).map_err(wrong)?;
        }
        let (until_rows, until_end) = match question.progress {
            ProgressDisplay::Lines => (ProgressDisplay::Hidden, ProgressDisplay::Lines),
            display if asking.is_some() => (display, ProgressDisplay::Hidden),
            _ => (ProgressDisplay::Hidden, ProgressDisplay::Hidden),
        };
        let (format, bytes) = (question.format, trace.size());
        Ok(Queries { session, asking, format, threads, bytes, until_rows, until_end })
    }

    /// Runs a query and writes its rows as they arrive.
    pub fn run(&self, sql: &str, interrupts: &mut Interrupts, out: &mut (impl Write + Send)) -> Result<(), Failure> {
        let running = Running::start(self.session.query(sql), self.threads)?;
        let progress = running.query.progress().clone();
        let write = || running.write(self, interrupts, out);
        let written = progress::shown(&progress, self.bytes, self.until_end, write);
        self.asking.iter().for_each(workers::report_query);
        written
    }
}

/// A query on separate threads, which end when this is dropped.
struct Running {
    query: Query,
    /// The rows; the first batch is empty and only has the columns.
    batches: mpsc::Receiver<Result<RecordBatch, DataFusionError>>,
    /// Both are present until they are taken to be ended.
    task: Option<JoinHandle<()>>,
    runtime: Option<Runtime>,
}

impl Running {
    fn start(query: Query, threads: usize) -> Result<Running, Failure> {
        let runtime = Builder::new_multi_thread().worker_threads(threads).thread_name("query").build();
        let runtime = runtime.map_err(Failure::Write)?;
        let (sender, batches) = mpsc::channel(AHEAD);
        let task = runtime.spawn(send(query.clone(), sender));
        Ok(Running { query, batches, task: Some(task), runtime: Some(runtime) })
    }

    /// Writes the rows as they arrive.
    fn write(
        mut self,
        queries: &Queries,
        interrupts: &mut Interrupts,
        out: &mut (impl Write + Send),
    ) -> Result<(), Failure> {
        let progress = self.query.progress().clone();
        let begin = || -> Result<_, Failure> { Ok((self.next(interrupts)?, self.next(interrupts)?)) };
        let (columns, mut rows) = progress::shown(&progress, queries.bytes, queries.until_rows, begin)?;
        let Some(columns) = columns else { return Ok(()) };
        let mut writer = RowWriter::new(queries.format, columns.schema(), out).map_err(unwritten)?;
        while let Some(batch) = rows {
            writer.write(&batch).map_err(unwritten)?;
            rows = self.next(interrupts)?;
        }
        writer.finish().map_err(unwritten)
    }

    fn next(&mut self, interrupts: &mut Interrupts) -> Result<Option<RecordBatch>, Failure> {
        let runtime = self.runtime.as_ref().expect("there until the end");
        let batch = runtime.block_on(async {
            match select(pin!(interrupts.next()), pin!(self.batches.recv())).await {
                Either::Left(_) => Err(Failure::Interrupted),
                Either::Right((batch, _)) => Ok(batch),
            }
        })?;
        if let (None, Some(task)) = (&batch, self.task.take()) {
            // The channel also closes when the thread panics, which is not a complete result.
            runtime.block_on(task).unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
        batch.transpose().map_err(|error| Failure::Query(self.query.sql().to_string(), error))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.query.cancel();
        if let Some(task) = self.task.take() {
            task.abort();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(PARTING);
        }
    }
}

async fn send(query: Query, batches: mpsc::Sender<Result<RecordBatch, DataFusionError>>) {
    let (columns, mut rows) = match query.run().await {
        Ok(started) => started,
        Err(error) => return drop(batches.send(Err(error)).await),
    };
    let mut wanted = batches.send(Ok(RecordBatch::new_empty(columns))).await.is_ok();
    while let (true, Some(batch)) = (wanted, rows.next().await) {
        wanted = batches.send(batch).await.is_ok();
    }
}
