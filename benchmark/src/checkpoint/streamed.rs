//! The built-in mechanism: files of generated content, streamed out and read back.

use super::piece::{PIECE, Piece};
use super::shard::{Format, Shard};
use super::{Mechanism, TransferStats};
use crate::checkpoint::files::distributed::METADATA;
use crate::checkpoint::files::tensorflow::{self, NEWEST};
use crate::checkpoint::verify;
use crate::failure::{Failure, Outcome};
use crate::files::atomic_file::{self, AtomicFile};
use crate::files::buffered_file::{BufferedFile, open_direct};
use crate::files::input::ReadAt;
use crate::store::{self, Body, Ranges, Upload};
use crate::system::buffer::AlignedBuffer;
use crate::system::processes;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files of generated content, written in large pieces and, if requested, synced to the device before `save` returns.
#[derive(Debug, Clone)]
pub struct Streamed {
    pub fsync: bool,
    pub random: bool,
    /// Compares the bytes read with the checksums in their file.
    pub verify: bool,
    /// Files are written and read with O_DIRECT, bypassing the page cache.
    pub direct: bool,
    /// Size of one write and one read; by default, as many bytes as are generated at a time.
    pub transfer_size: Option<usize>,
}

impl Streamed {
    /// Writes the file with a shard's tensors; returns the bytes of its index, if it has one.
    fn write(&self, path: &Path, shard: &Shard) -> io::Result<Option<Vec<u8>>> {
        let gathered = match (self.direct, self.transfer_size) {
            (true, size) => Some(BufferedFile::create_direct(path, size)?),
            (false, Some(size)) => Some(BufferedFile::create(path, size)?),
            (false, None) => None,
        };
        if let Some(mut file) = gathered {
            let index = self.stream(shard, &mut file)?;
            return self.synced(&file.finish()?).map(|()| index);
        }
        let mut file = File::create(path)?;
        let mut around = shard.file();
        let mut piece = Piece::of(shard.bytes(), shard.state.datatype, self.random, around.checksum());
        file.write_all(around.head())?;
        for tensor in 0..around.tensors() {
            file.write_all(&around.before(tensor))?;
            let crc = piece.write(&mut file, around.tensor_bytes(tensor))?;
            around.set_crc(tensor, crc);
            // The checksum precedes the bytes it covers.
            if let Some((at, bytes)) = around.afterwards(tensor) {
                file.write_all_at(&bytes, at)?;
            }
        }
        file.write_all(&around.tail())?;
        self.synced(&file)?;
        Ok(around.index())
    }

    /// Explains a failure of O_DIRECT: a file system without it reports only that an argument is invalid.
    fn of_direct(&self, failure: Failure) -> Failure {
        match self.direct && failure.what.ends_with(&io::Error::from_raw_os_error(libc::EINVAL).to_string()) {
            true => failure.remedy("this file system has no O_DIRECT; set ++workload.checkpoint.odirect=false"),
            false => failure,
        }
    }

    fn synced(&self, file: &File) -> io::Result<()> {
        if self.fsync { file.sync_all() } else { Ok(()) }
    }

    /// Writes a file in one call.
    fn write_small(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        self.synced(&file)
    }

    /// Writes a shard's files, which become visible together.
    fn save_shard(&self, folder: &Path, shard: &Shard) -> Outcome<()> {
        let path = folder.join(shard.name());
        let failed = |path: &Path, error| self.of_direct(of_io("write", path, error));
        let Some(index_name) = shard.index_name() else {
            let draft = AtomicFile::new(&path)?;
            self.write(draft.path(), shard).map_err(|error| failed(&path, error))?;
            return draft.commit();
        };
        // The index exists only once its data do.
        let index_path = folder.join(index_name);
        let mut draft = AtomicFile::new(&index_path)?;
        let data = draft.companion(&path)?;
        let index = self.write(&data, shard).map_err(|error| failed(&path, error))?.unwrap_or_default();
        self.write_small(draft.path(), &index).map_err(|error| failed(&index_path, error))?;
        draft.commit()
    }

