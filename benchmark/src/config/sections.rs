//! The configuration of a workload: the tree of keys as typed fields, with every default and derived value.
//!
//! Reading a key cannot fail here, because `workload::compose` has checked names and kinds. Whether values fit together
//! is checked in `workload/rules`.

use super::excluded::Excluded;
use crate::config::compute_time::{Spread, seconds};
use crate::config::profile::Profile;
use crate::failure::{Failure, Outcome};
use crate::keys;
use crate::keys::value::{Value, parse_yaml};
use crate::store::Settings;
use crate::store::cache::{self, Evict};
use crate::store::settings::Source;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Config {
    pub framework: Framework,
    pub model: Model,
    pub workflow: Workflow,
    pub storage_type: String,
    /// The object store of the data; `None` for a file system.
    pub store: Option<Settings>,
    /// Errors in the store's keys, and notes on corrections.
    pub store_complaints: Vec<Failure>,
    pub store_remarks: Vec<String>,
    /// The cache in front of the store.
    pub cache: Option<cache::Settings>,
    pub dataset: Dataset,
    pub reader: Reading,
    pub train: Train,
    pub evaluation: Evaluation,
    pub checkpoint: Checkpoints,
    pub output: Output,
    pub profiler: String,
    pub iostat_devices: Vec<String>,
    /// Utilization that counts as success, as a fraction.
    pub au: f64,
    /// Python classes that the workload names, which cannot be run here.
    pub classes: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    TensorFlow,
    PyTorch,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub name: String,
    pub transformer: bool,
    pub size_bytes: u64,
    pub datatype: Datatype,
    pub optimizer_datatype: Datatype,
    pub optimization_groups: Vec<u64>,
    pub layers: i64,
    pub layer_parameters: Vec<u64>,
    pub tensor: u64,
    pub pipeline: u64,
    pub data: i64,
    pub zero_stage: i64,
    pub vocab: u64,
    pub hidden: u64,
    pub ffn: u64,
    pub heads: u64,
    pub kv_heads: u64,
}

#[derive(Debug, Clone)]
pub struct Workflow {
    pub generate: bool,
    pub train: bool,
    pub evaluate: bool,
    pub checkpoint: bool,
    pub profile: bool,
    pub query: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Dataset {
    pub format: String,
    /// The extension of file names: the format, unless the files only represent it.
    pub suffix: String,
    /// Sizes of files at evenly spaced shares; empty if they follow from the samples.
    pub file_bytes: Vec<u64>,
    /// Whether the data set consists of existing files, and which, by split.
    pub listing: bool,
    pub listed: [Option<Arc<Vec<PathBuf>>>; 2],
    pub folder: PathBuf,
    pub prefix: String,
    pub files_train: u64,
    pub files_eval: u64,
    /// The number of files in their names, training and evaluation: a part of a larger data set may be read.
    pub named: [u64; 2],
    /// Before a run, every n-th training file is checked; `None` checks all, with a listing.
    pub listing_interval: Option<u64>,
    /// Before a run, only the first, the middle and the last file are checked, without a listing.
    pub skip_listing: bool,
    pub samples_per_file: u64,
    pub subfolders_train: u64,
    pub subfolders_eval: u64,
    pub record_bytes: f64,
    pub record_bytes_stdev: f64,
    pub record_bytes_resize: f64,
    pub record_dims: Vec<u64>,
    pub element: Element,
    pub compression: String,
    pub compression_level: u32,
    pub chunk_dims: Vec<u64>,
    /// Size of a chunk if only a size is given; 0: not chunked by size.
    pub chunk_bytes: u64,
    pub datasets_per_record: u64,
    pub max_shape: Vec<u64>,
    pub buffer_bytes: u64,
    pub keep_files: bool,
    pub parquet_columns: Vec<Value>,
    pub parquet_row_group: u64,
    pub parquet_partition: Option<String>,
    /// webdataset: the extension of the member with a sample's bytes; whether members have pax headers.
    pub shard_extension: String,
    pub shard_pax: bool,
    pub settle: Duration,
}

/// A NumPy element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    pub name: &'static str,
    /// The type in NumPy's headers.
    pub descr: &'static str,
    pub bytes: u64,
}

