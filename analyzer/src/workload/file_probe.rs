//! Inspects the files of a data set, if they still exist: their size, their first bytes, their number of records. Reads
//! a small part of a few files only.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The number of files inspected.
const FILES: usize = 8;

/// The maximum number of records counted in a file.
const RECORDS_MAX: u64 = 1 << 20;

/// Lines are not counted in longer files.
const LINES_BYTES_MAX: u64 = 256 << 20;

/// The results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProbeResult {
    /// One of `step` files was inspected.
    pub step: usize,
    /// Their sizes, in the order of the paths.
    pub sizes: Vec<u64>,
    /// The format that all of them have at their start.
    pub format: Option<&'static str>,
    /// Records per file, if all inspected files have the same number.
    pub records: Option<u64>,
}

/// Inspects some of these files, evenly spaced. `None` if they do not exist.
pub fn probe(paths: &[&str], suffix: &str) -> Option<ProbeResult> {
    let step = paths.len().div_ceil(FILES).max(1);
    let mut found = ProbeResult { step, ..ProbeResult::default() };
    let (mut formats, mut records) = (Vec::new(), Vec::new());
    for path in paths.iter().step_by(step) {
        let file = open(Path::new(path))?;
        let size = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        found.sizes.push(size);
        formats.push(magic(&file));
        records.push(count(&file, size, suffix));
    }
    let same = |list: &[Option<&'static str>]| list.iter().all(|format| *format == list[0]).then_some(list[0]);
    found.format = same(&formats).flatten();
    found.records = records.first().copied().flatten().filter(|first| records.iter().all(|it| *it == Some(*first)));
    Some(found)
}

/// Opens without blocking: a file of the traced run may be a pipe now.
fn open(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()
}

const MAGIC: [(&[u8], &str); 7] = [
    (b"\x93NUMPY", "npy"),
    (b"PK\x03\x04", "npz"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"PAR1", "parquet"),
    (b"\x1f\x8b", "gzip"),
];

fn magic(file: &File) -> Option<&'static str> {
    let mut start = [0; 8];
    let length = file.read_at(&mut start, 0).ok()?;
    MAGIC.iter().find(|(magic, _)| start[..length].starts_with(magic)).map(|(_, format)| *format)
}

fn count(file: &File, size: u64, suffix: &str) -> Option<u64> {
    match suffix {
        "tfrecord" | "tfrecords" => framed(file, size),
        "csv" | "tsv" | "jsonl" if size <= LINES_BYTES_MAX => lines(file),
        "parquet" => rows(file),
        _ => None,
    }
}

/// Counts the records of a TFRecord file: a length in eight bytes, its checksum in four, the record, its checksum in
/// four.
fn framed(file: &File, size: u64) -> Option<u64> {
    let (mut at, mut records) = (0u64, 0);
    while at < size && records < RECORDS_MAX {
        let mut length = [0; 8];
        file.read_exact_at(&mut length, at).ok()?;
        at = at.checked_add(u64::from_le_bytes(length))?.checked_add(16)?;
        records += 1;
    }
    (at == size).then_some(records)
}

fn lines(file: &File) -> Option<u64> {
    let mut lines = 0;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    loop {
        let block = reader.fill_buf().ok()?;
        if block.is_empty() {
            return Some(lines);
        }
        lines += memchr::memchr_iter(b'\n', block).count() as u64;
        let length = block.len();
        reader.consume(length);
    }
}

fn rows(file: &File) -> Option<u64> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(file.try_clone().ok()?).ok()?;
    u64::try_from(reader.metadata().file_metadata().num_rows()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_finds_format_and_number_of_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let record = |bytes: usize| [&(bytes as u64).to_le_bytes()[..], &[0; 4], &vec![1; bytes], &[0; 4]].concat();
        let (a, b, c) = (path("a.tfrecord"), path("b.tfrecord"), path("c.csv"));
        std::fs::write(&a, [record(3), record(100)].concat()).unwrap();
        std::fs::write(&b, [record(7), record(9)].concat()).unwrap();
        std::fs::write(&c, "x,y\n1,2\n").unwrap();
        let found = probe(&[&a, &b], "tfrecord").unwrap();
        assert_eq!((found.records, found.sizes, found.format), (Some(2), vec![135, 48], None));
        assert_eq!(probe(&[&c], "csv").unwrap().records, Some(2));
        assert_eq!(probe(&[&path("gone")], "csv"), None);
        std::fs::write(&a, b"\x93NUMPY\x01\x00").unwrap();
        assert_eq!(probe(&[&a], "npy").unwrap().format, Some("npy"));
        std::fs::write(&a, [9; 20]).unwrap();
        assert_eq!(probe(&[&a], "tfrecord").unwrap().records, None);
    }
}