    /// Writes the file that names the newest checkpoint, if the format has one; returns how many files were written.
    fn note_newest(&self, folder: &Path, shards: &[Shard]) -> Outcome<u64> {
        let Some(text) = newest(shards) else { return Ok(0) };
        let path = folder.join(NEWEST);
        if store::is_object(&path) {
            let mut upload = Upload::new(&path, text.len() as u64)?;
            upload.take(text.as_bytes())?;
            return upload.finish().map(|_| 1);
        }
        let draft = AtomicFile::new(&path)?;
        self.write_small(draft.path(), text.as_bytes()).map_err(|error| of_io("write", &path, error))?;
        draft.commit().map(|()| 1)
    }

    /// Writes the file that describes the files of all ranks, which completes the checkpoint. Returns the calls that
    /// wait for the device.
    pub fn conclude(&self, folder: &Path, name: &str, bytes: &[u8]) -> Outcome<TransferStats> {
        let path = folder.join(name);
        let moved = TransferStats { bytes: bytes.len() as u64, fsyncs: 0 };
        if store::is_object(&path) {
            store::put(&path, bytes)?;
            return Ok(moved);
        }
        let draft = AtomicFile::new(&path)?;
        self.write_small(draft.path(), bytes).map_err(|error| of_io("write", &path, error))?;
        draft.commit()?;
        if !self.fsync {
            return Ok(moved);
        }
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Failure::io("sync directory", folder, error))?;
        Ok(TransferStats { fsyncs: 2, ..moved })
    }

    /// Writes a shard's tensors front to back in one pass, which requires that each checksum, stored before its tensor,
    /// is known in advance. Returns the bytes of its index, if it has one.
    fn stream(&self, shard: &Shard, out: &mut impl Write) -> io::Result<Option<Vec<u8>>> {
        let mut around = shard.file();
        let mut piece = Piece::of(shard.bytes(), shard.state.datatype, self.random, around.checksum());
        let tensors: Vec<u64> = (0..around.tensors()).map(|tensor| around.tensor_bytes(tensor)).collect();
        let crcs = piece.crcs_ahead(&tensors);
        crcs.iter().enumerate().for_each(|(tensor, crc)| around.set_crc(tensor, *crc));
        let mut head = around.head().to_vec();
        for (at, bytes) in (0..tensors.len()).filter_map(|tensor| around.afterwards(tensor)) {
            // A checksum outside the head is in the bytes before its tensor.
            if let Some(place) = head.get_mut(at as usize..at as usize + bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        }
        out.write_all(&head)?;
        for (tensor, bytes) in tensors.into_iter().enumerate() {
            out.write_all(&around.before(tensor))?;
            piece.write(out, bytes)?;
        }
        out.write_all(&around.tail())?;
        Ok(around.index())
    }

    fn send(&self, path: &Path, shard: &Shard) -> Outcome<()> {
        let mut upload = Upload::new(path, shard.data_bytes())?;
        let index = self.stream(shard, &mut upload).map_err(|error| of_io("write", path, error))?;
        upload.finish()?;
        let Some((name, index)) = shard.index_name().zip(index) else { return Ok(()) };
        let mut upload = Upload::new(&path.with_file_name(name), index.len() as u64)?;
        upload.take(&index)?;
        upload.finish().map(drop)
    }
}

fn of_io(doing: &str, path: &Path, error: io::Error) -> Failure {
    if processes::interrupted() {
        return Failure::interrupted();
    }
    let full = error.kind() == io::ErrorKind::StorageFull;
    let failure = Failure::io(doing, path, error);
    if full {
        return failure.remedy(MORE_ROOM);
    }
    failure
}

const MORE_ROOM: &str = "free space, or point workload.checkpoint.checkpoint_folder at a larger disk";

/// Returns `true` if the disk was too full for a checkpoint.
pub fn is_full(failure: &Failure) -> bool {
    failure.remedy == MORE_ROOM
}

/// Returns the files of a rank. An index follows its data.
fn all_names(shards: &[Shard]) -> Vec<String> {
    let newest = newest(shards).map(|_| NEWEST.to_string());
    shards.iter().flat_map(Shard::names).chain(newest).collect()
}

