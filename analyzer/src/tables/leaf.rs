//! The plan operator that reads events. It keeps its request, so that an optimizer rule can let workers read instead.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};

use crate::filter::Filter;

/// The requested part of the table `events`.
#[derive(Debug)]
pub struct ScanRequest {
    /// Indexes in [`crate::schema::tables::EVENTS`].
    pub columns: Vec<usize>,
    /// Selects blocks.
    pub filter: Filter,
    /// `true` if the events are read as stored; then `condition` selects row groups.
    pub stored: bool,
    pub condition: Option<Arc<dyn PhysicalExpr>>,
}

/// The operator.
pub struct EventsExec {
    table: StreamingTableExec,
    asked: Arc<ScanRequest>,
}

impl EventsExec {
    pub fn new(table: StreamingTableExec, asked: Arc<ScanRequest>) -> EventsExec {
        EventsExec { table, asked }
    }

    pub fn request(&self) -> &ScanRequest {
        &self.asked
    }

    /// Returns the indexes among the requested columns, if only some are returned.
    pub fn projection(&self) -> Option<Vec<usize>> {
        self.table.projection().as_ref().map(|places| places.to_vec())
    }

    /// Returns the maximum number of rows of a partition.
    pub fn limit(&self) -> Option<usize> {
        self.table.limit()
    }

    /// Returns this operator over another table plan; `None` if `plan` is not one.
    fn on(&self, plan: Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
        let table = plan.downcast_ref::<StreamingTableExec>()?.clone();
        Some(Arc::new(EventsExec { table, asked: self.asked.clone() }))
    }
}

impl Debug for EventsExec {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("EventsExec").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl DisplayAs for EventsExec {
    fn fmt_as(&self, of: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        self.table.fmt_as(of, f)
    }
}

impl ExecutionPlan for EventsExec {
    fn name(&self) -> &str {
        "EventsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.table.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => Err(DataFusionError::Internal("a leaf has no children".into())),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.table.execute(partition, context)
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        Ok(self.table.try_swapping_with_projection(projection)?.and_then(|plan| self.on(plan)))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.table.with_fetch(limit).and_then(|plan| self.on(plan))
    }

    fn fetch(&self) -> Option<usize> {
        self.table.limit()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.table.metrics()
    }
}
