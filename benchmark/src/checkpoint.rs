//! Checkpoints: which files of which sizes a rank writes, and a writer that streams them.
//!
//! A mechanism is one implementation of [`Mechanism`]. The built-in one writes each file front to back from generated
//! content: no tensor is ever held in memory, and nothing but the file system is measured. A `.pt` is a file that
//! `torch.load` takes, with the dictionary of tensors that DLIO's has; a `.safetensors` has the same tensors; a `.pb` is
//! their bytes and nothing else.

use crate::config::Element;
use crate::config::{Checkpoints, Datatype, Framework, Model};
use crate::content::Content;
use crate::draft::{self, Draft};
use crate::failure::{Failure, Kind, Outcome};
use crate::formats::zip;
use crate::random::{mixed, word};
use crate::restored::{self, Part};
use crate::safetensors_file::{self, Found, SafetensorsFile};
use crate::system;
use crate::tensor_file::{Bytes, TensorFile};
use crate::torch_file::{Entry, State, TorchFile};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One file of a rank's checkpoint: a dictionary of tensors, whose numbers are all of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Without its ending.
    pub stem: String,
    pub format: Format,
    pub state: State,
}

/// What a file of tensors is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Torch,
    Safetensors,
    Bytes,
}

impl Format {
    fn of(framework: Framework, checkpoints: &Checkpoints) -> Format {
        match framework {
            _ if checkpoints.safetensors => Format::Safetensors,
            Framework::PyTorch => Format::Torch,
            Framework::TensorFlow => Format::Bytes,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Format::Torch => "pt",
            Format::Safetensors => "safetensors",
            Format::Bytes => "pb",
        }
    }

    /// The tensors of a file that is there, or None where it is no complete one. Not of bytes alone: nothing says there
    /// what they are.
    fn parts(self, file: &File) -> Option<Vec<Part>> {
        match self {
            Format::Torch => zip::entries(file).map(torch_parts),
            Format::Safetensors => safetensors_file::tensors(file).map(|tensors| {
                let part = |found: Found| Part { name: found.name, at: found.at, bytes: found.bytes, crc: found.crc };
                tensors.into_iter().map(part).collect()
            }),
            Format::Bytes => Some(Vec::new()),
        }
    }
}

fn torch_parts(entries: Vec<zip::Entry>) -> Vec<Part> {
    let is_tensor = |name: &str| name.rsplit_once("/data/").is_some_and(|(_, number)| number.parse::<u64>().is_ok());
    let tensors = entries.into_iter().filter(|entry| is_tensor(&entry.name));
    let crc = |entry: &zip::Entry| matches!(entry.method, zip::Method::Stored).then_some(entry.crc);
    let part = |entry: zip::Entry| Part { crc: crc(&entry), name: entry.name, at: entry.data_at, bytes: entry.size };
    tensors.map(part).collect()
}

impl Shard {
    pub fn name(&self) -> String {
        format!("{}.{}", self.stem, self.format.ending())
    }

    /// Of its tensors, each as often as it is stored.
    pub fn bytes(&self) -> u64 {
        self.state.tensors.iter().map(|numbers| numbers * self.state.datatype.bytes).sum()
    }

    fn file(&self) -> Box<dyn TensorFile> {
        match self.format {
            Format::Torch => Box::new(TorchFile::new(&self.stem, &self.state)),
            Format::Safetensors => Box::new(SafetensorsFile::new(&self.state)),
            Format::Bytes => Box::new(Bytes(self.bytes())),
        }
    }

    pub fn file_bytes(&self) -> u64 {
        self.file().file_bytes()
    }
}

/// Who writes what: the model's size and the place of a rank in its parallelism. Names and sizes are DLIO's.
pub struct Shards<'a> {
    pub model: &'a Model,
    pub checkpoints: &'a Checkpoints,
    pub framework: Framework,
    pub ranks: u64,
}

/// Where a rank stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    data: u64,
    model: u64,
    pipeline: u64,
}

