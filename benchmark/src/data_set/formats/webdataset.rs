//! `webdataset`: shards that are tar files, `<prefix>-000000.tar`, .... The members of a sample are adjacent and share
//! its key: `000000007.bin` (its bytes) and `000000007.cls` (its label).
//!
//! Shards are read front to back, with every loader; a sample starts where the previous one ends. Shards of other
//! programs can be read too: a key ends at the first dot of the last part of a name, and the rest in lower case is the
//! extension; directories, links and names in double underscores belong to no sample.

use super::containers::tar::{self, Announced, BLOCK, Header};
use super::containers::window::Window;
use super::format::{Format, Output, Reader, content_of};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::AtomicFile;
use crate::files::input::{Access, Input};
use serde_json::{Value as Json, json};
use std::path::Path;

pub struct Webdataset;

/// The label of every sample.
const LABEL: &[u8] = b"0";
/// The maximum size of an announced name or record.
const ANNOUNCED_MAX: u64 = 1 << 20;

impl Format for Webdataset {
    fn name(&self) -> &'static str {
        "webdataset"
    }

    fn write(&self, spec: &FileSpec, dataset: &Dataset, draft: &mut AtomicFile, scratch: &mut Vec<u8>) -> Outcome<()> {
        let mut output = Output::create(draft, &spec.path)?;
        let size = spec.sample_bytes();
        for sample in 0..spec.samples {
            let key = key(spec, sample);
            begin_member(&mut output, &format!("{key}.{}", dataset.shard_extension), size, dataset)?;
            output.write_content(content_of(spec), sample * size..(sample + 1) * size, scratch, |_| {})?;
            fill(&mut output, size)?;
            begin_member(&mut output, &format!("{key}.cls"), LABEL.len() as u64, dataset)?;
            output.write(LABEL)?;
            fill(&mut output, LABEL.len() as u64)?;
        }
        let end = tar::end(output.at);
        output.write(&vec![0; end as usize])
    }

    fn file_bytes(&self, spec: &FileSpec, dataset: &Dataset) -> Option<u64> {
        let header = if dataset.shard_pax { 3 * BLOCK } else { BLOCK } as u64;
        let sample = 2 * header + tar::padded(spec.sample_bytes()) + tar::padded(LABEL.len() as u64);
        let members = spec.samples * sample;
        Some(members + tar::end(members))
    }

    fn made_with(&self, dataset: &Dataset) -> Vec<(&'static str, Json)> {
        vec![("webdataset.extension", json!(dataset.shard_extension)), ("webdataset.pax", json!(dataset.shard_pax))]
    }

    fn reader(&self, dataset: &Dataset, access: Access) -> Box<dyn Reader> {
        let extension = dataset.shard_extension.to_lowercase();
        Box::new(ShardReader { access, extension, ..ShardReader::default() })
    }
}

/// Returns the key of a sample, among all samples of a data set with shards of equal size.
fn key(spec: &FileSpec, sample: u64) -> String {
    format!("{:09}", spec.number * spec.samples + sample)
}

fn begin_member(output: &mut Output, name: &str, size: u64, dataset: &Dataset) -> Outcome<()> {
    if dataset.shard_pax {
        output.write(&tar::pax())?;
    }
    output.write(&tar::header(name, size))
}

fn fill(output: &mut Output, size: u64) -> Outcome<()> {
    output.write(&[0; BLOCK][..(tar::padded(size) - size) as usize])
}

/// Returns key and extension of a member; `None` if it belongs to no sample.
fn parts_of(name: &str) -> Option<(&str, String)> {
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let dot = last + name[last..].find('.')?;
    let own = &name[last..];
    let reserved = own.starts_with("__") && own.ends_with("__");
    (dot > last && !reserved).then(|| (&name[..dot], name[dot + 1..].to_lowercase()))
}

/// The next member of the open shard: its header was read, its data were not.
struct Member {
    key: String,
    extension: String,
    size: u64,
}

#[derive(Default)]
struct ShardReader {
    access: Access,
    extension: String,
    input: Option<Input>,
    window: Window,
    /// The number of the next sample, and its first member if that was already reached.
    next: u64,
    met: Option<Member>,
    /// The member with the last sample's bytes.
    bytes: Vec<u8>,
    moved: u64,
}

