//! HDF5 calls, recorded as spans. The file calls that the library makes are inside these spans.
//!
//! Each event has the number of the HDF5 file. Everything else that only this library has, such as the name of the data set, is
//! metadata that precedes the event.

use dlio_schemas::native::names::NameKind;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::MetaKind;

use crate::spans::app::Meta;
use crate::spans::library_calls::{self, Number, OpenCall};

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

/// The operations of this layer have consecutive numbers.
const OPS: std::ops::RangeInclusive<u16> = Op::H5F_CREATE.0..=Op::H5I_DEC_REF.0;
static NAMES: [Number; (Op::H5I_DEC_REF.0 - Op::H5F_CREATE.0) as usize + 1] =
    [const { Number::new() }; (Op::H5I_DEC_REF.0 - Op::H5F_CREATE.0) as usize + 1];
static CATEGORY: Number = Number::new();

/// Starts a call; `None` if it is not recorded. Calls of this thread are inside it until [`OpenCall::end`].
#[inline]
pub fn begin(op: Op) -> Option<OpenCall> {
    if !library_calls::records(Layer::Hdf5) || !OPS.contains(&op.0) {
        return None;
    }
    let name = NAMES[(op.0 - OPS.start()) as usize].get(NameKind::Span, op.info()?.name);
    Some(OpenCall::start(name, CATEGORY.get(NameKind::Category, Layer::Hdf5.name())))
}
