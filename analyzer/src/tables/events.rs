//! The table `events` for DataFusion: streams of blocks. A query reads only blocks that may match.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::cancel::{LatestQuery, check_cancelled};
use super::columns::{Converter, made_of};
use super::leaf::{EventsExec, ScanRequest};
use super::parquet_scan;
use super::split::Split;
use crate::batch::Wanted;
use crate::filter::Filter;
use crate::load::Trace;
use crate::load::sources::source::Reader;
use crate::scan::Progress;
use crate::schema::arrow_schema::queried;
use crate::schema::tables;
use crate::unit::Unit;

/// The table of a trace's events.
pub struct EventsTable {
    trace: Arc<Trace>,
    filter: Filter,
    threads: usize,
    schema: SchemaRef,
    latest: LatestQuery,
    /// `true` if the whole trace is one directory of this program's own Parquet and no filter is set.
    is_stored: bool,
    /// `true` if workers read: then plans have several partitions, however few events there are.
    is_shared_out: bool,
}

impl EventsTable {
    pub fn new(
        trace: Arc<Trace>,
        filter: Filter,
        threads: usize,
        latest: LatestQuery,
        is_shared_out: bool,
    ) -> EventsTable {
        let is_stored = filter.is_empty() && trace.sources.iter().all(|source| source.table().is_some());
        EventsTable { trace, filter, threads, schema: queried(tables::EVENTS), latest, is_stored, is_shared_out }
    }
}

/// Which events are read, and by how many threads.
pub struct Reading {
    pub trace: Arc<Trace>,
    /// The units to read, if not all.
    pub split: Option<Arc<Split>>,
    pub threads: usize,
    /// The minimum number of partitions of the leaf, some of which may be empty.
    pub partitions_min: usize,
    pub progress: Arc<Progress>,
}

impl Reading {
    /// Returns the leaf that reads them. `projection` selects which of the requested columns it returns.
    pub fn leaf(
        &self,
        asked: Arc<ScanRequest>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
        options: &ConfigOptions,
    ) -> Result<EventsExec> {
        let schema = schema_of(&asked.columns);
        let mut partitions = match asked.stored {
            true => self.stored(&asked, limit, options)?,
            false => (0..self.threads).map(|number| self.partition(&asked, number)).collect(),
        };
        while partitions.len() < self.partitions_min {
            partitions.push(Arc::new(EmptyPartition(schema.clone())));
        }
        let table = StreamingTableExec::try_new(schema, partitions, projection, [], false, limit)?;
        Ok(EventsExec::new(table, asked))
    }

    fn stored(
        &self,
        asked: &ScanRequest,
        limit: Option<usize>,
        options: &ConfigOptions,
    ) -> Result<Vec<Arc<dyn PartitionStream>>> {
        let is_read = |source: u32| self.split.as_ref().is_none_or(|split| split.has_source(source));
        let sources = (0u32..).zip(&self.trace.sources).filter(|(number, _)| is_read(*number));
        let files: Vec<PathBuf> = sources.filter_map(|(_, source)| source.table().map(PathBuf::from)).collect();
        let ask = parquet_scan::ParquetScan { asked, limit, threads: self.threads, progress: self.progress.clone() };
        parquet_scan::scan(&files, &queried(tables::EVENTS), ask, options)
    }

    fn partition(&self, asked: &Arc<ScanRequest>, number: usize) -> Arc<dyn PartitionStream> {
        Arc::new(Partition {
            trace: self.trace.clone(),
            split: self.split.clone(),
            asked: asked.clone(),
            schema: schema_of(&asked.columns),
            number,
            of: self.threads,
            progress: self.progress.clone(),
        })
    }
}

fn schema_of(columns: &[usize]) -> SchemaRef {
    queried(&columns.iter().map(|&place| tables::EVENTS[place]).collect::<Vec<_>>())
}

impl std::fmt::Debug for EventsTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventsTable({} units)", self.trace.units.len())
    }
}

#[async_trait]
impl TableProvider for EventsTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Conditions narrow the input; DataFusion still checks every row.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..tables::EVENTS.len()).collect());
        let stored = self.is_stored && parquet_scan::has(&columns);
        let condition = if stored { parquet_scan::condition(filters, &self.schema, state)? } else { None };
        let mut filter = self.filter.clone();
        filters.iter().for_each(|condition| narrow(&mut filter, condition));
        let asked = Arc::new(ScanRequest { columns, filter, stored, condition });
        let (trace, threads, progress) = (self.trace.clone(), self.threads, self.latest.get());
        let partitions_min = if self.is_shared_out { threads } else { 1 };
        let reading = Reading { trace, split: None, threads, partitions_min, progress };
        Ok(Arc::new(reading.leaf(asked, None, limit, state.config_options())?))
    }
}