const ELEMENTS: &[Element] = &[
    Element { name: "uint8", descr: "|u1", bytes: 1 },
    Element { name: "int8", descr: "|i1", bytes: 1 },
    Element { name: "uint16", descr: "<u2", bytes: 2 },
    Element { name: "int16", descr: "<i2", bytes: 2 },
    Element { name: "uint32", descr: "<u4", bytes: 4 },
    Element { name: "int32", descr: "<i4", bytes: 4 },
    Element { name: "uint64", descr: "<u8", bytes: 8 },
    Element { name: "int64", descr: "<i8", bytes: 8 },
    Element { name: "float16", descr: "<f2", bytes: 2 },
    Element { name: "float32", descr: "<f4", bytes: 4 },
    Element { name: "float64", descr: "<f8", bytes: 8 },
];

impl Element {
    pub const UINT8: Element = ELEMENTS[0];

    pub fn named(name: &str) -> Element {
        ELEMENTS.iter().copied().find(|element| element.name == name).unwrap_or(Element::UINT8)
    }

    pub fn described(descr: &str) -> Option<Element> {
        ELEMENTS.iter().copied().find(|element| element.descr == descr)
    }
}

/// The data type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datatype {
    pub name: &'static str,
    pub bytes: u64,
    /// The type in PyTorch, and the class of its storage.
    pub torch: &'static str,
    pub storage: &'static str,
    pub safetensors: &'static str,
    /// The number of the type in TensorFlow's messages.
    pub tensorflow: u8,
    /// The number one.
    pub one: &'static [u8],
}

const DATATYPES: &[Datatype] = &[
    Datatype {
        name: "int8",
        bytes: 1,
        torch: "int8",
        storage: "CharStorage",
        safetensors: "I8",
        tensorflow: 6,
        one: &[1],
    },
    Datatype {
        name: "uint8",
        bytes: 1,
        torch: "uint8",
        storage: "ByteStorage",
        safetensors: "U8",
        tensorflow: 4,
        one: &[1],
    },
    Datatype {
        name: "fp16",
        bytes: 2,
        torch: "float16",
        storage: "HalfStorage",
        safetensors: "F16",
        tensorflow: 19,
        one: &[0, 0x3c],
    },
    Datatype {
        name: "bf16",
        bytes: 2,
        torch: "bfloat16",
        storage: "BFloat16Storage",
        safetensors: "BF16",
        tensorflow: 14,
        one: &[0x80, 0x3f],
    },
    Datatype {
        name: "fp32",
        bytes: 4,
        torch: "float32",
        storage: "FloatStorage",
        safetensors: "F32",
        tensorflow: 1,
        one: &[0, 0, 0x80, 0x3f],
    },
    Datatype {
        name: "fp64",
        bytes: 8,
        torch: "float64",
        storage: "DoubleStorage",
        safetensors: "F64",
        tensorflow: 2,
        one: &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
    },
];

impl Datatype {
    pub const INT8: Datatype = DATATYPES[0];

