//! `@traced` on a plain function: a callable that replaces it and adds no frame to tracebacks.
//!
//! It behaves like the function in every other way: it binds to instances, is pickled by name and shows the
//! function's signature.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};

use crate::engine;
use crate::span::{Span, note_failure};
use crate::template::Template;
use crate::value;

/// A function with a span around each call.
#[pyclass(frozen, dict, weakref, module = "dliotrace")]
pub struct Traced {
    function: Py<PyAny>,
    template: Template,
}

#[pymethods]
impl Traced {
    #[new]
    fn new(function: Py<PyAny>, span: &Bound<Span>) -> Traced {
        Traced { function, template: span.get().template().with(None) }
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let function = self.function.bind(py);
        let Some(engine) = engine::recording() else { return function.call(args, kwargs) };
        let mut running = self.template.begin(engine, py);
        let result = function.call(args, kwargs);
        if let Err(error) = &result {
            note_failure(&mut running, error.get_type(py).as_any());
        }
        running.end(&self.template, py);
        result
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static METHOD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if instance.is_none() {
            return Ok(slf.clone().into_any());
        }
        METHOD.import(slf.py(), "types", "MethodType")?.call1((slf, instance))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.getattr("__qualname__")
    }

    fn __repr__(&self, py: Python) -> PyResult<String> {
        Ok(format!("<traced {}>", value::text(&self.function.bind(py).repr()?)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)
    }
}
