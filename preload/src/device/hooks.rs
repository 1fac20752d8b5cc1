//! The functions that changed slots call: one for each function that waits, and each loaded library.
//!
//! The real function is called exactly once, with the program's arguments. The functions have variants for programs in which each
//! thread has its own default stream.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

use dlio_tracer::calls::device::DeviceCall;
use dlio_tracer::ops::Op;

use super::{Functions, LIBRARIES, LIBRARIES_MAX};
use crate::libraries::entry::terminated;

/// An argument: a handle, an address or a number.
type Word = usize;

macro_rules! word {
    ($arg:ident) => {
        Word
    };
}

macro_rules! hook {
    ($name:ident $op:ident ($($arg:ident),*) $bytes:expr) => {
        /// # Safety
        /// As the library's function of this name.
        #[allow(non_snake_case, reason = "the name of the library's function")]
        unsafe extern "C" fn $name<const L: usize>($($arg: Word),*) -> c_int {
            let address = LIBRARIES[L].real[Function::$name as usize].load(Relaxed);
            // SAFETY: the function of this name has these arguments, in words; they are passed on.
            unsafe {
                let next = std::mem::transmute::<*mut c_void, unsafe extern "C" fn($(word!($arg)),*) -> c_int>(address);
                let Some(call) = DeviceCall::begin() else { return next($($arg),*) };
                let ret = next($($arg),*);
                call.end(Op::$op, $bytes, ret);
                ret
            }
        }
    };
}

/// A row is `function and its variants, its operation, its arguments; the bytes that it copies`.
macro_rules! hooks {
    ($($name:ident $(or $variant:ident)*, $op:ident $args:tt $bytes:expr;)*) => {
        #[allow(non_camel_case_types, reason = "names of the library's functions")]
        #[derive(Clone, Copy)]
        enum Function { $($name, $($variant,)*)* }

        pub const FUNCTIONS: usize = [$(Function::$name, $(Function::$variant,)*)*].len();

        /// Returns the names of all hooked functions.
        pub fn names() -> impl Iterator<Item = &'static CStr> {
            terminated(concat!($(stringify!($name), "\0", $(stringify!($variant), "\0",)*)*))
        }

        /// Fills in the hooks of a library, one by one: see `hdf5`. Merged with that of the other libraries, it would become a
        /// list that the loader has to relocate.
        #[inline(never)]
        fn fill_for<const L: usize>(hooks: &Functions) {
            $(
                hooks[Function::$name as usize].store($name::<L> as *mut c_void, Relaxed);
                $(hooks[Function::$variant as usize].store($variant::<L> as *mut c_void, Relaxed);)*
            )*
        }

        $(
            hook!($name $op $args $bytes);
            $(hook!($variant $op $args $bytes);)*
        )*
    };
}

const _: () = assert!(LIBRARIES_MAX == 4);

pub fn fill(number: usize, hooks: &Functions) {
    match number {
        0 => fill_for::<0>(hooks),
        1 => fill_for::<1>(hooks),
        2 => fill_for::<2>(hooks),
        _ => fill_for::<3>(hooks),
    }
}

hooks! {
    cudaStreamSynchronize or cudaStreamSynchronize_ptsz, CUDA_STREAM_SYNCHRONIZE (stream) 0;
    cudaEventSynchronize, CUDA_EVENT_SYNCHRONIZE (event) 0;
    cudaDeviceSynchronize, CUDA_DEVICE_SYNCHRONIZE () 0;
    cudaMemcpy or cudaMemcpy_ptds, CUDA_MEMCPY (to, from, size, kind) size;
    cuStreamSynchronize or cuStreamSynchronize_ptsz, CU_STREAM_SYNCHRONIZE (stream) 0;
    cuEventSynchronize, CU_EVENT_SYNCHRONIZE (event) 0;
    cuCtxSynchronize, CU_CTX_SYNCHRONIZE () 0;
    cuMemcpyHtoD_v2 or cuMemcpyHtoD_v2_ptds, CU_MEMCPY_H_TO_D (to, from, size) size;
    cuMemcpyDtoH_v2 or cuMemcpyDtoH_v2_ptds, CU_MEMCPY_D_TO_H (to, from, size) size;
    cuMemcpyDtoD_v2 or cuMemcpyDtoD_v2_ptds, CU_MEMCPY_D_TO_D (to, from, size) size;
    hipStreamSynchronize or hipStreamSynchronize_spt, HIP_STREAM_SYNCHRONIZE (stream) 0;
    hipEventSynchronize, HIP_EVENT_SYNCHRONIZE (event) 0;
    hipDeviceSynchronize, HIP_DEVICE_SYNCHRONIZE () 0;
    hipMemcpy or hipMemcpy_spt, HIP_MEMCPY (to, from, size, kind) size;
}
