//! SQL over a trace.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use dlio_schemas::tables::TABLES;

use super::events::EventsTable;
use super::facts;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analyse;
use crate::summary::model::Analysis;

/// Tables that need a count over all events before they can be asked.
const COUNTED: [&str; 2] = ["files", "processes"];

/// A trace that can be asked.
pub struct Session {
    trace: Arc<Trace>,
    filter: Filter,
    threads: usize,
    context: SessionContext,
    counted: bool,
}

impl Session {
    /// Queries share `memory` bytes and go on on disk where that is not enough.
    pub fn new(trace: Arc<Trace>, filter: Filter, threads: usize, memory: u64) -> Result<Session> {
        let config = SessionConfig::new().with_target_partitions(threads).with_information_schema(true);
        let pool = Arc::new(FairSpillPool::new(memory as usize));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        context.register_table("events", Arc::new(EventsTable::new(trace.clone(), filter.clone(), threads)))?;
        let hosts = facts::hosts(&trace.catalog)?;
        context.register_batch("hosts", hosts)?;
        let mut session = Session { trace, filter, threads, context, counted: false };
        session.register_empty()?;
        Ok(session)
    }

    /// The counted tables without rows, so that their columns are known.
    fn register_empty(&mut self) -> Result<()> {
        for (name, columns) in [("files", dlio_schemas::tables::FILES), ("processes", dlio_schemas::tables::PROCESSES)]
        {
            let table = MemTable::try_new(super::columns::schema(columns), vec![vec![]])?;
            self.context.register_table(name, Arc::new(table))?;
        }
        Ok(())
    }

    /// Fills the counted tables from a count that was made already.
    pub fn fill(&mut self, analysis: &Analysis) -> Result<()> {
        let files = facts::files(&self.trace.catalog, analysis)?;
        let processes = facts::processes(&self.trace.catalog, analysis)?;
        for (name, rows) in [("files", files), ("processes", processes)] {
            self.context.deregister_table(name)?;
            self.context.register_batch(name, rows)?;
        }
        self.context.deregister_table("hosts")?;
        self.context.register_batch("hosts", facts::hosts(&self.trace.catalog)?)?;
        self.counted = true;
        Ok(())
    }

    /// Starts a query; its rows come as they are found.
    pub async fn run(&mut self, sql: &str) -> Result<(SchemaRef, SendableRecordBatchStream)> {
        if let Some(table) = table_to_change(sql) {
            return Err(DataFusionError::Plan(format!(
                "{table} is a table of the trace, and a trace is only read; create table NAME as select ... keeps rows of \
                 it under another name until the end"
            )));
        }
        let lower = sql.to_lowercase();
        if !self.counted && COUNTED.iter().any(|table| lower.contains(table)) {
            let analysis = analyse(&self.trace, &self.filter, self.threads, &Progress::default())?;
            self.fill(&analysis)?;
        }
        let frame = self.context.sql(sql).await?;
        let schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
        Ok((schema, frame.execute_stream().await?))
    }
}

/// The table of a trace that a statement would change. Known from its first words, before what follows can be wrong too.
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
