//! Ending a query that runs, for whoever does not want its rows any more.
//!
//! A thread of DataFusion hears that its query was given up when it yields. Scans yield after some batches, but a join makes
//! many rows of few and takes no new batch meanwhile, and one whose condition holds nowhere makes none either. So joins
//! yield too, and what may take long without making a batch asks.

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

/// Of the query that was planned last: plans take it with them.
#[derive(Clone, Default)]
pub struct Latest(Arc<Mutex<Arc<Progress>>>);

impl Latest {
    pub fn set(&self, progress: Arc<Progress>) {
        *self.0.lock().expect("progress") = progress;
    }

    pub fn get(&self) -> Arc<Progress> {
        self.0.lock().expect("progress").clone()
    }
}

/// An error where the query was cancelled.
pub fn still_wanted(progress: &Progress) -> Result<()> {
    match progress.stopped.load(Ordering::Relaxed) {
        true => Err(DataFusionError::Execution("interrupted".into())),
        false => Ok(()),
    }
}

/// The rule by which joins yield and ask.
pub struct CancellableJoins(pub Latest);

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

/// The join with a condition that fails once its query is cancelled.
fn asking(join: Arc<dyn ExecutionPlan>, progress: &Arc<Progress>) -> Result<Arc<dyn ExecutionPlan>> {
    let guarded = |filter: &JoinFilter| {
        let condition = Guarded { condition: filter.expression().clone(), progress: progress.clone() };
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

/// A join's condition that asks, each time it is evaluated, whether its result is still wanted.
#[derive(Clone)]
struct Guarded {
    condition: Arc<dyn PhysicalExpr>,
    progress: Arc<Progress>,
}

impl PhysicalExpr for Guarded {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        still_wanted(&self.progress)?;
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let condition = children.pop().expect("an expression with one child");
        Ok(Arc::new(Guarded { condition, progress: self.progress.clone() }))
    }

    fn fmt_sql(&self, f: &mut Formatter) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl Display for Guarded {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        fmt::Debug::fmt(&self.condition, f)
    }
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Guarded) -> bool {
        self.condition.eq(&other.condition) && Arc::ptr_eq(&self.progress, &other.progress)
    }
}

impl Eq for Guarded {}

impl Hash for Guarded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
