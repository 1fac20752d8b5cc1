//! Cancels a running query when its rows are no longer needed.
//!
//! A thread of DataFusion notices the cancellation of its query when it yields. Scans yield after some batches, but a
//! join can produce many rows from few input batches and takes no new batch in between, and one whose condition never
//! matches produces none. So joins yield too, and operators that may run long without producing a batch check for
//! cancellation.

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder};

use crate::scan::Progress;

/// The progress of the query that was planned last, which its plan keeps.
#[derive(Clone, Default)]
pub struct LatestQuery(Arc<Mutex<Arc<Progress>>>);

impl LatestQuery {
    pub fn set(&self, progress: Arc<Progress>) {
        *self.0.lock().expect("progress") = progress;
    }

    pub fn get(&self) -> Arc<Progress> {
        self.0.lock().expect("progress").clone()
    }
}

/// Returns an error if the query was cancelled.
pub fn check_cancelled(progress: &Progress) -> Result<()> {
    match progress.stopped.load(Ordering::Relaxed) {
        true => Err(DataFusionError::Execution("interrupted".into())),
        false => Ok(()),
    }
}

/// The optimizer rule that makes joins yield and check for cancellation.
pub struct CancellableJoins(pub LatestQuery);

impl fmt::Debug for CancellableJoins {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PhysicalOptimizerRule for CancellableJoins {
    fn name(&self) -> &str {
        "cancellable_joins"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let progress = self.0.get();
        let rewritten = plan.transform_up(|node| {
            if !node.name().ends_with("JoinExec") {
                return Ok(Transformed::no(node));
            }
            let join = asking(node, &progress)?;
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(join)) as Arc<dyn ExecutionPlan>))
        });
        Ok(rewritten?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the join with a condition that fails once its query is cancelled.
fn asking(join: Arc<dyn ExecutionPlan>, progress: &Arc<Progress>) -> Result<Arc<dyn ExecutionPlan>> {
    let guarded = |filter: &JoinFilter| {
        let condition = CancellableCondition { condition: filter.expression().clone(), progress: progress.clone() };
        JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone())
    };
    if let Some(nested) = join.downcast_ref::<NestedLoopJoinExec>() {
        let filter = nested.filter().map(guarded);
        return Ok(Arc::new(NestedLoopJoinExecBuilder::from(nested).with_filter(filter).build()?));
    }
    if let Some(hashed) = join.downcast_ref::<HashJoinExec>() {
        let filter = hashed.filter().map(guarded);
        return hashed.builder().with_filter(filter).build_exec();
    }
    Ok(join)
}

/// A join's condition that checks for cancellation on each evaluation.
#[derive(Clone)]
struct CancellableCondition {
    condition: Arc<dyn PhysicalExpr>,
    progress: Arc<Progress>,
}

impl PhysicalExpr for CancellableCondition {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check_cancelled(&self.progress)?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().expect("an expression with one child");
        Ok(Arc::new(CancellableCondition { condition, progress: self.progress.clone() }))
    }

    fn fmt_sql(&self, f: &mut Formatter) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl Display for CancellableCondition {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl fmt::Debug for CancellableCondition {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        fmt::Debug::fmt(&self.condition, f)
    }
}

impl PartialEq for CancellableCondition {
    fn eq(&self, other: &CancellableCondition) -> bool {
        self.condition.eq(&other.condition) && Arc::ptr_eq(&self.progress, &other.progress)
    }
}

impl Eq for CancellableCondition {}

impl Hash for CancellableCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
