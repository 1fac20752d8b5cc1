//! Frees the strings that a sorted batch no longer uses.
//!
//! A batch merged from several sorted files refers to the string buffers of all of them, for a few rows of each. The
//! merge of threads that follows counts these buffers for every batch that it holds, and finds no memory although its
//! rows need little. So sorted batches are first copied to new buffers, if their buffers are mostly unused.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::StreamExt;

/// Buffers are copied if their used part is smaller than one of this many parts.
const PARTS: usize = 2;

/// The optimizer rule that puts the operator below merges of threads.
#[derive(Debug)]
pub struct CompactViews;

impl PhysicalOptimizerRule for CompactViews {
    fn name(&self) -> &str {
        "compact_views"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else { return Ok(Transformed::no(node)) };
            let input = merge.input().clone();
            let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            if !input.schema().fields().iter().any(|field| *field.data_type() == DataType::Utf8View) {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(node.replace_children(vec![Arc::new(CompactViewsExec { input })], keep)?))
        });
        Ok(rewritten?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The operator: its rows are those of its input.
#[derive(Debug)]
struct CompactViewsExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for CompactViewsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        f.write_str("CompactViewsExec")
    }
}

impl ExecutionPlan for CompactViewsExec {
    fn name(&self) -> &str {
        "CompactViewsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(CompactViewsExec { input })),
            _ => Err(DataFusionError::Internal("expected one child".into())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, context)?.map(|batch| compacted(batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Returns the batch with string buffers that contain little else than its strings.
fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    let columns: Vec<ArrayRef> = batch.columns().iter().map(compact).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

fn compact(column: &ArrayRef) -> ArrayRef {
    let Some(views) = column.as_string_view_opt() else { return column.clone() };
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    if PARTS * views.total_buffer_bytes_used() < held { Arc::new(views.gc()) } else { column.clone() }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn unused_strings_are_freed() {
        let long = |number: usize| format!("/data/a/long/directory/file-{number:06}.npz");
        let all: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..1000).map(long)));
        let few = all.slice(990, 10);
        let compact_few = compact(&few);
        assert_eq!(&compact_few, &few);
        assert!(compact_few.get_array_memory_size() * 20 < few.get_array_memory_size());
        assert_eq!(compact(&all).get_array_memory_size(), all.get_array_memory_size());
    }
}
