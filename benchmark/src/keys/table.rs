//! Every key of a workload: its type, default, meaning and effect, one row per key.
//!
//! `dlio workloads explain KEY` prints a row, the configuration takes its defaults from here, and keys that are not
//! listed are refused. Keys that DLIO accepts and this benchmark cannot honor yet are rows of a separate kind: they are
//! reported when set, never dropped silently.

use crate::keys::value::Value;
use dlio_schemas::words::nearest;

/// The values a key may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Flag,
    Whole,
    Number,
    Text,
    Choice(&'static [&'static str]),
    /// The name of a data set format, one of those in [`crate::data_set::formats`].
    Format,
    Wholes,
    /// A number of seconds, or a distribution: {mean, stdev} or {type: gamma, shape, scale}, ...
    Time,
    /// Any value, with any content.
    Free,
}

pub struct Key {
    pub path: &'static str,
    pub kind: Kind,
    /// In the syntax of the command line.
    pub default: &'static str,
    pub meaning: &'static str,
    /// The part of a run that changes with it.
    pub affects: &'static str,
}

const ELEMENT_TYPES: &[&str] =
    &["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"];
const DATATYPES: &[&str] = &["int8", "uint8", "fp16", "bf16", "fp32", "fp64"];
const SHUFFLES: &[&str] = &["off", "seed", "random"];

const fn key(
    path: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
    affects: &'static str,
) -> Key {
    Key { path, kind, default, meaning, affects }
}

use Kind::*;

/// The effect of keys that are accepted but do nothing.
pub const NOTHING: &str = "nothing";

