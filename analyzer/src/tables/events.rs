//! The table `events` as DataFusion sees it: streams of blocks, of which a query reads only those it can need.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use dlio_schemas::tables;

use super::cancel::{Latest, still_wanted};
use super::columns::Converter;
use super::in_place;
use crate::batch::Wanted;
use crate::filter::Filter;
use crate::load::Trace;
use crate::load::source::{Reader, Source};
use crate::scan::Progress;
use crate::schema::queried;
use crate::unit::Unit;

/// See the module.
pub struct EventsTable {
    trace: Arc<Trace>,
    filter: Filter,
    threads: usize,
    schema: SchemaRef,
    latest: Latest,
    /// The files of events, where all of the trace is a folder of our own Parquet.
    tables: Option<Vec<PathBuf>>,
}

impl EventsTable {
    pub fn new(trace: Arc<Trace>, filter: Filter, threads: usize, latest: Latest) -> EventsTable {
        let table = |source: &dyn Source| source.table().map(PathBuf::from);
        let tables = trace.sources.iter().map(|source| table(source.as_ref())).collect::<Option<Vec<_>>>();
        let tables = tables.filter(|tables| !tables.is_empty() && filter.is_empty());
        EventsTable { trace, filter, threads, schema: queried(tables::EVENTS), latest, tables }
    }
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

    /// Conditions narrow what is read; DataFusion still checks every row.
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
        if let Some(files) = self.tables.as_ref().filter(|_| in_place::has(&columns)) {
            let ask = in_place::Ask { columns, filters, limit, threads: self.threads, progress: self.latest.get() };
            return in_place::scan(files, &self.schema, ask, state);
        }
        let listed: Vec<_> = columns.iter().map(|&place| tables::EVENTS[place]).collect();
        let projected = queried(&listed);
        let mut filter = self.filter.clone();
        filters.iter().for_each(|condition| narrow(&mut filter, condition));
        let progress = self.latest.get();
        let partition = |number| {
            Arc::new(Partition {
                trace: self.trace.clone(),
                filter: filter.clone(),
                columns: columns.clone(),
                schema: projected.clone(),
                number,
                of: self.threads,
                progress: progress.clone(),
            }) as Arc<dyn PartitionStream>
        };
        let partitions = (0..self.threads).map(partition).collect();
        Ok(Arc::new(StreamingTableExec::try_new(projected, partitions, None, [], false, limit)?))
    }
}

/// Narrows a filter by a condition, where it is one that blocks are chosen by. What is kept too much does no harm.
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
        // Filters keep what overlaps a window, a condition on the start keeps less: it is checked again.
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

/// Every `of`-th unit, from `number` on: the same ones however often a plan is run.
struct Partition {
    trace: Arc<Trace>,
    filter: Filter,
    columns: Vec<usize>,
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

    fn execute(&self, _ctx: Arc<TaskContext>) -> SendableRecordBatchStream {
        let sieve = self.trace.sieve(&self.filter);
        let may_hold = self.trace.units.iter().filter(|unit| sieve.may_take(unit));
        let units: Vec<Unit> = may_hold.skip(self.number).step_by(self.of).copied().collect();
        let batches = Batches {
            trace: self.trace.clone(),
            filter: self.filter.clone(),
            args: self.columns.iter().any(|&place| tables::EVENTS[place].name == "args"),
            units: units.into_iter(),
            reader: None,
            converter: Converter::new(&self.trace.catalog, self.columns.clone()),
            made: Default::default(),
            progress: self.progress.clone(),
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::iter(batches)))
    }
}

/// Reads units one after another.
struct Batches {
    trace: Arc<Trace>,
    filter: Filter,
    args: bool,
    units: std::vec::IntoIter<Unit>,
    reader: Option<Reader>,
    converter: Converter,
    /// A unit of a foreign format may make many batches.
    made: std::collections::VecDeque<Result<RecordBatch>>,
    /// Asked because nothing yields while no unit holds an event that passes.
    progress: Arc<Progress>,
}

/// Units read under one sieve: few, because what they hold waits in memory; a foreign one may hold a whole file.
const UNITS_AT_ONCE: usize = 4;

impl Batches {
    fn read_some(&mut self) -> Result<()> {
        still_wanted(&self.progress)?;
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::new().map_err(DataFusionError::IoError)?,
        };
        let sieve = self.trace.sieve(&self.filter);
        let (made, converter, catalog) = (&mut self.made, &mut self.converter, &self.trace.catalog);
        let wanted = Wanted { args: self.args };
        for unit in self.units.by_ref().take(UNITS_AT_ONCE) {
            self.trace.read(&unit, &mut reader, wanted, &sieve, &mut |batch| {
                if !batch.is_empty() {
                    made.push_back(converter.convert(catalog, batch).map_err(DataFusionError::from));
                }
            });
        }
        self.reader = Some(reader);
        Ok(())
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
        self.made.pop_front()
    }
}