/// Narrows a filter by a condition that can select blocks. Keeping too many rows is harmless.
fn narrow(filter: &mut Filter, condition: &Expr) {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return };
    if *op == Operator::And {
        narrow(filter, left);
        narrow(filter, right);
        return;
    }
    let (column, op, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) => (column, Some(*op), value),
        (Expr::Literal(value, _), Expr::Column(column)) => (column, op.swap(), value),
        _ => return,
    };
    match (column.name.as_str(), op, integer(value)) {
        // Filters keep events that overlap a window; a condition on the start is stricter and is checked again.
        ("ts", Some(Operator::Gt | Operator::GtEq | Operator::Eq), Some(ts)) => {
            filter.from = Some(filter.from.map_or(ts, |from| from.max(ts)));
        }
        ("ts", Some(Operator::Lt | Operator::LtEq), Some(ts)) => {
            let to = ts.saturating_add(1);
            filter.to = Some(filter.to.map_or(to, |known| known.min(to)));
        }
        ("dur", Some(Operator::Gt | Operator::GtEq), Some(dur)) => filter.min_dur_ns = filter.min_dur_ns.max(dur),
        ("cat", Some(Operator::Eq), _) if filter.cats.is_empty() => filter.cats.extend(text(value)),
        ("pid", Some(Operator::Eq), Some(pid)) if filter.pids.is_empty() => filter.pids.extend(i32::try_from(pid)),
        ("rank", Some(Operator::Eq), Some(rank)) if filter.ranks.is_empty() => filter.ranks.extend(i32::try_from(rank)),
        _ => {}
    }
}

fn text(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Dictionary(_, value) => text(value),
        value => value.try_as_str().flatten().map(str::to_string),
    }
}

fn integer(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int64(value) => *value,
        ScalarValue::Int32(value) => value.map(i64::from),
        _ => None,
    }
}

/// Every `of`-th unit, starting at `number`: identical each time a plan runs.
struct Partition {
    trace: Arc<Trace>,
    split: Option<Arc<Split>>,
    asked: Arc<ScanRequest>,
    schema: SchemaRef,
    number: usize,
    of: usize,
    progress: Arc<Progress>,
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "every {}th unit from {}", self.of, self.number)
    }
}

impl PartitionStream for Partition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows_max = context.session_config().batch_size();
        let sieve = self.trace.sieve(&self.asked.filter);
        let is_read = |unit: &Unit| self.split.as_ref().is_none_or(|split| split.has(unit));
        let may_hold = self.trace.units.iter().filter(|unit| is_read(unit) && sieve.may_take(unit));
        let units: Vec<Unit> = may_hold.skip(self.number).step_by(self.of).copied().collect();
        let batches = Batches {
            trace: self.trace.clone(),
            wanted: wanted(&self.asked.columns, &self.asked.filter),
            units: units.into_iter(),
            reader: None,
            converter: Converter::new(&self.trace.catalog, self.asked.columns.clone(), rows_max),
            asked: self.asked.clone(),
            made: VecDeque::new(),
            progress: self.progress.clone(),
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(batches)))
    }
}

/// Returns the parts of events needed for some columns of the table and for a filter.
fn wanted(columns: &[usize], filter: &Filter) -> Wanted {
    let names = || columns.iter().map(|&place| tables::EVENTS[place].name);
    let columns = names().fold(filter.columns(), |columns, name| columns.and(made_of(name)));
    let has = |wanted: &str| names().any(|name| name == wanted);
    Wanted { args: has("args"), depth: has("depth"), columns }
}

/// A partition without rows.
#[derive(Debug)]
struct EmptyPartition(SchemaRef);

impl PartitionStream for EmptyPartition {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(self.0.clone(), futures::stream::empty()))
    }
}

/// Reads one unit after another.
struct Batches {
    trace: Arc<Trace>,
    asked: Arc<ScanRequest>,
    wanted: Wanted,
    units: std::vec::IntoIter<Unit>,
    reader: Option<Reader>,
    converter: Converter,
    /// A unit of a foreign format may produce many batches.
    made: VecDeque<RecordBatch>,
    /// Checked because nothing yields while no unit contains a matching event.
    progress: Arc<Progress>,
}

/// The number of units read with one sieve: few, because their rows are buffered in memory; a foreign unit may be a
/// whole file.
const UNITS_AT_ONCE: usize = 4;

impl Batches {
    fn read_some(&mut self) -> Result<()> {
        check_cancelled(&self.progress)?;
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::new().map_err(DataFusionError::IoError)?,
        };
        let sieve = self.trace.sieve(&self.asked.filter);
        let (made, converter, catalog) = (&mut self.made, &mut self.converter, &self.trace.catalog);
        let wanted = self.wanted;
        let mut converted = Ok(());
        for unit in self.units.by_ref().take(UNITS_AT_ONCE) {
            self.trace.read(&unit, &mut reader, wanted, &sieve, &mut |batch| {
                self.progress.events.fetch_add(batch.len() as u64, Ordering::Relaxed);
                if !batch.is_empty() && converted.is_ok() {
                    converted = converter.append(catalog, batch, made);
                }
            });
            self.progress.bytes.fetch_add(unit.size, Ordering::Relaxed);
        }
        if self.units.len() == 0 && converted.is_ok() {
            converted = converter.finish().map(|last| made.extend(last));
        }
        self.reader = Some(reader);
        converted.map_err(DataFusionError::from)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.made.is_empty() && self.units.len() > 0 {
            if let Err(error) = self.read_some() {
                return Some(Err(error));
            }
        }
        self.made.pop_front().map(Ok)
    }
}
