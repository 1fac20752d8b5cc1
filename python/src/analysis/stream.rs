//! Rows of `dlio-analyze` as a stream of Arrow batches, for libraries and for Python.

use std::io;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use super::main_thread;
use super::messages::Messages;
use super::process::{self, AnalyzerProcess};
use super::python_values;

/// Batches from a process.
struct Batches(Messages<AnalyzerProcess>);

impl Batches {
    /// Returns the next batch. After the last one, waits for the exit status.
    fn next(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        match self.0.next()? {
            Some(batch) => Ok(Some(batch)),
            None => Ok(io::copy(self.0.reader(), &mut io::sink()).map(|_| None)?),
        }
    }

    fn take_messages(&mut self) -> String {
        self.0.reader().take_messages()
    }
}

/// Batches for a library. It turns errors into exceptions of its own, so interrupts and warnings are also left for the
/// main thread.
struct Exported {
    batches: Batches,
    schema: SchemaRef,
    is_over: bool,
}

impl Iterator for Exported {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.batches.next();
        self.is_over = !matches!(next, Ok(Some(_)));
        if let Err(ArrowError::IoError(_, error)) = &next
            && main_thread::is_current()
            && let Some(raised) = Python::attach(|py| process::interruption(error, py))
        {
            main_thread::call_later(|_| Err(raised));
        }
        let messages = self.batches.take_messages();
        if matches!(next, Ok(None)) && !messages.is_empty() {
            main_thread::call_later(move |py| process::warn(py, &messages));
        }
        next.transpose()
    }
}

impl RecordBatchReader for Exported {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The result of a query, which a process of dlio-analyze computes. It can be read once.
#[pyclass(module = "dliotrace._engine")]
pub struct ArrowStream {
    batches: Option<Batches>,
    schema: SchemaRef,
}

#[pymethods]
impl ArrowStream {
    /// Starts the program, and waits until the columns are known.
    #[new]
    #[pyo3(signature = (program, arguments, progress = None))]
    fn new(py: Python, program: &str, arguments: Vec<String>, progress: Option<Py<PyAny>>) -> PyResult<ArrowStream> {
        let process = AnalyzerProcess::start(program, &arguments, progress)?;
        let messages = py.detach(|| Messages::new(process)).map_err(|error| raised(py, error))?;
        let schema = messages.schema().clone();
        let mut batches = Batches(messages);
        process::warn(py, &batches.take_messages())?;
        Ok(ArrowStream { batches: Some(batches), schema })
    }

    /// Names and Arrow types of the columns.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        self.schema.fields().iter().map(|field| (field.name().clone(), field.data_type().to_string())).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(|error| raised(py, error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &mut self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The specification permits to ignore it: the consumer casts.
        let _ = requested_schema;
        let batches = self.batches.take().ok_or_else(|| PyValueError::new_err("these rows have been read already"))?;
        let exported = Exported { batches, schema: self.schema.clone(), is_over: false };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(exported)), c"arrow_array_stream")
    }

    /// Returns the rows of the next batch, or `None` after the last one.
    fn next_rows<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Vec<Bound<'py, PyDict>>>> {
        let Some(batches) = &mut self.batches else { return Ok(None) };
        match py.detach(|| batches.next()) {
            Ok(Some(batch)) => python_values::rows(py, &batch).map(Some),
            Ok(None) => {
                let messages = batches.take_messages();
                self.close();
                process::warn(py, &messages).map(|()| None)
            }
            Err(error) => {
                self.close();
                Err(raised(py, error))
            }
        }
    }

    /// Ends the process.
    fn close(&mut self) {
        self.batches = None;
    }
}

fn raised(py: Python, error: ArrowError) -> PyErr {
    match error {
        ArrowError::IoError(_, error) => process::raised(py, error),
        other => PyValueError::new_err(format!("cannot read the rows of dlio-analyze: {other}")),
    }
}
