//! Reads values of a report by path; a section or field may be missing.

use serde_json::Value;

/// Returns the value at a path such as `time.total_ns`.
pub fn at<'a>(values: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(values, |value, name| value.get(name)).filter(|value| !value.is_null())
}

pub fn number(values: &Value, path: &str) -> Option<f64> {
    at(values, path)?.as_f64()
}

/// Returns an integer.
pub fn exact(values: &Value, path: &str) -> Option<i64> {
    at(values, path)?.as_i64()
}

pub fn text<'a>(values: &'a Value, path: &str) -> Option<&'a str> {
    at(values, path)?.as_str()
}

/// Returns a list, or an empty one if it is missing.
pub fn list<'a>(values: &'a Value, path: &str) -> &'a [Value] {
    at(values, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a list of numbers.
pub fn numbers(values: &Value, path: &str) -> Option<Vec<f64>> {
    at(values, path)?.as_array()?.iter().map(Value::as_f64).collect()
}

/// Sums a field over a list; `None` if an element lacks it or the list is empty.
pub fn sum(list: &[Value], field: &str) -> Option<f64> {
    let sum: Option<f64> = list.iter().map(|row| number(row, field)).sum();
    sum.filter(|_| !list.is_empty())
}
