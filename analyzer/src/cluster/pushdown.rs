//! Finds the part of a plan that workers can run: the largest one above the events in which every operator works on
//! each partition separately.
//!
//! Every reading process numbers files differently, and also processes that are discovered while reading. Operators
//! that only pass such numbers on can run on workers, and the coordinator translates the numbers in their rows;
//! operators that inspect the numbers cannot.

use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use serde::{Deserialize, Serialize};

use crate::schema::tables;
use crate::tables::leaf::EventsExec;

/// The kind of number in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Number {
    File,
    Process,
}

/// Operators that neither change nor inspect their rows.
const PASSING: [&str; 3] = ["CoalesceBatchesExec", "CooperativeExec", "LocalLimitExec"];

/// Returns which columns contain numbers in a part of a plan that workers can run; `None` if they cannot run it.
/// `processes` means that processes are discovered while reading.
pub fn columns(plan: &Arc<dyn ExecutionPlan>, processes: bool) -> Option<Vec<Option<Number>>> {
    if let Some(leaf) = plan.downcast_ref::<EventsExec>() {
        return Some(columns_of_leaf(leaf, processes));
    }
    let children = plan.children();
    let [input] = children.as_slice() else { return None };
    let below = InputColumns(columns(input, processes)?);
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        below.ignored_by([filter.predicate()])?;
        return Some(match filter.projection() {
            Some(places) => places.iter().map(|&place| below.0[place]).collect(),
            None => below.0,
        });
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().map(|column| below.of(&column.expr)).collect();
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return columns_of_aggregate(aggregate, &below);
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        below.ignored_by(sort.expr().iter().map(|by| &by.expr))?;
        return (sort.fetch().is_some() && sort.preserve_partitioning()).then_some(below.0);
    }
    PASSING.contains(&plan.name()).then_some(below.0)
}

/// Returns `true` if an operator must run again on the results of workers: limits take the first rows of the first rows
/// of each part.
pub fn is_done_twice(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<SortExec>().is_some()
}

fn columns_of_leaf(leaf: &EventsExec, processes: bool) -> Vec<Option<Number>> {
    let number = |place: &usize| match tables::EVENTS[*place].name {
        "file_id" => Some(Number::File),
        "proc" if processes => Some(Number::Process),
        _ => None,
    };
    let columns: Vec<_> = leaf.request().columns.iter().map(number).collect();
    match leaf.projection() {
        Some(places) => places.into_iter().map(|place| columns[place]).collect(),
        None => columns,
    }
}

/// Groups precede the aggregates of each group.
fn columns_of_aggregate(aggregate: &AggregateExec, below: &InputColumns) -> Option<Vec<Option<Number>>> {
    if *aggregate.mode() != AggregateMode::Partial {
        return None;
    }
    for function in aggregate.aggr_expr() {
        below.ignored_by(function.expressions().iter())?;
        below.ignored_by(function.order_bys().iter().map(|by| &by.expr))?;
    }
    below.ignored_by(aggregate.filter_expr().iter().flatten())?;
    let by = aggregate.group_expr();
    if !by.is_single() {
        below.ignored_by(by.expr().iter().map(|(expression, _)| expression))?;
        return Some(vec![None; aggregate.schema().fields().len()]);
    }
    let mut columns = by.expr().iter().map(|(expression, _)| below.of(expression)).collect::<Option<Vec<_>>>()?;
    columns.resize(aggregate.schema().fields().len(), None);
    Some(columns)
}

/// The columns of an operator's input.
struct InputColumns(Vec<Option<Number>>);

impl InputColumns {
    /// Returns the number in a column computed by an expression; `None` if the expression inspects numbers.
    fn of(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<Option<Number>> {
        match expression.downcast_ref::<Column>() {
            Some(column) => Some(self.0[column.index()]),
            None => self.ignored_by([expression]).map(|()| None),
        }
    }

    /// Returns `None` if one of these inspects numbers.
    fn ignored_by<'e>(&self, expressions: impl IntoIterator<Item = &'e Arc<dyn PhysicalExpr>>) -> Option<()> {
        let is_number = |column: &Column| self.0[column.index()].is_some();
        let looks = |expression: &Arc<dyn PhysicalExpr>| collect_columns(expression).iter().any(is_number);
        (!expressions.into_iter().any(looks)).then_some(())
    }
}
