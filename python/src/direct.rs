//! `__enter__` and `__exit__` as the interpreter calls them: in a `with`, the checks and conversions of the binding's
//! own wrappers (some ten nanoseconds) would be a large part of the cost.

use std::ffi::c_char;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::span::Span;

/// Adds both methods to the class.
pub fn install(class: &Bound<PyType>) -> PyResult<()> {
    let enter = ffi::PyMethodDefPointer { PyCFunction: enter };
    let exit = ffi::PyMethodDefPointer { PyCFunctionFast: exit };
    add(class, c"__enter__".as_ptr(), enter, ffi::METH_NOARGS)?;
    add(class, c"__exit__".as_ptr(), exit, ffi::METH_FASTCALL)
}

fn add(class: &Bound<PyType>, name: *const c_char, method: ffi::PyMethodDefPointer, flags: i32) -> PyResult<()> {
    // The class refers to it for the lifetime of the process.
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name,
        ml_meth: method,
        ml_flags: flags,
        ml_doc: std::ptr::null(),
    }));
    // SAFETY: a class, and a permanent definition; the result is a new reference or null with an exception set.
    let descriptor = unsafe {
        let made = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(class.py(), made)?
    };
    class.setattr(descriptor.getattr("__name__")?.extract::<String>()?, descriptor)
}

/// # Safety
/// Called by a method descriptor of [`Span`], which has checked the type of `span`, on a thread that holds the lock.
unsafe extern "C" fn enter(span: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: by the contract above; the returned reference is a new one.
    unsafe {
        let py = Python::assume_attached();
        Borrowed::from_ptr(py, span).cast_unchecked::<Span>().get().enter(py);
        ffi::Py_INCREF(span);
    }
    span
}

/// # Safety
/// As [`enter`]; `arguments` are `count` objects.
unsafe extern "C" fn exit(span: *mut PyObject, arguments: *mut *mut PyObject, count: ffi::Py_ssize_t) -> *mut PyObject {
    if count != 3 {
        Python::attach(|py| {
            PyTypeError::new_err("__exit__ takes an exception's type, value and traceback").restore(py)
        });
        return std::ptr::null_mut();
    }
    // SAFETY: by the contract above; there are three arguments.
    unsafe {
        let py = Python::assume_attached();
        let span = Borrowed::from_ptr(py, span).cast_unchecked::<Span>();
        span.get().exit(&Borrowed::from_ptr(py, *arguments));
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}
