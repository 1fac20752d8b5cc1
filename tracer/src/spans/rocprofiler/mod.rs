//! Work of AMD GPUs, as reported by rocprofiler-sdk, ROCm's library for profilers. Kernels and copies become spans with the
//! device's times.
//!
//! ```text
//! client    registration with the library, its callbacks, the end
//! functions the functions of the library
//! kernels   the names of kernels
//! records   the fields of a record, by their offsets
//! ```
//!
//! Any number of tools can be clients. The library finds them by the function `rocprofiler_configure`. That function is in a
//! separate library, because every process in which it exists loads rocprofiler-sdk as soon as it uses ROCm.

pub mod client;
mod functions;
mod kernels;
mod records;
