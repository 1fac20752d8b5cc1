//! Checkpoints: which files of which sizes a rank writes, and a writer that streams them.
//!
//! A mechanism is one implementation of [`Mechanism`]. The built-in one writes each file front to back from generated
//! content: no tensor is ever held in memory, and nothing but the file system is measured. A `.pt` is a file that
//! `torch.load` takes, with all of the shard as one tensor; a `.pb` is the shard's bytes and nothing else.

use crate::config::Element;
use crate::config::{Checkpoints, Framework, Model};
use crate::content::Content;
use crate::draft::Draft;
use crate::failure::{Failure, Kind, Outcome};
use crate::random::{mixed, word};
use crate::system;
use crate::torch_file::TorchFile;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One file of a rank's checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    pub name: String,
    /// Of its tensors.
    pub bytes: u64,
}

impl Shard {
    fn torch_file(&self) -> Option<TorchFile> {
        Some(TorchFile::new(self.name.strip_suffix(".pt")?, self.bytes))
    }

    fn file_bytes(&self) -> u64 {
        self.torch_file().map_or(self.bytes, |file| file.file_bytes())
    }
}

/// Who writes what: the model's size and the place of a rank in its parallelism.
pub struct Shards<'a> {
    pub model: &'a Model,
    pub checkpoints: &'a Checkpoints,
    pub framework: Framework,
    pub ranks: u64,
}

impl Shards<'_> {
    pub fn data_parallel(&self) -> u64 {
        match u64::try_from(self.model.data) {
            Ok(data) if data > 0 => data,
            _ => (self.ranks / self.model_parallel()).max(1),
        }
    }

    fn model_parallel(&self) -> u64 {
        (self.model.tensor * self.model.pipeline).max(1)
    }

    /// Trainable numbers of the whole model.
    pub fn parameters(&self) -> u64 {
        let Model { vocab, hidden, ffn, .. } = *self.model;
        let layers = self.model.layers.max(0) as u64;
        let layer = 2 * hidden + hidden * (hidden + 2 * self.kv()) + hidden * hidden + 3 * ffn * hidden;
        2 * vocab * hidden + layers * layer + hidden
    }

    /// Width of keys and values.
    fn kv(&self) -> u64 {
        self.model.hidden * self.model.kv_heads / self.model.heads.max(1)
    }

    /// The files of one rank.
    pub fn of(&self, rank: u64) -> Vec<Shard> {
        if self.model.layers > 0 && (self.model.transformer || !self.model.layer_parameters.is_empty()) {
            return self.layered(rank);
        }
        let mut shards = self.plain(rank);
        if !self.model.optimization_groups.is_empty() && self.writes_plain(rank) {
            shards.push(Shard {
                name: format!("optimizer_states-{rank}.{}", self.ending()),
                bytes: self.optimizer_groups(),
            });
        }
        shards
    }

    fn ending(&self) -> &'static str {
        if self.framework == Framework::PyTorch { "pt" } else { "pb" }
    }

    fn writes_plain(&self, rank: u64) -> bool {
        rank == 0 || self.checkpoints.all_ranks
    }

    fn plain(&self, rank: u64) -> Vec<Shard> {
        if !self.writes_plain(rank) {
            return Vec::new();
        }
        vec![Shard { name: format!("model_states-{rank}.{}", self.ending()), bytes: self.model.size_bytes }]
    }

    /// Each group gives two tensors of its length, and all together one more.
    fn optimizer_groups(&self) -> u64 {
        3 * self.model.optimization_groups.iter().sum::<u64>() * self.model.optimizer_datatype_bytes
    }

    fn layered(&self, rank: u64) -> Vec<Shard> {
        let (tensor, pipeline, data) = (self.model.tensor.max(1), self.model.pipeline.max(1), self.data_parallel());
        let place = (rank / tensor) % pipeline;
        let (model_rank, data_rank) = (rank % self.model_parallel(), rank / self.model_parallel());
        let sharded = self.model.zero_stage == 3;
        let mut shards = Vec::new();
        if self.model.zero_stage == 0 && data_rank > 0 {
            return shards;
        }
        let numbers = self.model_numbers(place, pipeline);
        let numbers = if sharded { numbers / data } else { numbers };
        let bytes = numbers * self.model.datatype_bytes;
        let ending = self.ending();
        if matches!(self.model.zero_stage, 1 | 2) {
            if data_rank == 0 {
                shards.extend(self.model_shards(place, pipeline, model_rank, bytes));
            }
        } else {
            let name = format!("zero_pp_rank_{data_rank}_mp_rank_{model_rank}_model_states.{ending}");
            shards.push(Shard { name, bytes });
        }
        let name = format!("zero_pp_rank_{data_rank}_mp_rank_{model_rank}_optim_states.{ending}");
        shards.push(Shard { name, bytes: self.optimizer_bytes(data) });
        shards
    }

    /// With pipeline parallelism each layer is a file of its own.
    fn model_shards(&self, place: u64, pipeline: u64, model_rank: u64, bytes: u64) -> Vec<Shard> {
        let ending = self.ending();
        if pipeline == 1 {
            return vec![Shard { name: format!("model_{model_rank}_model_states.{ending}"), bytes }];
        }
        let layers = self.layers_of(place, pipeline);
        let name = |layer| format!("layer_{layer}-model_{model_rank}_model_states.{ending}");
        layers
            .map(|layer| Shard { name: name(layer), bytes: self.layer_numbers(layer) * self.model.datatype_bytes })
            .collect()
    }

    /// Layer 0 and the one after the last are the embeddings, the next is the final norm; they belong to the ends of
    /// the pipeline.
    fn layers_of(&self, place: u64, pipeline: u64) -> impl Iterator<Item = u64> + use<> {
        let layers = self.model.layers.max(0) as u64;
        let each = layers.div_ceil(pipeline);
        let first = 1 + place * each;
        let last = (first + each).min(layers + 1);
        let (head, tail) = (place == 0, place + 1 == pipeline);
        let before = head.then_some(0);
        let after = if tail { layers + 1..layers + 3 } else { 0..0 };
        before.into_iter().chain(first..last.max(first)).chain(after)
    }

    fn model_numbers(&self, place: u64, pipeline: u64) -> u64 {
        self.layers_of(place, pipeline).map(|layer| self.layer_numbers(layer)).sum()
    }

    fn layer_numbers(&self, layer: u64) -> u64 {
        let Model { vocab, hidden, ffn, .. } = *self.model;
        let tensor = self.model.tensor.max(1);
        let layers = self.model.layers.max(0) as u64;
        if !self.model.layer_parameters.is_empty() {
            let inner = (1..=layers).contains(&layer);
            return if inner { self.model.layer_parameters.iter().sum::<u64>() / tensor } else { 0 };
        }
        match layer {
            _ if layer == 0 || layer == layers + 1 => hidden * vocab / tensor,
            _ if layer == layers + 2 => hidden,
            _ => 2 * hidden + (hidden * (hidden + 2 * self.kv()) + hidden * hidden + 3 * hidden * ffn) / tensor,
        }
    }

    /// Three copies of every parameter, divided over all ranks.
    fn optimizer_bytes(&self, data: u64) -> u64 {
        if !self.model.optimization_groups.is_empty() {
            return self.optimizer_groups() / (data * self.model_parallel());
        }
        let share = self.parameters() / (data * self.model_parallel());
        3 * (share + 5 * self.model.hidden) * self.model.optimizer_datatype_bytes
    }

    pub fn total_bytes(&self) -> u64 {
        (0..self.ranks).flat_map(|rank| self.of(rank)).map(|shard| shard.bytes).sum()
    }
}