#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    key("scale", Number, "1", "factor for the size of the workload: it multiplies files, then samples per file, steps and checkpoints; samples, reads and times do not change (not a key of DLIO)", "data set, training, checkpoint"),
    key("framework", Choice(&["tensorflow", "pytorch"]), "tensorflow", "framework whose loading and checkpoints are imitated", "default checkpoint files, checks of the loader"),

    key("model.name", Text, "default", "label of the model", "name of the run directory"),
    key("model.type", Text, "null", "`transformer`: no plain model_states file; other values: one in addition to the files of the layers", "checkpoint"),
    key("model.model_size_bytes", Whole, "10240", "bytes of the single model tensor of a checkpoint (alias: `model.model_size`)", "checkpoint"),
    key("model.model_datatype", Choice(DATATYPES), "fp16", "element type of model tensors", "checkpoint"),
    key("model.optimizer_datatype", Choice(DATATYPES), "fp32", "element type of optimizer tensors", "checkpoint"),
    key("model.optimization_groups", Wholes, "[]", "element counts of optimizer tensors, one byte per element, for models given by lists; every rank writes all of them", "checkpoint"),
    key("model.num_layers", Whole, "-1", "transformer layers", "checkpoint"),
    key("model.layer_parameters", Wholes, "[]", "element counts of the tensors of a layer, one byte per element, divided by tensor parallelism", "checkpoint"),
    key("model.parallelism.tensor", Whole, "1", "ranks that share a layer", "checkpoint"),
    key("model.parallelism.pipeline", Whole, "1", "ranks that share the layers", "checkpoint"),
    key("model.parallelism.data", Whole, "-1", "data-parallel ranks; -1: ranks / (tensor * pipeline)", "checkpoint"),
    key("model.parallelism.zero_stage", Whole, "0", "0 to 3: parts of optimizer and model that data-parallel ranks share", "checkpoint"),
    key("model.transformer.vocab_size", Whole, "32000", "vocabulary", "checkpoint size"),
    key("model.transformer.hidden_size", Whole, "2048", "width of a layer", "checkpoint size"),
    key("model.transformer.ffn_hidden_size", Whole, "8192", "width of the feed-forward layers", "checkpoint size"),
    key("model.transformer.num_attention_heads", Whole, "32", "attention heads", "checkpoint size"),
    key("model.transformer.num_kv_heads", Whole, "8", "key and value heads", "checkpoint size"),

    key("workflow.generate_data", Flag, "false", "generate the data set first", "generation"),
    key("workflow.train", Flag, "true", "run the training loop", "training"),
    key("workflow.evaluation", Flag, "false", "evaluate after epochs", "evaluation"),
    key("workflow.checkpoint", Flag, "false", "write checkpoints; without training: checkpoints only", "checkpoint"),
    key("workflow.profiling", Flag, "false", "sample the block devices", "iostat.json"),
    key("workflow.query", Text, "null", "print this key's value and stop", "the whole run"),
    key("workflow.debug", Flag, "false", "accepted for old files", NOTHING),
    key("workflow.do_eval", Flag, "false", "accepted for old files, but no DLIO reads it: use workflow.evaluation", NOTHING),

    key("storage.storage_type", Choice(&["local_fs", "parallel_fs", "direct_fs", "s3", "aistore"]), "local_fs", "storage of data and checkpoints: a file system, or an object store (s3; aistore: through its S3 API)", "every path"),
    key("storage.storage_root", Text, "./", "prefix of every relative path; for an object store, the bucket", "every path"),
    key("storage.storage_options", Free, "{}", "options of an object store: endpoint_url, region, access_key_id, secret_access_key, s3_max_attempts, part_size, ...", "s3 and aistore"),
    key("storage.storage_library", Text, "null", "accepted: there is only one client", NOTHING),
    key("storage.s3_force_path_style", Flag, "false", "the bucket is part of the path, not of the host name; always true for endpoints other than Amazon's", "s3"),
    key("storage.cache.folder", Text, "null", "local directory that caches objects of the data set", "s3 and aistore"),
    key("storage.cache.size", Whole, "0", "capacity in bytes; 0: unlimited", "storage.cache"),
    key("storage.cache.unit", Choice(&["object", "shard", "block"]), "object", "unit of fetching: a whole object (or shard), or a block of one", "storage.cache"),
    key("storage.cache.block_size", Whole, "67108864", "bytes of a block", "storage.cache"),
    key("storage.cache.share", Choice(&["node", "rank"]), "node", "node: shared by the ranks of a host; rank: one cache per rank", "storage.cache"),
    key("storage.cache.fill", Choice(&["first_read", "ahead"]), "first_read", "first_read: fetch objects on first use; ahead: fetch them from the start of the run, in the order of the first epoch, until the cache is full", "storage.cache"),
    key("storage.cache.evict", Choice(&["lru", "fifo", "none"]), "lru", "eviction: lru (least recently used), fifo (oldest), none (nothing; objects that do not fit are read from the store)", "storage.cache"),
    key("storage.cache.keep", Flag, "false", "keep the contents for the next run on the same data", "storage.cache"),
    key("storage.post_generation_settle_seconds", Number, "0", "pause after generation, before reading", "generation"),

    key("dataset.record_length_bytes", Number, "65536", "bytes of a sample; a sample is a square with side int(sqrt(bytes)), so sizes round down to a square", "generation, MB/s"),
    key("dataset.record_length_bytes_stdev", Number, "0", "spread of the size between files, normally distributed, the same in every run", "generation"),
    key("dataset.record_length_bytes_resize", Number, "0", "bytes of the array sent to the trainer; 0: nothing is sent", "loading"),
    key("dataset.record_dims", Wholes, "[]", "shape of a sample instead of a square", "generation"),
    key("dataset.record_element_type", Choice(ELEMENT_TYPES), "uint8", "NumPy type of elements; images are uint8", "generation"),
    key("dataset.record_element_bytes", Whole, "1", "derived from the type; accepted for old files", NOTHING),
    key("dataset.num_files_train", Whole, "8", "files in train/", "data set"),
    key("dataset.num_files_generated", Whole, "0", "number of generated training files, if larger than the number read: file names contain it", "data set"),
    key("dataset.num_files_eval", Whole, "0", "files in valid/", "data set"),
    key("dataset.num_samples_per_file", Whole, "1", "samples in each file", "data set"),
    key("dataset.eval_num_samples_per_file", Whole, "0", "accepted for old files, but no DLIO reads it: num_samples_per_file applies to both", NOTHING),
    key("dataset.data_folder", Text, "./data/", "directory with train/ and valid/", "data set"),
    key("dataset.num_subfolders_train", Whole, "0", "subdirectories of train/ if more than 1; files are assigned round-robin", "data set"),
    key("dataset.num_subfolders_eval", Whole, "0", "subdirectories of valid/ if more than 1", "data set"),
    key("dataset.file_prefix", Text, "img", "prefix of file names", "data set"),
    key("dataset.format", Format, "tfrecord", "file format", "data set, reader"),
    key("dataset.file_bytes", Wholes, "[]", "evenly spaced quantiles of file sizes, smallest first; such files contain only bytes, in any format, and are read with reader.profile (not a key of DLIO)", "generation"),
    key("dataset.listing", Flag, "false", "read all files under data_folder, with any names (not a key of DLIO)", "data set"),
    key("dataset.compression", Choice(&["none", "gzip", "lzf", "bz2", "zip", "xz"]), "none", "npz: zip; hdf5: gzip, lzf; csv: gzip, bz2, zip, xz; parquet: none", "generation, reader"),
    key("dataset.compression_level", Whole, "4", "level of the compressor", "generation"),
    key("dataset.enable_chunking", Flag, "false", "hdf5: store data in chunks of chunk_size bytes", "generation"),
    key("dataset.chunk_size", Whole, "0", "hdf5: bytes of a chunk with enable_chunking", "generation"),
    key("dataset.generation_buffer_size", Number, "2147483648", "accepted: files of any size are streamed", NOTHING),
    key("dataset.keep_files", Flag, "true", "false: remove the files of the data set at the end", "end of the run"),
    key("dataset.hdf5.chunk_dims", Wholes, "[]", "hdf5: shape of a chunk", "generation"),
    key("dataset.hdf5.num_dset_per_record", Whole, "1", "hdf5: number of data sets per sample (divides its first dimension)", "generation, reader"),
    key("dataset.hdf5.max_shape", Wholes, "[]", "hdf5: maximum shape of samples, with or without the number of samples as first dimension", "generation"),
    key("dataset.skip_listing", Flag, "false", "do not list directories before a run; check only the first, middle and last file, as for objects", "preflight"),
    key("dataset.listing_validation_interval", Whole, "1000", "check every Nth training file before a run, at most 1,000; unset: list the directories and check all files (for objects: the first, middle and last)", "preflight"),
    key("dataset.data_gen_method", Choice(&["dgen", "numpy"]), "dgen", "accepted: there is only one generator", NOTHING),
    key("dataset.parquet.columns", Free, "[]", "columns as {name, dtype, size, read}; columns with read: false are written but not read; default: one binary column `image`", "generation, reader"),
    key("dataset.parquet.row_group_size", Whole, "1024", "rows per row group", "generation, reader"),
    key("dataset.parquet.read_mode", Choice(&["row_group"]), "row_group", "accepted: only the rows of a sample are read", NOTHING),
    key("dataset.parquet.partition_by", Text, "null", "partition column; not supported", "generation"),
    key("dataset.parquet.generation_batch_size", Whole, "0", "accepted: a row group is written as a whole", NOTHING),
    key("dataset.webdataset.extension", Text, "bin", "webdataset: extension of the member with a sample's bytes", "generation, reader"),
    key("dataset.webdataset.pax", Flag, "false", "webdataset: write a pax header before each member, as Python does", "generation"),
    key("dataset.parquet.use_s3dlio_gen", Flag, "false", "accepted: there is only one generator", NOTHING),

    key("reader.data_loader", Choice(&["tensorflow", "pytorch", "dali", "native_dali", "synthetic", "none"]), "tensorflow", "imitated loader: pytorch and dali read samples by index, tensorflow and native_dali stream files through a shuffle buffer, none reads in the training process", "loading"),
    key("reader.data_loader_classname", Text, "null", "a Python class; not supported", "loading"),
    key("reader.reader_classname", Text, "null", "a Python class; not supported", "loading"),
    key("reader.data_loader_sampler", Choice(&["iterative", "index"]), "index", "derived from the loader", "loading"),
    key("reader.batch_size", Whole, "1", "samples per step and rank", "training"),
    key("reader.batch_size_eval", Whole, "1", "samples per evaluation step and rank", "evaluation"),
    key("reader.read_threads", Whole, "1", "workers per rank; 0: the training process reads (tensorflow: 1)", "loading"),
    key("reader.computation_threads", Whole, "1", "decoding workers; accepted: reading and decoding are one step", NOTHING),
    key("reader.write_threads", Whole, "0", "writers per rank during generation; 0: the number of CPUs", "generation"),
    key("reader.prefetch_size", Whole, "2", "batches read ahead, shared by the workers", "loading"),
    key("reader.file_shuffle", Choice(SHUFFLES), "off", "order of files: off, seed (the same every run), random", "loading"),
    key("reader.sample_shuffle", Choice(SHUFFLES), "off", "order of samples: off, seed (the same every run), random", "loading"),
    key("reader.shuffle_size", Whole, "1024", "size of the shuffle buffer of a stream in samples (tensorflow, native_dali)", "loading"),
    key("reader.file_access", Choice(&["multi", "shared", "collective", "mpio", "posix"]), "multi", "multi, shared, posix: every worker opens the files it reads; collective, mpio: all ranks read together with MPI-IO, one file of indexed_binary or of hdf5 without chunks, under mpirun", "loading"),
    key("reader.rank_access", Choice(&["contiguous", "strided"]), "contiguous", "samples of a rank before shuffling: contiguous: one range; strided: batches round-robin over the ranks (loaders by index; not a key of DLIO)", "loading"),
    key("reader.read_type", Choice(&["on_demand", "memory"]), "on_demand", "on_demand: open a file for each sample; memory: keep files open until the end of the epoch (for files that are read whole, the last one, decoded). Default for parquet: memory. mmap_indexed_binary: always maps a file once per epoch", "loading"),
    key("reader.transfer_size", Whole, "0", "bytes per read; 0: as large as the format allows", "loading"),
    key("reader.preprocess_time", Time, "0", "time a worker spends on a sample after reading it", "loading"),
    key("reader.preprocess_time_stdev", Number, "0", "its spread, if preprocess_time is a number", "loading"),
    key("reader.pin_memory", Flag, "true", "accepted: there is no device to pin memory for", NOTHING),
    key("reader.multiprocessing_context", Choice(&["fork", "spawn", "forkserver"]), "fork", "accepted: workers are always forked; they start in a millisecond", NOTHING),
    key("reader.dont_use_mmap", Flag, "false", "mmap_indexed_binary and dali: read instead of mapping", "loading"),
    key("reader.checksums", Flag, "true", "verify checksums of npz and tfrecord, as NumPy and TensorFlow do: 0.08 s per GB, as measured (not a key of DLIO)", "loading"),
    key("reader.odirect", Flag, "false", "read with O_DIRECT, bypassing the page cache (npz, npy, indexed_binary)", "loading"),
    key("reader.transformed_record_dims", Wholes, "[]", "shape of the array sent to the trainer", "loading"),
    key("reader.transformed_record_element_type", Choice(ELEMENT_TYPES), "uint8", "element type of that array", "loading"),

    key("reader.profile", Free, "{}", "calls that read a sample, if no reader of a format reads like the program: {opening: [{call: stat}], sample: [{call: read, at: place, bytes: 65536}, {call: read, bytes: rest}]}. at: next, place, or an offset (negative: from the end); bytes: a number, rest, or sizes to draw from; repeat: a number, or sample; think: pause before each read in seconds, or pauses to draw from (not a key of DLIO)", "loading"),

    key("train.epochs", Whole, "1", "passes over the data set", "training"),
    key("train.computation_time", Time, "0", "time of a step's computation", "training, AU"),
    key("train.computation_time_stdev", Number, "0", "its spread, if computation_time is a number", "training"),
    key("train.total_training_steps", Whole, "-1", "maximum steps per epoch; -1 or 0: no limit", "training"),
    key("train.total_eval_steps", Whole, "-1", "accepted for old files, but no DLIO reads it", NOTHING),
    key("train.seed", Whole, "123", "seed of the shuffles", "loading"),
    key("train.seed_change_epoch", Flag, "true", "use another order in each epoch", "loading"),

    key("evaluation.eval_time", Time, "0", "time of an evaluation step's computation", "evaluation"),
    key("evaluation.eval_time_stdev", Number, "0", "its spread, if eval_time is a number", "evaluation"),
    key("evaluation.eval_after_epoch", Whole, "1", "first epoch followed by an evaluation", "evaluation"),
    key("evaluation.epochs_between_evals", Whole, "1", "epochs from one evaluation to the next", "evaluation"),
    key("evaluation.steps_between_evals", Whole, "-1", "accepted for old files, but no DLIO reads it: use epochs_between_evals", NOTHING),

    key("checkpoint.checkpoint_folder", Text, "./checkpoints/", "directory of checkpoints", "checkpoint"),
    key("checkpoint.checkpoint_after_epoch", Whole, "1", "first epoch followed by a checkpoint", "checkpoint"),
    key("checkpoint.epochs_between_checkpoints", Whole, "1", "epochs from one checkpoint to the next", "checkpoint"),
    key("checkpoint.steps_between_checkpoints", Whole, "-1", "steps of an epoch from one checkpoint to the next; overrides epochs if >= 0; 0: no checkpoints", "checkpoint"),
    key("checkpoint.type", Choice(&["rank_zero", "all_ranks"]), "rank_zero", "all_ranks: with zero stage 0, each data-parallel rank also writes a plain model file", "checkpoint"),
    key("checkpoint.checkpoint_mechanism_classname", Text, "null", "a Python class; not supported", "checkpoint"),
    key("checkpoint.fsync", Flag, "false", "sync each checkpoint to the device before the next step", "checkpoint"),
    key("checkpoint.time_between_checkpoints", Number, "-1", "pause before each checkpoint in checkpoint-only runs", "checkpoint"),
    key("checkpoint.num_checkpoints_write", Whole, "-1", "checkpoints to write in checkpoint-only runs", "checkpoint"),
    key("checkpoint.num_checkpoints_read", Whole, "-1", "checkpoints to read in checkpoint-only runs", "checkpoint"),
    key("checkpoint.recovery_rank_shift", Flag, "false", "each rank reads the checkpoint of its neighbor", "checkpoint reads"),
    key("checkpoint.rank_sync", Flag, "false", "include the wait for other ranks in the time of a checkpoint", "checkpoint"),
    key("checkpoint.mode", Choice(&["default", "subset"]), "default", "subset: fewer ranks than the model's parallelism", "checkpoint"),
    key("checkpoint.randomize_tensor", Flag, "true", "fill tensors with random numbers; false: with ones", "checkpoint"),
    key("checkpoint.format", Choice(&["framework", "pytorch", "distributed", "safetensors", "tensorflow", "raw"]), "framework", "framework: the format of workload.framework; pytorch: .pt for torch.load; distributed: .distcp and .metadata for torch.distributed.checkpoint; safetensors: .safetensors; tensorflow: .pb-1.index and .pb-1.data-00000-of-00001 for tf.train.load_checkpoint; raw: .bin with only the bytes of the tensors (not a key of DLIO)", "checkpoint"),
    key("checkpoint.file_bytes", Wholes, "[]", "sizes of files to write instead of a model, by rank 0 or, with checkpoint.type=all_ranks, by every rank; the paper of 2021 uses [1024, 1024, 4096, 65536, 4194304] (not a key of DLIO)", "checkpoint"),
    key("checkpoint.files", Choice(&["sharded", "whole"]), "sharded", "files of a model given by lists; sharded: divided by its parallelism; whole: as in DLIO 2.0.0, one undivided file for the model, the optimizer and each layer, by rank 0 or, with checkpoint.type=all_ranks, by every rank (set by the keys of that version; not a key of DLIO)", "checkpoint"),
    key("checkpoint.odirect", Flag, "false", "write and read checkpoints with O_DIRECT, bypassing the page cache (not a key of DLIO)", "checkpoint"),
    key("checkpoint.transfer_size", Whole, "0", "bytes per write, and per read when reading back, buffered in memory; 0: 512 KiB, or 4 MiB with odirect (not a key of DLIO)", "checkpoint"),
    key("checkpoint.verify", Flag, "true", "verify checksums when reading back (not a key of DLIO)", "checkpoint reads"),
    key("checkpoint.asynchronous", Flag, "false", "write checkpoints in the background; training waits at the next checkpoint if the previous one is unfinished (not a key of DLIO)", "checkpoint"),
    key("checkpoint.fast_folder", Text, "null", "faster directory: checkpoints are written there and copied to checkpoint_folder in the background; reads prefer it (not a key of DLIO)", "checkpoint"),
    key("checkpoint.drain_rate", Number, "0", "maximum bytes per second that each rank copies from fast_folder to checkpoint_folder, to imitate a slow device; 0: unlimited (not a key of DLIO)", "checkpoint"),
    key("checkpoint.ksm", Free, "{}", "memory merging; accepted: tensors are never kept in memory", NOTHING),

    key("output.folder", Text, "null", "run directory; null: hydra.run.dir", "outputs"),
    key("output.log_file", Text, "dlio.log", "name of the log", "outputs"),
    key("output.metric.exclude_start_steps", Whole, "1", "steps excluded at the start of a block", "AU, samples/s"),
    key("output.metric.exclude_end_steps", Whole, "0", "steps excluded at the end of a block", "AU, samples/s"),

    key("profiling.profiler", Choice(&["none", "iostat", "darshan", "tensorboard"]), "iostat", "iostat: counters of the block devices, sampled once per second; other profilers are rejected if profiling is on", "iostat.json"),
    key("profiling.iostat_devices", Free, "[]", "devices to sample; default: all", "iostat.json"),

    key("metric.au", Number, "0.90", "accelerator utilization that counts as success, as a fraction", "train_au_meet_expectation"),
];

