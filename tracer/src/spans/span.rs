//! Spans for Rust programs: the reason for I/O, on the clock of the I/O.
//!
//! ```
//! use dlio_tracer::span;
//!
//! for step in 0..3 {
//!     let mut fetch = span!("fetch", cat = "data", epoch = 0, step = step);
//!     fetch.set("samples", 32);
//! }                                     // the span ends when it is dropped
//! ```
//!
//! While nothing is traced, a span costs two loads. Names are numbered once per place in the source; use
//! [`Span::begin`] for a name created at run time.

use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::native::names::NameKind;
use dlio_schemas::record::{MetaKind, STEP_NONE, pack_steps, unpack_steps};

use crate::spans::app::{Meta, NO_STEPS, OpenSpan};
use crate::spans::engine_lookup;
use crate::spans::table::Table;

/// A string at one place in the source, numbered at its first use and again when numbers have changed.
pub struct Name {
    text: &'static str,
    kind: NameKind,
    /// Generation and number; zero is never a generation.
    cached: AtomicU64,
}

impl Name {
    pub const fn new(text: &'static str, kind: NameKind) -> Name {
        Name { text, kind, cached: AtomicU64::new(0) }
    }

    #[inline(always)]
    fn number(&self, table: &Table) -> u32 {
        let cached = self.cached.load(Relaxed);
        // SAFETY: the table's pointers refer to statics.
        let generation = unsafe { (*table.generation).load(Relaxed) };
        if (cached >> 32) as u32 == generation { cached as u32 } else { self.renew(table) }
    }

    #[cold]
    fn renew(&self, table: &Table) -> u32 {
        let number = intern(table, self.kind, self.text);
        // Interning may have started an image and so a generation. SAFETY: as above.
        let generation = unsafe { (*table.generation).load(Relaxed) };
        self.cached.store((generation as u64) << 32 | number as u64, Relaxed);
        number
    }
}

fn intern(table: &Table, kind: NameKind, text: &str) -> u32 {
    // SAFETY: a string and its length.
    unsafe { (table.intern)(kind as u32, text.as_ptr(), text.len()) }
}

/// The name and the category at one place in the source.
pub struct Site {
    pub name: Name,
    pub category: Name,
}

impl Site {
    pub const fn new(name: &'static str, category: &'static str) -> Site {
        Site { name: Name::new(name, NameKind::Span), category: Name::new(category, NameKind::Category) }
    }

    /// Starts a span of this thread.
    #[inline(always)]
    pub fn begin(&self) -> Span {
        let table = engine_lookup::get();
        if !is_on(table) {
            return Span { open: OpenSpan::NONE, meta: Vec::new() };
        }
        Span::open(table, self.name.number(table), self.category.number(table))
    }

    /// Records a point in time.
    pub fn instant(&self, meta: &[(&str, Value)]) {
        let table = engine_lookup::get();
        if is_on(table) {
            mark_as(table, self.name.number(table), self.category.number(table), meta);
        }
    }

    /// Records the value of a counter.
    pub fn counter(&self, value: f64) {
        let table = engine_lookup::get();
        if is_on(table) {
            // SAFETY: plain numbers.
            unsafe { (table.counter)(self.name.number(table), self.category.number(table), value) };
        }
    }
}

#[inline(always)]
fn is_on(table: &Table) -> bool {
    // SAFETY: the table's pointers refer to statics.
    unsafe { (*table.on).load(Relaxed) != 0 }
}

/// Returns `true` if spans of this process are recorded.
pub fn is_recorded() -> bool {
    is_on(engine_lookup::get())
}

/// Records a point in time with a name created at run time.
pub fn mark(name: &str, category: &str, meta: &[(&str, Value)]) {
    let table = engine_lookup::get();
    if is_on(table) {
        mark_as(table, intern(table, NameKind::Span, name), intern(table, NameKind::Category, category), meta);
    }
}

fn mark_as(table: &Table, name: u32, category: u32, meta: &[(&str, Value)]) {
    let (steps, meta) = pairs(meta);
    // SAFETY: a list and its length.
    unsafe { (table.instant)(name, category, steps, meta.as_ptr(), meta.len()) };
}

/// Converts metadata to the engine's form: epoch and step, and all other pairs.
pub(crate) fn pairs(meta: &[(&str, Value)]) -> (i64, Vec<Meta>) {
    let mut marked = Span { open: OpenSpan::NONE, meta: Vec::new() };
    let mut steps = NO_STEPS;
    meta.iter().for_each(|(key, value)| marked.add(&mut steps, key, value.clone()));
    (steps, std::mem::take(&mut marked.meta))
}

