//! The fields of CUPTI's records, by their offsets. Offsets are the same in every version, because fields are only appended.

use std::ffi::c_char;

use dlio_schemas::native::names::NameKind;

use crate::spans::library_calls;

/// The kinds of records that are requested, `CUpti_ActivityKind`. Kernels of kind 3 would run one after the other.
pub const COPY: u32 = 1;
pub const SET: u32 = 2;
pub const KERNEL: u32 = 10;
pub const SYNC: u32 = 38;
pub const GRAPH: u32 = 51;
pub const KINDS: [u32; 5] = [KERNEL, COPY, SET, GRAPH, SYNC];

/// Work of a device, or a wait of the host for it, with its times in nanoseconds of CUPTI's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Activity {
    pub what: What,
    pub start: u64,
    pub end: u64,
    /// Records of waits do not name the device.
    pub device: Option<u32>,
    pub stream: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    /// The name is valid while CUPTI delivers the record.
    Kernel(*const c_char),
    /// All kernels of a graph that was launched, in one record.
    Graph,
    Copy(Copying),
    Set(Setting),
    /// A wait of the host, by its name.
    Sync(&'static str),
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Copying {
    pub bytes: u64,
    kind: u8,
    from: u8,
    to: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setting {
    pub bytes: u64,
    memory: u16,
}

/// Returns the activity of a record, which ends at the end of `record` or before; `None` if it is of another kind or
/// truncated.
pub fn parse(record: &[u8]) -> Option<Activity> {
    let word = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let activity = |what: What, [start, end, device, stream]: [usize; 4]| {
        let (device, stream) = (Some(half(device)?), half(stream)?);
        Some(Activity { what, start: word(start)?, end: word(end)?, device, stream })
    };
    match half(0)? {
        KERNEL => {
            let name = std::ptr::with_exposed_provenance(word(104)? as usize);
            activity(What::Kernel(name), [16, 24, 40, 48])
        }
        COPY => {
            let byte = |at: usize| record.get(at).copied();
            let copy = Copying { bytes: word(8)?, kind: byte(4)?, from: byte(5)?, to: byte(6)? };
            activity(What::Copy(copy), [16, 24, 32, 40])
        }
        SET => {
            let memory = u16::from_ne_bytes(record.get(50..52)?.try_into().ok()?);
            activity(What::Set(Setting { bytes: word(8)?, memory }), [16, 24, 32, 40])
        }
        GRAPH => activity(What::Graph, [8, 16, 24, 36]),
        SYNC => {
            let (start, end, stream, what) = (word(8)?, word(16)?, half(32)?, What::Sync(waiting(half(4)?)?));
            Some(Activity { what, start, end, device: None, stream })
        }
        _ => None,
    }
}

/// The kinds of waits of the host, `CUpti_ActivitySynchronizationType`, as PyTorch's profiler names them. A stream that waits
/// for an event does not stop the host.
fn waiting(kind: u32) -> Option<&'static str> {
    match kind {
        1 => Some("Event Sync"),
        3 => Some("Stream Sync"),
        4 => Some("Context Sync"),
        _ => None,
    }
}

/// The kinds of memory, `CUpti_ActivityMemoryKind`, as PyTorch's profiler names them.
fn memory(kind: u16) -> &'static str {
    const NAMES: [&str; 8] =
        ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];
    NAMES.get(kind as usize).unwrap_or(&NAMES[0])
}

/// The directions of a copy, `CUpti_ActivityMemcpyKind`.
fn direction(kind: u8) -> &'static str {
    const NAMES: [&str; 11] =
        ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];
    NAMES.get(kind as usize).unwrap_or(&NAMES[0])
}

/// Enough for every name of a copy or a set.
const NAME_MAX: usize = 64;

