//! Rows as Python objects, for programs without an Arrow library.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Fields, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

type Values<'py> = PyResult<Vec<Bound<'py, PyAny>>>;

/// Returns the rows of a batch as dicts.
pub fn rows<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Vec<Bound<'py, PyDict>>> {
    dicts(py, batch.schema().fields(), batch.columns(), batch.num_rows())
}

fn dicts<'py>(
    py: Python<'py>,
    fields: &Fields,
    columns: &[ArrayRef],
    rows: usize,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let rows: Vec<_> = (0..rows).map(|_| PyDict::new(py)).collect();
    for (field, column) in fields.iter().zip(columns) {
        let name = PyString::intern(py, field.name());
        for (row, value) in rows.iter().zip(values(py, column)?) {
            row.set_item(&name, value)?;
        }
    }
    Ok(rows)
}

/// Converts a column. Times are integers in their unit: Python's own have no nanoseconds.
fn values<'py>(py: Python<'py>, column: &ArrayRef) -> Values<'py> {
    match column.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); column.len()]),
        DataType::Boolean => each(py, column.as_boolean().iter()),
        DataType::Int8 => numbers::<Int8Type>(py, column),
        DataType::Int16 => numbers::<Int16Type>(py, column),
        DataType::Int32 => numbers::<Int32Type>(py, column),
        DataType::Int64 => numbers::<Int64Type>(py, column),
        DataType::UInt8 => numbers::<UInt8Type>(py, column),
        DataType::UInt16 => numbers::<UInt16Type>(py, column),
        DataType::UInt32 => numbers::<UInt32Type>(py, column),
        DataType::UInt64 => numbers::<UInt64Type>(py, column),
        DataType::Float16 => each(py, column.as_primitive::<Float16Type>().iter().map(|half| half.map(f32::from))),
        DataType::Float32 => numbers::<Float32Type>(py, column),
        DataType::Float64 => numbers::<Float64Type>(py, column),
        DataType::Date32 => numbers::<Date32Type>(py, column),
        DataType::Date64 => numbers::<Date64Type>(py, column),
        DataType::Timestamp(TimeUnit::Second, _) => numbers::<TimestampSecondType>(py, column),
        DataType::Timestamp(TimeUnit::Millisecond, _) => numbers::<TimestampMillisecondType>(py, column),
        DataType::Timestamp(TimeUnit::Microsecond, _) => numbers::<TimestampMicrosecondType>(py, column),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => numbers::<TimestampNanosecondType>(py, column),
        DataType::Duration(TimeUnit::Second) => numbers::<DurationSecondType>(py, column),
        DataType::Duration(TimeUnit::Millisecond) => numbers::<DurationMillisecondType>(py, column),
        DataType::Duration(TimeUnit::Microsecond) => numbers::<DurationMicrosecondType>(py, column),
        DataType::Duration(TimeUnit::Nanosecond) => numbers::<DurationNanosecondType>(py, column),
        DataType::Utf8 => each(py, column.as_string::<i32>().iter()),
        DataType::LargeUtf8 => each(py, column.as_string::<i64>().iter()),
        DataType::Utf8View => each(py, column.as_string_view().iter()),
        DataType::Map(..) => maps(py, column),
        DataType::List(_) => lists(py, column, column.as_list::<i32>().iter()),
        DataType::LargeList(_) => lists(py, column, column.as_list::<i64>().iter()),
        DataType::Struct(_) => structs(py, column),
        other => Err(PyTypeError::new_err(format!(
            "cannot convert a column of the type {other} to Python objects: cast it in the query, as in \
             cast(column as double), or read the rows with Polars, PyArrow or DuckDB"
        ))),
    }
}

fn each<'py, T>(py: Python<'py>, column: impl Iterator<Item = Option<T>>) -> Values<'py>
where
    Option<T>: IntoPyObject<'py, Target = PyAny, Output = Bound<'py, PyAny>, Error: Into<PyErr>>,
{
    column.map(|value| value.into_pyobject(py).map_err(Into::into)).collect()
}

fn numbers<'py, T: ArrowPrimitiveType>(py: Python<'py>, column: &ArrayRef) -> Values<'py>
where
    Option<T::Native>: IntoPyObject<'py, Target = PyAny, Output = Bound<'py, PyAny>, Error: Into<PyErr>>,
{
    each(py, column.as_primitive::<T>().iter())
}

fn maps<'py>(py: Python<'py>, column: &ArrayRef) -> Values<'py> {
    let maps = column.as_map();
    let (keys, entries) = (values(py, maps.keys())?, values(py, maps.values())?);
    let map = |row: usize| {
        let map = PyDict::new(py);
        for at in maps.value_offsets()[row] as usize..maps.value_offsets()[row + 1] as usize {
            map.set_item(&keys[at], &entries[at])?;
        }
        Ok(map.into_any())
    };
    (0..maps.len()).map(|row| if maps.is_null(row) { Ok(py.None().into_bound(py)) } else { map(row) }).collect()
}

fn lists<'py>(py: Python<'py>, column: &ArrayRef, lists: impl Iterator<Item = Option<ArrayRef>>) -> Values<'py> {
    let mut converted = Vec::with_capacity(column.len());
    for list in lists {
        converted.push(match list {
            Some(list) => PyList::new(py, values(py, &list)?)?.into_any(),
            None => py.None().into_bound(py),
        });
    }
    Ok(converted)
}

fn structs<'py>(py: Python<'py>, column: &ArrayRef) -> Values<'py> {
    let structs = column.as_struct();
    let rows = dicts(py, structs.fields(), structs.columns(), structs.len())?;
    let row = |(at, row): (usize, Bound<'py, PyDict>)| {
        if structs.is_null(at) { py.None().into_bound(py) } else { row.into_any() }
    };
    Ok(rows.into_iter().enumerate().map(row).collect())
}