/// How a rank's shards become files, and come back.
pub trait Mechanism {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<u64>;
    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<u64>;
}

/// `global_epoch<E>_step<S>` below the checkpoint folder.
pub fn folder(below: &Path, epoch: u64, step: u64) -> PathBuf {
    below.join(format!("global_epoch{epoch}_step{step}"))
}

/// Whether checkpoints can be written there: better before a run of hours than after its first epoch.
pub fn check_folder(below: &Path) -> Outcome<()> {
    let probe = below.join(format!(".dlio-{}", std::process::id()));
    let tried = fs::create_dir_all(below).and_then(|()| fs::write(&probe, b"")).and_then(|()| fs::remove_file(&probe));
    tried.map_err(|error| {
        let what = format!("cannot write to the checkpoint folder {}: {error}", below.display());
        Failure::new(Kind::System, what).remedy("name another one with ++workload.checkpoint.checkpoint_folder=DIR")
    })
}

/// Files of generated content, written in large pieces, on the device before `save` returns if asked.
pub struct Streamed {
    pub fsync: bool,
    pub random: bool,
}

/// What one write of a checkpoint moves: large enough that calls cost nothing, small enough to stay in the cache.
const PIECE: usize = 512 << 10;
const _: () = assert!(PIECE.is_power_of_two());

impl Streamed {
    fn write(&self, path: &Path, shard: &Shard) -> io::Result<()> {
        let mut file = File::create(path)?;
        match shard.torch_file() {
            None => drop(self.tensor(&mut file, shard.bytes)?),
            Some(torch) => {
                file.write_all(torch.head())?;
                let crc = self.tensor(&mut file, shard.bytes)?;
                file.write_all(&torch.tail(crc))?;
                // The checksum stands before what it is of.
                let (at, header) = torch.tensor_header(crc);
                file.write_all_at(&header, at)?;
            }
        }
        if self.fsync { file.sync_all() } else { Ok(()) }
    }

