//! SQL functions with results much larger than their arguments: `repeat('x', 4000000000)` is gigabytes from one row,
//! and memory that a function fills is not part of any pool. Their output size is computed first.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

/// Returns the bytes of a row's result, given the row's arguments.
type ResultSize = fn(&[ArrayRef], usize) -> Result<u128>;

/// Functions whose results can be several times as large as their arguments.
const GROWING: &[(&str, ResultSize)] = &[
    ("repeat", |args, row| Ok(size(&args[0], row)? * number(&args[1], row)?)),
    ("lpad", |args, row| Ok(CHARACTER * number(&args[1], row)?)),
    ("rpad", |args, row| Ok(CHARACTER * number(&args[1], row)?)),
    ("replace", |args, row| {
        let [text, from, to] = [0, 1, 2].map(|i| size(&args[i], row));
        Ok(text? / from?.max(1) * to?)
    }),
    ("regexp_replace", |args, row| Ok(size(&args[0], row)? * size(&args[2], row)?)),
    ("array_to_string", |args, row| Ok(size(&args[0], row)? * size(&args[1], row)?)),
    ("array_repeat", |args, row| Ok(share(&args[0]) * number(&args[1], row)?)),
    ("array_resize", |args, row| {
        let (elements, filler) = (size(&args[0], row)?.max(1), args.get(2).map_or(VALUE, share));
        Ok((share(&args[0]) / elements).max(filler).max(VALUE) * number(&args[1], row)?)
    }),
    ("range", series),
    ("generate_series", series),
];

/// Bytes of the longest character, and of a number.
const CHARACTER: u128 = 4;
const VALUE: u128 = 8;

/// Returns the bytes of a text, or the elements of a list.
fn size(column: &ArrayRef, row: usize) -> Result<u128> {
    match column.data_type() {
        DataType::Null => Ok(0),
        DataType::Utf8View => size(&cast(column, &DataType::LargeUtf8)?, row),
        _ => number(&length(&column.slice(row, 1))?, 0),
    }
}

/// Returns the average memory per row.
fn share(column: &ArrayRef) -> u128 {
    (column.get_array_memory_size() / column.len().max(1)) as u128
}

/// Returns a whole number that is not negative; 0 for everything else.
fn number(column: &ArrayRef, row: usize) -> Result<u128> {
    Ok(signed(column, row)?.unwrap_or(0).max(0) as u128)
}

fn signed(column: &ArrayRef, row: usize) -> Result<Option<i64>> {
    let column = cast(&column.slice(row, 1), &DataType::Int64)?;
    let column = column.as_any().downcast_ref::<Int64Array>().expect("cast to it");
    Ok(column.is_valid(0).then(|| column.value(0)))
}

/// `(stop)`, `(start, stop)` or `(start, stop, step)`. Timestamps, whose steps are intervals, are not checked.
fn series(args: &[ArrayRef], row: usize) -> Result<u128> {
    if !args.iter().all(|column| column.data_type().is_integer()) {
        return Ok(0);
    }
    let numbers = args.iter().map(|column| signed(column, row)).collect::<Result<Option<Vec<_>>>>()?;
    let (start, stop, step) = match numbers.as_deref() {
        Some([stop]) => (0, *stop, 1),
        Some([start, stop]) => (*start, *stop, 1),
        Some([start, stop, step]) => (*start, *stop, *step),
        _ => return Ok(0),
    };
    let backward = step < 0 && stop < start;
    let forward = step > 0 && start < stop;
    Ok(if backward || forward { VALUE * u128::from(start.abs_diff(stop) / step.unsigned_abs() + 1) } else { 0 })
}

/// Adds the check to each of these functions.
pub fn bound(context: &SessionContext, memory: u64) {
    for (name, grown) in GROWING {
        // A build without the function needs no check.
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Bounded { inner, grown: *grown, memory }));
        }
    }
}

/// A checked function. Everything except the check is delegated.
#[derive(Debug, Clone)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    grown: ResultSize,
    memory: u64,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Bounded) -> bool {
        self.inner == other.inner && self.memory == other.memory
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Bounded {
    /// Adds up the sizes of the results row by row until the limit is exceeded.
    fn ask(&self, args: &ScalarFunctionArgs) -> Result<()> {
        let scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalars { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let mut sum = 0u128;
        for row in 0..rows {
            sum = sum.saturating_add((self.grown)(&columns, row)?);
            if sum > self.memory.into() {
                let name = self.inner.name();
                return Err(DataFusionError::ResourcesExhausted(format!("{name} would need more than that")));
            }
        }
        Ok(())
    }
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.ask(&args)?;
        self.inner.inner().invoke_with_args(args)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Bounded { inner, ..self.clone() }))
    }

    /// Not delegated: a rewriting by the function could lose the check.
    fn simplify(&self, args: Vec<Expr>, _info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(args))
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
