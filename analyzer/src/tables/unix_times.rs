//! Lets queries use the columns of times as timestamps.
//!
//! `ts`, `start_ts` and similar columns are integers: nanoseconds since the Unix epoch. DataFusion treats an integer in
//! `ts::timestamp` and `to_timestamp(ts)` as seconds, and does not compare it with `'2026-11-23'`. [`with_times`]
//! rewrites these expressions in a plan. Times are in UTC.

use std::collections::HashSet;

use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Between, BinaryExpr, Cast, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, lit};

/// The columns with nanoseconds since the Unix epoch.
const TIMES: [&str; 5] = ["ts", "start_ts", "end_ts", "first_ts", "last_ts"];

/// Functions whose result is one of their arguments.
const CHOOSING: [&str; 12] = [
    "min",
    "max",
    "first_value",
    "last_value",
    "nth_value",
    "median",
    "lag",
    "lead",
    "coalesce",
    "greatest",
    "least",
    "nullif",
];

/// Comparisons.
const COMPARISONS: [Operator; 8] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
];

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Rewrites a plan so that times of the tables for which `is_ours` holds can be converted to timestamps and compared
/// with dates.
pub fn with_times(plan: LogicalPlan, is_ours: &dyn Fn(&str) -> bool) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let inputs = node.inputs();
        let times = Times(inputs.iter().flat_map(|input| times_of(input, is_ours).0).collect());
        if times.0.is_empty() {
            return Ok(Transformed::no(node));
        }
        let mut schema = DFSchema::empty();
        inputs.iter().for_each(|input| schema.merge(input.schema()));
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_down(|expr| times.rewritten(expr, &schema))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })?;
    Ok(rewritten.data)
}

/// The full names of columns with nanoseconds since the Unix epoch.
struct Times(HashSet<String>);

/// Returns the times among the columns of a plan's output.
fn times_of(plan: &LogicalPlan, is_ours: &dyn Fn(&str) -> bool) -> Times {
    let columns = plan.schema().columns();
    let inputs = || Times(plan.inputs().iter().flat_map(|input| times_of(input, is_ours).0).collect());
    let chosen = |is_time: &dyn Fn(usize) -> bool| {
        let times = columns.iter().enumerate().filter(|(at, _)| is_time(*at));
        Times(times.map(|(_, column)| column.flat_name()).collect())
    };
    let from = |exprs: Vec<&Expr>| {
        let times = inputs();
        chosen(&|at| exprs.len() == columns.len() && times.has(exprs[at]))
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let is_time = |at: usize| {
                TIMES.contains(&columns[at].name.as_str()) && *plan.schema().field(at).data_type() == DataType::Int64
            };
            chosen(&|at| is_ours(scan.table_name.table()) && is_time(at))
        }
        LogicalPlan::Projection(projection) => from(projection.expr.iter().collect()),
        LogicalPlan::Aggregate(groups) => from(groups.group_expr.iter().chain(&groups.aggr_expr).collect()),
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) => {
            let input = plan.inputs()[0];
            let (times, below) = (times_of(input, is_ours), input.schema().columns());
            chosen(&|at| below.get(at).is_some_and(|column| times.0.contains(&column.flat_name())))
        }
        LogicalPlan::Window(window) => {
            let times = inputs();
            let first = columns.len() - window.window_expr.len();
            chosen(&|at| match at.checked_sub(first) {
                Some(at) => times.has(&window.window_expr[at]),
                None => times.0.contains(&columns[at].flat_name()),
            })
        }
        _ => {
            let times = inputs();
            chosen(&|at| times.0.contains(&columns[at].flat_name()))
        }
    }
}

