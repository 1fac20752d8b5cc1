//! `with span("step", epoch=1, step=3):` (its two methods are in [`crate::direct`]), and what can be made of a span: a
//! decorator, another one with more metadata.
//!
//! One object may be entered again while it is open, and on several threads: each entry is a run of its own. An exit ends
//! the latest run of its own thread. Where this thread has none, the span was begun on another: the engine is told to end
//! the latest, refuses and counts the misuse.

use dlio_tracer::app::NO_STEPS;
use dlio_tracer::span::Value;
use pyo3::exceptions::{PyGeneratorExit, PyStopAsyncIteration, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::engine;
use crate::held::Held;
use crate::phase::{self, Phase};
use crate::recent;
use crate::template::{Running, Template};
use crate::value;

struct Run {
    thread: u64,
    running: Running,
    /// The phase of the thread before.
    before: Phase,
}

/// Runs that are open: the latest at hand, so that the usual single one takes no allocation.
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

/// A piece of the program's work, on the clock and in the trace of its I/O.
///
/// A context manager that can be used again and again; called with a function it is a decorator, called with keyword
/// arguments it gives a span that carries them as well.
#[pyclass(frozen, module = "dliotrace")]
pub struct Span {
    template: Template,
    /// The phase of a thread while one of these runs.
    phase: Phase,
    runs: Held<Runs>,
}

impl Span {
    fn of(template: Template, phase: Phase) -> Span {
        Span { template, phase, runs: Held::new(Runs::default()) }
    }

    pub fn template(&self) -> &Template {
        &self.template
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins a run.
    #[inline(always)]
    pub fn enter(&self, py: Python) {
        if let Some(engine) = engine::recording() {
            let running = self.template.begin(engine, py);
            let before = phase::enter(self.phase);
            self.runs.with(py, |runs| runs.push(Run { thread: engine::thread(), running, before }));
        }
    }

    /// Ends the latest run of this thread; `kind` is the class of the exception that is on its way, or None.
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
        Span::of(Template::new(recent::site(name, cat), NO_STEPS, meta), Phase::NONE)
    }

    #[getter]
    fn name(&self) -> &str {
        self.template.site().name()
    }

    #[getter]
    fn category(&self) -> &str {
        self.template.site().category()
    }

    /// Begins a run, for code in which a `with` has no place. Gives the span itself.
    fn begin<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.get().enter(slf.py());
        slf.clone()
    }

    /// Ends the latest run of this thread; without one nothing happens.
    fn end(&self, py: Python) {
        if let Some(running) = self.leave(py) {
            running.end(&self.template, py);
        }
    }

    /// Ends the latest run of this thread under the name and category of another span: only its end showed what it was.
    #[pyo3(signature = (other, /))]
    fn end_as(&self, other: &Bound<Span>) {
        let py = other.py();
        if let Some(mut running) = self.leave(py) {
            running.rename(other.get().template.site(), py);
            running.end(&self.template, py);
        }
    }

    /// A span of the same kind during which a thread is in these phases.
    #[pyo3(signature = (phase, /))]
    fn in_phase(&self, phase: u8) -> Span {
        Span::of(self.template.with(None), Phase::of(phase))
    }

    /// Adds metadata to the run of this thread that began last. Gives the span itself.
    #[pyo3(signature = (**meta))]
    fn set<'py>(slf: &Bound<'py, Self>, meta: Option<&Bound<PyDict>>) -> Bound<'py, Self> {
        let (py, runs) = (slf.py(), &slf.get().runs);
        // Values are converted first: that may run Python, which may come back to this span.
        if let Some(mut steps) = runs.with(py, |runs| runs.of(engine::thread()).map(|run| run.steps())) {
            let mut pairs = Vec::new();
            value::each(meta, &mut steps, |key, value| pairs.push((key, value)));
            runs.with(py, |runs| runs.of(engine::thread()).map(|run| run.set(&pairs, steps)));
        }
        slf.clone()
    }

    /// A span of the same name that carries more metadata.
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

    /// Another process makes its own; what is running stays behind.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let span = slf.get();
        Ok((slf.get_type().into_any(), (span.name().to_string(), span.category().to_string())))
    }
}

impl Drop for Span {
    /// A run that nobody can end any more ends now. Python drops objects under its lock only.
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

/// Notes an exception. What iterators raise to say that they are done is no failure.
#[cold]
pub fn note_failure(running: &mut Running, kind: &Bound<PyAny>) {
    let py = kind.py();
    let ends =
        [py.get_type::<PyStopIteration>(), py.get_type::<PyStopAsyncIteration>(), py.get_type::<PyGeneratorExit>()];
    if !ends.iter().any(|end| kind.is(end)) {
        running.note("exception", Value::Text(value::type_name(kind)));
    }
}