/// Returns the content of the file that names the newest checkpoint, if the format has one.
fn newest(shards: &[Shard]) -> Option<String> {
    let last = shards.last()?.index_name()?;
    Some(tensorflow::newest(last.trim_end_matches(".index")))
}

/// A limit on the bytes copied per second.
struct Throttle {
    rate: Option<f64>,
    begun: Instant,
    bytes: u64,
}

impl Throttle {
    /// Waits until `bytes` more may be copied.
    fn pass(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(self.bytes as f64 / rate);
            processes::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }
}

/// Copies a rank's files to another directory, with at most `rate` bytes per second. When this returns, the copies are on the
/// device, so the originals may be deleted.
pub fn copy(from: &Path, to: &Path, shards: &[Shard], rate: Option<f64>) -> Outcome<TransferStats> {
    let mut pace = Throttle { rate, begun: Instant::now(), bytes: 0 };
    if store::is_object(to) {
        return copy_to_store(from, to, shards, &mut pace);
    }
    fs::create_dir_all(to).map_err(|error| Failure::unwritable("create directory", to, error))?;
    atomic_file::sweep(to);
    let mut piece = vec![0; PIECE];
    let mut moved = TransferStats::default();
    for name in all_names(shards) {
        let (source, path) = (from.join(&name), to.join(&name));
        let draft = AtomicFile::new(&path)?;
        moved.bytes +=
            copy_file(&source, draft.path(), &mut piece, &mut pace).map_err(|error| of_io("copy to", &path, error))?;
        draft.commit()?;
        moved.fsyncs += 1;
    }
    let synced = File::open(to).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Failure::io("sync directory", to, error))?;
    moved.fsyncs += 1;
    Ok(moved)
}

/// Copies a rank's files to a store, which has them once it confirms the writes.
fn copy_to_store(from: &Path, to: &Path, shards: &[Shard], pace: &mut Throttle) -> Outcome<TransferStats> {
    let mut piece = vec![0; PIECE];
    let mut moved = TransferStats::default();
    for name in all_names(shards) {
        let (source, path) = (from.join(&name), to.join(&name));
        let length = fs::metadata(&source).map_err(|error| Failure::io("read", &source, error))?.len();
        let mut upload = Upload::new(&path, length)?;
        copy_bytes(&source, &mut upload, &mut piece, pace).map_err(|error| of_io("copy to", &path, error))?;
        moved.bytes += upload.finish()?;
    }
    Ok(moved)
}

fn copy_file(from: &Path, to: &Path, piece: &mut [u8], pace: &mut Throttle) -> io::Result<u64> {
    let mut target = File::create(to)?;
    let total = copy_bytes(from, &mut target, piece, pace)?;
    target.sync_all().map(|()| total)
}

