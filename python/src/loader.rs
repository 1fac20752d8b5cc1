//! The hot path of a data loader: its iterator's `__next__`, and the functions from which its fetcher takes samples.
//!
//! ```text
//! trainer   iterator.__next__ -> Fetch    a span per batch; the attempt that finds no further one is `fetch.end`
//! worker    fetcher.dataset   -> Items    a span per sample (`item`), or per batch if the data set makes batches (`items`)
//!           fetcher's iterator -> ItemIterator
//! ```
//!
//! The objects of the program are not changed: these are placed between them and the loader, forward unknown
//! attributes, and leave no frame in a traceback. A fetch or an item within another one on the same thread is called
//! `.nested`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use dlio_schemas::record::{pack_steps, unpack_steps};
use dlio_tracer::span::Value;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use crate::engine::{self, Engine};
use crate::phase::{self, Phase};
use crate::span::{Span, note_failure};
use crate::template::{Key, Running, Template};
use crate::value;

/// Attribute of an iterator that contains its [`Pass`].
const PASS: &str = "_dliotrace_pass";

/// The number of batches that the loaders of this process have delivered.
static DELIVERED: AtomicU64 = AtomicU64::new(0);

pub fn delivered() -> u64 {
    DELIVERED.load(Relaxed)
}

/// The thread on which a model last ran; zero before that.
static COMPUTES: AtomicU64 = AtomicU64::new(0);

/// Notes that a model runs on this thread.
pub fn note_forward() {
    COMPUTES.store(engine::thread(), Relaxed);
}

/// Returns `true` if models run on another thread than this one.
fn other_thread_computes() -> bool {
    let thread = COMPUTES.load(Relaxed);
    thread != 0 && thread != engine::thread()
}

/// Templates of one kind of span: the plain one, one within another, and one for the attempt that finds no further
/// item.
struct Names {
    plain: Template,
    nested: Template,
    ended: Template,
    phase: Phase,
}

impl Names {
    fn of(span: &Bound<Span>) -> Names {
        let plain = span.get().template().with(None);
        let (name, category) = (plain.site().name(), plain.site().category());
        let nested = plain.named(format!("{name}.nested"), category.to_string());
        Names { ended: plain.ended(), nested, phase: span.get().phase(), plain }
    }

    /// Starts a span, and the phase that is left when it [ends](Open::end).
    fn begin(&self, engine: Engine, steps: Option<i64>, py: Python) -> Open<'_> {
        let template = if self.phase.is_now() { &self.nested } else { &self.plain };
        let running = template.begin_at(engine, steps.unwrap_or(template.steps()), py);
        Open { names: self, template, running, before: phase::enter(self.phase) }
    }
}

/// An open span.
struct Open<'a> {
    names: &'a Names,
    template: &'a Template,
    running: Running,
    before: Phase,
}

impl Open<'_> {
    /// Ends the span; `None` is the end of an iteration.
    fn end<T>(mut self, result: Option<&PyResult<T>>, py: Python) {
        phase::leave(self.before);
        match result {
            None => self.running.rename(self.names.ended.site(), py),
            Some(Err(error)) => note_failure(&mut self.running, error.get_type(py).as_any()),
            Some(Ok(_)) => {}
        }
        self.running.end(self.template, py);
    }
}

/// A pass over a loader: its epoch, and the number of batches delivered.
#[pyclass(frozen, module = "dliotrace")]
pub struct Pass {
    names: Names,
    given: AtomicI64,
}

#[pymethods]
impl Pass {
    #[new]
    #[pyo3(signature = (span, given = 0))]
    fn new(span: &Bound<Span>, given: i64) -> Pass {
        Pass { names: Names::of(span), given: AtomicI64::new(given) }
    }
}

impl Pass {
    fn steps(&self) -> i64 {
        let (epoch, _) = unpack_steps(self.names.plain.steps());
        pack_steps(epoch, value::narrow(self.given.load(Relaxed)))
    }
}

/// The `__next__` of a loader's iterators.
#[pyclass(frozen, dict, module = "dliotrace")]
pub struct Fetch {
    following: Py<PyAny>,
    /// Called with an iterator without a pass, to give it one.
    late: Py<PyAny>,
    /// Returns the handle of the device's stream that this thread uses; None if the program uses no device.
    stream: Py<PyAny>,
}

#[pymethods]
impl Fetch {
    #[new]
    fn new(following: Py<PyAny>, late: Py<PyAny>, stream: Py<PyAny>) -> Fetch {
        Fetch { following, late, stream }
    }

    fn __call__<'py>(&self, iterator: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = iterator.py();
        let following = self.following.bind(py);
        let Some(engine) = engine::recording() else { return following.call1((iterator,)) };
        let pass = match iterator.getattr_opt(intern!(py, PASS))? {
            Some(pass) => pass,
            None => self.late.bind(py).call1((iterator,))?,
        };
        let Ok(pass) = pass.cast::<Pass>() else { return following.call1((iterator,)) };
        let pass = pass.get();
        let stream = self.stream_of_model(py);
        if let Some(stream) = stream {
            engine.next_entered(stream, pass.steps());
        }
        let open = pass.names.begin(engine, Some(pass.steps()), py);
        let batch = following.call1((iterator,));
        self.end(pass, open, &batch, py);
        if stream.is_some() {
            engine.next_returned(self.stream_of_model(py), batch.is_ok());
        }
        batch
    }

    fn __get__<'py>(
        slf: &Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        bind(slf.as_any(), instance)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.following)?;
        visit.call(&self.late)?;
        visit.call(&self.stream)
    }
}

