//! The file of a descriptor, and the position at which a call started. A descriptor that was never seen is named at
//! its first use.

use dlio_schemas::record::POS_UNKNOWN;

use crate::known::{descriptors, number};
use crate::naming::descriptor_names;

/// Returns the file of a descriptor, which is determined now if it was never seen; [`number::NONE`] if it is not
/// open.
#[inline(always)]
pub fn file(fd: i32) -> u32 {
    match descriptors::seen(fd) {
        number::NONE => first_sight(fd),
        seen => seen,
    }
}

#[cold]
fn first_sight(fd: i32) -> u32 {
    if fd < 0 {
        return number::NONE;
    }
    let named = descriptor_names::of_descriptor(fd);
    if named.stays {
        descriptors::note_unless_seen(fd, named.number);
    }
    named.number
}

/// Returns the file of a descriptor and the position at which a call that read `moved` bytes started, and advances
/// the position.
#[inline(always)]
pub fn read(fd: i32, moved: i64) -> (u32, i64) {
    let (seen, description) = descriptors::seen_and_description(fd);
    let file = if seen == number::NONE { first_sight(fd) } else { seen };
    (file, description.map_or(POS_UNKNOWN, |description| description.advance(moved)))
}

/// Returns file and position like [`read`], for a write: in append mode the kernel chooses the position.
#[inline(always)]
pub fn written(fd: i32, moved: i64) -> (u32, i64) {
    let (seen, description) = descriptors::seen_and_description(fd);
    let file = if seen == number::NONE { first_sight(fd) } else { seen };
    (file, description.map_or(POS_UNKNOWN, |description| description.advance_by_write(moved)))
}