    pub fn named(name: &str) -> Datatype {
        DATATYPES.iter().copied().find(|datatype| datatype.name == name).unwrap_or(DATATYPES[4])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoaderKind {
    /// Batches by index, one worker per batch: torch.utils.data.DataLoader.
    PyTorch,
    /// Files as parallel streams through a shuffle buffer: tf.data.
    TensorFlow,
    /// By index, in threads: an external source of DALI.
    Dali,
    /// Streams through a shuffle buffer, in threads: DALI's own readers.
    NativeDali,
    /// In the training process, without prefetching.
    Plain,
    /// No input at all.
    Synthetic,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shuffle {
    Off,
    Seed,
    Random,
}

#[derive(Debug, Clone)]
pub struct Reading {
    pub loader: LoaderKind,
    pub loader_name: String,
    pub batch: u64,
    pub batch_eval: u64,
    pub workers: usize,
    /// How the original would start workers; here they are forked.
    pub worker_start: String,
    /// Prefetched batches, over all workers.
    pub prefetch: u64,
    pub file_shuffle: Shuffle,
    pub sample_shuffle: Shuffle,
    pub shuffle_size: u64,
    pub file_access: String,
    /// Every read is a collective of all ranks.
    pub collective: bool,
    /// Ranks take batches alternately.
    pub strided: bool,
    pub keep_open: bool,
    pub transfer_size: u64,
    pub preprocess: Spread,
    pub map: bool,
    pub direct: bool,
    /// Checksums are verified if the format's own readers do so.
    pub checksums: bool,
    /// Size of the array that the trainer gets for each sample; 0: none.
    pub handed_bytes: u64,
    /// The calls that read samples, instead of the format's reader.
    pub profile: Option<Profile>,
}

#[derive(Debug, Clone)]
pub struct Train {
    pub epochs: u64,
    pub computation: Spread,
    pub steps_max: Option<u64>,
    pub seed: u64,
    pub seed_change_epoch: bool,
}

#[derive(Debug, Clone)]
pub struct Evaluation {
    pub time: Spread,
    pub after_epoch: u64,
    pub every: u64,
}

/// The requested format of checkpoint files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointFormat {
    /// The framework's format.
    Framework,
    PyTorch,
    Safetensors,
    TensorFlow,
    /// The format of torch.distributed.checkpoint.
    Distributed,
    Raw,
}

#[derive(Debug, Clone)]
pub struct Checkpoints {
    pub folder: PathBuf,
    pub after_epoch: u64,
    pub every_epochs: u64,
    /// Within an epoch; 0: never, not even after epochs.
    pub every_steps: Option<u64>,
    pub all_ranks: bool,
    pub fsync: bool,
    pub pause: Duration,
    pub writes: i64,
    pub reads: i64,
    pub rank_shift: bool,
    pub rank_sync: bool,
    pub subset: bool,
    pub random: bool,
    pub format: CheckpointFormat,
    /// Sizes of files of bytes, instead of a model.
    pub file_bytes: Vec<u64>,
    /// Models given by lists are not divided: each layer has a file.
    pub whole: bool,
    /// Checkpoints bypass the page cache.
    pub direct: bool,
    /// Size of one write and one read of a checkpoint.
    pub transfer_size: Option<usize>,
    /// Maximum bytes per second that a rank copies from the fast directory.
    pub drain_rate: Option<f64>,
    /// The bytes read are compared with the checksums stored at write time.
    pub verify: bool,
    /// Training continues while checkpoints are written.
    pub asynchronous: bool,
    /// The directory they are written to first, to be copied to `folder` while training continues.
    pub fast_folder: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct Output {
    pub folder: Option<PathBuf>,
    pub log_file: String,
    pub exclude_start: u64,
    pub exclude_end: u64,
}

impl Output {
    /// Returns the steps that metrics exclude.
    pub fn excluded(&self) -> Excluded {
        Excluded { start: self.exclude_start as usize, end: self.exclude_end as usize }
    }
}

/// The tree with the defaults of the table of keys.
struct Tree<'a>(&'a Value);

impl Tree<'_> {
    fn value(&self, path: &str) -> Value {
        let found = self.0.at(&path.split('.').collect::<Vec<_>>());
        match found.filter(|value| **value != Value::Null) {
            Some(value) => value.clone(),
            None => default_of(path),
        }
    }

    fn flag(&self, path: &str) -> bool {
        self.value(path) == Value::Bool(true)
    }

    fn is_set(&self, path: &str) -> bool {
        self.0.at(&path.split('.').collect::<Vec<_>>()).is_some_and(|value| *value != Value::Null)
    }

    fn number(&self, path: &str) -> f64 {
        match self.value(path) {
            Value::Int(number) => number as f64,
            Value::Float(number) => number,
            _ => 0.0,
        }
    }

    fn whole(&self, path: &str) -> i64 {
        match self.value(path) {
            Value::Int(number) => number,
            Value::Float(number) => number as i64,
            _ => 0,
        }
    }

    /// Reads a key that is zero or more; `workload/rules` refuses other values.
    fn count(&self, path: &str) -> u64 {
        self.whole(path).max(0) as u64
    }

    fn text(&self, path: &str) -> String {
        match self.value(path) {
            Value::Text(text) => text,
            Value::Null => String::new(),
            other => other.inline(),
        }
    }

    /// Returns `true` if parquet files remain open: the end of such a file locates everything in it, and by default
    /// MLPerf's DLIO reads it once per epoch.
    fn keeps_parquet_open(&self) -> bool {
        self.0.at(&["reader", "read_type"]).is_none() && self.text("dataset.format") == "parquet"
    }

    fn optional(&self, path: &str) -> Option<String> {
        Some(self.text(path)).filter(|text| !text.is_empty())
    }

    fn counts(&self, path: &str) -> Vec<u64> {
        let number = |value: &Value| if let Value::Int(number) = value { (*number).max(0) as u64 } else { 0 };
        match self.value(path) {
            Value::List(items) => items.iter().map(number).collect(),
            one @ Value::Int(_) => vec![number(&one)],
            _ => Vec::new(),
        }
    }

    fn list(&self, path: &str) -> Vec<Value> {
        match self.value(path) {
            Value::List(items) => items,
            Value::Null => Vec::new(),
            one => vec![one],
        }
    }

    fn shuffle(&self, path: &str) -> Shuffle {
        match self.text(path).as_str() {
            "seed" => Shuffle::Seed,
            "random" => Shuffle::Random,
            _ => Shuffle::Off,
        }
    }

    fn spread(&self, path: &str) -> Outcome<Spread> {
        Spread::read(path, &self.value(path), self.number(&format!("{path}_stdev")))
    }
}

fn default_of(path: &str) -> Value {
    let default = keys::find(path).map_or("null", |key| key.default);
    parse_yaml(path, default).expect("every default of the table is YAML, as its test shows")
}

impl Config {
    pub fn read(tree: &Value) -> Outcome<Config> {
        let tree = Tree(tree);
        let places = DataLocations::read(&tree);
        let checkpoint = checkpoints(&tree, &places);
        let dataset = dataset(&tree, &places);
        let framework = if tree.text("framework") == "pytorch" { Framework::PyTorch } else { Framework::TensorFlow };
        let scale = tree.number("scale");
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(Failure::refused(format!("workload.scale={scale}: no work would remain"))
                .remedy("use a number above 0"));
        }
        let mut train = train(&tree)?;
        train.steps_max = train.steps_max.map(|steps| times(steps, scale));
        Ok(Config {
            framework,
            model: Model { size_bytes: times(tree.count("model.model_size_bytes"), scale), ..model(&tree) },
            workflow: workflow(&tree, &checkpoint),
            storage_type: tree.text("storage.storage_type"),
            store: places.store,
            store_complaints: places.complaints.into_inner(),
            store_remarks: places.remarks.into_inner(),
            cache: cache(&tree),
            dataset: scaled(dataset, scale),
            reader: reading(&tree)?,
            train,
            evaluation: Evaluation {
                time: tree.spread("evaluation.eval_time")?,
                after_epoch: tree.count("evaluation.eval_after_epoch"),
                every: tree.count("evaluation.epochs_between_evals"),
            },
            checkpoint: Checkpoints {
                every_steps: checkpoint.every_steps.map(|steps| if steps == 0 { 0 } else { times(steps, scale) }),
                ..checkpoint
            },
            output: Output {
                folder: tree.optional("output.folder").map(PathBuf::from),
                log_file: tree.text("output.log_file"),
                exclude_start: tree.count("output.metric.exclude_start_steps"),
                exclude_end: tree.count("output.metric.exclude_end_steps"),
            },
            profiler: tree.text("profiling.profiler"),
            iostat_devices: tree.list("profiling.iostat_devices").iter().map(Value::inline).collect(),
            au: tree.number("metric.au"),
            classes: classes(&tree),
        })
    }

