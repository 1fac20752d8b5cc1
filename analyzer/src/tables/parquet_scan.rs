//! The table `events` where it is stored as a table: the files of a folder of our own Parquet.
//!
//! DataFusion reads them itself, the columns and row groups that a query needs, in place of a catalogue of names being made
//! of all columns first.

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

use super::cancel::still_wanted;
use super::leaf::Asked;
use crate::scan::Progress;
use crate::schema::tables;

/// What a query wants of the table.
pub struct Ask<'a> {
    pub asked: &'a Asked,
    pub limit: Option<usize>,
    pub threads: usize,
    pub progress: Arc<Progress>,
}

/// True if the columns can be taken as they are stored. Numbers of files are those of the table `files`, which is made anew.
pub fn has(columns: &[usize]) -> bool {
    columns.iter().all(|&place| tables::EVENTS[place].name != "file_id")
}

/// The condition by which row groups are left out.
pub fn condition(filters: &[Expr], schema: &SchemaRef, state: &dyn Session) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(condition) = conjunction(filters.to_vec()) else { return Ok(None) };
    let columns = DFSchema::try_from(schema.as_ref().clone())?;
    state.create_physical_expr(condition, &columns).map(Some)
}

/// The rows of all files, of which there are some. The condition leaves out row groups; DataFusion still checks every row.
pub fn scan(
    files: &[PathBuf],
    schema: &SchemaRef,
    ask: Ask,
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
        Arc::new(Asking { plan, schema, number, progress }) as Arc<dyn PartitionStream>
    };
    Ok((0..plan.output_partitioning().partition_count()).map(partition).collect())
}

/// A part of the rows, which asks before each batch whether it is still wanted.
struct Asking {
    plan: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    number: usize,
    progress: Arc<Progress>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part {} of stored events", self.number)
    }
}

impl PartitionStream for Asking {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let progress = self.progress.clone();
        let asked = move |rows: Result<RecordBatch>| {
            still_wanted(&progress)?;
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