impl Shards<'_> {
    pub fn data_parallel(&self) -> u64 {
        match u64::try_from(self.model.data) {
            Ok(data) if data > 0 => data,
            _ => (self.ranks / self.model_parallel()).max(1),
        }
    }

    fn tensor(&self) -> u64 {
        self.model.tensor.max(1)
    }

    fn pipeline(&self) -> u64 {
        self.model.pipeline.max(1)
    }

    fn model_parallel(&self) -> u64 {
        self.tensor().saturating_mul(self.pipeline())
    }

    fn place(&self, rank: u64) -> Place {
        Place {
            data: rank / self.model_parallel(),
            model: rank % self.model_parallel(),
            pipeline: (rank / self.tensor()) % self.pipeline(),
        }
    }

    fn layers(&self) -> u64 {
        self.model.layers.max(0) as u64
    }

    /// Trainable numbers of the whole model.
    pub fn parameters(&self) -> u64 {
        let Model { vocab, hidden, ffn, .. } = *self.model;
        let layer = 2 * hidden + hidden * (hidden + 2 * self.kv()) + hidden * hidden + 3 * ffn * hidden;
        if self.layers() == 0 { 0 } else { 2 * vocab * hidden + self.layers() * layer + hidden }
    }

    /// Width of keys and values.
    fn kv(&self) -> u64 {
        self.model.hidden / self.model.heads.max(1) * self.model.kv_heads
    }

    /// The files of one rank.
    pub fn of(&self, rank: u64) -> Vec<Shard> {
        let place = self.place(rank);
        let format = Format::of(self.framework, self.checkpoints);
        let shard = |stem: String, state: State| Shard { stem, format, state };
        let plain =
            || shard(format!("model_states-{rank}"), State::of(Datatype::INT8, &[("a", self.model.size_bytes)]));
        let has_plain = !self.model.transformer && self.model.size_bytes > 0;
        // Without sharding one copy of the model is one checkpoint.
        if self.model.zero_stage == 0 && place.data > 0 {
            return if has_plain && self.checkpoints.all_ranks { vec![plain()] } else { Vec::new() };
        }
        let mut shards = Vec::new();
        if has_plain {
            shards.push(plain());
        }
        shards.extend(self.model_files(place).into_iter().map(|(stem, state)| shard(stem, state)));
        if let Some(state) = self.optimizer() {
            shards.push(shard(format!("zero_pp_rank_{}_mp_rank_{}_optim_states", place.data, place.model), state));
        }
        shards
    }

    fn model_files(&self, place: Place) -> Vec<(String, State)> {
        let layers: Vec<u64> = self.layers_of(place.pipeline).collect();
        if layers.is_empty() {
            return Vec::new();
        }
        let Place { data, model, .. } = place;
        if !matches!(self.model.zero_stage, 1 | 2) {
            return vec![(format!("zero_pp_rank_{data}_mp_rank_{model}_model_states"), self.layer_states(&layers))];
        }
        if data > 0 {
            return Vec::new();
        }
        if self.pipeline() == 1 {
            return vec![(format!("model_{model}_model_states"), self.layer_states(&layers))];
        }
        // With pipeline parallelism each layer is a file of its own.
        let name = |layer| format!("layer_{layer}-model_{model}_model_states");
        layers.into_iter().map(|layer| (name(layer), self.layer_state(layer))).collect()
    }

    /// The layers of a part of the pipeline; the first parts have one more where they cannot be divided. Layer 0 and the
    /// one after the last are the embeddings, the next is the final norm; they belong to its ends. Models given by lists
    /// have none.
    fn layers_of(&self, part: u64) -> impl Iterator<Item = u64> + use<> {
        let (layers, parts) = (self.layers(), self.pipeline());
        let (each, more) = (layers / parts, layers % parts);
        let first = 1 + part * each + part.min(more);
        let last = first + each + u64::from(part < more);
        let ends = layers > 0 && !self.by_lists();
        let before = (ends && part == 0).then_some(0);
        let after = if ends && part + 1 == parts { layers + 1..layers + 3 } else { 0..0 };
        before.into_iter().chain(first..last).chain(after)
    }

    fn by_lists(&self) -> bool {
        !self.model.layer_parameters.is_empty()
    }

    /// Several layers in one file. Those given by lists share their tensors, as DLIO's do, and a tensor is stored once.
    fn layer_states(&self, layers: &[u64]) -> State {
        let shared = self.by_lists();
        let mut state = State::new(self.layer_datatype());
        for (count, layer) in layers.iter().enumerate() {
            let first = if shared && count > 0 { 0 } else { state.tensors.len() };
            let numbers = self.layer_tensors(*layer);
            let entries = numbers.iter().enumerate().filter(|(_, numbers)| **numbers > 0);
            let entries =
                entries.enumerate().map(|(place, (index, _))| (index.to_string(), Entry::Tensor(first + place)));
            state.entries.push((layer.to_string(), Entry::Dictionary(entries.collect())));
            if first == state.tensors.len() {
                state.tensors.extend(numbers.into_iter().filter(|numbers| *numbers > 0));
            }
        }
        state
    }

    fn layer_state(&self, layer: u64) -> State {
        let numbers = self.layer_tensors(layer);
        let names: Vec<String> = (0..numbers.len()).map(|index| index.to_string()).collect();
        State::of(self.layer_datatype(), &names.iter().map(String::as_str).zip(numbers).collect::<Vec<_>>())
    }

    fn layer_datatype(&self) -> Datatype {
        if self.by_lists() { Datatype::INT8 } else { self.model.datatype }
    }

    fn layer_tensors(&self, layer: u64) -> Vec<u64> {
        let Model { vocab, hidden, ffn, .. } = *self.model;
        let tensor = self.tensor();
        if self.by_lists() {
            return self.model.layer_parameters.iter().map(|numbers| numbers / tensor).collect();
        }
        let sharded = if self.model.zero_stage == 3 { self.data_parallel() } else { 1 };
        let divided = |numbers: u64| numbers / tensor / sharded;
        match layer {
            _ if layer == 0 || layer == self.layers() + 1 => vec![divided(hidden * vocab)],
            _ if layer == self.layers() + 2 => vec![hidden / sharded],
            _ => vec![
                hidden / sharded,
                divided(hidden * (hidden + 2 * self.kv())),
                divided(hidden * hidden),
                hidden / sharded,
                divided(2 * hidden * ffn),
                divided(hidden * ffn),
            ],
        }
    }

    /// Groups given as a list are two tensors each, and one of all together, whole on every rank. Else there are three
    /// copies of the parameters, divided over those that write them.
    fn optimizer(&self) -> Option<State> {
        let groups = &self.model.optimization_groups;
        if !groups.is_empty() {
            return Some(listed_groups(groups));
        }
        let writers = if self.model.zero_stage > 0 { self.data_parallel() } else { 1 };
        let numbers = self.parameters() / (writers * self.model_parallel());
        let pair = [numbers, 5 * self.model.hidden];
        let names: Vec<String> = (0..6).map(|index| index.to_string()).collect();
        let tensors: Vec<(&str, u64)> = names.iter().map(String::as_str).zip(pair.into_iter().cycle()).collect();
        (numbers > 0).then(|| State::of(self.model.optimizer_datatype, &tensors))
    }

    pub fn total_bytes(&self) -> u64 {
        (0..self.ranks).flat_map(|rank| self.of(rank)).map(|shard| shard.bytes()).sum()
    }
}