    /// Returns `true` if the run has results, which is unless it only generates.
    pub fn measures(&self) -> bool {
        self.workflow.train || self.workflow.checkpoint
    }

    /// Returns `true` if an epoch has no training, only an evaluation: the data set has no files to train on.
    pub fn evaluates_only(&self) -> bool {
        let Dataset { files_train, files_eval, .. } = self.dataset;
        let evaluates = self.workflow.evaluate || (self.workflow.generate && !self.workflow.train);
        files_train == 0 && files_eval > 0 && evaluates
    }

    /// Returns `true` if the run only writes and reads checkpoints.
    pub fn only_checkpoints(&self) -> bool {
        self.workflow.checkpoint && !self.workflow.train
    }
}

fn classes(tree: &Tree) -> Vec<(&'static str, String)> {
    let keys = ["reader.data_loader_classname", "reader.reader_classname", "checkpoint.checkpoint_mechanism_classname"];
    keys.into_iter().filter_map(|key| tree.optional(key).map(|class| (key, class))).collect()
}

fn model(tree: &Tree) -> Model {
    Model {
        name: tree.text("model.name"),
        transformer: tree.text("model.type") == "transformer",
        size_bytes: tree.count("model.model_size_bytes"),
        datatype: Datatype::named(&tree.text("model.model_datatype")),
        optimizer_datatype: Datatype::named(&tree.text("model.optimizer_datatype")),
        optimization_groups: tree.counts("model.optimization_groups"),
        layers: tree.whole("model.num_layers"),
        layer_parameters: tree.counts("model.layer_parameters"),
        tensor: tree.count("model.parallelism.tensor"),
        pipeline: tree.count("model.parallelism.pipeline"),
        data: tree.whole("model.parallelism.data"),
        zero_stage: tree.whole("model.parallelism.zero_stage"),
        vocab: tree.count("model.transformer.vocab_size"),
        hidden: tree.count("model.transformer.hidden_size"),
        ffn: tree.count("model.transformer.ffn_hidden_size"),
        heads: tree.count("model.transformer.num_attention_heads"),
        kv_heads: tree.count("model.transformer.num_kv_heads"),
    }
}