impl ShardReader {
    fn need(&mut self, length: usize) -> Outcome<()> {
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let result = self.window.need(input, length, self.access.transfer);
        self.moved += input.take_moved();
        result
    }

    fn damaged(&self, what: &str) -> Failure {
        let input = self.input.as_ref().expect("a reader is opened before it reads");
        let at = self.window.position();
        Failure::damaged(input.path(), format!("{what} (sample {} at byte {at})", self.next))
    }

    fn rewind(&mut self) {
        self.window.go_to(0);
        (self.next, self.met) = (0, None);
    }

    /// Returns `true` if the file has at least `length` bytes left.
    fn has(&mut self, length: u64) -> Outcome<bool> {
        let at = self.window.position();
        let input = self.input.as_mut().expect("a reader is opened before it reads");
        let end = input.length_of_stream(at)?;
        Ok(at.checked_add(length).is_some_and(|last| last <= end))
    }

    /// Returns announced data, including padding.
    fn announcement(&mut self, size: u64) -> Outcome<Vec<u8>> {
        if size > ANNOUNCED_MAX || !self.has(tar::padded(size))? {
            return Err(self.damaged("the shard is truncated in a header"));
        }
        let padded = tar::padded(size) as usize;
        self.need(padded)?;
        let data = self.window.next(size as usize).to_vec();
        self.window.pass(padded);
        Ok(data)
    }

    fn skip(&mut self, mut bytes: u64) -> Outcome<()> {
        const STEP: u64 = 1 << 20;
        while bytes > 0 {
            let step = bytes.min(STEP) as usize;
            self.need(step)?;
            self.window.pass(step);
            bytes -= step as u64;
        }
        Ok(())
    }

    /// Returns the next member that belongs to a sample; `None` at the end of the shard.
    fn member(&mut self) -> Outcome<Option<Member>> {
        let mut announced = Announced::default();
        loop {
            if !self.has(BLOCK as u64)? {
                // Some writers omit the empty blocks at the end.
                return if self.has(1)? { Err(self.damaged("the shard is truncated in a header")) } else { Ok(None) };
            }
            self.need(BLOCK)?;
            let block = self.window.next(BLOCK).first_chunk::<BLOCK>().expect("a block was requested");
            let header = Header::parse(block).map_err(|what| self.damaged(what))?;
            let Some(header) = header else { return Ok(None) };
            self.window.pass(BLOCK);
            if header.announces() {
                let data = self.announcement(header.size)?;
                if !announced.take(&header, &data) {
                    return Err(self.damaged("a header cannot be read"));
                }
                continue;
            }
            let announced = std::mem::take(&mut announced);
            let (name, size) = (announced.name.unwrap_or(header.name.clone()), announced.size.unwrap_or(header.size));
            if !self.has(size)? {
                return Err(self.damaged(&format!("the shard is truncated in `{name}`")));
            }
            match parts_of(&name).filter(|_| header.is_file()) {
                Some((key, extension)) => return Ok(Some(Member { key: key.to_string(), extension, size })),
                None => self.skip(tar::padded(size))?,
            }
        }
    }

    /// Passes the members of the next sample, and keeps the bytes of one member, which is the member with the data set's
    /// extension or else the first. Returns `false` at the end of the shard.
    fn next_sample(&mut self) -> Outcome<bool> {
        let first = match self.met.take() {
            Some(member) => member,
            None => match self.member()? {
                Some(member) => member,
                None => return Ok(false),
            },
        };
        let key = first.key.clone();
        let mut extensions: Vec<String> = Vec::new();
        let mut member = first;
        loop {
            if extensions.contains(&member.extension) {
                return Err(self.damaged(&format!("`{key}` has two members with the extension {}", member.extension)));
            }
            let padded = tar::padded(member.size);
            // The last member of a truncated shard may have its bytes but not its padding.
            let there = if self.has(padded)? { padded } else { member.size };
            if extensions.is_empty() || member.extension == self.extension {
                self.need(there as usize)?;
                self.bytes.clear();
                self.bytes.extend_from_slice(self.window.next(member.size as usize));
                self.window.pass(there as usize);
            } else {
                self.skip(there)?;
            }
            extensions.push(member.extension);
            match self.member()? {
                Some(next) if next.key == key => member = next,
                other => {
                    self.met = other;
                    self.next += 1;
                    return Ok(true);
                }
            }
        }
    }
}

