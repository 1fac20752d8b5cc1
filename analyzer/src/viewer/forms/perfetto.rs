//! A trace for ui.perfetto.dev: all processes in one file, on one clock.

use std::io::{self, Write};

use dlio_schemas::export::Summary;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::write;

use super::{Kind, Packing, all, write_processes};
use crate::load::recorded::Recorded;
use crate::scan::Progress;
use crate::viewer::Export;

/// Bytes per event in a compressed trace.
const PACKED_BYTES: u64 = 15;

pub const KIND: Kind = Kind {
    ending: "pftrace",
    gzip: false,
    cost,
    write: |export, hosts, packing, out, progress| {
        let processes = all(export);
        let options = options(&processes, hosts.len() > 1, packing.packets);
        write(export, &processes, &options, out, progress)
    },
    draws_waits: true,
    holds_profiles: false,
    remark: |written, packing| {
        let one_clock = (written.hosts > 1).then(|| {
            format!(
                "{} hosts on one clock, by their wall clocks; FILE.tar keeps them apart as machines (viewers from v58)",
                written.hosts
            )
        });
        zstd_remark(packing).or(one_clock)
    },
};

pub(super) fn cost(packing: Packing) -> (u64, u64) {
    if packing.packets == Compression::None { (65, 250) } else { (PACKED_BYTES, 500) }
}

pub(super) fn zstd_remark(packing: Packing) -> Option<String> {
    let unseen = "compressed with zstd: viewers before v58 cannot show it";
    (packing.packets == Compression::Zstd).then(|| unseen.to_string())
}

pub(super) fn write(
    export: &Export,
    processes: &[&Recorded],
    options: &write::Options,
    out: &mut (impl Write + ?Sized),
    progress: &Progress,
) -> io::Result<Summary> {
    let mut sink = |piece: &[u8]| out.write_all(piece);
    let writer = write::Writer::new(&mut sink, options)?;
    write_processes(export, processes, Box::new(writer), progress)
}

pub(super) fn options(processes: &[&Recorded], several: bool, compression: Compression) -> write::Options {
    let offset = processes.iter().map(|recorded| recorded.clock.real_offset_ns).min().filter(|_| several);
    let shifted = |recorded: &Recorded, ns: u64| match offset {
        Some(offset) => ns.saturating_add_signed(recorded.clock.real_offset_ns - offset),
        None => ns,
    };
    let first = processes.iter().map(|recorded| shifted(recorded, recorded.first_ns)).min().unwrap_or(0);
    let last = processes.iter().map(|recorded| shifted(recorded, recorded.last_ns)).max().unwrap_or(0);
    write::Options { compression, unix_offset_ns: offset, total: Some((first, last)), ..Default::default() }
}
