//! The table of the engine linked here, with functions that accept C arguments.

use dlio_schemas::native::names::NameKind;

use crate::kernel::hash;
use crate::known::number;
use crate::life::lifecycle;
use crate::naming::names;
use crate::recording::{image, phase, wiped_page};
use crate::spans::app::{self, LibraryIo, Meta, OpenSpan};
use crate::spans::device;
use crate::spans::table::{Table, VERSION};

/// The table of the engine linked here.
pub static OWN: Table = Table {
    version: VERSION,
    size: size_of::<Table>() as u32,
    on: phase::app_switch(),
    generation: wiped_page::generation_counter(),
    intern,
    begin,
    update,
    end,
    instant,
    counter,
    describe,
    start: start_linked,
    now,
    io_done,
    next_entered: device::next_entered,
    next_returned,
};

/// Numbers a string.
///
/// # Safety
/// `text` has `length` bytes.
unsafe extern "C" fn intern(kind: u32, text: *const u8, length: usize) -> u32 {
    let kinds = [NameKind::Span, NameKind::Category, NameKind::Text];
    let kind = kinds.into_iter().find(|known| *known as u32 == kind).unwrap_or(NameKind::Text);
    // SAFETY: the caller passes a string with its length.
    let text = unsafe { bytes(text, length) };
    if phase::is_strict() {
        return number::NONE;
    }
    lifecycle::detect_child();
    let text = &text[..text.len().min(dlio_schemas::native::names::NAME_MAX)];
    names::intern(kind, text, hash::of(text, (8 + kind as u64) << 32))
}

/// Starts a span.
///
/// # Safety
/// `span` points to memory for a span.
unsafe extern "C" fn begin(span: *mut OpenSpan, name: u32, category: u32, steps: i64) {
    // SAFETY: the caller passes memory for a span.
    unsafe { span.write(app::begin(name, category, steps)) }
}

/// Updates a span.
///
/// # Safety
/// `span` was started by `begin`.
unsafe extern "C" fn update(span: *const OpenSpan) {
    // SAFETY: the caller passes a span it began.
    app::update(unsafe { &*span });
}

/// Ends a span.
///
/// # Safety
/// `span` was started by `begin`; `meta` has `count` entries.
unsafe extern "C" fn end(span: *mut OpenSpan, meta: *const Meta, count: usize) {
    // SAFETY: the caller passes a span it began, and a list with its length.
    unsafe { app::end(&mut *span, list(meta, count)) }
}

/// Records an instant.
///
/// # Safety
/// `meta` has `count` entries.
unsafe extern "C" fn instant(name: u32, category: u32, steps: i64, meta: *const Meta, count: usize) {
    // SAFETY: the caller passes a list with its length.
    app::instant(name, category, steps, unsafe { list(meta, count) });
}

/// Records the value of a counter.
///
/// # Safety
/// None: the table requires unsafe functions.
unsafe extern "C" fn counter(name: u32, category: u32, value: f64) {
    app::counter(name, category, value);
}

extern "C" fn now() -> u64 {
    app::now()
}

extern "C" fn next_returned(stream: usize, has_batch: u32) {
    device::next_returned(stream, has_batch != 0);
}

/// Records I/O of a library.
///
/// # Safety
/// `io` points to an operation; `name` has `length` bytes and `meta` has `count` entries.
unsafe extern "C" fn io_done(io: *const LibraryIo, name: *const u8, length: usize, meta: *const Meta, count: usize) {
    // SAFETY: by the contract above.
    unsafe { app::io_done(&*io, bytes(name, length), list(meta, count)) };
}

/// Notes a fact about the process.
///
/// # Safety
/// The texts have the given lengths.
unsafe extern "C" fn describe(key: *const u8, key_length: usize, text: *const u8, length: usize) {
    // SAFETY: the caller passes strings with their lengths.
    let (key, text) = unsafe { (bytes(key, key_length), bytes(text, length)) };
    // Without a trace there is no place for the fact, and no configuration with a directory for a trace.
    if lifecycle::records_anything() {
        image::describe_more(key, text);
    }
}

/// Returns a string as a slice.
///
/// # Safety
/// `text` is null or has `length` bytes, for as long as they are used.
unsafe fn bytes<'a>(text: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: by the contract above.
    if text.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(text, length) } }
}

/// Returns a list as a slice.
///
/// # Safety
/// `meta` is null or has `count` entries, for as long as they are used.
unsafe fn list<'a>(meta: *const Meta, count: usize) -> &'a [Meta] {
    // SAFETY: by the contract above.
    if meta.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(meta, count) } }
}

/// Starts the engine if nothing is preloaded and the environment requests a trace.
extern "C" fn start_linked() {
    let asked = [dlio_schemas::env::DIR, dlio_schemas::env::SWITCH].iter().any(|name| std::env::var_os(name).is_some());
    if asked {
        pin_library();
        lifecycle::start();
    }
}

/// Prevents the program or library that contains this engine from being unloaded, because other code in the process
/// may have chosen it.
fn pin_library() {
    // SAFETY: looks up the object that contains one of our statics, and takes a handle to it that is never released.
    unsafe {
        let mut object: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((&raw const OWN).cast(), &mut object) != 0 && !object.dli_fname.is_null() {
            libc::dlopen(object.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}
