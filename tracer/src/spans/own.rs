//! The table of the engine that is linked here: its functions take what C passes.

use dlio_schemas::native::names::NameKind;

use crate::kernel::hash;
use crate::known::number;
use crate::life::lifecycle;
use crate::naming::names;
use crate::recording::{image, phase, wiped_page};
use crate::spans::app::{self, LibraryIo, Meta, OpenSpan};
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
};

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
    lifecycle::notice_child();
    let text = &text[..text.len().min(dlio_schemas::native::names::NAME_MAX)];
    names::intern(kind, text, hash::of(text, (8 + kind as u64) << 32))
}

/// # Safety
/// `span` is a place for a span.
unsafe extern "C" fn begin(span: *mut OpenSpan, name: u32, category: u32, steps: i64) {
    // SAFETY: the caller passes a place for a span.
    unsafe { span.write(app::begin(name, category, steps)) }
}

/// # Safety
/// `span` was begun by `begin`.
unsafe extern "C" fn update(span: *const OpenSpan) {
    // SAFETY: the caller passes a span it began.
    app::update(unsafe { &*span });
}

/// # Safety
/// `span` was begun by `begin`; `meta` has `count` entries.
unsafe extern "C" fn end(span: *mut OpenSpan, meta: *const Meta, count: usize) {
    // SAFETY: the caller passes a span it began, and a list with its length.
    unsafe { app::end(&mut *span, list(meta, count)) }
}

/// # Safety
/// `meta` has `count` entries.
unsafe extern "C" fn instant(name: u32, category: u32, steps: i64, meta: *const Meta, count: usize) {
    // SAFETY: the caller passes a list with its length.
    app::instant(name, category, steps, unsafe { list(meta, count) });
}

/// # Safety
/// None: the table takes functions of this kind.
unsafe extern "C" fn counter(name: u32, category: u32, value: f64) {
    app::counter(name, category, value);
}

extern "C" fn now() -> u64 {
    app::now()
}

/// # Safety
/// `io` is one; `name` has `length` bytes and `meta` has `count` entries.
unsafe extern "C" fn io_done(io: *const LibraryIo, name: *const u8, length: usize, meta: *const Meta, count: usize) {
    // SAFETY: by the caller's word.
    unsafe { app::io_done(&*io, bytes(name, length), list(meta, count)) };
}

/// # Safety
/// The texts have their lengths.
unsafe extern "C" fn describe(key: *const u8, key_length: usize, text: *const u8, length: usize) {
    // SAFETY: the caller passes strings with their lengths.
    let (key, text) = unsafe { (bytes(key, key_length), bytes(text, length)) };
    // Without a trace there is nothing to note it in, nor a configuration that would say where one goes.
    if lifecycle::records_anything() {
        image::describe_more(key, text);
    }
}

/// # Safety
/// `text` is null or has `length` bytes, for as long as they are used.
unsafe fn bytes<'a>(text: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: by the caller's word.
    if text.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(text, length) } }
}

/// # Safety
/// `meta` is null or has `count` entries, for as long as they are used.
unsafe fn list<'a>(meta: *const Meta, count: usize) -> &'a [Meta] {
    // SAFETY: by the caller's word.
    if meta.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(meta, count) } }
}

/// Starts the engine where nothing is preloaded, if the environment asks for a trace.
extern "C" fn start_linked() {
    let asked = [dlio_schemas::env::DIR, dlio_schemas::env::SWITCH].iter().any(|name| std::env::var_os(name).is_some());
    if asked {
        pin_library();
        lifecycle::start();
    }
}

/// Keeps the program or library this engine is part of from being unloaded: others in the process may have chosen it.
fn pin_library() {
    // SAFETY: asks the loader for the object that holds a static of ours, and for a handle to it, which is never given back.
    unsafe {
        let mut object: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((&raw const OWN).cast(), &mut object) != 0 && !object.dli_fname.is_null() {
            libc::dlopen(object.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}