/// A span that ends when it is dropped, on the thread on which it started: it cannot be sent to another.
#[must_use = "a span that is not kept ends at once"]
pub struct Span {
    open: OpenSpan,
    meta: Vec<Meta>,
}

impl Span {
    /// Starts a span with a name created at run time. [`crate::span!`] is cheaper if the name is known before.
    pub fn begin(name: &str, category: &str) -> Span {
        let table = engine_lookup::get();
        if !is_on(table) {
            return Span { open: OpenSpan::NONE, meta: Vec::new() };
        }
        Span::open(table, intern(table, NameKind::Span, name), intern(table, NameKind::Category, category))
    }

    #[inline(always)]
    fn open(table: &Table, name: u32, category: u32) -> Span {
        let mut span = Span { open: OpenSpan::NONE, meta: Vec::new() };
        // SAFETY: memory for a span.
        unsafe { (table.begin)(&mut span.open, name, category, NO_STEPS) };
        span
    }

    /// Adds a pair of metadata. `epoch` and `step` have separate columns.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        if self.open.is_open() {
            let mut steps = self.open.steps;
            self.add(&mut steps, key, value.into());
            if steps != self.open.steps {
                self.open.steps = steps;
                // SAFETY: a span that is open.
                unsafe { (engine_lookup::get().update)(&self.open) };
            }
        }
    }

    fn add(&mut self, steps: &mut i64, key: &str, value: Value) {
        let (epoch, step) = unpack_steps(*steps);
        match (key, &value) {
            ("epoch", Value::Int(value)) => *steps = pack_steps(narrow(*value), step),
            ("step", Value::Int(value)) => *steps = pack_steps(epoch, narrow(*value)),
            _ => {
                let table = engine_lookup::get();
                let key = intern(table, NameKind::Text, key);
                self.meta.push(match value {
                    Value::Int(value) => Meta::new(key, MetaKind::Int, value),
                    Value::Float(value) => Meta::new(key, MetaKind::Float, value.to_bits() as i64),
                    Value::Text(text) => Meta::new(key, MetaKind::Text, intern(table, NameKind::Text, &text) as i64),
                });
            }
        }
    }
}

/// The smallest number represents "none".
fn narrow(value: i64) -> i32 {
    value.clamp(STEP_NONE as i64 + 1, i32::MAX as i64) as i32
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        if self.open.is_open() {
            // SAFETY: a span that is open, and a list with its length.
            unsafe { (engine_lookup::get().end)(&mut self.open, self.meta.as_ptr(), self.meta.len()) };
        }
    }
}

/// A value of metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i64),
    Float(f64),
    Text(String),
}

macro_rules! values_from {
    ($($of:ty => $value:ident as $to:ty;)*) => {$(
        impl From<$of> for Value {
            fn from(value: $of) -> Value {
                Value::$value(value as $to)
            }
        }
    )*};
}
values_from! {
    i32 => Int as i64; u32 => Int as i64; i64 => Int as i64; u64 => Int as i64; usize => Int as i64; bool => Int as i64;
    f32 => Float as f64; f64 => Float as f64;
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Text(value.to_string())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

/// Notes a fact about this process: `rank`, `ranks`, `job`, `label`.
pub fn describe_process(key: &str, value: impl ToString) {
    let value = value.to_string();
    // SAFETY: strings with their lengths.
    unsafe { (engine_lookup::get().describe)(key.as_ptr(), key.len(), value.as_ptr(), value.len()) };
}

/// Starts a span that lasts until the value is dropped: `span!("name", cat = "data", key = value, ...)`.
#[macro_export]
macro_rules! span {
    ($name:expr, cat = $category:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::span::Site = $crate::span::Site::new($name, $category);
        #[allow(unused_mut, reason = "without metadata nothing is set")]
        let mut span = SITE.begin();
        $(span.set(stringify!($key), $value);)*
        span
    }};
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::span!($name, cat = "app" $(, $key = $value)*)
    };
}

/// Records a point in time: `instant!("name", cat = "data", key = value, ...)`.
#[macro_export]
macro_rules! instant {
    ($name:expr, cat = $category:expr $(, $key:ident = $value:expr)* $(,)?) => {{
        static SITE: $crate::span::Site = $crate::span::Site::new($name, $category);
        SITE.instant(&[$((stringify!($key), $crate::span::Value::from($value))),*]);
    }};
    ($name:expr $(, $key:ident = $value:expr)* $(,)?) => {
        $crate::instant!($name, cat = "app" $(, $key = $value)*)
    };
}

/// Records the value of a counter: `counter!("name", value)`.
#[macro_export]
macro_rules! counter {
    ($name:expr, $value:expr) => {{
        static SITE: $crate::span::Site = $crate::span::Site::new($name, "app");
        SITE.counter($value as f64);
    }};
}
