//! Calls in which the host waits for a device.
//!
//! Like other waits, they are recorded if they were long enough to have blocked: most programs synchronize far more often than
//! they wait.

use std::ffi::c_int;

use dlio_schemas::ops::{Layer, Op};

use crate::calls::call::{self, Call};
use crate::calls::waits;
use crate::thread::local::local;

/// A call that has started. Calls that the library makes inside it are not recorded.
pub struct DeviceCall(Call);

impl DeviceCall {
    /// Starts a call; `None` if it is not recorded.
    #[inline]
    pub fn begin() -> Option<DeviceCall> {
        // SAFETY: the line is this thread's own.
        if unsafe { (*local()).in_device } != 0 {
            return None;
        }
        let call = call::begin(Layer::Device)?;
        // SAFETY: as above.
        unsafe { (*local()).in_device = 1 };
        Some(DeviceCall(call))
    }

    /// Ends a call that copied `bytes` and returned an error number of its library, or zero.
    #[inline]
    pub fn end(self, op: Op, bytes: usize, error: c_int) {
        let done = self.0.end();
        // SAFETY: as above.
        unsafe { (*local()).in_device = 0 };
        waits::waited(done, op, -1, 0, bytes as i64, -(error as i64));
    }
}