/// Sections and keys with other names in older files. The rest of the code sees only the newer names.
const OLD_NAMES: &[(&str, &str)] = &[
    ("data_reader", "reader"),
    ("model.model_size", "model.model_size_bytes"),
    ("dataset.record_length", "dataset.record_length_bytes"),
    ("dataset.record_length_stdev", "dataset.record_length_bytes_stdev"),
    ("dataset.record_length_resize", "dataset.record_length_bytes_resize"),
    ("checkpoint.model_size", "model.model_size_bytes"),
    ("checkpoint.optimization_groups", "model.optimization_groups"),
    ("checkpoint.num_layers", "model.num_layers"),
    ("checkpoint.layer_parameters", "model.layer_parameters"),
    ("checkpoint.tensor_parallelism", "model.parallelism.tensor"),
    ("checkpoint.pipeline_parallelism", "model.parallelism.pipeline"),
];

/// Sections that were a value in older files, and the key for that value now.
const ONCE_VALUES: &[(&str, &str)] = &[("model", "model.name")];

/// Old keys of models given by lists, whose checkpoints are not divided.
const OF_WHOLE_FILES: &[&str] = &[
    "checkpoint.optimization_groups",
    "checkpoint.num_layers",
    "checkpoint.layer_parameters",
    "checkpoint.tensor_parallelism",
    "checkpoint.pipeline_parallelism",
];

pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path || (key.has_parts() && is_below(path, key.path)))
}

impl Key {
    /// Returns `true` if its value may be a map whose parts the code that reads it checks, such as a distribution.
    fn has_parts(&self) -> bool {
        matches!(self.kind, Free | Time)
    }
}

fn is_below(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns `true` if the path names a section, such as `dataset` or `model.parallelism`.
pub fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| is_below(key.path, path))
}

/// Returns the current name of a path that may be an old one.
pub fn present_name(path: &str) -> String {
    for (old, new) in OLD_NAMES {
        if path == *old {
            return (*new).to_string();
        }
        if let Some(rest) = path.strip_prefix(old).filter(|rest| rest.starts_with('.')) {
            return format!("{new}{rest}");
        }
    }
    path.to_string()
}

/// Returns the current name of a path whose value is not a map.
pub fn present_name_of_value(path: &str) -> String {
    let once = ONCE_VALUES.iter().find(|(old, _)| path == *old);
    once.map_or_else(|| present_name(path), |(_, new)| (*new).to_string())
}

/// Returns the key and value that an old key implies in addition to its own value.
pub fn implied(path: &str) -> Option<(&'static str, &'static str)> {
    OF_WHOLE_FILES.contains(&path).then_some(("checkpoint.files", "whole"))
}