fn workflow(tree: &Tree, checkpoint: &Checkpoints) -> Workflow {
    let (generate, train) = (tree.flag("workflow.generate_data"), tree.flag("workflow.train"));
    // The checkpoints of a skipped training are skipped too; what remains is to generate, as in DLIO.
    let of_training = generate && !train && checkpoint.writes <= 0 && checkpoint.reads <= 0;
    Workflow {
        generate,
        train,
        evaluate: tree.flag("workflow.evaluation"),
        checkpoint: tree.flag("workflow.checkpoint") && !of_training,
        profile: tree.flag("workflow.profiling"),
        query: tree.optional("workflow.query"),
    }
}

fn cache(tree: &Tree) -> Option<cache::Settings> {
    Some(cache::Settings {
        folder: PathBuf::from(tree.optional("storage.cache.folder")?),
        size: tree.count("storage.cache.size"),
        block: (tree.text("storage.cache.unit") == "block").then(|| tree.count("storage.cache.block_size")),
        by_rank: tree.text("storage.cache.share") == "rank",
        evict: match tree.text("storage.cache.evict").as_str() {
            "lru" => Evict::Lru,
            "fifo" => Evict::Fifo,
            _ => Evict::Nothing,
        },
        ahead: tree.text("storage.cache.fill") == "ahead",
        keep: tree.flag("storage.cache.keep"),
    })
}

/// The locations of directories: below a directory of a file system, or in a bucket.
struct DataLocations {
    root: String,
    store: Option<Settings>,
    complaints: RefCell<Vec<Failure>>,
    remarks: RefCell<Vec<String>>,
}

impl DataLocations {
    fn read(tree: &Tree) -> DataLocations {
        let (kind, root) = (tree.text("storage.storage_type"), tree.text("storage.storage_root"));
        let mut places =
            DataLocations { root, store: None, complaints: RefCell::default(), remarks: RefCell::default() };
        let source = Source {
            storage_type: &kind,
            storage_root: &places.root,
            options: &tree.value("storage.storage_options"),
            force_path_style: tree.flag("storage.s3_force_path_style").then_some(true),
            variable: &|name| std::env::var(name).ok(),
        };
        let read = match kind.as_str() {
            "s3" | "aistore" => source.settings().map(Some),
            // Files do not need these options, but an unknown one must be a typing error.
            _ => Err(source.unknown()).or_else(|slips| if slips.is_empty() { Ok(None) } else { Err(slips) }),
        };
        match read {
            Ok(settings) => places.store = settings,
            Err(complaints) => places.complaints = RefCell::new(complaints),
        }
        places
    }

    fn folder(&self, tree: &Tree, key: &str) -> PathBuf {
        let typed = tree.text(key);
        let Some(store) = &self.store else { return Path::new(&self.root).join(without_last_slashes(&typed)) };
        match store.folder(key, &self.root, &typed) {
            Ok((folder, remark)) => {
                self.remarks.borrow_mut().extend(remark);
                folder
            }
            Err(complaint) => {
                self.complaints.borrow_mut().push(complaint);
                PathBuf::from(typed)
            }
        }
    }

    /// Returns a directory that may be on this host even if the data are not, because its path is absolute.
    fn folder_anywhere(&self, tree: &Tree, key: &str) -> PathBuf {
        let typed = tree.text(key);
        if typed.starts_with('/') { PathBuf::from(typed) } else { self.folder(tree, key) }
    }
}

/// Returns a path without the slashes at its end. The root directory is returned unchanged.
fn without_last_slashes(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" if path.starts_with('/') => "/",
        rest => rest,
    }
}

