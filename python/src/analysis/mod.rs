//! Results of `dlio-analyze` in a Python program: the analyzer runs as a child process, and its rows arrive as a stream
//! of Arrow's IPC format through a pipe.
//!
//! ```text
//! dlio-analyze ── pipe ──> process.rs ──> messages.rs ──> stream.rs ──> __arrow_c_stream__: Polars, pandas, DuckDB, PyArrow
//!                  │                                          └──────> python_values.rs: rows as dicts
//!                  └─ notes, progress, Ctrl-C
//! ```
//!
//! A library reads the stream on any thread, with or without the interpreter lock. So only the main thread, on which
//! Python handles signals, takes the lock here; the rest of the threads leave work for it (`main_thread.rs`).

mod main_thread;
mod messages;
mod process;
mod python_values;
mod stream;

use pyo3::prelude::*;

use process::AnalyzerProcess;
pub use stream::ArrowStream;

/// Runs dlio-analyze to its end, and returns its standard output and its messages.
#[pyfunction]
pub fn analyzer_output(
    py: Python,
    program: &str,
    arguments: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let mut process = AnalyzerProcess::start(program, &arguments, progress)?;
    let mut output = Vec::new();
    py.detach(|| std::io::Read::read_to_end(&mut process, &mut output)).map_err(|error| process::raised(py, error))?;
    Ok((String::from_utf8_lossy(&output).into_owned(), process.take_messages()))
}
