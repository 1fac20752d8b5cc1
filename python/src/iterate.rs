//! `for batch in traced_iter(loader, "fetch")`: a span around the creation of each item.
//!
//! Items are counted in `step`, unless the span defines its own. The last attempt, which finds no further item, also
//! takes time, often much of it; its span is called `fetch.end`.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use dlio_schemas::record::{STEP_NONE, pack_steps, unpack_steps};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::engine;
use crate::span::{Span, note_failure};
use crate::template::Template;
use crate::value;

/// An iterator with a span around each item.
#[pyclass(frozen, module = "dliotrace")]
pub struct TracedIterator {
    iterable: Py<PyAny>,
    iterator: Py<PyIterator>,
    template: Template,
    ended: Template,
    made: AtomicI64,
}

impl TracedIterator {
    fn steps(&self) -> i64 {
        let (epoch, step) = unpack_steps(self.template.steps());
        let made = self.made.fetch_add(1, Relaxed);
        pack_steps(epoch, if step == STEP_NONE { value::narrow(made) } else { step })
    }
}

#[pymethods]
impl TracedIterator {
    #[new]
    fn new(iterable: &Bound<PyAny>, span: &Bound<Span>) -> PyResult<TracedIterator> {
        let iterator = iterable.try_iter()?.unbind();
        let template = span.get().template().with(None);
        let ended = template.ended();
        Ok(TracedIterator { iterable: iterable.clone().unbind(), iterator, template, ended, made: AtomicI64::new(0) })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<PyResult<Bound<'py, PyAny>>> {
        let mut iterator = self.iterator.bind(py).clone();
        let steps = self.steps();
        let Some(engine) = engine::recording() else { return iterator.next() };
        let mut running = self.template.begin_at(engine, steps, py);
        let item = iterator.next();
        match &item {
            None => running.rename(self.ended.site(), py),
            Some(Err(error)) => note_failure(&mut running, error.get_type(py).as_any()),
            Some(Ok(_)) => {}
        }
        running.end(&self.template, py);
        item
    }

    /// Used by progress bars.
    fn __len__(&self, py: Python) -> PyResult<usize> {
        self.iterable.bind(py).len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.iterable)?;
        visit.call(&self.iterator)
    }
}
