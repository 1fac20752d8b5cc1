//! State that spans of PyTorch check on every batch: the span of a module, whether the forward was seen, the size of
//! a file.

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::loader;
use crate::phase::Phase;

/// Loaders that prefetch deliver a batch or two between a forward and its backward.
const AHEAD: u64 = 2;

/// Number of batches that had been delivered when a model last ran, plus one; zero before that.
static LAST_FORWARD: AtomicU64 = AtomicU64::new(0);

/// Returns `true` if a model ran for the current batch.
#[pyfunction]
pub fn forward_was_seen() -> bool {
    let last = LAST_FORWARD.load(Relaxed);
    last > 0 && loader::delivered() + 1 - last <= AHEAD
}

/// Spans of modules: one per class, created at its first call.
#[pyclass(frozen, module = "dliotrace")]
pub struct Forwards {
    models: Py<PyDict>,
    functions: Py<PyDict>,
    /// A function that creates the span of a class, given whether it has parameters.
    make: Py<PyAny>,
    /// Phases in which a module's call is part of another one.
    within: Phase,
}

#[pymethods]
impl Forwards {
    #[new]
    fn new(py: Python, make: Py<PyAny>, within: u8) -> Forwards {
        let (models, functions) = (PyDict::new(py).unbind(), PyDict::new(py).unbind());
        Forwards { models, functions, make, within: Phase::of(within) }
    }

    /// Returns the span of a module that is called from outside all others.
    #[pyo3(signature = (module, /))]
    fn find<'py>(&self, module: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.within.is_now() {
            return Ok(None);
        }
        let (py, kind, learns) = (module.py(), module.get_type(), has_parameters(module));
        if learns {
            LAST_FORWARD.store(loader::delivered() + 1, Relaxed);
            loader::note_forward();
        }
        let known = if learns { &self.models } else { &self.functions }.bind(py);
        if let Some(span) = known.get_item(&kind)? {
            return Ok(Some(span));
        }
        let span = self.make.bind(py).call1((&kind, learns))?;
        known.set_item(kind, &span)?;
        Ok(Some(span))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.models)?;
        visit.call(&self.functions)?;
        visit.call(&self.make)
    }
}

/// Returns `true` if a module or one within it has parameters, or if that cannot be determined.
fn has_parameters(module: &Bound<PyAny>) -> bool {
    let py = module.py();
    let Some(parameters) = table(module, intern!(py, "_parameters")) else { return true };
    let Some(modules) = table(module, intern!(py, "_modules")) else { return true };
    parameters.iter().any(|(_, parameter)| !parameter.is_none())
        || modules.iter().any(|(_, inner)| !inner.is_none() && has_parameters(&inner))
}

fn table<'py>(module: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyDict>> {
    module.getattr(name).ok()?.cast_into().ok()
}

/// Returns the size of a file, bypassing all hooks: the program did not request it.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub fn file_size(path: &[u8]) -> Option<i64> {
    let path = CString::new(path).ok()?;
    // SAFETY: the structure is made of integers; the path is terminated, and the kernel fills no more than the structure.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let result = libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path.as_ptr(), &raw mut found, 0);
        (result == 0).then_some(found.st_size)
    }
}
