//! The layout of our events in a Perfetto trace, shared by the writer and the reader.
//!
//! ```text
//! process   track "python3"                start, end, counters, waits of trainers
//!   thread  track "main thread"            one sequence of packets: slices, instants
//!     lane  track "in flight"              calls that do not nest in the others of their thread
//!   gpu     track "GPU 0"
//!     lane  track "stream 7"               work of a stream, in the sequence of the thread that recorded it
//! ```
//!
//! Every call is a pair of packets, begin (with all arguments) and end, one directly after the other, in the order
//! the calls ended. Numbers of interned strings contain more information than necessary, so that our reader can
//! restore everything without another byte in the file:
//!
//! | interned | number |
//! |---|---|
//! | category | `index << 5 | depth`; [`layer_index`] for a layer, after [`CATEGORY_NAMES`] the name id of a span's category |
//! | event name | up to [`OP_MAX`] the operation, above it [`EVENT_NAMES`] + the name id |
//! | annotation name | up to [`ANNOTATION_NAMES`] a [`Key`](crate::export::key::Key), above it the name id |
//! | annotation text | the name id |

use crate::event::ops::{Layer, OP_MAX};
use crate::export::key::hash;
use crate::native::fields::{Fields, key};

/// Raise this when a reader of the old rules would misread; it is part of each process's attributes.
pub const LAYOUT: u64 = 1;

pub const DEPTH_BITS: u32 = 5;
/// Names count from 1, so this number itself is the last one for one of the first layers. It is written into files.
pub const CATEGORY_NAMES: u64 = 5;
/// Later layers follow all names.
const LATER_LAYERS: u64 = CATEGORY_NAMES + (1 << 32);
pub const EVENT_NAMES: u64 = OP_MAX as u64 + 1;
pub const ANNOTATION_NAMES: u64 = 64;

/// Returns the number of a layer among categories.
#[inline(always)]
pub const fn layer_index(layer: Layer) -> u64 {
    let number = 1 + layer as u64;
    if number <= CATEGORY_NAMES { number } else { LATER_LAYERS + number }
}

/// Ids of processes and threads of each further host in a file are increased by this number per host: viewers treat
/// equal ids as one process. Linux assigns no ids this large.
pub const ID_STRIDE: u64 = 1 << 22;

/// Attributes of the trace are called `dlio.UUID.KEY`; the key is that of a process's fields or one of these.
pub const ATTRIBUTE_PREFIX: &str = "dlio.";
pub const ATTRIBUTE_LAYOUT: &str = "layout";
/// Unix time minus boot time.
pub const ATTRIBUTE_OFFSET: &str = "clock_offset_ns";
/// Written alone in a raw packet at which every sequence ends: a reader may start here.
pub const ATTRIBUTE_CHAPTER: &str = "dlio.chapter";
/// Written last; a file without it was truncated.
pub const ATTRIBUTE_COMPLETE: &str = "complete";

/// Returns the track of a process: equal for one image of one process wherever it is written, different for any two.
pub fn process_uuid(fields: &Fields) -> u64 {
    let keys = [key::HOST, key::BOOT_ID, key::PID, key::START_BOOT_NS, key::IMAGE];
    hash(&keys.map(|key| fields.get(key).unwrap_or("").as_bytes()))
}

/// Returns a track below another: of a thread by its id, of a lane by its number, of a counter by its name.
pub fn child_uuid(parent: u64, kind: &str, which: &[u8]) -> u64 {
    hash(&[&parent.to_le_bytes(), kind.as_bytes(), which])
}

/// Distinguishes hosts if traces of several are merged; it takes two bytes in each packet.
pub fn machine_id(fields: &Fields) -> u32 {
    let boot = fields.get(key::BOOT_ID).or(fields.get(key::HOST)).unwrap_or("");
    (hash(&[boot.as_bytes()]) % 0x3f80) as u32 + 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_names_never_share_a_number() {
        let numbers = Layer::ALL.map(layer_index);
        let is_name = |number: u64| (CATEGORY_NAMES + 1..=CATEGORY_NAMES + u32::MAX as u64).contains(&number);
        assert!(numbers.is_sorted() && !numbers.into_iter().any(is_name));
        assert!(numbers.iter().all(|number| number << DEPTH_BITS >> DEPTH_BITS == *number));
    }

    #[test]
    fn images_of_one_process_have_separate_tracks() {
        let mut fields = Fields::default();
        fields.set(key::HOST, "node7");
        fields.set(key::PID, 12);
        let first = process_uuid(&fields);
        fields.set(key::IMAGE, 1);
        assert_ne!(process_uuid(&fields), first);
        assert_ne!(child_uuid(first, "thread", b"12"), child_uuid(first, "counter", b"12"));
    }

    #[test]
    fn machine_ids_take_two_bytes() {
        for i in 0..1000 {
            let mut fields = Fields::default();
            fields.set(key::BOOT_ID, i);
            assert!((0x80..0x4000).contains(&machine_id(&fields)));
        }
    }
}
