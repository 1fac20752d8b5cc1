//! One engine a process: how span APIs of any language find it.
//!
//! The preloaded library exports [`Table`] under the name [`SYMBOL`]. Whoever wants to record a span looks for that name
//! once. Where nothing is preloaded, programs and libraries that link this crate share one of the engines they bring (see
//! [`engine_lookup`]), if the environment asks for a trace; C without any engine records nothing.

use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use dlio_schemas::native::names::NameKind;

use crate::kernel::hash;
use crate::known::number;
use crate::life::lifecycle;
use crate::naming::names;
use crate::recording::image;
use crate::spans::app::{self, LibraryIo, Meta, OpenSpan};
use crate::spans::engine_lookup;

/// Raise this when a field changes its meaning; new ones go at the end, and `size` tells whether they are there.
pub const VERSION: u32 = 1;

/// The exported name carries the version, so that two versions never meet.
pub const SYMBOL: &std::ffi::CStr = c"dlio_engine_v1";

/// The engine's offer to span APIs. `dliotrace.h` declares the same for C.
#[repr(C)]
pub struct Table {
    pub version: u32,
    pub size: u32,
    /// Not zero while spans are recorded.
    pub on: *const AtomicU32,
    /// Changes when numbers of names lose their meaning: after a fork, or when a trace was closed.
    pub generation: *const AtomicU32,
    /// Number of a string: kind 3 a span's name, 4 a category, 5 a key or a text.
    pub intern: unsafe extern "C" fn(kind: u32, text: *const u8, length: usize) -> u32,
    pub begin: unsafe extern "C" fn(span: *mut OpenSpan, name: u32, category: u32, steps: i64),
    pub update: unsafe extern "C" fn(span: *const OpenSpan),
    pub end: unsafe extern "C" fn(span: *mut OpenSpan, meta: *const Meta, count: usize),
    pub instant: unsafe extern "C" fn(name: u32, category: u32, steps: i64, meta: *const Meta, count: usize),
    pub counter: unsafe extern "C" fn(name: u32, category: u32, value: f64),
    /// Notes a fact about the process: `rank`, `job`, `label` and others of `dlio_schemas::native::fields::key`.
    pub describe: unsafe extern "C" fn(key: *const u8, key_length: usize, text: *const u8, length: usize),
    /// Starts an engine that is not preloaded, if the environment asks for a trace. Later calls do nothing.
    pub start: extern "C" fn(),
    // What follows came later: ask `size` for it, as [`Table::io`] does.
    /// A moment for the beginning or the end of I/O; zero while that is not recorded.
    pub now: extern "C" fn() -> u64,
    /// Notes I/O that a library did on the thing of a name.
    pub io_done:
        unsafe extern "C" fn(io: *const LibraryIo, name: *const u8, length: usize, meta: *const Meta, count: usize),
}

impl Table {
    /// The functions for the I/O of libraries, where the engine is not too old for them.
    pub fn io(&self) -> Option<&Table> {
        (self.size as usize >= offset_of!(Table, io_done) + size_of::<usize>()).then_some(self)
    }
}

// SAFETY: the pointers lead to statics of the engine.
unsafe impl Sync for Table {}

/// The table of the engine linked here.
pub static OWN: Table = Table {
    version: VERSION,
    size: size_of::<Table>() as u32,
    on: lifecycle::app_switch(),
    generation: image::generation_counter(),
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

static FOUND: AtomicPtr<Table> = AtomicPtr::new(std::ptr::null_mut());

/// The engine of this process.
#[inline(always)]
pub fn get() -> &'static Table {
    let found = FOUND.load(Acquire);
    // SAFETY: tables are statics.
    if found.is_null() { find() } else { unsafe { &*found } }
}

#[cold]
fn find() -> &'static Table {
    // SAFETY: a terminated name; what is exported under it is a function of this signature.
    let exported = unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr());
        std::mem::transmute::<*mut c_void, Option<extern "C" fn() -> *const Table>>(address)
    };
    let table = exported.map_or_else(engine_lookup::first, |table| table());
    // SAFETY: a table is a static of the program or library it comes from.
    let table = unsafe { table.as_ref() }.filter(|table| table.version == VERSION).unwrap_or(&OWN);
    if table.size as usize >= offset_of!(Table, start) + size_of::<usize>() {
        (table.start)();
    }
    FOUND.store(std::ptr::from_ref(table).cast_mut(), Release);
    table
}

/// # Safety
/// `text` has `length` bytes.
unsafe extern "C" fn intern(kind: u32, text: *const u8, length: usize) -> u32 {
    let kinds = [NameKind::Span, NameKind::Category, NameKind::Text];
    let kind = kinds.into_iter().find(|known| *known as u32 == kind).unwrap_or(NameKind::Text);
    // SAFETY: the caller passes a string with its length.
    let text = unsafe { bytes(text, length) };
    if lifecycle::is_strict() {
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
        engine_lookup::stay();
        lifecycle::start();
    }
}