fn copy_bytes(from: &Path, target: &mut impl Write, piece: &mut [u8], pace: &mut Throttle) -> io::Result<u64> {
    let (mut source, mut total) = (File::open(from)?, 0);
    loop {
        if processes::interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match source.read(piece) {
            Ok(0) => return Ok(total),
            Ok(read) => {
                target.write_all(&piece[..read])?;
                total += read as u64;
                pace.pass(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Mechanism for Streamed {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<TransferStats> {
        let bytes = shards.iter().map(Shard::file_bytes).sum();
        if store::is_object(folder) {
            shards.iter().try_for_each(|shard| self.send(&folder.join(shard.name()), shard))?;
            self.note_newest(folder, shards)?;
            return Ok(TransferStats { bytes, fsyncs: 0 });
        }
        fs::create_dir_all(folder).map_err(|error| Failure::unwritable("create directory", folder, error))?;
        atomic_file::sweep(folder);
        shards.iter().try_for_each(|shard| self.save_shard(folder, shard))?;
        let files =
            shards.iter().map(|shard| shard.names().len() as u64).sum::<u64>() + self.note_newest(folder, shards)?;
        if self.fsync {
            // Syncs the names too: a file without a durable name is lost.
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| Failure::io("sync directory", folder, error))?;
        }
        let fsyncs = if self.fsync { files + 1 } else { 0 };
        Ok(TransferStats { bytes, fsyncs })
    }

    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<TransferStats> {
        let mut buffer = AlignedBuffer::default();
        let size = self.transfer_size.unwrap_or(PIECE);
        // With O_DIRECT reads are in whole pages, as the buffer provides.
        let piece = match self.direct {
            true => buffer.space(size),
            false => &mut buffer.space(size)[..size],
        };
        let mut total = read_global_metadata(folder, shards)?;
        for shard in shards {
            total += self.load_shard(folder, shard, piece)?;
        }
        Ok(TransferStats { bytes: total, fsyncs: 0 })
    }
}

impl Streamed {
    /// Reads a shard's file. A different size is valid if the file contains as many bytes of tensors: another program
    /// wrote it.
    fn load_shard(&self, folder: &Path, shard: &Shard, piece: &mut [u8]) -> Outcome<u64> {
        let path = folder.join(shard.name());
        let index = match shard.index_name() {
            Some(name) => read_small(&folder.join(name))?,
            None => Vec::new(),
        };
        let read = if store::is_object(&path) {
            let ranges = Ranges::open(&path)?;
            self.check(&path, shard, (&ranges, &index), Body::open(&path, 0, None)?, piece)?
        } else {
            let failed = |error| self.of_direct(of_io("read", &path, error));
            let file = File::open(&path).map_err(failed)?;
            match self.direct {
                true => self.check(&path, shard, (&file, &index), open_direct(&path).map_err(failed)?, piece)?,
                false => self.check(&path, shard, (&file, &index), &file, piece)?,
            }
        };
        Ok(read + index.len() as u64)
    }

    /// Reads `stream` to its end and compares it with the checksums in `file`, which is the same file, or in its index.
    fn check(
        &self,
        path: &Path,
        shard: &Shard,
        (file, index): (&dyn ReadAt, &[u8]),
        mut stream: impl Read,
        piece: &mut [u8],
    ) -> Outcome<u64> {
        let failed = |error| of_io("read", path, error);
        let saved = shard.data_bytes();
        let length = file.length().map_err(failed)?;
        let damaged = |what: String| Err(Failure::damaged(path, what));
        let Some(parts) = shard.parts(file, index) else {
            return damaged(format!("incomplete checkpoint: it has {length} bytes, but {saved} were saved"));
        };
        let held: u64 = parts.iter().map(|part| part.bytes).sum();
        if shard.format == Format::Bytes && length != saved {
            return damaged(format!("{length} bytes, {saved} were saved"));
        }
        if shard.format != Format::Bytes && held != shard.bytes() {
            return damaged(format!(
                "it contains {held} bytes of tensors, but the configuration has {}",
                shard.bytes()
            ));
        }
        let checked = if self.verify { parts } else { Vec::new() };
        let read = verify::read(&mut stream, checked, shard.format.checksum(), piece).map_err(failed)?;
        match read.damaged {
            Some(tensor) => damaged(format!("tensor {tensor} differs from the written one: wrong checksum")),
            None => Ok(read.bytes),
        }
    }
}

/// Reads the file that describes the files of all ranks, if the format has one; returns its size.
fn read_global_metadata(folder: &Path, shards: &[Shard]) -> Outcome<u64> {
    let of_all = shards.iter().any(|shard| shard.format == Format::Distributed);
    if of_all { read_small(&folder.join(METADATA)).map(|bytes| bytes.len() as u64) } else { Ok(0) }
}

/// Returns the bytes of a small file or object.
fn read_small(path: &Path) -> Outcome<Vec<u8>> {
    let failed = |error| of_io("read", path, error);
    let mut bytes = Vec::new();
    match store::is_object(path) {
        true => Body::open(path, 0, None)?.read_to_end(&mut bytes).map_err(failed)?,
        false => File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?,
    };
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::folder;
    use super::*;
    use crate::checkpoint::files::torch::State;
    use crate::config::Datatype;
    use crate::data_set::formats::containers::zip;

    /// Returns a file with one tensor of `bytes` bytes.
    fn file(name: &str, bytes: u64) -> Shard {
        let (stem, ending) = name.split_once('.').unwrap();
        let formats = [Format::Torch, Format::Safetensors, Format::Tensorflow, Format::Distributed, Format::Bytes];
        let format = formats.into_iter().find(|format| format.ending() == ending).unwrap();
        Shard { stem: stem.into(), format, state: State::of(Datatype::INT8, &[("a", bytes)]) }
    }

    fn streamed(fsync: bool) -> Streamed {
        Streamed { fsync, random: true, verify: true, direct: false, transfer_size: None }
    }

    #[test]
    fn checkpoint_blocks_are_unique() {
        let scratch = tempfile::tempdir().unwrap();
        let shards = [file("a.bin", 5 * PIECE as u64 + 77)];
        streamed(false).save(scratch.path(), &shards).unwrap();
        let bytes = fs::read(scratch.path().join("a.bin")).unwrap();
        assert_eq!(bytes.len() as u64, shards[0].bytes());
        let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(512).collect();
        assert_eq!(blocks.len(), bytes.len().div_ceil(512));
        let mut packer = libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
        let mut packed = vec![0; packer.deflate_compress_bound(bytes.len())];
        assert!(packer.deflate_compress(&bytes, &mut packed).unwrap() > bytes.len() * 99 / 100);
    }

    #[test]
    fn the_checksum_in_a_torch_file_is_that_of_its_tensor() {
        let scratch = tempfile::tempdir().unwrap();
        let lengths = [1, PIECE as u64, 77, 3 * PIECE as u64 + 5];
        let named: Vec<(&str, u64)> = ["a", "b", "c", "d"].into_iter().zip(lengths).collect();
        let shard = Shard { state: State::of(Datatype::INT8, &named), ..file("a.pt", 1) };
        streamed(false).save(scratch.path(), &[shard]).unwrap();
        let path = scratch.path().join("a.pt");
        let bytes = fs::read(&path).unwrap();
        for (number, length) in lengths.into_iter().enumerate() {
            let tensor = zip::find(&path, &bytes, |name| name == format!("a/data/{number}")).unwrap();
            assert_eq!((tensor.packed.len() as u64, crc32fast::hash(tensor.packed)), (length, tensor.crc));
        }
        let entries = zip::entries(&File::open(&path).unwrap()).unwrap();
        assert_eq!(entries.len(), 3 + lengths.len());
    }

    #[test]
    fn loads_equal_tensors_of_another_program() {
        let scratch = tempfile::tempdir().unwrap();
        let mut mechanism = streamed(false);
        let ours = file("a.pt", 5000);
        // Other names change the size of a file with the same tensors.
        let theirs = Shard { state: State::of(Datatype::INT8, &[("weights", 2000), ("bias", 3000)]), ..ours.clone() };
        let bytes = mechanism.save(scratch.path(), &[theirs]).unwrap().bytes;
        assert_ne!(bytes, ours.file_bytes());
        assert_eq!(mechanism.load(scratch.path(), std::slice::from_ref(&ours)).unwrap().bytes, bytes);
        let larger = mechanism.load(scratch.path(), &[file("a.pt", 5001)]).unwrap_err();
        assert!(larger.what.contains("5000 bytes of tensors, but the configuration has 5001"), "{larger}");
        let path = scratch.path().join("a.pt");
        File::options().write(true).open(&path).unwrap().set_len(bytes - 10).unwrap();
        assert_eq!(mechanism.load(scratch.path(), &[ours]).unwrap_err().exit_code(), 5);
    }

    #[test]
    fn saved_file_loads_and_truncation_is_detected() {
        let scratch = tempfile::tempdir().unwrap();
        let at = folder(scratch.path(), 1, 4);
        let shards = [file("a.bin", 3_000_001), file("b.pt", 10)];
        let all = 3_000_001 + shards[1].file_bytes();
        let mut mechanism = streamed(true);
        assert_eq!(mechanism.save(&at, &shards), Ok(TransferStats { bytes: all, fsyncs: 3 }));
        assert_eq!(mechanism.load(&at, &shards), Ok(TransferStats { bytes: all, fsyncs: 0 }));
        fs::write(at.join("b.pt"), b"short").unwrap();
        assert_eq!(mechanism.load(&at, &shards).unwrap_err().exit_code(), 5);
    }

    #[test]
    fn changed_byte_is_detected_by_checksums() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a.pt", "a.safetensors", "a.pb-1.data-00000-of-00001"] {
            let shards = [Shard { state: State::of(Datatype::INT8, &[("x", 700_000), ("y", 9)]), ..file(name, 1) }];
            streamed(false).save(scratch.path(), &shards).unwrap();
            let path = scratch.path().join(name);
            let whole = fs::read(&path).unwrap();
            let body = whole.len() - if name == "a.pt" { 100_000 } else { 20 };
            for at in [body, 600_000] {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x10;
                fs::write(&path, &bytes).unwrap();
                let noticed = streamed(false).load(scratch.path(), &shards).unwrap_err();
                assert!(noticed.exit_code() == 5 && noticed.what.contains("differs from the written one"), "{noticed}");
                let unverified = Streamed { verify: false, ..streamed(false) };
                assert_eq!(unverified.clone().load(scratch.path(), &shards).unwrap().bytes, shards[0].file_bytes());
            }
            for cut in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
                fs::write(&path, &whole[..cut]).unwrap();
                assert_eq!(streamed(false).load(scratch.path(), &shards).unwrap_err().exit_code(), 5, "{name}, {cut}");
            }
        }
    }

    #[test]
    fn direct_io_writes_and_reads_equal_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a.pt", "b.safetensors", "c.pb-1.data-00000-of-00001", "d.bin"] {
            let shards = [Shard { state: State::of(Datatype::INT8, &[("x", 700_000), ("y", 9)]), ..file(name, 1) }];
            let mut direct = Streamed { direct: true, ..streamed(true) };
            let moved = direct.save(scratch.path(), &shards).unwrap();
            let bytes = fs::read(scratch.path().join(name)).unwrap();
            assert_eq!(direct.load(scratch.path(), &shards).unwrap().bytes, moved.bytes);
            streamed(true).save(scratch.path(), &shards).unwrap();
            assert!(fs::read(scratch.path().join(name)).unwrap() == bytes, "{name}");
        }
    }

    #[test]
    fn any_transfer_size_gives_equal_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a.pt", "b.safetensors", "c.pb-1.data-00000-of-00001", "d.bin"] {
            let shards = [Shard { state: State::of(Datatype::INT8, &[("x", 1_700_000), ("y", 9)]), ..file(name, 1) }];
            let moved = streamed(true).save(scratch.path(), &shards).unwrap();
            let bytes = fs::read(scratch.path().join(name)).unwrap();
            for size in [4099, PIECE, 1 << 20, 3 << 20] {
                let mut sized = Streamed { transfer_size: Some(size), ..streamed(true) };
                assert_eq!(sized.save(scratch.path(), &shards), Ok(moved));
                assert!(fs::read(scratch.path().join(name)).unwrap() == bytes, "{name} in writes of {size}");
                assert_eq!(sized.load(scratch.path(), &shards).unwrap().bytes, moved.bytes);
            }
        }
    }

    #[test]
    fn copy_equals_the_original() {
        let scratch = tempfile::tempdir().unwrap();
        let (from, to) = (scratch.path().join("fast"), scratch.path().join("slow/1"));
        let shards = [file("a.pt", 2_000_000), file("b.safetensors", 3)];
        let bytes = streamed(false).save(&from, &shards).unwrap().bytes;
        assert_eq!(copy(&from, &to, &shards, None), Ok(TransferStats { bytes, fsyncs: 3 }));
        assert_eq!(streamed(false).load(&to, &shards).unwrap().bytes, bytes);
        let begun = Instant::now();
        assert_eq!(copy(&from, &to, &shards, Some(bytes as f64 / 0.2)).unwrap().bytes, bytes);
        assert!(begun.elapsed() >= Duration::from_millis(195));
        fs::remove_file(from.join("b.safetensors")).unwrap();
        assert_eq!(copy(&from, &to, &shards, None).unwrap_err().exit_code(), 3);
    }
}