fn listed_groups(groups: &[u64]) -> State {
    let mut state = State::new(Datatype::INT8);
    for (index, numbers) in groups.iter().enumerate().filter(|(_, numbers)| **numbers > 0) {
        let first = state.tensors.len();
        let pair = vec![("a".to_string(), Entry::Tensor(first)), ("b".to_string(), Entry::Tensor(first + 1))];
        state.entries.push((index.to_string(), Entry::Dictionary(pair)));
        state.tensors.extend([*numbers; 2]);
    }
    state.entries.push(("combined".into(), Entry::Tensor(state.tensors.len())));
    state.tensors.push(groups.iter().sum());
    state
}

/// What a rank moved of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    pub bytes: u64,
    /// Calls that wait for the device: of files, and of the folder that names them.
    pub fsyncs: u64,
}

/// How a rank's shards become files, and come back.
pub trait Mechanism {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<Moved>;
    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<Moved>;
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
#[derive(Debug, Clone)]
pub struct Streamed {
    pub fsync: bool,
    pub random: bool,
    /// What is read is held against the checksums in its file.
    pub verify: bool,
}

/// What one write of a checkpoint moves: large enough that calls cost nothing, small enough to stay in the cache.
const PIECE: usize = 512 << 10;
const _: () = assert!(PIECE.is_power_of_two());

impl Streamed {
    fn write(&self, path: &Path, shard: &Shard) -> io::Result<()> {
        let mut file = File::create(path)?;
        let mut piece = Piece::of(shard.bytes(), shard.state.datatype, self.random);
        let mut around = shard.file();
        file.write_all(around.head())?;
        for tensor in 0..around.tensors() {
            file.write_all(&around.before(tensor))?;
            let crc = piece.write(&mut file, around.tensor_bytes(tensor))?;
            around.set_crc(tensor, crc);
            // The checksum stands before what it is of.
            if let Some((at, bytes)) = around.afterwards(tensor) {
                file.write_all_at(&bytes, at)?;
            }
        }
        file.write_all(&around.tail())?;
        if self.fsync { file.sync_all() } else { Ok(()) }
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

    /// For a file of so many bytes: noise, or ones of its type.
    fn of(bytes: u64, datatype: Datatype, random: bool) -> Piece {
        if random { Piece::noise(bytes) } else { Piece::new(datatype.one.repeat(PIECE / datatype.one.len()), None) }
    }

    /// Writes `bytes` of it where the file is, a new tensor each time; returns their checksum.
    fn write(&mut self, file: &mut File, bytes: u64) -> io::Result<u32> {
        let mut crc = crc32fast::Hasher::new();
        let mut left = bytes;
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            match length {
                PIECE => crc.combine(&self.crc()),
                _ => crc.update(&self.bytes[..length]),
            }
            file.write_all(&self.bytes[..length])?;
            left -= length as u64;
            self.turn();
            if system::interrupted() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
        }
        Ok(crc.finalize())
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
        return failure.remedy(MORE_ROOM);
    }
    failure
}

const MORE_ROOM: &str = "free space, or point workload.checkpoint.checkpoint_folder at a larger disk";

/// Whether there was no room for a checkpoint.
pub fn is_full(failure: &Failure) -> bool {
    failure.remedy == MORE_ROOM
}

/// Copies a rank's files to another folder, where they are on the device when this returns: after that the first may go.
pub fn copy(from: &Path, to: &Path, shards: &[Shard]) -> Outcome<Moved> {
    fs::create_dir_all(to).map_err(|error| Failure::unwritable("making the folder", to, error))?;
    draft::sweep(to);
    let mut piece = vec![0; PIECE];
    let mut moved = Moved::default();
    for shard in shards {
        let (source, path) = (from.join(shard.name()), to.join(shard.name()));
        let draft = Draft::new(&path);
        moved.bytes +=
            copy_file(&source, draft.path(), &mut piece).map_err(|error| of_io("copying to", &path, error))?;
        draft.commit()?;
    }
    let synced = File::open(to).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Failure::io("syncing the folder", to, error))?;
    moved.fsyncs = shards.len() as u64 + 1;
    Ok(moved)
}

