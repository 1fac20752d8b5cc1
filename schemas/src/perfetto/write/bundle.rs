//! Traces of several hosts in one file: a tar that viewers since v58 open as one trace.
//!
//! ```text
//! manifest.json    the number of each host, and the offset of its clock
//! node7.pftrace    one file per host, with its host's number in every packet (Options::machines)
//! node8.pftrace
//! ```
//!
//! Boot clocks of hosts are unrelated. A viewer aligns files by the wall clock of their snapshots, but only for hosts
//! that it can distinguish. Older viewers open the tar and treat all hosts as one.

use crate::native::fields::{Fields, key};
use crate::perfetto::layout::machine_id;

/// Members are stored in chunks of this size.
const RECORD: usize = 512;

/// Longer names are truncated: viewers accept no more.
const NAME_MAX: usize = 99;

/// Returns the bytes before those of a member.
pub fn member_head(name: &str, size: u64) -> [u8; RECORD] {
    let mut head = [0; RECORD];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    let cut = (0..=name.len().min(NAME_MAX)).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    put(0, &name.as_bytes()[..cut]);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, size_field(size).as_slice());
    put(136, b"00000000000\0");
    // The checksum is computed with blanks in its own field.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = head.iter().map(|&byte| byte as u32).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    head
}

/// Writes a size: octal up to 8 GiB, above that the binary form that every current tar reads.
fn size_field(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    if size < 1 << 33 {
        field[..11].copy_from_slice(format!("{size:011o}").as_bytes());
    } else {
        field[0] = 0x80;
        field[4..].copy_from_slice(&size.to_be_bytes());
    }
    field
}

/// A member, as described by its head.
#[derive(Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub size: u64,
}

impl Member {
    /// Reads a head; `None` if it is not one, like the zeros at the end.
    pub fn read(head: &[u8]) -> Option<Member> {
        let head = head.first_chunk::<RECORD>().filter(|head| head[257..262] == *b"ustar")?;
        let name = head[..NAME_MAX + 1].split(|&byte| byte == 0).next().unwrap_or_default();
        Some(Member { name: String::from_utf8_lossy(name).into_owned(), size: size_of(&head[124..136])? })
    }

    /// Returns `true` for the trace of a host.
    pub fn is_trace(&self) -> bool {
        self.name.ends_with(TRACE)
    }
}

/// The extension of members that are traces.
const TRACE: &str = ".pftrace";

/// Size of a head.
pub const HEAD: usize = RECORD;

/// Returns `true` if a file begins like those written here: other programs make tars of anything.
pub fn is_bundle(head: &[u8]) -> bool {
    Member::read(head).is_some_and(|first| first.name == MANIFEST || first.is_trace())
}

/// Reads a size in either of its forms.
fn size_of(field: &[u8]) -> Option<u64> {
    if field[0] == 0x80 {
        return field[4..12].try_into().ok().map(u64::from_be_bytes);
    }
    let digits = field.split(|byte| [0, b' '].contains(byte)).find(|digits| !digits.is_empty()).unwrap_or(b"0");
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// Returns the number of zero bytes that follow a member of this size.
pub fn padding(size: u64) -> usize {
    (RECORD - (size % RECORD as u64) as usize) % RECORD
}

/// Number of zero bytes that end the tar.
pub const END: usize = 2 * RECORD;

/// One host's file in the tar.
pub struct Host<'a> {
    /// Name of the member.
    pub path: &'a str,
    /// The facts of any of its processes.
    pub fields: &'a Fields,
    /// The offset of its clock to those of the other hosts, if known more accurately than from the wall clock.
    pub offset_ns: Option<i64>,
}

/// The name of the first member.
pub const MANIFEST: &str = "manifest.json";

/// Another file in the archive: a profile of a host, without clocks of its own, whose times are boot times of the hosts'
/// files.
pub struct Companion<'a> {
    pub path: &'a str,
    /// The index of its host.
    pub host: usize,
}

/// Returns the content of the manifest.
pub fn manifest(hosts: &[Host], companions: &[Companion]) -> String {
    let names = machine_names(hosts);
    let files = (0..hosts.len()).map(|at| file_entry(hosts, at, &names));
    let others = companions.iter().map(|companion| {
        let name = &names[companion.host];
        let clocks = clocks("", hosts[companion.host].path, name, 0);
        format!("{{\"path\":{},\"machine\":{{\"name\":{name}}}{clocks}}}", quoted(companion.path))
    });
    let files: Vec<_> = files.chain(others).collect();
    format!("{{\"perfetto_manifest\":{{\"version\":1,\"files\":[\n{}\n]}}}}\n", files.join(",\n"))
}

