//! The table `events` if it is stored as a table: the files of a directory of this program's own Parquet.
//!
//! DataFusion reads them itself, only the columns and row groups that a query needs, instead of building a catalog of
//! names from all columns first.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;

use super::cancel::check_cancelled;
use super::leaf::ScanRequest;
use crate::scan::Progress;
use crate::schema::tables;

/// The part of the table that a query needs.
pub struct ParquetScan<'a> {
    pub asked: &'a ScanRequest,
    pub limit: Option<usize>,
    pub threads: usize,
    pub progress: Arc<Progress>,
}

/// Returns `true` if the columns can be used as stored. File numbers refer to the table `files`, which is created
/// again.
pub fn has(columns: &[usize]) -> bool {
    columns.iter().all(|&place| tables::EVENTS[place].name != "file_id")
}

/// Returns the condition by which row groups are skipped.
pub fn condition(filters: &[Expr], schema: &SchemaRef, state: &dyn Session) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(condition) = conjunction(filters.to_vec()) else { return Ok(None) };
    let columns = DFSchema::try_from(schema.as_ref().clone())?;
    state.create_physical_expr(condition, &columns).map(Some)
}

/// Returns the rows of all files; there is at least one. The condition skips row groups; DataFusion still checks every
/// row.
pub fn scan(
    files: &[PathBuf],
    schema: &SchemaRef,
    ask: ParquetScan,
    options: &ConfigOptions,
) -> Result<Vec<Arc<dyn PartitionStream>>> {
    let mut source = ParquetSource::new(schema.clone());
    if let Some(condition) = &ask.asked.condition {
        source = source.with_predicate(condition.clone());
    }
    let group = |path: &PathBuf| {
        let path = path.canonicalize().map_err(DataFusionError::IoError)?;
        Ok(FileGroup::new(vec![PartitionedFile::from_path(path.to_string_lossy().into_owned())?]))
    };
    let groups = files.iter().map(group).collect::<Result<Vec<_>>>()?;
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
        .with_file_groups(groups)
        .with_projection_indices(Some(ask.asked.columns.clone()))?
        .with_limit(ask.limit)
        .build();
    let whole: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
    let plan = whole.repartitioned(ask.threads, options)?.unwrap_or(whole);
    let partition = |number| {
        let (plan, schema, progress) = (plan.clone(), plan.schema(), ask.progress.clone());
        Arc::new(CancellablePartition { plan, schema, number, progress }) as Arc<dyn PartitionStream>
    };
    Ok((0..plan.output_partitioning().partition_count()).map(partition).collect())
}

/// A partition that checks for cancellation before each batch.
struct CancellablePartition {
    plan: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    number: usize,
    progress: Arc<Progress>,
}

impl std::fmt::Debug for CancellablePartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {} of stored events", self.number)
    }
}

impl PartitionStream for CancellablePartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let progress = self.progress.clone();
        let asked = move |rows: Result<RecordBatch>| {
            check_cancelled(&progress)?;
            if let Ok(rows) = &rows {
                progress.events.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
            }
            rows
        };
        match self.plan.execute(self.number, context) {
            Ok(rows) => Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows.map(asked))),
            Err(error) => {
                let failed = futures::stream::once(std::future::ready(Err(error)));
                Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), failed))
            }
        }
    }
}
