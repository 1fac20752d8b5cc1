//! SQL over a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::bounded::bound;
use super::cancel::{CancellableJoins, LatestQuery, check_cancelled};
use super::compact_views::CompactViews;
use super::events::EventsTable;
use super::small_tables;
use super::unix_times::with_times;
use crate::filter::Filter;
use crate::findings::concluded;
use crate::findings::limits::Limits;
use crate::load::Trace;
use crate::scan::Progress;
use crate::schema::arrow_schema::schema;
use crate::schema::tables::{self, TABLES};
use crate::summary::analyse;
use crate::summary::analysis::Analysis;

/// Tables that require a count over all events; hosts only with a filter.
const COUNTED: [&str; 5] = ["files", "processes", "hosts", "waits", "jobs"];

/// The table with all numbers of logs, which is made when a query reads it.
const COUNTERS: &str = "counters";

/// The table with the numbers of the report.
const REPORT: &str = "summary";

/// Workers that read and count instead of this process.
pub trait QueryWorkers: Send + Sync {
    /// Counts all events.
    fn analyse(&self, progress: &Arc<Progress>) -> Result<Analysis>;

    /// Returns the optimizer rule that assigns parts of a plan to workers; plans keep `latest`.
    fn rule(&self, latest: &LatestQuery) -> Arc<dyn PhysicalOptimizerRule + Send + Sync>;
}

/// A trace that can be queried. Its clones share tables, settings and memory.
#[derive(Clone)]
pub struct Session {
    helpers: Option<Arc<dyn QueryWorkers>>,
    trace: Arc<Trace>,
    filter: Filter,
    threads: usize,
    context: SessionContext,
    counted: Arc<AtomicBool>,
    reported: Arc<AtomicBool>,
    /// `true` if files other than the trace may be read and written.
    files: bool,
    /// The limits of the rules of the findings, for the table summary.
    limits: Limits,
    latest: LatestQuery,
}

/// A query that is not started yet, or runs.
#[derive(Clone)]
pub struct Query {
    session: Session,
    sql: String,
    /// The progress of the count that it may need; stopping that ends the query.
    progress: Arc<Progress>,
}

impl Query {
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns its progress, if events are read for it.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Ends it with an error, on all its threads.
    pub fn cancel(&self) {
        self.progress.stopped.store(true, Ordering::Relaxed);
    }

    /// Starts it; returns its rows as they are found.
    pub async fn run(&self) -> Result<(SchemaRef, SendableRecordBatchStream)> {
        self.session.start(&self.sql, &self.progress).await
    }
}

impl Session {
    /// Creates a session whose queries share `memory` bytes and spill to disk beyond that.
    pub fn new(trace: Arc<Trace>, filter: Filter, threads: usize, memory: u64) -> Result<Session> {
        Session::helped(trace, filter, threads, memory, None)
    }

    /// Creates a session whose queries may run on workers.
    pub fn helped(
        trace: Arc<Trace>,
        filter: Filter,
        threads: usize,
        memory: u64,
        helpers: Option<Arc<dyn QueryWorkers>>,
    ) -> Result<Session> {
        // Work that one thread does alone cannot be distributed.
        let partitions = if helpers.is_some() { threads.max(2) } else { threads.min(sharing(memory)) };
        let latest = LatestQuery::default();
        let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
            vec![Arc::new(CancellableJoins(latest.clone()))];
        rules.extend(helpers.iter().map(|helpers| helpers.rule(&latest)));
        rules.push(Arc::new(CompactViews));
        let context = context(partitions, memory, None, rules)?;
        let is_shared_out = helpers.is_some();
        let events = EventsTable::new(trace.clone(), filter.clone(), partitions, latest.clone(), is_shared_out);
        context.register_table("events", Arc::new(events))?;
        let hosts = small_tables::hosts(&trace.catalog, None)?;
        context.register_batch("hosts", hosts)?;
        context.register_batch("machine", small_tables::machine(&trace)?)?;
        let (counted, reported) = Default::default();
        let session = Session {
            helpers,
            trace,
            filter,
            threads,
            context,
            counted,
            reported,
            files: false,
            limits: Limits::default(),
            latest,
        };
        session.register_empty()?;
        Ok(session)
    }

    /// Allows queries to read and write other files too.
    pub fn with_files(self, files: bool) -> Session {
        Session { files, ..self }
    }

