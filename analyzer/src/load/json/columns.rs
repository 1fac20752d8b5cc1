//! The JSON keys that have a meaning, and the columns that arguments fill.

use dlio_schemas::ops::OpInfo;

use super::calls::{CallExtras, has_items, has_position, has_size};
use super::json_scanner::Json;
use crate::batch::{ABSENT, FAILED, Row, Value};
use crate::catalog::Catalog;
use crate::load::events::arguments::SOURCE;

/// A column of an event that an argument may fill.
#[derive(Clone, Copy)]
pub enum Column {
    /// The hash of a file.
    Hash,
    /// The name of a file.
    Path,
    Epoch,
    Step,
    Fd,
    Pos,
    Requested,
    /// Bytes of an item, and of a text: see [`CallExtras`].
    Item,
    Length,
    Bytes,
    Ret,
    Errno,
}

impl Column {
    /// Returns the column for an argument, if it has one.
    pub fn of(key: &[u8], call: Option<&OpInfo>) -> Option<Column> {
        Some(match word(key) {
            key::EPOCH => Column::Epoch,
            key::STEP => Column::Step,
            key::FHASH => Column::Hash,
            key::FILE | key::FNAME | key::FILENAME | key::PATH if call.is_some() => Column::Path,
            key::FD if call.is_some() => Column::Fd,
            key::POS | key::OFFSET if call.is_some_and(has_position) => Column::Pos,
            key::SIZE if call.is_some_and(has_items) => Column::Item,
            key::REQUESTED | key::COUNT | key::SIZE | key::NUM | key::LEN if call.is_some_and(has_size) => {
                Column::Requested
            }
            key::RET_LEN | key::STR_LEN | key::S_LEN if call.is_some() => Column::Length,
            key::BYTES => Column::Bytes,
            key::RET => Column::Ret,
            key::ERRNO => Column::Errno,
            _ => return None,
        })
    }

    /// Returns `true` if its value is a text that identifies a file.
    #[inline(always)]
    pub fn is_file(self) -> bool {
        matches!(self, Column::Hash | Column::Path)
    }

    /// Writes a number. `number` is the value if it is a plain number.
    #[inline(always)]
    pub fn set(self, row: &mut Row, beside: &mut CallExtras, value: Json, number: Option<i64>) {
        let number = number.or_else(|| whole(value));
        if number.is_none() && matches!(self, Column::Bytes | Column::Item | Column::Length | Column::Ret) {
            beside.too_large |= is_too_large(value);
        }
        let short = |kept: i32| number.and_then(|number| number.try_into().ok()).unwrap_or(kept);
        match self {
            Column::Hash | Column::Path => {}
            Column::Epoch => row.epoch = short(row.epoch),
            Column::Step => row.step = short(row.step),
            Column::Fd => row.fd = short(row.fd),
            Column::Pos => row.pos = number.unwrap_or(ABSENT),
            // Negative sizes mean that nothing was moved, or that the size is unknown.
            Column::Requested => row.requested = number.filter(|number| *number >= 0).unwrap_or(ABSENT),
            Column::Bytes => row.bytes = number.filter(|number| *number >= 0).unwrap_or(ABSENT),
            Column::Item => beside.item = number.filter(|number| *number >= 0).unwrap_or(ABSENT),
            Column::Length => beside.length = number.filter(|number| *number >= 0).unwrap_or(ABSENT),
            // An error number is more precise than the fact of an error.
            Column::Ret if row.ret < 0 && row.ret != ABSENT => {}
            Column::Ret => row.ret = if number == Some(-1) { FAILED } else { number.unwrap_or(ABSENT) },
            Column::Errno => row.ret = number.and_then(i64::checked_neg).unwrap_or(row.ret),
        }
    }
}

/// Returns a key of up to sixteen bytes as one number, to be compared with many others at once; all longer keys are
/// equal.
#[inline(always)]
pub const fn word(key: &[u8]) -> u128 {
    let length = key.len();
    let whole = match length {
        0 => 0,
        1..4 => key[0] as u128 | (key[length / 2] as u128) << 8 | (key[length - 1] as u128) << 16,
        4..8 => four(key, 0) as u128 | (four(key, length - 4) as u128) << 32,
        8..=16 => eight(key, 0) as u128 | (eight(key, length - 8) as u128) << 64,
        _ => return u128::MAX,
    };
    // In short keys the first and last bytes overlap; the length distinguishes them.
    whole ^ (length as u128) << 123
}