impl Times {
    /// Returns `true` if the value is a number of nanoseconds since the Unix epoch.
    fn has(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Column(column) => self.0.contains(&column.flat_name()),
            Expr::OuterReferenceColumn(_, column) => TIMES.contains(&column.name.as_str()),
            Expr::Alias(alias) => self.has(&alias.expr),
            Expr::Cast(cast) => *cast.field.data_type() == DataType::Int64 && self.has(&cast.expr),
            Expr::AggregateFunction(call) => {
                CHOOSING.contains(&call.func.name()) && call.params.args.first().is_some_and(|arg| self.has(arg))
            }
            Expr::WindowFunction(call) => {
                CHOOSING.contains(&call.fun.name()) && call.params.args.first().is_some_and(|arg| self.has(arg))
            }
            Expr::ScalarFunction(call) => CHOOSING.contains(&call.name()) && call.args.iter().any(|arg| self.has(arg)),
            // The sum of a time and a duration is a time. The difference of two times is a duration.
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => self.has(left) != self.has(right),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => self.has(left) && !self.has(right),
            Expr::ScalarSubquery(query) => {
                // The tables of a subquery have the same column names as those of the outer query.
                let times = times_of(&query.subquery, &|_| true);
                query.subquery.schema().columns().first().is_some_and(|column| times.0.contains(&column.flat_name()))
            }
            _ => false,
        }
    }

    /// Rewrites one expression if it uses a time as a timestamp.
    fn rewritten(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::Cast(cast) if cast.field.data_type().is_temporal() => Ok(self.cast(cast)),
            Expr::ScalarFunction(call) if call.args.len() == 1 && self.has(&call.args[0]) => match call.name() {
                "to_timestamp" => Ok(Transformed::yes(timestamp(call.args[0].clone()))),
                "from_unixtime" => {
                    let seconds = DataType::Timestamp(TimeUnit::Second, None);
                    Ok(Transformed::yes(cast_to(timestamp(call.args[0].clone()), seconds)))
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
            },
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if COMPARISONS.contains(&op) => {
                let (is_left, is_right) = (self.has(&left), self.has(&right));
                let (left, right) = match (is_left, is_right) {
                    (true, false) => (*left, nanoseconds(*right, schema)?),
                    (false, true) => (nanoseconds(*left, schema)?, *right),
                    _ => (*left, *right),
                };
                let compared = BinaryExpr { left: left.into(), op, right: right.into() };
                Ok(Transformed::new(Expr::BinaryExpr(compared), is_left != is_right, TreeNodeRecursion::Continue))
            }
            Expr::Between(Between { expr, negated, low, high }) if self.has(&expr) => {
                let (low, high) = (nanoseconds(*low, schema)?, nanoseconds(*high, schema)?);
                Ok(Transformed::yes(Expr::Between(Between { expr, negated, low: low.into(), high: high.into() })))
            }
            Expr::InList(InList { expr, list, negated }) if self.has(&expr) => {
                let list = list.into_iter().map(|one| nanoseconds(one, schema)).collect::<Result<_>>()?;
                Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    /// Rewrites a cast to a timestamp or date. The planner has wrapped a cast to seconds in one to nanoseconds.
    fn cast(&self, cast: Cast) -> Transformed<Expr> {
        let kind = cast.field.data_type().clone();
        let is_nanoseconds = matches!(kind, DataType::Timestamp(TimeUnit::Nanosecond, _));
        let inner = match &*cast.expr {
            Expr::Cast(seconds)
                if is_nanoseconds
                    && matches!(seconds.field.data_type(), DataType::Timestamp(TimeUnit::Second, _))
                    && self.has(&seconds.expr) =>
            {
                &seconds.expr
            }
            inner if !is_nanoseconds && self.has(inner) => {
                return Transformed::yes(cast_to(timestamp(inner.clone()), kind));
            }
            _ => return Transformed::no(Expr::Cast(cast)),
        };
        Transformed::yes(cast_to((**inner).clone(), kind))
    }
}

fn cast_to(expr: Expr, kind: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), kind))
}

/// Returns the timestamp of nanoseconds.
fn timestamp(expr: Expr) -> Expr {
    cast_to(expr, TIMESTAMP)
}

/// Returns the nanoseconds of a date, a timestamp or a string that contains one. Rejects other strings; other
/// expressions are unchanged.
fn nanoseconds(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    if let Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) = &expr {
        let text = text.trim();
        if text.parse::<i64>().is_ok() {
            return Ok(expr);
        }
        return string_to_timestamp_nanos(text).map(lit).map_err(|_| {
            DataFusionError::Plan(format!(
                "cannot compare a time with '{text}': expected a date such as '2026-11-23' or '2026-11-23 10:00:00' \
                 (UTC), or nanoseconds since the Unix epoch"
            ))
        });
    }
    match expr.get_type(schema) {
        Ok(DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) => {
            Ok(cast_to(timestamp(expr), DataType::Int64))
        }
        _ => Ok(expr),
    }
}
