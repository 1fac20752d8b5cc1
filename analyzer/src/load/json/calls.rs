//! Calls of the C library as other tools write them: their names, and the meaning of their numbers.
//!
//! DFTracer writes the return value of a function, which is not the number of bytes: `fread` returns items, `fgetc` a
//! character.

use dlio_schemas::ops::{Arg, Class, Op, OpInfo};

use crate::batch::{ABSENT, FAILED, Row};
use crate::catalog::Catalog;
use dlio_schemas::readable::readable;

/// Facts of a call in addition to its columns.
#[derive(Clone, Copy, Debug)]
pub struct CallExtras {
    /// Bytes of an item, if the other numbers count items.
    pub item: i64,
    /// Bytes of a text that was read or written.
    pub length: i64,
    /// `true` if a number that determines the bytes is too large.
    pub too_large: bool,
}

impl CallExtras {
    pub const NOTHING: CallExtras = CallExtras { item: ABSENT, length: ABSENT, too_large: false };
}

/// Names of calls that are variants of an operation.
const SPELLINGS: [(&str, &str); 16] = [
    ("getc", "fgetc"),
    ("getchar", "fgetc"),
    ("getc_unlocked", "fgetc"),
    ("getchar_unlocked", "fgetc"),
    ("fgetc_unlocked", "fgetc"),
    ("putc", "fputc"),
    ("putchar", "fputc"),
    ("putc_unlocked", "fputc"),
    ("putchar_unlocked", "fputc"),
    ("fputc_unlocked", "fputc"),
    ("fread_unlocked", "fread"),
    ("fwrite_unlocked", "fwrite"),
    ("fgets_unlocked", "fgets"),
    ("fputs_unlocked", "fputs"),
    ("vfprintf", "fprintf"),
    ("vprintf", "printf"),
];

/// Metadata calls for which dlio's tracer records no event.
const ASKING: [&str; 14] = [
    "flockfile",
    "ftrylockfile",
    "funlockfile",
    "dirfd",
    "fileno",
    "feof",
    "ferror",
    "clearerr",
    "realpath",
    "getcwd",
    "rewinddir",
    "seekdir",
    "telldir",
    "umask",
];

/// Returns the kind of a call of a layer, and its operation if it is one of dlio's.
pub fn kind(name: &str, layer: &str, catalog: &Catalog) -> (u32, Option<&'static OpInfo>) {
    let call = operation(name);
    let kind = call.and_then(|info| Catalog::kind_of_op(info.op)).unwrap_or_else(|| {
        let class = if ASKING.contains(&name) { Class::Metadata } else { Class::Other };
        catalog.call_of_class(name, layer, class)
    });
    (kind, call)
}

/// Returns the operation of a name, without the affixes of large files and of old C libraries.
pub fn operation(name: &str) -> Option<&'static OpInfo> {
    let plain = name.strip_prefix("__x").or_else(|| name.strip_prefix("__")).unwrap_or(name);
    let plain = plain.strip_suffix("64").filter(|_| plain != "getdents64").unwrap_or(plain);
    let spelled = SPELLINGS.iter().find(|(known, _)| *known == plain).map_or(plain, |(_, name)| name);
    [name, spelled].iter().find_map(|name| Op::from_name(name)).and_then(Op::info)
}

pub fn has_position(info: &OpInfo) -> bool {
    info.a == Arg::Position
}

pub fn has_size(info: &OpInfo) -> bool {
    info.b == Arg::Size
}

/// Returns `true` if its bytes come from another file.
pub fn has_source(info: &OpInfo) -> bool {
    info.a == Arg::Source
}

/// Returns `true` if its numbers may count items.
pub fn has_items(info: &OpInfo) -> bool {
    matches!(info.op, Op::FREAD | Op::FWRITE)
}

/// Returns a file for which only a descriptor is known.
pub fn nameless(fd: &[u8], catalog: &Catalog) -> u32 {
    catalog.file(&format!("(file without a name, descriptor {})", readable(fd)))
}