/// Returns a name for each host, quoted. Hosts of one name get numbers: files with one name share a machine.
fn machine_names(hosts: &[Host]) -> Vec<String> {
    let name = |host: &Host| host.fields.get(key::HOST).unwrap_or("unknown").to_string();
    let numbered =
        |(at, host): (usize, &Host)| match hosts[..at].iter().filter(|other| name(other) == name(host)).count() {
            0 => quoted(&name(host)),
            before => quoted(&format!("{} {}", name(host), before + 1)),
        };
    hosts.iter().enumerate().map(numbered).collect()
}

fn file_entry(hosts: &[Host], at: usize, names: &[String]) -> String {
    let (host, name) = (&hosts[at], &names[at]);
    let own = format!("\"clock\":\"BOOTTIME\",\"machine\":{name},");
    let clocks = host.offset_ns.map_or(String::new(), |offset| clocks(&own, hosts[0].path, &names[0], offset));
    format!(
        "{{\"path\":{},\"machines\":[{{\"id\":{},\"name\":{name}}}]{clocks}}}",
        quoted(host.path),
        machine_id(host.fields)
    )
}

/// Returns the relation of a file's clock to the boot clock of a host's file.
fn clocks(own: &str, file: &str, machine: &str, offset_ns: i64) -> String {
    let file = quoted(file);
    format!(
        ",\"clocks\":{{{own}\"sync_to\":{{\"file\":{file},\"machine\":{machine},\"clock\":\"BOOTTIME\"}},\"offset_ns\":{offset_ns}}}"
    )
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if (c as u32) < 0x20 => format!("\\u{:04x}", c as u32),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_head_contains_its_checksum() {
        let head = member_head("node7.pftrace", 1234);
        let noted = u32::from_str_radix(std::str::from_utf8(&head[148..154]).unwrap(), 8).unwrap();
        let summed: u32 = (0..RECORD).map(|i| if (148..156).contains(&i) { 32 } else { head[i] as u32 }).sum();
        assert_eq!((noted, &head[124..136], &head[..13]), (summed, &b"00000002322\0"[..], &b"node7.pftrace"[..]));
    }

    #[test]
    fn sizes_are_padded_and_large_ones_fit() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
        assert_eq!(size_field((1 << 33) - 1)[..11], *b"77777777777");
        assert_eq!(size_field(1 << 33), [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn tar_head_round_trips() {
        for (name, size) in [("manifest.json", 7), ("node7.pftrace", 0), ("node7.pftrace", 1 << 40)] {
            let head = member_head(name, size);
            assert_eq!(Member::read(&head), Some(Member { name: name.into(), size }));
            assert!(is_bundle(&head));
        }
        assert!(!is_bundle(&member_head("notes.txt", 5)));
        assert_eq!((Member::read(&[0; RECORD]), Member::read(b"short")), (None, None));
    }

    #[test]
    fn long_names_are_truncated_between_characters() {
        let head = member_head(&"\u{e9}".repeat(80), 0);
        assert_eq!(head.iter().position(|&byte| byte == 0), Some(98));
    }

    #[test]
    fn the_manifest_names_each_machine() {
        let mut fields = Fields::default();
        fields.set(key::HOST, "a\"b");
        fields.set(key::BOOT_ID, "x");
        let id = machine_id(&fields);
        let host = |offset_ns| Host { path: "a.pftrace", fields: &fields, offset_ns };
        let text = manifest(&[host(None), host(Some(-5))], &[Companion { path: "t.json", host: 0 }]);
        assert!(text.starts_with("{\"perfetto_manifest\""));
        assert!(text.contains(&format!("\"machines\":[{{\"id\":{id},\"name\":\"a\\\"b\"}}]}}")));
        assert!(text.contains("\"offset_ns\":-5"));
        assert!(text.contains("\"name\":\"a\\\"b 2\""), "hosts of one name are two machines: {text}");
        let pinned = "{\"path\":\"t.json\",\"machine\":{\"name\":\"a\\\"b\"},\"clocks\":{\"sync_to\":{\"file\":\"a.pftrace\",\
            \"machine\":\"a\\\"b\",\"clock\":\"BOOTTIME\"},\"offset_ns\":0}}";
        assert!(text.contains(pinned), "{text}");
    }
}