/// Returns the error in a value for this key, if any.
pub fn complaint(key: &Key, value: &Value) -> Option<String> {
    wrong_kind(key, value).or_else(|| too_small(key, value))
}

/// Refuses negative numbers, except the -1 that means "not set".
fn too_small(key: &Key, value: &Value) -> Option<String> {
    let least = key.default.parse::<f64>().unwrap_or(0.0).min(0.0);
    let below = |number: f64| number.is_nan() || number < least;
    let wrong = match (key.kind, value) {
        (Whole | Number | Wholes, Value::Int(number)) => below(*number as f64),
        (Whole | Number, Value::Float(number)) => below(*number),
        (Wholes, Value::List(items)) => items.iter().any(|item| matches!(item, Value::Int(..0))),
        _ => false,
    };
    wrong.then(|| format!("{} is less than the minimum {least}", value.inline()))
}

fn wrong_kind(key: &Key, value: &Value) -> Option<String> {
    let wanted = match (key.kind, value) {
        (_, Value::Null) | (Free, _) => return None,
        (Flag, Value::Bool(_)) | (Whole, Value::Int(_)) | (Number, Value::Int(_) | Value::Float(_)) => return None,
        (Whole, Value::Float(number)) if number.fract() == 0.0 => return None,
        (Text, Value::Text(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_)) => return None,
        (Wholes, Value::List(items)) if items.iter().all(|item| matches!(item, Value::Int(_))) => return None,
        (Wholes, Value::Int(_)) => return None,
        (Time, Value::Int(_) | Value::Float(_) | Value::Map(_)) => return None,
        (Choice(words), Value::Text(word)) if words.contains(&word.as_str()) => return None,
        // YAML 1.1 reads a bare `off` as false.
        (Choice(words), Value::Bool(false)) if words.contains(&"off") => return None,
        (Format, Value::Text(_)) => return None,
        (Choice(words), Value::Text(word)) => return Some(none_of(word, words)),
        (Choice(words), _) => format!("one of {}", words.join(", ")),
        (Flag, _) => "true or false".into(),
        (Whole, _) => "an integer".into(),
        (Number, _) => "a number".into(),
        (Text, _) => "a string".into(),
        (Format, _) => "a format name".into(),
        (Wholes, _) => "a list of integers".into(),
        (Time, _) => "a number of seconds or a distribution".into(),
    };
    Some(format!("expected {wanted}, got {} ({})", value.inline(), value.kind_name()))
}