/// Derives bytes from the result, and the result from bytes.
#[inline]
pub fn complete(row: &mut Row, call: Option<&OpInfo>, beside: &CallExtras) {
    let Some(call) = call.filter(|call| call.moves_bytes()) else { return };
    if beside.too_large {
        row.bytes = i64::MAX;
    }
    if row.bytes == ABSENT {
        match call.op {
            Op::FREAD | Op::FWRITE if beside.item != ABSENT => complete_items(row, beside.item),
            Op::FGETS | Op::FPUTS | Op::PUTS => complete_text(row, beside.length),
            // If the size is given, the result is a size too.
            Op::FGETC | Op::FPUTC if row.requested == ABSENT => complete_character(row),
            _ => {}
        }
    }
    if row.bytes == ABSENT && row.ret >= 0 {
        row.bytes = row.ret;
    } else if row.ret == ABSENT {
        row.ret = row.bytes;
    }
}

fn complete_items(row: &mut Row, item: i64) {
    if row.requested != ABSENT {
        row.requested = row.requested.checked_mul(item).unwrap_or(ABSENT);
    }
    if row.ret >= 0 {
        // An overflow is damage.
        row.ret = row.ret.saturating_mul(item);
    }
}

/// Completes `fgets`, whose length only its text shows: without a text it reached the end. The results of `fputs` and
/// `puts` are not lengths.
fn complete_text(row: &mut Row, length: i64) {
    let failed = row.ret < 0 && row.ret != ABSENT;
    if length != ABSENT && !failed {
        (row.bytes, row.ret) = (length, length);
        row.requested = if row.requested == ABSENT { length } else { row.requested };
    } else if row.ret == ABSENT && row.requested != ABSENT {
        (row.bytes, row.ret) = (0, 0);
    }
}

/// Completes a character call: a character counts one, the end of a file zero.
fn complete_character(row: &mut Row) {
    if row.ret != ABSENT {
        let moved = (row.ret != FAILED && row.ret >= 0) as i64;
        (row.requested, row.bytes, row.ret) = (1, moved, moved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns requested bytes, moved bytes and result of a call with these numbers.
    fn completed(op: Op, requested: i64, ret: i64, beside: CallExtras) -> (i64, i64, i64) {
        let mut row = Row { requested, ret, ..Row::new(0, 0, 0) };
        complete(&mut row, op.info(), &beside);
        (row.requested, row.bytes, row.ret)
    }

    #[test]
    fn return_values_become_bytes_moved() {
        let nothing = CallExtras::NOTHING;
        let items = CallExtras { item: 4096, ..nothing };
        let text = |length| CallExtras { length, ..nothing };
        assert_eq!(completed(Op::FREAD, 20, 20, items), (81_920, 81_920, 81_920));
        assert_eq!(completed(Op::FREAD, 20, 20, nothing), (20, 20, 20));
        assert_eq!(completed(Op::FWRITE, 2, FAILED, items), (8192, ABSENT, FAILED));
        assert_eq!(completed(Op::FGETS, 100, ABSENT, text(12)), (100, 12, 12));
        assert_eq!(completed(Op::FGETS, 100, ABSENT, nothing), (100, 0, 0));
        assert_eq!(completed(Op::FPUTS, ABSENT, 1, text(7)), (7, 7, 7));
        assert_eq!(completed(Op::FPUTS, ABSENT, FAILED, text(7)), (ABSENT, ABSENT, FAILED));
        assert_eq!(completed(Op::FGETC, ABSENT, 120, nothing), (1, 1, 1));
        assert_eq!(completed(Op::FGETC, ABSENT, FAILED, nothing), (1, 0, 0));
        assert_eq!(completed(Op::FGETC, 1, 0, nothing), (1, 0, 0));
        assert_eq!(completed(Op::CLOSE, ABSENT, 0, nothing), (ABSENT, ABSENT, 0));
    }

    #[test]
    fn other_spellings_are_the_same_operations() {
        let op = |name| operation(name).map(|info| info.op);
        assert_eq!(
            ["open64", "__xstat64", "getc", "putchar"].map(op),
            [Op::OPEN, Op::STAT, Op::FGETC, Op::FPUTC].map(Some)
        );
        assert_eq!((op("getdents64"), op("dirfd")), (Some(Op::GETDENTS), None));
    }
}
