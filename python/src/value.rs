//! Values of metadata, from any Python object. Conversion never fails, because a program must not fail when a value
//! of its metadata cannot be shown.

use dlio_schemas::record::{STEP_NONE, pack_steps, unpack_steps};
use dlio_tracer::span::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};

/// Returns a text; invalid UTF-8, such as a file name with stray bytes, is shown with replacement characters.
pub fn text(text: &Bound<PyString>) -> String {
    text.to_string_lossy().into_owned()
}

/// Returns `str(value)`, or the name of its type if that fails.
pub fn shown(value: &Bound<PyAny>) -> String {
    let shown = value.str().map(|shown| text(&shown));
    shown.unwrap_or_else(|_| format!("<{}>", type_name(&value.get_type())))
}

/// Returns the name of a class, without its module.
pub fn type_name(class: &Bound<PyAny>) -> String {
    let name = class.getattr("__name__").and_then(|name| Ok(text(name.cast::<PyString>()?)));
    name.unwrap_or_else(|_| "unknown".to_string())
}

fn of(value: &Bound<PyAny>) -> Value {
    if let Ok(string) = value.cast::<PyString>() {
        return Value::Text(text(string));
    }
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyInt>() {
        return value.extract().map(Value::Int).unwrap_or_else(|_| Value::Text(shown(value)));
    }
    if value.is_instance_of::<PyFloat>() {
        return value.extract().map(Value::Float).unwrap_or_else(|_| Value::Text(shown(value)));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Value::Text(String::from_utf8_lossy(bytes.as_bytes()).into_owned());
    }
    of_number_like(value)
}

/// Converts numbers of array libraries, which convert themselves, exactly or not.
fn of_number_like(value: &Bound<PyAny>) -> Value {
    let has = |name| value.get_type().hasattr(name).unwrap_or(false);
    let whole = has("__index__").then(|| value.extract().map(Value::Int).ok()).flatten();
    let real = || has("__float__").then(|| value.extract().map(Value::Float).ok()).flatten();
    whole.or_else(real).unwrap_or_else(|| Value::Text(shown(value)))
}

/// Reads keyword arguments: passes each pair to `pair`, and `epoch` and `step` to `steps`.
pub fn each(meta: Option<&Bound<PyDict>>, steps: &mut i64, mut pair: impl FnMut(String, Value)) {
    for (key, value) in meta.into_iter().flatten() {
        let value = of(&value);
        if !take_step(key.cast::<PyString>().ok().and_then(|key| key.to_str().ok()), &value, steps) {
            pair(shown(&key), value);
        }
    }
}

fn take_step(key: Option<&str>, value: &Value, steps: &mut i64) -> bool {
    let (epoch, step) = unpack_steps(*steps);
    *steps = match (key, value) {
        (Some("epoch"), Value::Int(value)) => pack_steps(narrow(*value), step),
        (Some("step"), Value::Int(value)) => pack_steps(epoch, narrow(*value)),
        _ => return false,
    };
    true
}

/// The smallest number represents "none".
pub fn narrow(value: i64) -> i32 {
    value.clamp(STEP_NONE as i64 + 1, i32::MAX as i64) as i32
}
