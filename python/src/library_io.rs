//! I/O of libraries without file calls: requests to object stores, recorded when they have ended.

use dlio_schemas::ops::{Layer, Op};
use dlio_tracer::app::NO_STEPS;
use dlio_tracer::io::{self, Io};
use dlio_tracer::span::Value;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::value;

/// Returns a timestamp for the start or end of I/O; 0 while nothing is recorded.
#[pyfunction]
pub fn now() -> u64 {
    io::now()
}

/// Records I/O on the object of a URL, from `start` to `end`, which are times of `now()`; without `end`, it ends now.
/// I/O that started at 0 is ignored. `operation` is get, put, part, head, list, delete, copy, begin, complete, abort
/// or connect; any other word is recorded as other.
#[pyfunction]
#[pyo3(signature = (operation, url, /, start, *, end = 0, pos = None, requested = 0, moved = 0, errno = 0, **args))]
#[allow(clippy::too_many_arguments, reason = "all of them are one event's")]
pub fn io_done(
    operation: &Bound<PyString>,
    url: &Bound<PyString>,
    start: u64,
    end: u64,
    pos: Option<u64>,
    requested: u64,
    moved: u64,
    errno: i32,
    args: Option<&Bound<PyDict>>,
) {
    if start == 0 {
        return;
    }
    let (operation, url) = (value::text(operation), value::text(url));
    let known = Op::from_name(&format!("object.{operation}")).filter(|op| is_of_objects(*op));
    let mut pairs = Vec::new();
    value::each(args, &mut { NO_STEPS }, |key, value| pairs.push((key, value)));
    let pairs: Vec<(&str, Value)> = pairs.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let begun = Io::new(known.unwrap_or(Op::OBJECT_OTHER), &url, start);
    let end = if end == 0 { begun.end } else { end };
    Io { pos, requested, moved, errno, end, ..begun }.done(&pairs);
}

fn is_of_objects(op: Op) -> bool {
    op.info().is_some_and(|info| info.layer == Layer::Object)
}
