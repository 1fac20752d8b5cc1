//! One zip with a file per host and profiles from torch.profiler, all on one clock: viewers show them on one timeline.
//!
//! ```text
//! perfetto_manifest.json    the name of each host, and the clocks of the profiles      read by viewers since v58
//! node7.pftrace             one file per host, with its host's number in every packet
//! node7-torch.json          a profile, with times on the clock of the hosts' files
//! ```
//!
//! The boot clocks of hosts are unrelated. Older viewers ignore the manifest and assume one boot clock, so all files are
//! written in that of the host that booted first, by the wall clocks.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use dlio_schemas::export::Summary;
use dlio_schemas::perfetto::bundle::{self, Companion};
use dlio_schemas::perfetto::write;
use dlio_schemas::perfetto::zip::{self, Member};
use flate2::{Compression as Deflate, Crc, write::DeflateEncoder};

use super::bundle::member_name;
use super::perfetto::{self, options};
use super::{Kind, Packing, all};
use crate::load::recorded::Recorded;
use crate::scan::Progress;
use crate::viewer::Export;
use crate::viewer::profiles::Profile;

pub const KIND: Kind = Kind {
    ending: "zip",
    gzip: false,
    cost: perfetto::cost,
    write,
    draws_waits: true,
    holds_profiles: true,
    remark: |_, packing| perfetto::zstd_remark(packing),
};

/// The name of the manifest that viewers' own archives have.
const MANIFEST: &str = "perfetto_manifest.json";

fn write(
    export: &Export,
    hosts: &[Vec<&Recorded>],
    packing: Packing,
    out: &mut BufWriter<&File>,
    progress: &Progress,
) -> io::Result<Summary> {
    let mut archive = Archive { out, members: Vec::new() };
    let paths: Vec<String> = (0..hosts.len()).map(|at| member_name(hosts, at)).collect();
    let listed = paths.iter().zip(hosts).map(|(path, processes)| bundle::Host {
        path,
        fields: &processes[0].fields,
        offset_ns: None,
    });
    let listed: Vec<_> = listed.collect();
    let names: Vec<String> = profile_names(export, hosts);
    let companions: Vec<_> = { names.iter().zip(&export.profiles) }
        .map(|(path, profile)| Companion { path, host: host_at(hosts, profile) })
        .collect();
    let manifest = bundle::manifest(&listed, &companions);
    archive.add(MANIFEST, false, |out| out.write_all(manifest.as_bytes()))?;
    let everything = options(&all(export), true, packing.packets);
    let mut events = 0;
    for (path, processes) in paths.iter().zip(hosts) {
        let of_host = options(processes, true, packing.packets);
        let options = write::Options { machines: true, unix_offset_ns: everything.unix_offset_ns, ..of_host };
        archive.add(path, false, |out| {
            events += perfetto::write(export, processes, &options, out, progress)?.events;
            Ok(())
        })?;
    }
    for (path, profile) in names.iter().zip(&export.profiles) {
        archive.add(path, true, |out| profile.write(everything.unix_offset_ns.unwrap_or(0), out))?;
    }
    let bytes = archive.finish()?;
    Ok(Summary { events, bytes, ..Summary::default() })
}

/// Returns the index of a profile's host.
fn host_at(hosts: &[Vec<&Recorded>], profile: &Profile) -> usize {
    let is_its = |processes: &Vec<&Recorded>| {
        let (name, boot) = processes[0].host();
        (name, boot) == (profile.host.0.as_deref(), profile.host.1.as_deref())
    };
    hosts.iter().position(is_its).unwrap_or(0)
}

/// Returns unique names for the profiles, after their hosts and files.
fn profile_names(export: &Export, hosts: &[Vec<&Recorded>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for profile in &export.profiles {
        let host = member_name(hosts, host_at(hosts, profile));
        let host = host.strip_suffix(".pftrace").unwrap_or(&host);
        let file = profile.path.file_name().unwrap_or_default().to_string_lossy();
        let stem = file.strip_suffix(".gz").unwrap_or(&file);
        let stem = stem.strip_suffix(".json").unwrap_or(stem);
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        let name = format!("{host}-{}", stem.chars().take(64).map(plain).collect::<String>());
        let named =
            |number: usize| if number == 0 { format!("{name}.json") } else { format!("{name}-{}.json", number + 1) };
        let free = (0..).map(named).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

/// A zip that is being written.
struct Archive<'a, 'f> {
    out: &'a mut BufWriter<&'f File>,
    members: Vec<Member>,
}

impl Archive<'_, '_> {
    /// Adds a member. Its lengths precede it but are known only afterwards, so its head is written twice.
    fn add(
        &mut self,
        name: &str,
        deflated: bool,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let at = self.out.stream_position()?;
        let mut member = Member { name: name.into(), deflated, crc: 0, stored: 0, raw: 0, at };
        self.out.write_all(&zip::member_head(&member))?;
        let start = self.out.stream_position()?;
        (member.crc, member.raw) = fill_member(self.out, deflated, fill)?;
        let end = self.out.stream_position()?;
        member.stored = end - start;
        if end > zip::SIZE_MAX {
            let why = "an archive of more than 4 GB; select fewer events, or write FILE.tar";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(&zip::member_head(&member))?;
        self.out.seek(SeekFrom::Start(end))?;
        self.members.push(member);
        Ok(())
    }

    /// Writes the list of members; returns the size of the archive.
    fn finish(self) -> io::Result<u64> {
        let size = self.out.stream_position()?;
        let end = zip::end(&self.members, size);
        self.out.write_all(&end)?;
        Ok(size + end.len() as u64)
    }
}

/// Writes the contents of a member; returns their checksum and length.
fn fill_member(
    out: &mut BufWriter<&File>,
    deflated: bool,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<(u32, u64)> {
    let mut summed = Summed { out: Packed::new(out, deflated), crc: Crc::new() };
    fill(&mut summed)?;
    let found = (summed.crc.sum(), summed.crc.amount() as u64);
    summed.out.finish().map(|()| found)
}

/// The bytes of a member, compressed or not.
enum Packed<W: Write> {
    Plain(W),
    Deflated(DeflateEncoder<W>),
}

impl<W: Write> Packed<W> {
    fn new(out: W, deflated: bool) -> Packed<W> {
        if deflated { Packed::Deflated(DeflateEncoder::new(out, Deflate::default())) } else { Packed::Plain(out) }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Packed::Plain(_) => Ok(()),
            Packed::Deflated(encoder) => encoder.finish().map(drop),
        }
    }
}

/// Computes the checksum of the written bytes.
struct Summed<W: Write> {
    out: Packed<W>,
    crc: Crc,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.out {
            Packed::Plain(out) => out.write(bytes)?,
            Packed::Deflated(out) => out.write(bytes)?,
        };
        self.crc.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