impl Fetch {
    fn end(&self, pass: &Pass, open: Open, batch: &PyResult<Bound<PyAny>>, py: Python) {
        match batch {
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => return open.end::<()>(None, py),
            Ok(_) => {
                pass.given.fetch_add(1, Relaxed);
                DELIVERED.fetch_add(1, Relaxed);
            }
            Err(_) => {}
        }
        open.end(Some(batch), py);
    }

    /// Returns the stream that runs the model; `None` without a device, and in a thread that only fetches batches ahead of
    /// the one that uses them.
    fn stream_of_model(&self, py: Python) -> Option<usize> {
        if other_thread_computes() {
            return None;
        }
        self.stream.bind(py).call0().ok()?.extract().ok()
    }
}

/// Returns `function` as a method of `instance`.
pub fn bind<'py>(function: &Bound<'py, PyAny>, instance: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static METHOD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if instance.is_none() {
        return Ok(function.clone());
    }
    METHOD.import(function.py(), "types", "MethodType")?.call1((function, instance))
}

/// A data set as seen by a fetcher.
#[pyclass(frozen, module = "dliotrace")]
pub struct Items {
    dataset: Py<PyAny>,
    /// `__getitems__` of a data set that makes whole batches.
    batches: Option<Py<PyAny>>,
    names: Names,
}

#[pymethods]
impl Items {
    #[new]
    fn new(dataset: Py<PyAny>, span: &Bound<Span>, batches: Option<Py<PyAny>>) -> Items {
        Items { dataset, batches, names: Names::of(span) }
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = index.py();
        let dataset = self.dataset.bind(py);
        let Some(engine) = engine::recording() else { return dataset.get_item(index) };
        let mut open = self.names.begin(engine, None, py);
        note_index(&mut open.running, index);
        let item = dataset.get_item(index);
        open.end(Some(&item), py);
        item
    }

    fn __len__(&self, py: Python) -> PyResult<usize> {
        self.dataset.bind(py).len()
    }

    /// Fetchers read it at every batch, and accept None for a data set without it: a missing attribute would cost an
    /// exception each time.
    #[getter]
    fn __getitems__(&self, py: Python) -> Option<Py<PyAny>> {
        self.batches.as_ref().map(|batches| batches.clone_ref(py))
    }

    /// Everything else is forwarded to the data set.
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.dataset.bind(name.py()).getattr(name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.dataset)?;
        self.batches.iter().try_for_each(|batches| visit.call(batches))
    }
}

/// `__getitems__` of a data set that makes whole batches.
#[pyclass(frozen, module = "dliotrace")]
pub struct Batches {
    function: Py<PyAny>,
    names: Names,
}

#[pymethods]
impl Batches {
    #[new]
    fn new(function: Py<PyAny>, span: &Bound<Span>) -> Batches {
        Batches { function, names: Names::of(span) }
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
        let mut open = self.names.begin(engine, None, py);
        if let Ok(indices) = args.get_item(0) {
            note_index(&mut open.running, &indices);
        }
        let batch = function.call(args, kwargs);
        open.end(Some(&batch), py);
        batch
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)
    }
}

static INDEX: Key = Key::of("index");

/// Notes the index of the sample; for several, their number. Numbers of array libraries convert themselves.
fn note_index(running: &mut Running, index: &Bound<PyAny>) {
    if let Ok(key) = index.cast::<PyString>() {
        running.note("index", Value::Text(value::text(key)));
    } else if let Ok(number) = index.extract() {
        running.note_number(&INDEX, number, index.py());
    } else if let Ok(count) = index.len() {
        running.note("count", Value::Int(count as i64));
    }
}

/// The iterator over a data set that is not indexed, as seen by a fetcher.
#[pyclass(frozen, module = "dliotrace")]
pub struct ItemIterator {
    iterator: Py<PyAny>,
    names: Names,
    made: AtomicI64,
}

#[pymethods]
impl ItemIterator {
    #[new]
    fn new(iterator: Py<PyAny>, span: &Bound<Span>) -> ItemIterator {
        ItemIterator { iterator, names: Names::of(span), made: AtomicI64::new(0) }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<PyResult<Bound<'py, PyAny>>> {
        // An object that is not an iterator fails as it would without tracing.
        let mut iterator = match self.iterator.bind(py).try_iter() {
            Ok(iterator) => iterator,
            Err(error) => return Some(Err(error)),
        };
        let Some(engine) = engine::recording() else { return iterator.next() };
        let mut open = self.names.begin(engine, None, py);
        open.running.note_number(&INDEX, self.made.fetch_add(1, Relaxed), py);
        let item = iterator.next();
        open.end(item.as_ref(), py);
        item
    }

    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.iterator.bind(name.py()).getattr(name)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.iterator)
    }
}
