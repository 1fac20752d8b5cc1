//! The file of a descriptor, and where in it a call began. A descriptor that was never seen is named at first sight.

use dlio_schemas::record::POS_UNKNOWN;

use crate::known::{descriptors, number};
use crate::naming::descriptor_names;

/// The file a descriptor refers to, found out now if it was never seen; [`number::NONE`] where it refers to nothing.
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

/// The file of a descriptor, and where a call that has read so much began; the position moves on.
#[inline(always)]
pub fn read(fd: i32, moved: i64) -> (u32, i64) {
    let (seen, description) = descriptors::seen_and_description(fd);
    let file = if seen == number::NONE { first_sight(fd) } else { seen };
    (file, description.map_or(POS_UNKNOWN, |description| description.advance(moved)))
}

/// As [`read`], for a write: where appending is on, the kernel chooses the place.
#[inline(always)]
pub fn written(fd: i32, moved: i64) -> (u32, i64) {
    let (seen, description) = descriptors::seen_and_description(fd);
    let file = if seen == number::NONE { first_sight(fd) } else { seen };
    (file, description.map_or(POS_UNKNOWN, |description| description.advance_by_write(moved)))
}
