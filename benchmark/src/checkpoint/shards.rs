//! The files of each rank: names and sizes derived, as in DLIO, from the model and the rank's position in its
//! parallelism.

use super::shard::{Format, Shard};
use crate::checkpoint::files::distributed::{self, METADATA};
use crate::checkpoint::files::torch::{Entry, State};
use crate::config::{Checkpoints, Datatype, Framework, Model};

/// The model's size, and the number of ranks it is divided over.
pub struct Shards<'a> {
    pub model: &'a Model,
    pub checkpoints: &'a Checkpoints,
    pub framework: Framework,
    pub ranks: u64,
}

/// The position of a rank in the parallelism.
#[derive(Debug, Clone, Copy)]
struct RankPosition {
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

    fn place(&self, rank: u64) -> RankPosition {
        RankPosition {
            data: rank / self.model_parallel(),
            model: rank % self.model_parallel(),
            pipeline: (rank / self.tensor()) % self.pipeline(),
        }
    }

    fn layers(&self) -> u64 {
        self.model.layers.max(0) as u64
    }

    /// Returns the trainable parameters of the whole model.
    pub fn parameters(&self) -> u64 {
        let Model { vocab, hidden, ffn, .. } = *self.model;
        let layer = 2 * hidden + hidden * (hidden + 2 * self.kv()) + hidden * hidden + 3 * ffn * hidden;
        if self.layers() == 0 { 0 } else { 2 * vocab * hidden + self.layers() * layer + hidden }
    }

    /// Returns the width of keys and values.
    fn kv(&self) -> u64 {
        self.model.hidden / self.model.heads.max(1) * self.model.kv_heads
    }

    /// Returns the files of one rank.
    pub fn of(&self, rank: u64) -> Vec<Shard> {
        let shards = self.parts_of(rank);
        let numbered = |(number, shard): (usize, Shard)| match shard.format {
            Format::Distributed => shard.numbered(rank, number),
            _ => shard,
        };
        shards.into_iter().enumerate().map(numbered).collect()
    }

    /// Returns the name of the file that lists the tensors in the files of all ranks, if the format has one, and on
    /// rank 0, which writes it, its bytes.
    pub fn global_metadata(&self, rank: u64) -> Option<(&'static str, Vec<u8>)> {
        if Format::of(self.framework, self.checkpoints) != Format::Distributed {
            return None;
        }
        if rank > 0 {
            return Some((METADATA, Vec::new()));
        }
        let all: Vec<Shard> = (0..self.ranks).flat_map(|rank| self.of(rank)).collect();
        Some((METADATA, distributed::metadata(all.iter().map(|shard| (shard.name(), &shard.state)))))
    }

    fn parts_of(&self, rank: u64) -> Vec<Shard> {
        let place = self.place(rank);
        let format = Format::of(self.framework, self.checkpoints);
        let shard = |stem: String, state: State| Shard { stem, format, state };
        if !self.checkpoints.file_bytes.is_empty() {
            return self.files_of_bytes(rank);
        }
        let plain =
            || shard(format!("model_states-{rank}"), State::of(Datatype::INT8, &[("a", self.model.size_bytes)]));
        let has_plain = !self.model.transformer && self.model.size_bytes > 0;
        let whole = self.checkpoints.whole && (self.by_lists() || !self.model.optimization_groups.is_empty());
        if whole && rank > 0 && !self.checkpoints.all_ranks {
            return Vec::new();
        }
        // Without sharding, one copy of the model is one checkpoint.
        if !whole && self.model.zero_stage == 0 && place.data > 0 {
            return if has_plain && self.checkpoints.all_ranks { vec![plain()] } else { Vec::new() };
        }
        let mut shards = Vec::new();
        if has_plain {
            shards.push(plain());
        }
        if whole {
            shards.extend(self.whole_files(rank).into_iter().map(|(stem, state)| shard(stem, state)));
            return shards;
        }
        shards.extend(self.model_files(place).into_iter().map(|(stem, state)| shard(stem, state)));
        if let Some(state) = self.optimizer() {
            shards.push(shard(format!("zero_pp_rank_{}_mp_rank_{}_optim_states", place.data, place.model), state));
        }
        shards
    }

