//! Chrome's trace events, which most viewers read.

use std::io::Write;

use dlio_schemas::chrome;

use super::{Kind, Packing, all, write_processes};

pub const KIND: Kind = Kind {
    ending: "json",
    gzip: true,
    cost,
    write: |export, _, packing, out, progress| {
        let processes = all(export);
        let zero_unix_ns = processes.iter().map(|recorded| recorded.clock.real_offset_ns).min();
        let mut sink = |piece: &[u8]| out.write_all(piece);
        let writer = chrome::Writer::new(&mut sink, &chrome::Options { gzip: packing.gzip, zero_unix_ns });
        write_processes(export, &processes, Box::new(writer), progress)
    },
    draws_waits: false,
    holds_profiles: false,
    remark: |_, _| None,
};

pub(super) fn cost(packing: Packing) -> (u64, u64) {
    if packing.gzip { (22, 1500) } else { (190, 700) }
}