#[inline(always)]
const fn four(key: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]])
}

#[inline(always)]
const fn eight(key: &[u8], at: usize) -> u64 {
    four(key, at) as u64 | (four(key, at + 4) as u64) << 32
}

/// The keys that have a meaning.
pub mod key {
    use dlio_schemas::devices;

    use super::word;

    pub const NAME: u128 = word(b"name");
    pub const CAT: u128 = word(b"cat");
    pub const PH: u128 = word(b"ph");
    pub const TS: u128 = word(b"ts");
    pub const DUR: u128 = word(b"dur");
    pub const PID: u128 = word(b"pid");
    pub const TID: u128 = word(b"tid");
    pub const ID: u128 = word(b"id");
    pub const ID2: u128 = word(b"id2");
    pub const ARGS: u128 = word(b"args");
    pub const HHASH: u128 = word(b"hhash");
    pub const FHASH: u128 = word(b"fhash");
    pub const EPOCH: u128 = word(b"epoch");
    pub const STEP: u128 = word(b"step");
    pub const FILE: u128 = word(b"file");
    pub const FNAME: u128 = word(b"fname");
    pub const FILENAME: u128 = word(b"filename");
    pub const PATH: u128 = word(b"path");
    pub const FD: u128 = word(b"fd");
    pub const POS: u128 = word(b"pos");
    pub const OFFSET: u128 = word(b"offset");
    pub const REQUESTED: u128 = word(b"requested");
    pub const COUNT: u128 = word(b"count");
    pub const SIZE: u128 = word(b"size");
    pub const NUM: u128 = word(b"num");
    pub const LEN: u128 = word(b"len");
    pub const FD_OUT: u128 = word(b"fd_out");
    pub const IN_FD: u128 = word(b"in_fd");
    pub const RET_LEN: u128 = word(b"ret_len");
    pub const STR_LEN: u128 = word(b"str_len");
    pub const S_LEN: u128 = word(b"s_len");
    pub const NEWPATH_HASH: u128 = word(b"newpath_hash");
    pub const DEVICE: u128 = word(devices::DEVICE.as_bytes());
    pub const BYTES: u128 = word(b"bytes");
    pub const RET: u128 = word(b"ret");
    pub const ERRNO: u128 = word(b"errno");
    pub const SOURCE: u128 = word(super::SOURCE.as_bytes());
}

/// Returns a whole number, even if it is written with a decimal point.
#[inline]
pub fn whole(value: Json) -> Option<i64> {
    let pointed = || value.float().filter(|number| number.fract() == 0.0 && number.abs() < EXACT_MAX);
    value.integer().or_else(|| pointed().map(|number| number as i64))
}

/// Above this, a floating-point number may differ from the one written.
const EXACT_MAX: f64 = (1u64 << 53) as f64;

/// Returns `true` for a number that does not fit into 64 bits.
#[cold]
fn is_too_large(value: Json) -> bool {
    value.float().is_some_and(|number| number.abs() >= i64::MAX as f64)
}

/// Returns the value of an argument without a column.
pub fn meta(value: Json, catalog: &Catalog) -> Value {
    match value {
        Json::Word(_) if value.integer().is_some() => Value::Int(value.integer().unwrap_or(0)),
        Json::Word(_) if value.float().is_some() => Value::Float(value.float().unwrap_or(0.0)),
        other => Value::Text(catalog.text(&other.text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_equal_ends_are_distinct() {
        let keys = [
            "",
            "a",
            "aa",
            "aaa",
            "aaaa",
            "aaaaaaaa",
            "aaaaaaaaaaaaaaaa",
            "ts",
            "tid",
            "pid",
            "id",
            "id2",
            "dur",
            "errno",
        ];
        let words: std::collections::HashSet<_> = keys.iter().map(|key| word(key.as_bytes())).collect();
        assert_eq!(words.len(), keys.len());
    }
}