    /// Writes the content where the file is; returns its checksum.
    fn tensor(&self, file: &mut File, bytes: u64) -> io::Result<u32> {
        let mut piece = if self.random { Piece::noise(bytes) } else { Piece::zeros() };
        let mut crc = crc32fast::Hasher::new();
        let mut left = bytes;
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            match length {
                PIECE => crc.combine(&piece.crc()),
                _ => crc.update(&piece.bytes[..length]),
            }
            file.write_all(&piece.bytes[..length])?;
            left -= length as u64;
            piece.turn();
            if system::interrupted() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
        }
        Ok(crc.finalize())
    }
}

/// What is written next. Drawing noise takes as long as writing it, so it is drawn once, and each piece is the first one
/// with a key of eight bytes xored over it: no two have a block in common that a storage could keep once, or pack.
///
/// A checksum is linear: that of the xor of two pieces is the xor of theirs. So one piece is checksummed, and each bit
/// of the key is known to change this and that.
struct Piece {
    bytes: Vec<u8>,
    /// Draws the keys; None leaves the piece as it is.
    seed: Option<u64>,
    turned: u64,
    key: u64,
    first_crc: u32,
    crc_of_bits: [u32; 64],
}

impl Piece {
    fn new(bytes: Vec<u8>, seed: Option<u64>) -> Piece {
        let first_crc = crc32fast::hash(&bytes);
        Piece { bytes, seed, turned: 0, key: 0, first_crc, crc_of_bits: crc_of_bits() }
    }

    fn zeros() -> Piece {
        Piece::new(vec![0; PIECE], None)
    }

    fn noise(bytes: u64) -> Piece {
        let seed = mixed(&[bytes, 3]);
        let mut piece = vec![0; PIECE];
        Content::new(seed, Element::UINT8).fill(0, &mut piece);
        Piece::new(piece, Some(seed))
    }

    fn turn(&mut self) {
        let Some(seed) = self.seed else { return };
        self.turned += 1;
        let change = word(!seed, self.turned);
        self.key ^= change;
        for eight in self.bytes.as_chunks_mut::<8>().0 {
            *eight = (u64::from_le_bytes(*eight) ^ change).to_le_bytes();
        }
    }

    fn crc(&self) -> crc32fast::Hasher {
        let set = (0..64).filter(|bit| self.key >> bit & 1 == 1);
        let crc = set.fold(self.first_crc, |crc, bit: usize| crc ^ self.crc_of_bits[bit]);
        crc32fast::Hasher::new_with_initial_len(crc, PIECE as u64)
    }
}

/// What each bit of a key changes in the checksum of a piece.
fn crc_of_bits() -> [u32; 64] {
    let of = |key: u64| {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&key.to_le_bytes());
        for _ in 0..(PIECE / 8).ilog2() {
            crc.combine(&crc.clone());
        }
        crc.finalize()
    };
    let nothing = of(0);
    std::array::from_fn(|bit| of(1 << bit) ^ nothing)
}

fn of_io(doing: &str, path: &Path, error: io::Error) -> Failure {
    if system::interrupted() {
        return Failure::interrupted();
    }
    let full = error.kind() == io::ErrorKind::StorageFull;
    let failure = Failure::io(doing, path, error);
    if full {
        return failure.remedy("free space, or point workload.checkpoint.checkpoint_folder at a larger disk");
    }
    failure
}

impl Mechanism for Streamed {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<u64> {
        fs::create_dir_all(folder).map_err(|error| Failure::unwritable("making the folder", folder, error))?;
        for shard in shards {
            let path = folder.join(&shard.name);
            let draft = Draft::new(&path);
            self.write(draft.path(), shard).map_err(|error| of_io("writing", &path, error))?;
            draft.commit()?;
        }
        if self.fsync {
            // The names too: a file that is safe under no name is lost.
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| Failure::io("syncing the folder", folder, error))?;
        }
        Ok(shards.iter().map(Shard::file_bytes).sum())
    }

    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<u64> {
        let mut piece = vec![0; PIECE];
        let mut total = 0;
        for shard in shards {
            let path = folder.join(&shard.name);
            let read = read_whole(&path, &mut piece).map_err(|error| of_io("reading", &path, error))?;
            let saved = shard.file_bytes();
            if read != saved {
                return Err(Failure::damaged(&path, format!("{read} bytes, {saved} were saved")));
            }
            total += read;
        }
        Ok(total)
    }
}

