//! Work of AMD's GPUs, as the library for profilers of ROCm (rocprofiler-sdk) reports it: kernels and copies become spans with
//! the time of the device.
//!
//! ```text
//! client    registration with the library, its callbacks, the end
//! functions the functions of the library
//! kernels   the names of kernels
//! records   the fields of a record, by their offsets
//! ```
//!
//! Any number of tools can be clients. The library finds them by the function `rocprofiler_configure`, which is in a
//! library of its own: a process in which it exists loads rocprofiler-sdk as soon as it uses ROCm.

pub mod client;
mod functions;
mod kernels;
mod records;