/// Returns the error for an unknown word, with the closest known one.
pub fn none_of(word: &str, known: &[&str]) -> String {
    let near = nearest(word, known.iter().copied()).map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    format!("expected one of {}, got `{word}`{near}", known.join(", "))
}

/// The shortest start of a key by which it is recognized.
const START_MIN: usize = 5;

/// Returns the known path most like a wrong one: the same last word elsewhere, the only one of its section that starts
/// like it, or few different letters.
pub fn suggestion(path: &str) -> Option<&'static str> {
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let paths = || KEYS.iter().map(|key| key.path);
    let starts_alike = |known: &&'static str| {
        known
            .rsplit_once('.')
            .is_some_and(|(of, last)| of == section && name.len() >= START_MIN && last.starts_with(name))
    };
    let same_last = paths().find(|known| last(known) == name);
    same_last.or_else(|| paths().find(starts_alike)).or_else(|| nearest(path, paths()))
}

/// Returns the model's key that a path is, or was meant to be, if that sets the size of checkpoints.
pub fn of_checkpoint_size(path: &str) -> Option<&'static Key> {
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
    let sizes = |key: &&Key| key.path.starts_with("model.") && key.affects.starts_with("checkpoint");
    let (section, name) = path.rsplit_once('.')?;
    if !section.starts_with("model") && !section.starts_with("checkpoint") {
        return None;
    }
    // Older names also refer to these keys.
    let old = OLD_NAMES.iter().filter_map(|(old, new)| Some((last(old), find(new).filter(sizes)?)));
    let known = KEYS.iter().filter(sizes).map(|key| (last(key.path), key)).chain(old);
    let meant = nearest(name, known.clone().map(|(name, _)| name))?;
    known.into_iter().find(|(name, _)| *name == meant).map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::yaml_scalar;

    #[test]
    fn every_default_is_valid_for_its_key() {
        for key in KEYS {
            let default = crate::keys::value::parse_yaml("default", key.default).unwrap();
            assert_eq!(complaint(key, &default), None, "{}", key.path);
        }
    }

    #[test]
    fn no_key_is_listed_twice() {
        for (place, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..place].iter().all(|other| other.path != key.path), "{}", key.path);
        }
    }

    #[test]
    fn a_typing_slip_gets_the_right_key() {
        assert_eq!(suggestion("reader.batchsize"), Some("reader.batch_size"));
        assert_eq!(suggestion("dataset.num_file_train"), Some("dataset.num_files_train"));
        assert_eq!(suggestion("dataset.num_file"), Some("dataset.num_files_train"));
        assert_eq!(suggestion("train.batch_size"), Some("reader.batch_size"));
        assert_eq!(suggestion("zzz.qqqqqqqqqqqqqqqq"), None);
    }

    #[test]
    fn negative_numbers_are_rejected_except_unset() {
        let complaint_of =
            |path, text| complaint(find(path).unwrap(), &crate::keys::value::parse_yaml("t", text).unwrap());
        assert_eq!(complaint_of("reader.read_threads", "-1").unwrap(), "-1 is less than the minimum 0");
        assert_eq!(complaint_of("train.total_training_steps", "-1"), None);
        assert_eq!(complaint_of("train.total_training_steps", "-2").unwrap(), "-2 is less than the minimum -1");
        assert!(
            complaint_of("dataset.record_dims", "[4, -4]").is_some()
                && complaint_of("dataset.record_length_bytes", "-5").is_some()
        );
        assert!(complaint_of("metric.au", ".nan").is_some());
    }

    #[test]
    fn old_names_map_to_current_ones() {
        assert_eq!(present_name("data_reader.batch_size"), "reader.batch_size");
        assert_eq!(present_name("model.model_size"), "model.model_size_bytes");
        assert_eq!(present_name("model.model_sizes"), "model.model_sizes");
        assert_eq!(present_name("checkpoint.model_size"), "model.model_size_bytes");
        assert_eq!(present_name_of_value("model"), "model.name");
        assert_eq!(present_name("dataset.record_length"), "dataset.record_length_bytes");
        assert_eq!(present_name("dataset.record_length_bytes"), "dataset.record_length_bytes");
    }

    #[test]
    fn a_wrong_type_is_named_with_its_value() {
        let complaint = complaint(find("reader.batch_size").unwrap(), &yaml_scalar("many")).unwrap();
        assert!(complaint.contains("integer") && complaint.contains("many"));
        let choice = super::complaint(find("checkpoint.format").unwrap(), &yaml_scalar("safetensor")).unwrap();
        assert!(choice.contains("did you mean safetensors?"), "{choice}");
    }

    #[test]
    fn a_bare_off_in_yaml_means_off() {
        assert_eq!(complaint(find("reader.file_shuffle").unwrap(), &yaml_scalar("off")), None);
    }
}