    /// Returns files of given sizes, without a model.
    fn files_of_bytes(&self, rank: u64) -> Vec<Shard> {
        if rank > 0 && !self.checkpoints.all_ranks {
            return Vec::new();
        }
        let file = |(number, bytes): (usize, &u64)| Shard {
            stem: format!("file_{number}-{rank}"),
            format: Format::Bytes,
            state: State::of(Datatype::INT8, &[("a", *bytes)]),
        };
        self.checkpoints.file_bytes.iter().enumerate().map(file).collect()
    }

    /// Returns the optimizer and the layers of a model given by lists, as DLIO 2.0.0 writes them: one file per layer,
    /// regardless of the data that ranks share; tensor parallelism adds some.
    fn whole_files(&self, rank: u64) -> Vec<(String, State)> {
        let Model { layer_parameters, optimization_groups, layers, .. } = self.model;
        let mut files = Vec::new();
        if !optimization_groups.is_empty() {
            files.push((format!("optimizer-{rank}"), listed_groups(optimization_groups)));
        }
        let layers = match u64::try_from(*layers) {
            Ok(0) => 0,
            Ok(layers) => layers + if self.tensor() > 1 { self.tensor() } else { 0 },
            Err(_) => 1,
        };
        if !layer_parameters.is_empty() && rank.is_multiple_of(self.pipeline()) {
            let names: Vec<String> = (0..layer_parameters.len()).map(|index| index.to_string()).collect();
            let tensors = names.iter().map(String::as_str).zip(layer_parameters.iter().copied());
            let state = State::of(Datatype::INT8, &tensors.collect::<Vec<_>>());
            files.extend((0..layers).map(|layer| (format!("layer-{layer}-{rank}"), state.clone())));
        }
        files
    }

    fn model_files(&self, place: RankPosition) -> Vec<(String, State)> {
        let layers: Vec<u64> = self.layers_of(place.pipeline).collect();
        if layers.is_empty() {
            return Vec::new();
        }
        let RankPosition { data, model, .. } = place;
        if !matches!(self.model.zero_stage, 1 | 2) {
            return vec![(format!("zero_pp_rank_{data}_mp_rank_{model}_model_states"), self.layer_states(&layers))];
        }
        if data > 0 {
            return Vec::new();
        }
        if self.pipeline() == 1 {
            return vec![(format!("model_{model}_model_states"), self.layer_states(&layers))];
        }
        // With pipeline parallelism each layer is a separate file.
        let name = |layer| format!("layer_{layer}-model_{model}_model_states");
        layers.into_iter().map(|layer| (name(layer), self.layer_state(layer))).collect()
    }

    /// Returns the layers of a pipeline stage; if they cannot be divided evenly, the first stages have one more. Layer
    /// 0 and the one after the last are the embeddings, the next is the final norm; they belong to the first and last
    /// stage. Models given by lists have none of these.
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

    /// Returns several layers as one file. Layers given by lists share their tensors, as in DLIO, and a tensor is
    /// stored once.
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

    /// Returns the optimizer's tensors. Groups given as a list are two tensors each plus one for all, whole on every
    /// rank. Without a list there are three copies of the parameters, divided over the ranks that write them.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keys::grammar::parse;
    use crate::workload::presets::compose;

    fn config(typed: &[&str]) -> Config {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        Config::read(&compose(&overrides, None).unwrap().workload).unwrap()
    }

