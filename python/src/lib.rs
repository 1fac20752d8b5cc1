//! Spans for Python: the objects whose methods are on a program's hot path. Code that does not have to be fast is
//! written in Python (`dliotrace/*.py`).
//!
//! ```text
//! with span / @traced / traced_iter          span.rs, direct.rs, traced.rs, iterate.rs
//! PyTorch's loaders, modules, checkpoints    loader.rs, phase.rs, torch_state.rs
//! I/O of libraries                           library_io.rs
//!            |  name, category, metadata     template.rs
//!            v
//!       table of the engine                  engine.rs: the preloaded library's, otherwise the one linked here, otherwise none
//! ```
//!
//! `analysis` reads results of dlio-analyze.
//!
//! There is one engine per process: the table is looked up in the process first, so that spans go into the rings of
//! the preloaded library. Nothing here may fail because of tracing; a value that cannot be recorded is recorded as
//! the name of its type.

mod analysis;
mod engine;
mod gil_cell;
mod phase;
mod site_cache;
mod template;
mod value;

mod direct;
mod iterate;
mod library_io;
mod loader;
mod span;
mod torch_state;
mod traced;

use dlio_tracer::app::NO_STEPS;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use template::Template;

/// Records a point in time.
#[pyfunction]
#[pyo3(signature = (name, /, cat = None, **meta))]
fn instant(name: &Bound<PyString>, cat: Option<&Bound<PyString>>, meta: Option<&Bound<PyDict>>) {
    if let Some(engine) = engine::recording() {
        Template::new(site_cache::site(name, cat), NO_STEPS, meta).mark(engine, name.py());
    }
}

/// Records the value of a counter.
#[pyfunction]
#[pyo3(signature = (name, value, /, cat = None))]
fn counter(name: &Bound<PyString>, value: f64, cat: Option<&Bound<PyString>>) {
    if let Some(engine) = engine::recording() {
        let (name, category) = site_cache::site(name, cat).numbers(engine, name.py());
        engine.counter(name, category, value);
    }
}

/// Notes a fact about this process.
#[pyfunction]
#[pyo3(signature = (key, value, /))]
fn describe(key: &Bound<PyString>, value: &Bound<PyAny>) {
    if let Some(engine) = engine::recording() {
        engine.describe(&value::text(key), &value::shown(value));
    }
}

/// Returns `true` if spans of this process are recorded.
#[pyfunction]
fn enabled() -> bool {
    engine::recording().is_some()
}

#[pymodule]
fn _engine(module: &Bound<PyModule>) -> PyResult<()> {
    module.add_class::<span::Span>()?;
    direct::install(&module.py().get_type::<span::Span>())?;
    module.add_class::<traced::Traced>()?;
    module.add_class::<iterate::TracedIterator>()?;
    module.add_class::<loader::Pass>()?;
    module.add_class::<loader::Fetch>()?;
    module.add_class::<loader::Items>()?;
    module.add_class::<loader::Batches>()?;
    module.add_class::<loader::ItemIterator>()?;
    module.add_class::<torch_state::Forwards>()?;
    module.add_function(wrap_pyfunction!(torch_state::forward_was_seen, module)?)?;
    module.add_function(wrap_pyfunction!(torch_state::file_size, module)?)?;
    module.add_function(wrap_pyfunction!(phase::busy, module)?)?;
    module.add_function(wrap_pyfunction!(phase::hold, module)?)?;
    module.add_function(wrap_pyfunction!(instant, module)?)?;
    module.add_function(wrap_pyfunction!(counter, module)?)?;
    module.add_function(wrap_pyfunction!(describe, module)?)?;
    module.add_function(wrap_pyfunction!(library_io::now, module)?)?;
    module.add_function(wrap_pyfunction!(library_io::io_done, module)?)?;
    module.add_function(wrap_pyfunction!(enabled, module)?)?;
    module.add_class::<analysis::ArrowStream>()?;
    module.add_function(wrap_pyfunction!(analysis::analyzer_output, module)?)
}