impl Copying {
    /// Returns the number of a name such as `Memcpy HtoD (Pageable -> Device)`.
    pub(super) fn number(self) -> u32 {
        let (from, to) = (memory(self.from.into()), memory(self.to.into()));
        let name = ["Memcpy ", direction(self.kind), " (", from, " -> ", to, ")"];
        library_calls::intern(NameKind::Span, joined(&name, &mut [0; NAME_MAX]))
    }
}

impl Setting {
    /// Returns the number of a name such as `Memset (Device)`.
    pub(super) fn number(self) -> u32 {
        let name = ["Memset (", memory(self.memory), ")"];
        library_calls::intern(NameKind::Span, joined(&name, &mut [0; NAME_MAX]))
    }
}

/// Joins the parts of a name.
fn joined<'a>(parts: &[&str], space: &'a mut [u8; NAME_MAX]) -> &'a [u8] {
    let mut length = 0;
    for part in parts {
        space[length..length + part.len()].copy_from_slice(part.as_bytes());
        length += part.len();
    }
    &space[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut record = vec![0xee; 208];
        record[..4].copy_from_slice(&kind.to_ne_bytes());
        fields.iter().for_each(|(at, bytes)| record[*at..at + bytes.len()].copy_from_slice(bytes));
        record
    }

    #[test]
    fn records_of_every_kind_are_parsed_and_truncated_ones_are_not() {
        let (start, end) = (5u64.to_ne_bytes(), 9u64.to_ne_bytes());
        let (device, stream, bytes) = (3u32.to_ne_bytes(), 7u32.to_ne_bytes(), 4096u64.to_ne_bytes());
        let name = c"kernel".as_ptr();
        let pointer = name.expose_provenance().to_ne_bytes();
        let copy = Copying { bytes: 4096, kind: 1, from: 1, to: 3 };
        let set = Setting { bytes: 4096, memory: 3 };
        let cases = [
            (
                KERNEL,
                vec![(16, &start[..]), (24, &end), (40, &device), (48, &stream), (104, &pointer)],
                What::Kernel(name),
            ),
            (
                COPY,
                vec![(4, &[1, 1, 3][..]), (8, &bytes), (16, &start), (24, &end), (32, &device), (40, &stream)],
                What::Copy(copy),
            ),
            (
                SET,
                vec![(8, &bytes[..]), (16, &start), (24, &end), (32, &device), (40, &stream), (50, &[3, 0])],
                What::Set(set),
            ),
            (GRAPH, vec![(8, &start[..]), (16, &end), (24, &device), (36, &stream)], What::Graph),
            (SYNC, vec![(4, &[3, 0, 0, 0][..]), (8, &start), (16, &end), (32, &stream)], What::Sync("Stream Sync")),
        ];
        for (kind, fields, what) in cases {
            let record = record(kind, &fields);
            let last = fields.iter().map(|(at, bytes)| at + bytes.len()).max().unwrap();
            let device = (kind != SYNC).then_some(3);
            let expected = Activity { what, start: 5, end: 9, device, stream: 7 };
            assert_eq!(parse(&record[..last]), Some(expected));
            (0..last).for_each(|length| assert_eq!(parse(&record[..length]), None, "{kind} cut at {length}"));
        }
        assert_eq!(parse(&record(5, &[])), None);
        assert_eq!(parse(&record(SYNC, &[(4, &[2, 0, 0, 0])])), None, "a stream waits, not the host");
    }

    #[test]
    fn unknown_memory_and_the_longest_name_have_a_name() {
        assert_eq!((memory(1), memory(99), direction(1), direction(200)), ("Pageable", "Unknown", "HtoD", "Unknown"));
        let longest = (0..=u8::MAX).map(|kind| memory(kind.into())).max_by_key(|name| name.len()).unwrap();
        let directions = (0..=u8::MAX).map(direction).max_by_key(|name| name.len()).unwrap();
        let name = joined(&["Memcpy ", directions, " (", longest, " -> ", longest, ")"], &mut [0; NAME_MAX]).to_vec();
        assert_eq!(name, b"Memcpy Unknown (Managed Static -> Managed Static)");
    }
}
