//! The lines that DFTracer's tools read.

use std::io::Write;

use dlio_schemas::dftracer;

use super::{Kind, all, chrome, write_processes};

pub const KIND: Kind = Kind {
    ending: "pfw",
    gzip: true,
    cost: chrome::cost,
    write: |export, _, packing, out, progress| {
        let mut sink = |piece: &[u8]| out.write_all(piece);
        let writer = dftracer::Writer::new(&mut sink, packing.gzip);
        write_processes(export, &all(export), Box::new(writer), progress)
    },
    draws_waits: false,
    holds_profiles: false,
    remark: |_, _| None,
};
