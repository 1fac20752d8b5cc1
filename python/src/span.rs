//! `with span("step", epoch=1, step=3):` (its two methods are in [`crate::direct`]), and the objects made from a
//! span: a decorator, another span with more metadata.
//!
//! One object may be entered again while it is open, and on several threads: each entry is a separate run. An exit
//! ends the latest run of its own thread. If this thread has none, the span was started on another: the engine is
//! asked to end the latest one, refuses and counts the misuse.

use dlio_tracer::app::NO_STEPS;
use dlio_tracer::span::Value;
use pyo3::exceptions::{PyGeneratorExit, PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::engine;
use crate::gil_cell::GilCell;
use crate::phase::{self, Phase};
use crate::site_cache;
use crate::template::{Running, Template};
use crate::value;

struct Run {
    thread: u64,
    running: Running,
    /// The previous phase of the thread.
    before: Phase,
}

/// Open runs: the latest one is stored inline, so that the usual single one needs no allocation.
#[derive(Default)]
struct Runs {
    latest: Option<Run>,
    earlier: Vec<Run>,
}

impl Runs {
    #[inline(always)]
    fn push(&mut self, run: Run) {
        if let Some(before) = self.latest.replace(run) {
            self.earlier.push(before);
        }
    }

    #[inline(always)]
    fn take(&mut self, thread: u64) -> Option<Run> {
        match &self.latest {
            None => None,
            Some(run) if run.thread == thread => std::mem::replace(&mut self.latest, self.earlier.pop()),
            Some(_) => self.take_earlier(thread),
        }
    }

    #[cold]
    fn take_earlier(&mut self, thread: u64) -> Option<Run> {
        match self.earlier.iter().rposition(|run| run.thread == thread) {
            Some(at) => Some(self.earlier.remove(at)),
            None => std::mem::replace(&mut self.latest, self.earlier.pop()),
        }
    }

    fn of(&mut self, thread: u64) -> Option<&mut Running> {
        let runs = self.latest.iter_mut().chain(self.earlier.iter_mut().rev());
        runs.filter(|run| run.thread == thread).map(|run| &mut run.running).next()
    }
}

/// A part of the program's work, recorded with its time in the trace of the program's I/O.
///
/// A context manager that can be used repeatedly. Called with a function, it is a decorator; called with keyword
/// arguments, it returns a span with this additional metadata.
#[pyclass(frozen, module = "dliotrace")]
pub struct Span {
    template: Template,
    /// The phase of a thread while one of these runs is open.
    phase: Phase,
    runs: GilCell<Runs>,
}

impl Span {
    fn of(template: Template, phase: Phase) -> Span {
        Span { template, phase, runs: GilCell::new(Runs::default()) }
    }

    pub fn template(&self) -> &Template {
        &self.template
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Starts a run.
    #[inline(always)]
    pub fn enter(&self, py: Python) {
        if let Some(engine) = engine::recording() {
            let running = self.template.begin(engine, py);
            let before = phase::enter(self.phase);
            self.runs.with(py, |runs| runs.push(Run { thread: engine::thread(), running, before }));
        }
    }

    /// Ends the latest run of this thread; `kind` is the class of the exception being raised, or None.
    #[inline(always)]
    pub fn exit(&self, kind: &Bound<PyAny>) {
        let py = kind.py();
        if let Some(mut running) = self.leave(py) {
            if !kind.is_none() {
                note_failure(&mut running, kind);
            }
            running.end(&self.template, py);
        }
    }

    #[inline(always)]
    fn leave(&self, py: Python) -> Option<Running> {
        let run = self.runs.with(py, |runs| runs.take(engine::thread()))?;
        if self.phase != Phase::NONE {
            phase::leave(run.before);
        }
        Some(run.running)
    }
}

#[pymethods]
impl Span {
    #[new]
    #[pyo3(signature = (name, /, cat = None, **meta))]
    fn new(name: &Bound<PyString>, cat: Option<&Bound<PyString>>, meta: Option<&Bound<PyDict>>) -> Span {
        Span::of(Template::new(site_cache::site(name, cat), NO_STEPS, meta), Phase::NONE)
    }

    #[getter]
    fn name(&self) -> &str {
        self.template.site().name()
    }

    #[getter]
    fn category(&self) -> &str {
        self.template.site().category()
    }

    /// Starts a run, for code in which a `with` is not possible. Returns the span itself.
    fn begin<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.get().enter(slf.py());
        slf.clone()
    }

    /// Ends the latest run of this thread; does nothing if there is none.
    fn end(&self, py: Python) {
        if let Some(running) = self.leave(py) {
            running.end(&self.template, py);
        }
    }

    /// Ends the latest run of this thread under the name and category of another span, for a span whose nature is
    /// known only at its end.
    #[pyo3(signature = (other, /))]
    fn end_as(&self, other: &Bound<Span>) {
        let py = other.py();
        if let Some(mut running) = self.leave(py) {
            running.rename(other.get().template.site(), py);
            running.end(&self.template, py);
        }
    }

    /// Returns a span of the same kind during which a thread is in these phases.
    #[pyo3(signature = (phase, /))]
    fn in_phase(&self, phase: u8) -> Span {
        Span::of(self.template.with(None), Phase::of(phase))
    }

    /// Adds metadata to the run of this thread that started last. Returns the span itself.
    #[pyo3(signature = (**meta))]
    fn set<'py>(slf: &Bound<'py, Self>, meta: Option<&Bound<PyDict>>) -> Bound<'py, Self> {
        let (py, runs) = (slf.py(), &slf.get().runs);
        // Values are converted first: that may run Python, which may use this span.
        if let Some(mut steps) = runs.with(py, |runs| runs.of(engine::thread()).map(|run| run.steps())) {
            let mut pairs = Vec::new();
            value::each(meta, &mut steps, |key, value| pairs.push((key, value)));
            runs.with(py, |runs| runs.of(engine::thread()).map(|run| run.set(&pairs, steps)));
        }
        slf.clone()
    }

    /// Returns a span of the same name with more metadata.
    #[pyo3(signature = (**meta))]
    fn with_meta(&self, meta: Option<&Bound<PyDict>>) -> Span {
        Span::of(self.template.with(meta), self.phase)
    }

    #[pyo3(signature = (function = None, /, **meta))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        function: Option<&Bound<'py, PyAny>>,
        meta: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let derived = Bound::new(py, self.with_meta(meta))?.into_any();
        match function {
            None => Ok(derived),
            Some(function) => py.import("dliotrace._wrap")?.call_method1("wrap", (function, derived)),
        }
    }

    fn __repr__(&self) -> String {
        format!("span({:?}, cat={:?})", self.name(), self.category())
    }

    /// Another process creates its own; open runs are not copied.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let span = slf.get();
        Ok((slf.get_type().into_any(), (span.name().to_string(), span.category().to_string())))
    }
}

impl Drop for Span {
    /// Ends runs that can no longer be ended. Python drops objects only under its lock.
    fn drop(&mut self) {
        let runs = std::mem::take(self.runs.get_mut());
        if runs.latest.is_some() {
            Python::attach(|py| {
                runs.latest
                    .into_iter()
                    .chain(runs.earlier.into_iter().rev())
                    .for_each(|run| run.running.end(&self.template, py))
            });
        }
    }
}

/// Notes an exception. An iterator's signal that it has finished is not a failure.
#[cold]
pub fn note_failure(running: &mut Running, kind: &Bound<PyAny>) {
    let py = kind.py();
    let ends =
        [py.get_type::<PyStopIteration>(), py.get_type::<PyStopAsyncIteration>(), py.get_type::<PyGeneratorExit>()];
    if !ends.iter().any(|end| kind.is(end)) {
        running.note("exception", Value::Text(value::type_name(kind)));
    }
}