fn dataset(tree: &Tree, places: &DataLocations) -> Dataset {
    let suffix = tree.text("dataset.format");
    let file_bytes = tree.counts("dataset.file_bytes");
    let format = if file_bytes.is_empty() { suffix.clone() } else { "raw".into() };
    let image = format == "jpeg" || format == "png";
    Dataset {
        // Images have one byte per pixel regardless of the workload.
        element: if image || format == "raw" {
            Element::UINT8
        } else {
            Element::named(&tree.text("dataset.record_element_type"))
        },
        format,
        suffix,
        file_bytes,
        listing: tree.flag("dataset.listing"),
        listed: [None, None],
        folder: places.folder(tree, "dataset.data_folder"),
        prefix: tree.text("dataset.file_prefix"),
        files_train: tree.count("dataset.num_files_train"),
        files_eval: tree.count("dataset.num_files_eval"),
        named: [
            tree.count("dataset.num_files_train").max(tree.count("dataset.num_files_generated")),
            tree.count("dataset.num_files_eval"),
        ],
        listing_interval: if tree.is_set("dataset.listing_validation_interval") {
            Some(tree.count("dataset.listing_validation_interval").max(1))
        } else {
            None
        },
        skip_listing: tree.flag("dataset.skip_listing"),
        samples_per_file: tree.count("dataset.num_samples_per_file"),
        subfolders_train: tree.count("dataset.num_subfolders_train"),
        subfolders_eval: tree.count("dataset.num_subfolders_eval"),
        record_bytes: tree.number("dataset.record_length_bytes"),
        record_bytes_stdev: tree.number("dataset.record_length_bytes_stdev"),
        record_bytes_resize: tree.number("dataset.record_length_bytes_resize"),
        record_dims: tree.counts("dataset.record_dims"),
        compression: tree.text("dataset.compression"),
        compression_level: tree.count("dataset.compression_level").min(12) as u32,
        chunk_dims: tree.counts("dataset.hdf5.chunk_dims"),
        chunk_bytes: if tree.flag("dataset.enable_chunking") { tree.count("dataset.chunk_size") } else { 0 },
        datasets_per_record: tree.count("dataset.hdf5.num_dset_per_record"),
        max_shape: tree.counts("dataset.hdf5.max_shape"),
        buffer_bytes: tree.count("dataset.generation_buffer_size"),
        keep_files: tree.flag("dataset.keep_files"),
        parquet_columns: tree.list("dataset.parquet.columns"),
        parquet_row_group: tree.count("dataset.parquet.row_group_size"),
        parquet_partition: tree.optional("dataset.parquet.partition_by"),
        shard_extension: tree.text("dataset.webdataset.extension"),
        shard_pax: tree.flag("dataset.webdataset.pax"),
        settle: seconds(tree.number("storage.post_generation_settle_seconds")),
    }
}

/// Multiplies a number; a nonzero number does not become zero.
fn times(number: u64, scale: f64) -> u64 {
    if number == 0 || scale == 1.0 { number } else { ((number as f64 * scale).round() as u64).max(1) }
}

/// Scales the number of samples in a data set: fewer files, and if one is left, fewer samples in it.
fn scaled(mut dataset: Dataset, scale: f64) -> Dataset {
    if scale == 1.0 {
        return dataset;
    }
    let samples = dataset.files_train as f64 * dataset.samples_per_file as f64 * scale;
    dataset.files_train = times(dataset.files_train, scale);
    dataset.files_eval = times(dataset.files_eval, scale);
    let whole = dataset.samples_per_file;
    let each = (samples / dataset.files_train.max(1) as f64).round() as u64;
    dataset.samples_per_file =
        if dataset.files_train > 1 { whole } else { each.clamp(u64::from(whole > 0), whole.max(each)) };
    let part = dataset.samples_per_file as f64 / whole.max(1) as f64;
    dataset.file_bytes.iter_mut().for_each(|bytes| *bytes = times(*bytes, part));
    dataset.subfolders_train = dataset.subfolders_train.min(dataset.files_train);
    dataset.subfolders_eval = dataset.subfolders_eval.min(dataset.files_eval);
    dataset.named = [dataset.files_train, dataset.files_eval];
    dataset
}

