//! Calls of the HDF5 library, recorded as spans: the calls on files that the library makes are inside them.
//!
//! An event has the number of the HDF5 file; everything else that only this library has, such as the name of the data
//! set, is metadata before it.

use std::sync::atomic::{AtomicU64, Ordering::*};

use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::MetaKind;

use crate::calls::call::Done;
use crate::kernel::clock;
use crate::kernel::hash;
use crate::kernel::switches::SWITCHES;
use crate::known::number;
use crate::life::lifecycle;
use crate::naming::names;
use crate::recording::{phase, wiped_page};
use crate::spans::app::{self, Meta, OpenSpan};
use crate::thread::local::local;
use crate::trace::header_page;

/// The keys of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Key {
    /// The path of a data set in its file.
    DataSet,
    /// The name by which a group or another object was opened.
    Object,
    Attribute,
    /// The selected elements: see [`Selection`].
    Selection,
    /// The extent of a data set, as in `1000x28x28`.
    Shape,
    /// Bytes per element in the file.
    ElementBytes,
    /// The extent of a chunk.
    Chunk,
    /// The filters of a data set, as in `shuffle,deflate`.
    Filters,
}

const KEYS: [&str; 8] =
    ["dataset", "object_name", "attribute", "selection", "shape", "element_bytes", "chunk", "filters"];
static KEY_NUMBERS: [Number; KEYS.len()] = [const { Number::new() }; KEYS.len()];

/// The elements of a data set that a call selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Selection {
    All,
    Hyperslab,
    Points,
    Nothing,
    /// It is in the property list of the transfer.
    InList,
}

const SELECTIONS: [&str; 5] = ["all", "hyperslab", "points", "none", "property list"];
static SELECTION_NUMBERS: [Number; SELECTIONS.len()] = [const { Number::new() }; SELECTIONS.len()];

/// The number of a constant string, kept for the image in which it was assigned.
struct Number(AtomicU64);

impl Number {
    const fn new() -> Number {
        Number(AtomicU64::new(0))
    }

    #[inline]
    fn get(&self, kind: NameKind, text: &str) -> u32 {
        let (known, generation) = (self.0.load(Relaxed), wiped_page::generation());
        if known as u32 != number::NONE && (known >> 32) as u32 == generation {
            return known as u32;
        }
        let id = intern(kind, text.as_bytes());
        self.0.store((generation as u64) << 32 | id as u64, Relaxed);
        id
    }
}

fn intern(kind: NameKind, text: &[u8]) -> u32 {
    names::intern(kind, text, hash::of(text, (8 + kind as u64) << 32))
}

/// Returns the number of a text.
pub fn text(text: &[u8]) -> u32 {
    intern(NameKind::Text, text)
}

/// Returns a pair of metadata whose value is the number of a text.
#[inline]
pub fn named(key: Key, id: u32) -> Meta {
    Meta::new(KEY_NUMBERS[key as usize].get(NameKind::Text, KEYS[key as usize]), MetaKind::Text, id as i64)
}

/// Returns a pair of metadata whose value is a number.
pub fn counted(key: Key, value: i64) -> Meta {
    Meta { kind: MetaKind::Int as i32, ..named(key, 0) }.with(value)
}

/// Returns a pair of metadata with a selection.
#[inline]
pub fn selected(selection: Selection) -> Meta {
    let at = selection as usize;
    named(Key::Selection, SELECTION_NUMBERS[at].get(NameKind::Text, SELECTIONS[at]))
}

/// A call that has started.
#[derive(Clone, Copy)]
pub struct OpenCall {
    start: u64,
    depth: u32,
    generation: u32,
}

/// The operations of this layer have consecutive numbers.
const OPS: std::ops::RangeInclusive<u16> = Op::H5F_CREATE.0..=Op::H5I_DEC_REF.0;
static OP_NUMBERS: [Number; (Op::H5I_DEC_REF.0 - Op::H5F_CREATE.0) as usize + 1] =
    [const { Number::new() }; (Op::H5I_DEC_REF.0 - Op::H5F_CREATE.0) as usize + 1];
static CATEGORY: Number = Number::new();

/// Starts a call; `None` if it is not recorded. Calls of this thread are inside it until [`OpenCall::end`].
#[inline]
pub fn begin(op: Op) -> Option<OpenCall> {
    if !lifecycle::records(Layer::Hdf5) || phase::is_passing() || !OPS.contains(&op.0) {
        return None;
    }
    let info = op.info()?;
    let name = OP_NUMBERS[(op.0 - OPS.start()) as usize].get(NameKind::Span, info.name);
    let category = CATEGORY.get(NameKind::Category, Layer::Hdf5.name());
    let line = local();
    // SAFETY: the line is this thread's own.
    let depth = unsafe { (*line).depth };
    // SAFETY: as above.
    unsafe { (*line).depth = depth + 1 };
    let start = clock::ticks();
    app::with_page(|page| app::note_open(page, &OpenSpan::starting(start, name, category, depth)));
    Some(OpenCall { start, depth, generation: wiped_page::generation() })
}

impl OpenCall {
    /// Ends a call. Spans that started within it and are still open end with it.
    #[inline]
    pub fn end(self) -> Done {
        let duration = clock::ticks().wrapping_sub(self.start);
        let line = local();
        // SAFETY: the line is this thread's own.
        let depth = unsafe { (*line).depth }.min(self.depth);
        // SAFETY: as above.
        unsafe { (*line).depth = depth };
        if self.generation == wiped_page::generation() {
            app::with_page(|page| app::note_closed(page, depth));
        }
        Done { start: self.start, duration }
    }
}

/// A call that has returned. A negative `bytes` or `ret` means failure.
#[derive(Clone, Copy)]
pub struct Returned {
    pub op: Op,
    pub file: u32,
    pub a: i64,
    pub b: i64,
    pub ret: i64,
}

/// Records a call that has returned, and its metadata.
#[inline]
pub fn record(done: Done, call: Returned, meta: &[Meta]) {
    let Returned { op, file, a, b, ret } = call;
    if file == number::FILTERED || done.duration < SWITCHES.min_ticks.load(Relaxed) {
        return header_page::count_filtered();
    }
    app::put_meta(meta, done.start);
    done.record(op, file, -1, (a, true), b, if ret < 0 { -libc::EIO as i64 } else { ret });
}