impl Reader for ShardReader {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        self.input = Some(Input::open(path, self.access)?);
        self.rewind();
        Ok(())
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        if index < self.next {
            self.rewind();
        }
        while self.next <= index {
            if !self.next_sample()? {
                let what = format!("it has {} samples; sample {index} does not exist", self.next);
                return Err(Failure::damaged(self.input.as_ref().expect("open").path(), what));
            }
        }
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.input = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Creates a shard with these members.
    fn shard(folder: &TempDir, members: &[(&str, &[u8])], before: &[u8]) -> std::path::PathBuf {
        let mut bytes = before.to_vec();
        for (name, data) in members {
            bytes.extend(tar::header(name, data.len() as u64));
            bytes.extend(*data);
            bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        }
        bytes.resize(bytes.len() + tar::end(bytes.len() as u64) as usize, 0);
        let path = folder.path().join("s.tar");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn reader(path: &Path) -> ShardReader {
        let mut reader = ShardReader { extension: "jpg".into(), ..ShardReader::default() };
        reader.open(path).unwrap();
        reader
    }

    #[test]
    fn members_with_equal_keys_form_a_sample() {
        let folder = tempfile::tempdir().unwrap();
        let members: [(&str, &[u8]); 7] = [
            ("__meta__", b"skipped"),
            ("a/b.c/s01.seg.png", b"mask"),
            ("a/b.c/s01.JPG", b"picture"),
            ("a/", b""),
            ("plain", b"no extension"),
            ("a/b.c/s02.txt", b"words"),
            ("s03.cls", b"1"),
        ];
        let mut shards = reader(&shard(&folder, &members, b""));
        for (index, expected) in [(0, &b"picture"[..]), (1, b"words"), (2, b"1"), (1, b"words")] {
            shards.sample(index).unwrap();
            assert_eq!(shards.bytes(), expected);
        }
        let failure = shards.sample(3).unwrap_err();
        assert!(failure.what.contains("it has 3 samples") && failure.exit_code() == 5, "{failure}");
    }

    #[test]
    fn keys_end_at_the_first_dot_of_the_last_part() {
        assert_eq!(parts_of("a/b.c/s01.Seg.PNG"), Some(("a/b.c/s01", "seg.png".into())));
        assert_eq!((parts_of("a.b/c"), parts_of(".hidden"), parts_of("x/__a.b__")), (None, None, None));
    }

    #[test]
    fn a_repeated_extension_and_a_cut_shard_are_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = shard(&folder, &[("a.jpg", b"1"), ("a.JPG", b"2")], b"");
        let failure = reader(&path).sample(0).unwrap_err();
        assert!(failure.what.contains("two members with the extension jpg"), "{failure}");
        let path = shard(&folder, &[("a.jpg", &[1; 3000]), ("b.jpg", &[2; 3000])], b"");
        let whole = std::fs::read(&path).unwrap();
        for cut in [100, 600, 2000, BLOCK * 7 + 300, BLOCK * 8 + 10] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut shards = reader(&path);
            let failure = shards.sample(0).and_then(|()| shards.sample(1)).unwrap_err();
            assert!(failure.exit_code() == 5 && failure.what.contains("s.tar"), "{cut}: {failure}");
        }
    }

    #[test]
    fn long_names_of_either_kind_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let long = format!("{}/s01.jpg", "d".repeat(150));
        let record = |text: &str| {
            let length = text.len() + 5;
            format!("{length} {text}\n").into_bytes()
        };
        for (kind, data) in [(b'L', [long.as_bytes(), b"\0"].concat()), (b'x', record(&format!("path={long}")))] {
            let mut before = tar::header("././@LongLink", data.len() as u64);
            before[156] = kind;
            let sum: u32 = before
                .iter()
                .enumerate()
                .map(|(at, byte)| u32::from(if (148..156).contains(&at) { b' ' } else { *byte }))
                .sum();
            before[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            let mut before = before.to_vec();
            before.extend(&data);
            before.resize(before.len().next_multiple_of(BLOCK), 0);
            let path = shard(&folder, &[("short", b"long"), ("s02.jpg", b"next")], &before);
            let mut shards = reader(&path);
            shards.sample(0).unwrap();
            assert_eq!(shards.bytes(), b"long");
            shards.sample(1).unwrap();
            assert_eq!(shards.bytes(), b"next");
        }
    }
}