    fn shards(config: &Config, ranks: u64) -> Shards<'_> {
        Shards { model: &config.model, checkpoints: &config.checkpoint, framework: config.framework, ranks }
    }

    /// Returns the names and sizes of a rank's files.
    fn files(shards: &Shards, rank: u64) -> Vec<(String, u64)> {
        shards.of(rank).iter().map(|shard| (shard.name(), shard.bytes())).collect()
    }

    /// Returns a file with one tensor of `bytes` bytes.
    fn file(name: &str, bytes: u64) -> Shard {
        let (stem, ending) = name.split_once('.').unwrap();
        let formats = [Format::Torch, Format::Safetensors, Format::Bytes];
        let format = formats.into_iter().find(|format| format.ending() == ending).unwrap();
        Shard { stem: stem.into(), format, state: State::of(Datatype::INT8, &[("a", bytes)]) }
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

    /// The rows of DLIO's checkpoint tests in which tensor parallelism spans all ranks.
    #[test]
    fn model_from_lists_has_three_files_per_rank() {
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

    /// The keys of 2.0.0's megatron_deepspeed, scaled down.
    #[test]
    fn older_lists_give_one_file_per_layer_and_rank() {
        let lists =
            ["++workload.checkpoint.model_size=30102", "++workload.checkpoint.optimization_groups=[1024,0,128]"];
        let layers = ["++workload.checkpoint.num_layers=3", "++workload.checkpoint.layer_parameters=[16,8]"];
        let of = |more: &[&str]| {
            let config = config(&[&["workload=default"], &lists[..], &layers, more].concat());
            let shards = shards(&config, 2);
            (files(&shards, 0), files(&shards, 1))
        };
        let (first, second) = of(&[]);
        let named = |(name, bytes): (&str, u64)| (name.to_string(), bytes);
        let layer = ["layer-0-0.pt", "layer-1-0.pt", "layer-2-0.pt"].map(|name| (name, 24));
        let expected = [&[("model_states-0.pt", 30_102), ("optimizer-0.pt", 3 * 1152)], &layer[..]].concat();
        assert_eq!(first, expected.into_iter().map(named).collect::<Vec<_>>());
        assert!(second.is_empty());
        let second = of(&["++workload.checkpoint.type=all_ranks"]).1;
        assert_eq!((second.len(), &second[4]), (5, &named(("layer-2-1.pt", 24))));
        let tensor = of(&["++workload.checkpoint.tensor_parallelism=2"]).0;
        assert_eq!((tensor.len(), &tensor[6]), (7, &named(("layer-4-0.pt", 24))));
    }

    #[test]
    fn file_sizes_replace_the_model() {
        let sizes = "++workload.checkpoint.file_bytes=[1024,1024,4096,65536,4194304]";
        let of = |more: &[&str]| {
            let config = config(&[&["workload=unet3d_h100", sizes], more].concat());
            let files = |rank| files(&shards(&config, 2), rank);
            (files(0), files(1))
        };
        let (first, second) = of(&[]);
        assert_eq!((first.len(), second.len()), (5, 0));
        assert_eq!(first[4], ("file_4-0.bin".to_string(), 4_194_304));
        assert_eq!(of(&["++workload.checkpoint.type=all_ranks"]).1[3], ("file_3-1.bin".to_string(), 65_536));
    }

    #[test]
    fn layers_are_written_for_every_model_type() {
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
    fn remaining_layers_go_to_first_pipeline_stages() {
        let config = config(&["workload=llama_405b"]);
        let shards = shards(&config, 256);
        let layers = |part| shards.layers_of(part).collect::<Vec<_>>();
        assert_eq!((layers(0), layers(29)), (vec![0, 1, 2, 3, 4], vec![117, 118, 119, 120]));
        assert_eq!((layers(30), layers(31)), (vec![121, 122, 123], vec![124, 125, 126, 127, 128]));
        assert_eq!(files(&shards, 8)[0].0, "layer_5-model_8_model_states.pt");
    }

    #[test]
    fn unsharded_optimizer_is_split_over_first_copy() {
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
}
