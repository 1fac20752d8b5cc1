//! One file per host in one tar, which viewers since v58 merge by host.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use dlio_schemas::export::Summary;
use dlio_schemas::native::fields::key;
use dlio_schemas::perfetto::pack::Compression;
use dlio_schemas::perfetto::{bundle, write};

use super::Kind;
use super::perfetto::{self, options};
use crate::load::recorded::Recorded;
use crate::scan::Progress;
use crate::viewer::Export;

pub const KIND: Kind = Kind {
    ending: "tar",
    gzip: false,
    cost: perfetto::cost,
    write: |export, hosts, packing, out, progress| {
        let events = bundle(export, hosts, packing.packets, out, progress)?;
        Ok(Summary { events, bytes: out.stream_position()?, ..Summary::default() })
    },
    draws_waits: true,
    holds_profiles: false,
    remark: |_, packing| perfetto::zstd_remark(packing),
};

/// Writes a manifest and one file per host. A member's size precedes it but is known only afterwards, so its head is
/// written twice.
fn bundle(
    export: &Export,
    hosts: &[Vec<&Recorded>],
    compression: Compression,
    out: &mut BufWriter<&File>,
    progress: &Progress,
) -> io::Result<u64> {
    let paths: Vec<String> = (0..hosts.len()).map(|i| member_name(hosts, i)).collect();
    let mut listed = Vec::new();
    for (path, processes) in paths.iter().zip(hosts) {
        listed.push(bundle::Host { path, fields: &processes[0].fields, offset_ns: None });
    }
    let manifest = bundle::manifest(&listed, &[]);
    member(out, bundle::MANIFEST, |out| out.write_all(manifest.as_bytes()))?;
    let mut events = 0;
    for (path, processes) in paths.iter().zip(hosts) {
        let options = write::Options { machines: true, ..options(processes, false, compression) };
        member(out, path, |out| {
            events += perfetto::write(export, processes, &options, out, progress)?.events;
            Ok(())
        })?;
    }
    out.write_all(&[0; bundle::END])?;
    Ok(events)
}

fn member(
    out: &mut BufWriter<&File>,
    name: &str,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let head_at = out.stream_position()?;
    let head = bundle::member_head(name, 0);
    out.write_all(&head)?;
    fill(out)?;
    let end = out.stream_position()?;
    let size = end - head_at - head.len() as u64;
    out.seek(SeekFrom::Start(head_at))?;
    out.write_all(&bundle::member_head(name, size))?;
    out.seek(SeekFrom::Start(end))?;
    out.write_all(&vec![0; bundle::padding(size)])
}

/// Returns a name after the host, in characters that every tar and viewer accepts; the second boot of a host gets a
/// number.
pub(super) fn member_name(hosts: &[Vec<&Recorded>], at: usize) -> String {
    let host = |processes: &Vec<&Recorded>| {
        let name = processes[0].fields.get(key::HOST).unwrap_or("host");
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        name.chars().take(64).map(plain).collect::<String>()
    };
    let own = host(&hosts[at]);
    match hosts[..at].iter().filter(|before| host(before) == own).count() {
        0 => format!("{own}.pftrace"),
        before => format!("{own}-{}.pftrace", before + 1),
    }
}