fn reading(tree: &Tree) -> Outcome<Reading> {
    let loader_name = tree.text("reader.data_loader");
    let loader = match loader_name.as_str() {
        "pytorch" => LoaderKind::PyTorch,
        "dali" => LoaderKind::Dali,
        "native_dali" => LoaderKind::NativeDali,
        "synthetic" => LoaderKind::Synthetic,
        "none" => LoaderKind::Plain,
        _ => LoaderKind::TensorFlow,
    };
    let threads = tree.count("reader.read_threads") as usize;
    let workers = match loader {
        LoaderKind::PyTorch => threads,
        LoaderKind::Plain | LoaderKind::Synthetic => 0,
        _ => threads.max(1),
    };
    let collective = matches!(tree.text("reader.file_access").as_str(), "collective" | "mpio");
    Ok(Reading {
        loader,
        loader_name,
        batch: tree.count("reader.batch_size"),
        batch_eval: tree.count("reader.batch_size_eval"),
        workers,
        worker_start: tree.text("reader.multiprocessing_context"),
        prefetch: tree.count("reader.prefetch_size"),
        file_shuffle: tree.shuffle("reader.file_shuffle"),
        sample_shuffle: tree.shuffle("reader.sample_shuffle"),
        shuffle_size: tree.count("reader.shuffle_size"),
        collective,
        strided: tree.text("reader.rank_access") == "strided",
        file_access: tree.text("reader.file_access"),
        keep_open: tree.text("reader.read_type") == "memory" || tree.keeps_parquet_open(),
        transfer_size: tree.count("reader.transfer_size"),
        preprocess: tree.spread("reader.preprocess_time")?,
        map: !tree.flag("reader.dont_use_mmap") && !collective,
        checksums: tree.flag("reader.checksums"),
        direct: tree.flag("reader.odirect") || tree.text("storage.storage_type") == "direct_fs",
        handed_bytes: handed_bytes(tree),
        profile: Profile::read(&tree.value("reader.profile"))?,
    })
}

fn handed_bytes(tree: &Tree) -> u64 {
    let dims = tree.counts("reader.transformed_record_dims");
    if !dims.is_empty() {
        let element = Element::named(&tree.text("reader.transformed_record_element_type"));
        return dims.iter().fold(element.bytes, |bytes, dim| bytes.saturating_mul(*dim));
    }
    let side = tree.number("dataset.record_length_bytes_resize").max(0.0).sqrt() as u64;
    side.saturating_mul(side)
}

fn train(tree: &Tree) -> Outcome<Train> {
    Ok(Train {
        epochs: tree.count("train.epochs"),
        computation: tree.spread("train.computation_time")?,
        // As in DLIO, zero does not limit the steps.
        steps_max: u64::try_from(tree.whole("train.total_training_steps")).ok().filter(|steps| *steps > 0),
        seed: tree.whole("train.seed") as u64,
        seed_change_epoch: tree.flag("train.seed_change_epoch"),
    })
}

fn saving(word: &str) -> CheckpointFormat {
    match word {
        "pytorch" => CheckpointFormat::PyTorch,
        "distributed" => CheckpointFormat::Distributed,
        "safetensors" => CheckpointFormat::Safetensors,
        "tensorflow" => CheckpointFormat::TensorFlow,
        "raw" => CheckpointFormat::Raw,
        _ => CheckpointFormat::Framework,
    }
}