fn read_whole(path: &Path, piece: &mut [u8]) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut total = 0;
    loop {
        match file.read(piece) {
            Ok(0) => return Ok(total),
            Ok(read) => total += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !system::interrupted() => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::formats::zip;
    use crate::grammar::parse;
    use crate::workload::compose;

    fn config(typed: &[&str]) -> Config {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        Config::read(&compose(&overrides, None).unwrap().workload).unwrap()
    }

    fn shards(config: &Config, ranks: u64) -> Shards<'_> {
        Shards { model: &config.model, checkpoints: &config.checkpoint, framework: config.framework, ranks }
    }

    fn gibibytes(bytes: u64) -> f64 {
        bytes as f64 / (1u64 << 30) as f64
    }

    #[test]
    fn parameter_counts_are_those_of_the_models() {
        for (name, billions) in [
            ("llama_7b", 6.738),
            ("llama_8b_zero3", 8.030),
            ("llama_70b", 69.88),
            ("llama_405b", 405.9),
            ("llama_1t", 1183.0),
        ] {
            let config = config(&[&format!("workload={name}")]);
            let parameters = shards(&config, 1).parameters() as f64 / 1e9;
            assert!((parameters / billions - 1.0).abs() < 1e-3, "{name}: {parameters}");
        }
    }

    #[test]
    fn a_checkpoint_is_as_large_as_model_and_optimizer() {
        for (name, ranks, expected) in [("llama_7b", 1, 87.9), ("llama_8b_zero3", 8, 104.7), ("llama_70b", 32, 911.2)] {
            let config = config(&[&format!("workload={name}")]);
            let total = gibibytes(shards(&config, ranks).total_bytes());
            assert!((total / expected - 1.0).abs() < 2e-3, "{name}: {total}");
        }
    }

    #[test]
    fn a_plain_model_is_one_file_of_its_size() {
        let config = config(&["workload=unet3d_h100"]);
        let files = shards(&config, 2);
        assert_eq!(files.of(0), [Shard { name: "model_states-0.pt".into(), bytes: 499_153_191 }]);
        assert!(files.of(1).is_empty());
    }

    #[test]
    fn stage_three_names_a_file_for_every_rank() {
        let config = config(&["workload=llama_8b_zero3"]);
        let names: Vec<String> = shards(&config, 8).of(3).into_iter().map(|shard| shard.name).collect();
        assert_eq!(names, ["zero_pp_rank_3_mp_rank_0_model_states.pt", "zero_pp_rank_3_mp_rank_0_optim_states.pt"]);
    }

    #[test]
    fn no_block_of_a_checkpoint_is_there_twice() {
        let scratch = crate::scratch::Folder::new("noise");
        let shards = [Shard { name: "a.pb".into(), bytes: 5 * PIECE as u64 + 77 }];
        Streamed { fsync: false, random: true }.save(scratch.path(), &shards).unwrap();
        let bytes = fs::read(scratch.path().join("a.pb")).unwrap();
        assert_eq!(bytes.len() as u64, shards[0].bytes);
        let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(512).collect();
        assert_eq!(blocks.len(), bytes.len().div_ceil(512));
        let mut packer = libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
        let mut packed = vec![0; packer.deflate_compress_bound(bytes.len())];
        assert!(packer.deflate_compress(&bytes, &mut packed).unwrap() > bytes.len() * 99 / 100);
    }

    #[test]
    fn the_checksum_of_a_turned_piece_is_known_without_reading_it() {
        for mut piece in [Piece::noise(9), Piece::zeros()] {
            for _ in 0..5 {
                assert_eq!(piece.crc().finalize(), crc32fast::hash(&piece.bytes));
                piece.turn();
            }
        }
    }

    #[test]
    fn the_checksum_in_a_torch_file_is_that_of_its_tensor() {
        let scratch = crate::scratch::Folder::new("crc");
        for bytes in [0, 1, PIECE as u64, 3 * PIECE as u64 + 5] {
            let shards = [Shard { name: "a.pt".into(), bytes }];
            Streamed { fsync: false, random: true }.save(scratch.path(), &shards).unwrap();
            let path = scratch.path().join("a.pt");
            let file = fs::read(&path).unwrap();
            let tensor = zip::find(&path, &file, |name| name == "a/data/0").unwrap();
            assert_eq!((tensor.packed.len() as u64, crc32fast::hash(tensor.packed)), (bytes, tensor.crc));
        }
    }

    #[test]
    fn what_was_saved_is_loaded_and_a_cut_file_is_noticed() {
        let scratch = crate::scratch::Folder::new("ckpt");
        let at = folder(scratch.path(), 1, 4);
        let shards = [Shard { name: "a.pb".into(), bytes: 3_000_001 }, Shard { name: "b.pt".into(), bytes: 10 }];
        let all = 3_000_001 + shards[1].file_bytes();
        let mut mechanism = Streamed { fsync: true, random: true };
        assert_eq!(mechanism.save(&at, &shards).unwrap(), all);
        assert_eq!(mechanism.load(&at, &shards).unwrap(), all);
        fs::write(at.join("b.pt"), b"short").unwrap();
        assert_eq!(mechanism.load(&at, &shards).unwrap_err().exit_code(), 5);
    }
}