fn copy_file(from: &Path, to: &Path, piece: &mut [u8]) -> io::Result<u64> {
    let (mut source, mut target, mut total) = (File::open(from)?, File::create(to)?, 0);
    loop {
        if system::interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match source.read(piece) {
            Ok(0) => break,
            Ok(read) => {
                target.write_all(&piece[..read])?;
                total += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    target.sync_all().map(|()| total)
}

impl Mechanism for Streamed {
    fn save(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<Moved> {
        fs::create_dir_all(folder).map_err(|error| Failure::unwritable("making the folder", folder, error))?;
        draft::sweep(folder);
        for shard in shards {
            let path = folder.join(shard.name());
            let draft = Draft::new(&path);
            self.write(draft.path(), shard).map_err(|error| of_io("writing", &path, error))?;
            draft.commit()?;
        }
        if self.fsync {
            // The names too: a file that is safe under no name is lost.
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| Failure::io("syncing the folder", folder, error))?;
        }
        let fsyncs = if self.fsync { shards.len() as u64 + 1 } else { 0 };
        Ok(Moved { bytes: shards.iter().map(Shard::file_bytes).sum(), fsyncs })
    }

    fn load(&mut self, folder: &Path, shards: &[Shard]) -> Outcome<Moved> {
        let mut piece = vec![0; PIECE];
        let mut total = 0;
        for shard in shards {
            total += self.load_file(&folder.join(shard.name()), shard, &mut piece)?;
        }
        Ok(Moved { bytes: total, fsyncs: 0 })
    }
}

impl Streamed {
    /// A file of another size is right too where it holds as many bytes of tensors: another program wrote it.
    fn load_file(&self, path: &Path, shard: &Shard, piece: &mut [u8]) -> Outcome<u64> {
        let failed = |error| of_io("reading", path, error);
        let mut file = File::open(path).map_err(failed)?;
        let saved = shard.file_bytes();
        let length = file.metadata().map_err(failed)?.len();
        let damaged = |what: String| Err(Failure::damaged(path, what));
        let Some(parts) = shard.format.parts(&file) else {
            return damaged(format!("no complete checkpoint: {length} bytes, {saved} were saved"));
        };
        let held: u64 = parts.iter().map(|part| part.bytes).sum();
        if shard.format == Format::Bytes && length != saved {
            return damaged(format!("{length} bytes, {saved} were saved"));
        }
        if shard.format != Format::Bytes && held != shard.bytes() {
            return damaged(format!("it holds {held} bytes of tensors, the configuration has {}", shard.bytes()));
        }
        let checked = if self.verify { parts } else { Vec::new() };
        let read = restored::read(&mut file, checked, piece).map_err(failed)?;
        match read.damaged {
            Some(tensor) => damaged(format!("tensor {tensor} is not what was written: its checksum is another")),
            None => Ok(read.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::grammar::parse;
    use crate::workload::compose;

    fn config(typed: &[&str]) -> Config {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        Config::read(&compose(&overrides, None).unwrap().workload).unwrap()
    }

    fn shards(config: &Config, ranks: u64) -> Shards<'_> {
        Shards { model: &config.model, checkpoints: &config.checkpoint, framework: config.framework, ranks }
    }

    /// A file with one tensor of so many bytes.
    fn file(name: &str, bytes: u64) -> Shard {
        let (stem, ending) = name.split_once('.').unwrap();
        let formats = [Format::Torch, Format::Safetensors, Format::Bytes];
        let format = formats.into_iter().find(|format| format.ending() == ending).unwrap();
        Shard { stem: stem.into(), format, state: State::of(Datatype::INT8, &[("a", bytes)]) }
    }

    fn streamed(fsync: bool) -> Streamed {
        Streamed { fsync, random: true, verify: true }
    }

    /// Names and bytes of a rank's files.
    fn files(shards: &Shards, rank: u64) -> Vec<(String, u64)> {
        shards.of(rank).iter().map(|shard| (shard.name(), shard.bytes())).collect()
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
        assert_eq!(
            files.of(0),
            [file("model_states-0.pt", 499_153_191)].map(|shard| {
                // Its only tensor has the name that DLIO gives it.
                assert_eq!(shard.state.entries[0].0, "a");
                shard
            })
        );
        assert!(files.of(1).is_empty());
    }

    /// What DLIO's tests of checkpoints ask for, where tensor parallelism takes all ranks.
    #[test]
    fn a_model_given_by_lists_is_three_files_of_every_rank() {
        let lists = ["++workload.model.model_size=1024", "++workload.model.optimization_groups=[1024,128]"];
        let layers = ["++workload.model.num_layers=2", "++workload.model.layer_parameters=[16]"];
        for (zero, ranks) in [(0, 1), (0, 2), (3, 1), (3, 2)] {
            let zero = format!("++workload.model.parallelism.zero_stage={zero}");
            let tensor = format!("++workload.model.parallelism.tensor={ranks}");
            let typed = [&["workload=default"], &lists[..], &layers, &[&zero, &tensor]].concat();
            let config = config(&typed);
            let shards = shards(&config, ranks);
            for rank in 0..ranks {
                let expected = [
                    (format!("model_states-{rank}.pt"), 1024),
                    (format!("zero_pp_rank_0_mp_rank_{rank}_model_states.pt"), 16 / ranks),
                    (format!("zero_pp_rank_0_mp_rank_{rank}_optim_states.pt"), 3 * (1024 + 128)),
                ];
                assert_eq!(files(&shards, rank), expected);
            }
        }
    }

    #[test]
    fn layers_are_written_whatever_the_type_of_the_model() {
        let typed =
            ["workload=llama_7b", "++workload.model.num_layers=1", "++workload.model.transformer.vocab_size=100"];
        let small = ["++workload.model.transformer.hidden_size=64", "++workload.model.transformer.ffn_hidden_size=64"];
        let of = |kind: &str| {
            let config = config(&[&typed[..], &small, &[kind]].concat());
            files(&shards(&config, 1), 0)
        };
        let (named, unnamed) = (of("++workload.model.type=transformer"), of("++workload.model.type=null"));
        assert_eq!(named.len(), 2);
        assert_eq!(unnamed[0], ("model_states-0.pt".to_string(), 10_240));
        assert_eq!(unnamed[1..], named);
    }

    #[test]
    fn layers_that_cannot_be_divided_go_to_the_first_parts_of_the_pipeline() {
        let config = config(&["workload=llama_405b"]);
        let shards = shards(&config, 256);
        let layers = |part| shards.layers_of(part).collect::<Vec<_>>();
        assert_eq!((layers(0), layers(29)), (vec![0, 1, 2, 3, 4], vec![117, 118, 119, 120]));
        assert_eq!((layers(30), layers(31)), (vec![121, 122, 123], vec![124, 125, 126, 127, 128]));
        assert_eq!(files(&shards, 8)[0].0, "layer_5-model_8_model_states.pt");
    }

    #[test]
    fn without_sharding_the_optimizer_is_divided_over_the_first_copy_of_the_model() {
        let zero = "++workload.model.parallelism.zero_stage=0";
        let config = config(&["workload=llama_7b", zero]);
        let (one, four) = (shards(&config, 1), shards(&config, 4));
        assert_eq!(files(&one, 0), files(&four, 0));
        assert!(files(&four, 1).is_empty());
    }

    #[test]
    fn stage_three_names_a_file_for_every_rank() {
        let config = config(&["workload=llama_8b_zero3"]);
        let names: Vec<String> = shards(&config, 8).of(3).into_iter().map(|shard| shard.name()).collect();
        assert_eq!(names, ["zero_pp_rank_3_mp_rank_0_model_states.pt", "zero_pp_rank_3_mp_rank_0_optim_states.pt"]);
    }

    #[test]
    fn no_block_of_a_checkpoint_is_there_twice() {
        let scratch = crate::scratch::Folder::new("noise");
        let shards = [file("a.pb", 5 * PIECE as u64 + 77)];
        streamed(false).save(scratch.path(), &shards).unwrap();
        let bytes = fs::read(scratch.path().join("a.pb")).unwrap();
        assert_eq!(bytes.len() as u64, shards[0].bytes());
        let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(512).collect();
        assert_eq!(blocks.len(), bytes.len().div_ceil(512));
        let mut packer = libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
        let mut packed = vec![0; packer.deflate_compress_bound(bytes.len())];
        assert!(packer.deflate_compress(&bytes, &mut packed).unwrap() > bytes.len() * 99 / 100);
    }

    #[test]
    fn the_checksum_of_a_turned_piece_is_known_without_reading_it() {
        for mut piece in [Piece::noise(9), Piece::of(9, Datatype::named("fp16"), false)] {
            for _ in 0..5 {
                assert_eq!(piece.crc().finalize(), crc32fast::hash(&piece.bytes));
                piece.turn();
            }
        }
    }

    #[test]
    fn the_checksum_in_a_torch_file_is_that_of_its_tensor() {
        let scratch = crate::scratch::Folder::new("crc");
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
    fn another_programs_file_with_the_same_tensors_is_loaded() {
        let scratch = crate::scratch::Folder::new("foreign");
        let mut mechanism = streamed(false);
        let ours = file("a.pt", 5000);
        // Other names make other sizes of the same tensors.
        let theirs = Shard { state: State::of(Datatype::INT8, &[("weights", 2000), ("bias", 3000)]), ..ours.clone() };
        let bytes = mechanism.save(scratch.path(), &[theirs]).unwrap().bytes;
        assert_ne!(bytes, ours.file_bytes());
        assert_eq!(mechanism.load(scratch.path(), std::slice::from_ref(&ours)).unwrap().bytes, bytes);
        let larger = mechanism.load(scratch.path(), &[file("a.pt", 5001)]).unwrap_err();
        assert!(larger.what.contains("5000 bytes of tensors, the configuration has 5001"), "{larger}");
        let path = scratch.path().join("a.pt");
        File::options().write(true).open(&path).unwrap().set_len(bytes - 10).unwrap();
        assert_eq!(mechanism.load(scratch.path(), &[ours]).unwrap_err().exit_code(), 5);
    }

    #[test]
    fn what_was_saved_is_loaded_and_a_cut_file_is_noticed() {
        let scratch = crate::scratch::Folder::new("ckpt");
        let at = folder(scratch.path(), 1, 4);
        let shards = [file("a.pb", 3_000_001), file("b.pt", 10)];
        let all = 3_000_001 + shards[1].file_bytes();
        let mut mechanism = streamed(true);
        assert_eq!(mechanism.save(&at, &shards), Ok(Moved { bytes: all, fsyncs: 3 }));
        assert_eq!(mechanism.load(&at, &shards), Ok(Moved { bytes: all, fsyncs: 0 }));
        fs::write(at.join("b.pt"), b"short").unwrap();
        assert_eq!(mechanism.load(&at, &shards).unwrap_err().exit_code(), 5);
    }

    #[test]
    fn a_changed_byte_is_noticed_in_every_format_that_has_checksums() {
        let scratch = crate::scratch::Folder::new("verified");
        for name in ["a.pt", "a.safetensors"] {
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
                assert!(noticed.exit_code() == 5 && noticed.what.contains("is not what was written"), "{noticed}");
                let unverified = Streamed { verify: false, ..streamed(false) };
                assert_eq!(unverified.clone().load(scratch.path(), &shards).unwrap().bytes, whole.len() as u64);
            }
            for cut in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
                fs::write(&path, &whole[..cut]).unwrap();
                assert_eq!(streamed(false).load(scratch.path(), &shards).unwrap_err().exit_code(), 5, "{name}, {cut}");
            }
        }
    }

    #[test]
    fn a_copy_is_what_was_copied() {
        let scratch = crate::scratch::Folder::new("copied");
        let (from, to) = (scratch.path().join("fast"), scratch.path().join("slow/1"));
        let shards = [file("a.pt", 2_000_000), file("b.safetensors", 3)];
        let bytes = streamed(false).save(&from, &shards).unwrap().bytes;
        assert_eq!(copy(&from, &to, &shards), Ok(Moved { bytes, fsyncs: 3 }));
        assert_eq!(streamed(false).load(&to, &shards).unwrap().bytes, bytes);
        fs::remove_file(from.join("b.safetensors")).unwrap();
        assert_eq!(copy(&from, &to, &shards).unwrap_err().exit_code(), 3);
    }
}
