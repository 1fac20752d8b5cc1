//! Requests of libaio, which the kernel executes: each is one event, see [`dlio_tracer::calls::requests`].
//!
//! Only libaio's own functions are recorded, see [`crate::optional`].

use std::ffi::{CStr, c_int, c_long, c_void};

use dlio_tracer::calls::requests::{self, Event, Request};

use crate::optional::optional;

/// The library's names for the loader.
const LIBRARIES: &[&CStr] = &[c"libaio.so.1", c"libaio.so.1t64"];

optional! {
    LIBRARIES;
    io_submit c"LIBAIO_0.1" (context: *mut c_void, count: c_long, list: *const *const Request); |next, call| {
        let noted = requests::submits(context.addr(), list, count);
        let ret = next(context, count, list);
        requests::submitted(call.end(), noted, ret);
        ret
    }
    io_getevents c"LIBAIO_0.4" (context: *mut c_void, least: c_long, most: c_long, events: *mut Event, timeout: *mut c_void);
    |next, call| {
        let ret = next(context, least, most, events, timeout);
        call.end();
        requests::fetched(events, ret);
        ret
    }
    io_pgetevents c"LIBAIO_0.5" (context: *mut c_void, least: c_long, most: c_long, events: *mut Event, timeout: *mut c_void,
                                 signals: *mut c_void);
    |next, call| {
        let ret = next(context, least, most, events, timeout, signals);
        call.end();
        requests::fetched(events, ret);
        ret
    }
    io_cancel c"LIBAIO_0.4" (context: *mut c_void, request: *mut Request, event: *mut Event); |next, call| {
        let ret = next(context, request, event);
        requests::cancelled(call.end(), event, ret);
        ret
    }
    io_destroy c"LIBAIO_0.4" (context: *mut c_void); |next, call| {
        let ret = next(context);
        call.end();
        if ret == 0 {
            requests::destroyed(context.addr());
        }
        ret
    }
}