    /// Sets the limits of the rules of the findings.
    pub fn with_limits(self, limits: Limits) -> Session {
        Session { limits, ..self }
    }

    pub fn query(&self, sql: &str) -> Query {
        Query { session: self.clone(), sql: sql.to_string(), progress: Arc::default() }
    }

    /// Registers the counted tables without rows, so that their columns are known.
    fn register_empty(&self) -> Result<()> {
        let tables = [
            ("files", tables::FILES),
            ("processes", tables::PROCESSES),
            ("waits", tables::WAITS),
            ("jobs", tables::JOBS),
            (COUNTERS, tables::COUNTERS),
            ("summary", tables::SUMMARY),
        ];
        for (name, columns) in tables {
            let table = MemTable::try_new(schema(columns), vec![vec![]])?;
            self.context.register_table(name, Arc::new(table))?;
        }
        Ok(())
    }

    /// Fills the counted tables from an existing count.
    pub fn fill(&self, analysis: &Analysis) -> Result<()> {
        let catalog = &self.trace.catalog;
        let files = small_tables::files(catalog, analysis)?;
        let processes = small_tables::processes(catalog, analysis)?;
        let waits = small_tables::waits(catalog, analysis)?;
        let jobs = small_tables::jobs(&self.trace, analysis)?;
        for (name, rows) in [("files", files), ("processes", processes), ("waits", waits), ("jobs", jobs)] {
            self.context.deregister_table(name)?;
            self.context.register_batch(name, rows)?;
        }
        self.context.deregister_table("hosts")?;
        self.context.register_batch("hosts", small_tables::hosts(&self.trace.catalog, Some(analysis))?)?;
        self.counted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Fills the table of the report, which takes more time and memory than the rest.
    fn fill_report(&self, analysis: &Analysis) -> Result<()> {
        let rows = small_tables::summary(&concluded(analysis, &self.trace, &self.limits))?;
        self.context.deregister_table(REPORT)?;
        self.context.register_batch(REPORT, rows)?;
        self.reported.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn start(&self, sql: &str, progress: &Arc<Progress>) -> Result<(SchemaRef, SendableRecordBatchStream)> {
        if let Some(table) = table_to_change(sql) {
            return Err(DataFusionError::Plan(format!(
                "{table} is a table of the trace, which is read-only; create table NAME as select ... stores rows of \
                 it under another name until dlio-analyze ends"
            )));
        }
        let mut plan = self.planned(sql).await?;
        let lower = sql.to_lowercase();
        let counts = |table: &str| lower.contains(table) && (table != "hosts" || !self.filter.is_empty());
        let lacks_counts = !self.counted.load(Ordering::Relaxed) && COUNTED.iter().any(|table| counts(table));
        let lacks_report = !self.reported.load(Ordering::Relaxed) && scans(&plan, REPORT)?;
        if lacks_counts || lacks_report {
            let analysis = match &self.helpers {
                Some(helpers) => helpers.analyse(progress)?,
                None => analyse(&self.trace, &self.filter, self.threads, progress)?,
            };
            check_cancelled(progress)?;
            self.fill(&analysis)?;
            if lacks_report {
                self.fill_report(&analysis)?;
            }
            plan = self.planned(sql).await?;
        }
        if scans(&plan, COUNTERS)? {
            self.context.deregister_table(COUNTERS)?;
            self.context.register_batch(COUNTERS, small_tables::counters(&self.trace)?)?;
            plan = self.planned(sql).await?;
        }
        self.latest.set(progress.clone());
        let frame = self.context.execute_logical_plan(plan).await?;
        let schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
        Ok((schema, frame.execute_stream().await?))
    }

    /// Returns the plan of a statement, if it is permitted.
    async fn planned(&self, sql: &str) -> Result<LogicalPlan> {
        let plan = self.context.state().create_logical_plan(sql).await?;
        plan.apply_with_subqueries(|node| self.permit(node))?;
        // Columns of other files with these names may contain anything.
        with_times(plan, &|table| !self.files || is_of_the_trace(table))
    }

    /// Permits only those parts of a statement that change nothing except tables in memory.
    fn permit(&self, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
        let refused = match node {
            LogicalPlan::Copy(_) if !self.files => "COPY writes files",
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_)) if !self.files => "an external table reads files",
            LogicalPlan::Ddl(
                DdlStatement::CreateExternalTable(_)
                | DdlStatement::CreateMemoryTable(_)
                | DdlStatement::CreateView(_)
                | DdlStatement::DropTable(_)
                | DdlStatement::DropView(_),
            ) => return Ok(TreeNodeRecursion::Continue),
            LogicalPlan::Ddl(_) => return refuse("only CREATE TABLE NAME AS and CREATE VIEW can create tables"),
            LogicalPlan::Dml(change) if is_of_the_trace(change.table_name.table()) => {
                return refuse("the trace is read-only");
            }
            LogicalPlan::Statement(Statement::SetVariable(set)) if !may_be_set(&set.variable) => {
                return refuse("use options of the command instead of SET: --memory, --threads; see --help");
            }
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Err(DataFusionError::Plan(format!("{refused}, but queries may only read the trace; --sql-files allows it")))
    }
}

/// Queries take at least this many bytes of `--memory` per row of a batch: with little memory batches have fewer rows.
const MEMORY_PER_ROW: u64 = 48 << 10;

/// Threads share the memory of a query: each has this much, or there are fewer.
const MEMORY_PER_THREAD: u64 = 64 << 20;

fn sharing(memory: u64) -> usize {
    ((memory / MEMORY_PER_THREAD) as usize).max(1)
}

/// Smaller batches cost more than their rows.
const BATCH_LEAST: usize = 256;

/// Creates the context of plans, with limits on threads and memory, and the time zone of displayed times.
pub fn context(
    threads: usize,
    memory: u64,
    time_zone: Option<String>,
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Result<SessionContext> {
    let config = SessionConfig::new().with_target_partitions(threads).with_information_schema(true);
    // A sort that spills holds a batch of each file that it merges, and its reservation to merge with: both have to
    // fit.
    let rows = config.batch_size().min((memory / MEMORY_PER_ROW) as usize).max(BATCH_LEAST);
    let mut config = config.with_batch_size(rows);
    let execution = &mut config.options_mut().execution;
    execution.sort_spill_reservation_bytes = execution.sort_spill_reservation_bytes.min(memory as usize / 64);
    execution.time_zone = time_zone;
    let pool = Arc::new(FairSpillPool::new(memory as usize));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    let state = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let state = rules.into_iter().fold(state, SessionStateBuilder::with_physical_optimizer_rule).build();
    let context = SessionContext::new_with_state(state);
    bound(&context, memory);
    Ok(context)
}

/// Returns `true` if a statement reads a table, also in a subquery.
fn scans(plan: &LogicalPlan, table: &str) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == table);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn refuse(why: &str) -> Result<TreeNodeRecursion> {
    Err(DataFusionError::Plan(why.into()))
}

fn is_of_the_trace(table: &str) -> bool {
    TABLES.iter().any(|known| known.name.eq_ignore_ascii_case(table))
}

/// Returns `true` for settings that change the format of results but not their cost.
fn may_be_set(variable: &str) -> bool {
    ["datafusion.execution.time_zone", "datafusion.explain.", "datafusion.format.", "datafusion.sql_parser."]
        .iter()
        .any(|start| variable.to_ascii_lowercase().starts_with(start))
}

/// Returns the table of a trace that a statement would change, from its first words, before later errors are found.
fn table_to_change(sql: &str) -> Option<&'static str> {
    const VERBS: [&str; 7] = ["insert", "update", "delete", "drop", "create", "alter", "truncate"];
    const ENDS: [&str; 5] = ["as", "select", "set", "values", "where"];
    let lower = sql.to_lowercase();
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let changes = words.next().is_some_and(|verb| VERBS.contains(&verb));
    let mut named = words.take_while(|word| changes && !ENDS.contains(word));
    named.find_map(|word| TABLES.iter().map(|table| table.name).find(|table| *table == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_would_change_a_trace_are_known() {
        let refused =
            ["drop table events", "INSERT INTO files VALUES (1)", "create or replace view \"hosts\" as select 1"];
        assert_eq!(refused.map(table_to_change), [Some("events"), Some("files"), Some("hosts")]);
        let allowed = ["select * from events", "create table mine as select * from events", "drop table mine", ""];
        assert!(allowed.iter().all(|sql| table_to_change(sql).is_none()));
    }
}