fn checkpoints(tree: &Tree, places: &DataLocations) -> Checkpoints {
    Checkpoints {
        folder: places.folder_anywhere(tree, "checkpoint.checkpoint_folder"),
        after_epoch: tree.count("checkpoint.checkpoint_after_epoch"),
        every_epochs: tree.count("checkpoint.epochs_between_checkpoints"),
        every_steps: u64::try_from(tree.whole("checkpoint.steps_between_checkpoints")).ok(),
        all_ranks: tree.text("checkpoint.type") == "all_ranks",
        fsync: tree.flag("checkpoint.fsync"),
        pause: seconds(tree.number("checkpoint.time_between_checkpoints")),
        writes: tree.whole("checkpoint.num_checkpoints_write"),
        reads: tree.whole("checkpoint.num_checkpoints_read"),
        rank_shift: tree.flag("checkpoint.recovery_rank_shift"),
        rank_sync: tree.flag("checkpoint.rank_sync"),
        subset: tree.text("checkpoint.mode") == "subset",
        random: tree.flag("checkpoint.randomize_tensor"),
        format: saving(&tree.text("checkpoint.format")),
        file_bytes: tree.counts("checkpoint.file_bytes"),
        whole: tree.text("checkpoint.files") == "whole",
        direct: tree.flag("checkpoint.odirect"),
        transfer_size: Some(tree.count("checkpoint.transfer_size") as usize).filter(|size| *size > 0),
        drain_rate: Some(tree.number("checkpoint.drain_rate")).filter(|rate| *rate > 0.0),
        verify: tree.flag("checkpoint.verify"),
        asynchronous: tree.flag("checkpoint.asynchronous"),
        fast_folder: tree.optional("checkpoint.fast_folder").map(|folder| match &places.store {
            // A location faster than the store is a directory of this host.
            Some(_) => PathBuf::from(folder),
            None => places.folder(tree, "checkpoint.fast_folder"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::read(&parse_yaml("t", text).unwrap()).unwrap()
    }

    #[test]
    fn missing_keys_have_the_table_default() {
        let config = config("{}");
        assert_eq!(config.framework, Framework::TensorFlow);
        assert_eq!((config.reader.batch, config.dataset.files_train, config.au), (1, 8, 0.9));
        assert!(config.workflow.train && !config.workflow.generate);
    }

    #[test]
    fn a_fractional_record_length_is_kept() {
        let config = config("{dataset: {record_length_bytes: 114660.07, record_length_bytes_resize: 150528}}");
        assert_eq!(config.dataset.record_bytes, 114660.07);
        assert_eq!(config.reader.handed_bytes, 387 * 387);
    }

    #[test]
    fn parquet_files_stay_open_by_default() {
        let kept = |text: &str| config(text).reader.keep_open;
        assert!(kept("{dataset: {format: parquet}}") && !kept("{dataset: {format: hdf5}}"));
        assert!(!kept("{dataset: {format: parquet}, reader: {read_type: on_demand}}"));
    }

    #[test]
    fn the_keys_that_did_nothing_before_do_something() {
        let config = config(
            "{checkpoint: {fsync: true, recovery_rank_shift: true}, reader: {read_type: memory}, dataset: {enable_chunking: true, chunk_size: 4096}}",
        );
        assert!(config.checkpoint.fsync && config.checkpoint.rank_shift && config.reader.keep_open);
        assert_eq!(config.dataset.chunk_bytes, 4096);
    }

    #[test]
    fn scaled_workload_has_fewer_equal_samples() {
        let scaled = |dataset: &str, scale: f64| {
            let config =
                config(&format!("{{scale: {scale}, dataset: {{{dataset}}}, train: {{total_training_steps: 150}}}}"));
            let Dataset { files_train, samples_per_file, file_bytes, .. } = config.dataset;
            (files_train, samples_per_file, file_bytes, config.train.steps_max)
        };
        let many = "num_files_train: 1000, num_samples_per_file: 8, file_bytes: [400, 800]";
        assert_eq!(scaled(many, 0.1), (100, 8, vec![400, 800], Some(15)));
        assert_eq!(config("{train: {total_training_steps: 0}}").train.steps_max, None);
        let one = "num_files_train: 1, num_samples_per_file: 1000, file_bytes: [50000]";
        assert_eq!(scaled(one, 0.1), (1, 100, vec![5000], Some(15)));
        assert_eq!(scaled(one, 2.0), (2, 1000, vec![50000], Some(300)));
        assert_eq!(scaled(one, 1.0), (1, 1000, vec![50000], Some(150)));
    }

    #[test]
    fn images_always_have_byte_elements() {
        assert_eq!(config("{dataset: {format: png, record_element_type: float32}}").dataset.element, Element::UINT8);
    }

    #[test]
    fn storage_root_prefixes_relative_directories_only() {
        let relative = config("{storage: {storage_root: /mnt}, dataset: {data_folder: data/x/}}");
        assert_eq!(relative.dataset.folder, PathBuf::from("/mnt/data/x"));
        let absolute = config("{storage: {storage_root: /mnt}, dataset: {data_folder: /y}}");
        assert_eq!(absolute.dataset.folder, PathBuf::from("/y"));
        for (typed, folder) in [("/", "/"), ("///", "/"), ("/y//", "/y"), ("''", "./")] {
            let read = config(&format!("{{dataset: {{data_folder: {typed}}}}}"));
            assert_eq!(read.dataset.folder, PathBuf::from(folder), "{typed}");
        }
    }
}
