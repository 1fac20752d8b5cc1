//! Impossible combinations of values. All of them are reported together, before the first file is written.

use crate::checkpoint::Shards;
use crate::config::{CheckpointFormat, Config, Element, Framework, LoaderKind};
use crate::data_set::formats::hdf5;
use crate::data_set::layout::{Layout, Split};
use crate::failure::{Failure, Outcome};
use crate::keys;
use crate::keys::value::Value;
use crate::ranks::mpi;
use crate::store;
use crate::system::locate;
use std::path::Path;

/// Returns all errors in this configuration for a number of ranks.
pub fn complaints(config: &Config, ranks: u64) -> Vec<Failure> {
    let mut list = List(Vec::new());
    quantities(config, ranks, &mut list);
    if !list.0.is_empty() {
        // The following rules compute with these numbers.
        return list.0;
    }
    storage(config, &mut list);
    if config.workflow.generate || config.workflow.train {
        dataset(config, &mut list);
        compression(config, &mut list);
        images(config, &mut list);
        reading(config, &mut list);
    }
    if config.workflow.train {
        steps(config, ranks, &mut list);
    }
    if config.workflow.checkpoint {
        checkpoints(config, ranks, &mut list);
    }
    list.0
}

/// Checks that this many ranks can write the checkpoints; returns the first complaint of such a run.
pub fn possible_checkpoints(config: &Config, ranks: u64) -> Outcome<()> {
    let mut list = List(Vec::new());
    quantities(config, ranks, &mut list);
    if list.0.is_empty() {
        checkpoints(config, ranks, &mut list);
    }
    list.0.into_iter().next().map_or(Ok(()), Err)
}

struct List(Vec<Failure>);

impl List {
    fn refuse(&mut self, when: bool, what: impl Into<String>, remedy: impl Into<String>) {
        if when {
            self.0.push(Failure::refused(what).remedy(remedy));
        }
    }
}

/// The limit for bytes, samples and numbers. Up to this limit, they are counted exactly, with headroom for sums.
const COUNTABLE: f64 = (1u64 << 62) as f64;

/// Processes, threads, layers and directories: more than any host or model has.
const PROCESSES_MAX: u64 = 4096;
const LAYERS_MAX: i64 = 100_000;
const SUBFOLDERS_MAX: u64 = 1_000_000;
/// Files of a split: ext4 has no more on a whole file system, and one bit per file still fits in memory.
const FILES_MAX: u64 = 1 << 32;
/// The maximum transfer size, because a transfer is buffered in memory.
const TRANSFER_MAX: u64 = 1 << 30;
/// The maximum size of a value in a Parquet column: its pages count in 32 bits.
const VALUE_MAX: i64 = i32::MAX as i64;

/// Refuses numbers so large that derived values would overflow or a loop would not end.
fn quantities(config: &Config, ranks: u64, list: &mut List) {
    for (key, files) in ["num_files_train", "num_files_eval"].into_iter().zip(config.dataset.named) {
        list.refuse(
            files > FILES_MAX,
            format!("workload.dataset.{key}={files}: at most {FILES_MAX} files are supported"),
            "use fewer files with more samples each (++workload.dataset.num_samples_per_file)",
        );
    }
    let mut at_most = |what: &str, number: f64, most: f64| {
        let [shown, limit] = [number, most].map(in_digits);
        list.refuse(number > most, format!("{what} would be {shown}; at most {limit} is supported"), "");
    };
    let (dataset, reader, model) = (&config.dataset, &config.reader, &config.model);
    let side = dataset.record_bytes.sqrt();
    // A randomly drawn size is never further from the mean than this.
    let widest = side + 10.0 * dataset.record_bytes_stdev / 2.0 / side.max(1.0);
    let elements = match dataset.record_dims.is_empty() {
        true => widest * widest,
        false => dataset.record_dims.iter().map(|dim| *dim as f64).product(),
    };
    let samples = (dataset.files_train as f64 + dataset.files_eval as f64) * dataset.samples_per_file as f64;
    at_most("the samples of the data set (num_files * num_samples_per_file)", samples, COUNTABLE);
    let bytes = samples.max(1.0) * elements * dataset.element.bytes as f64;
    at_most("the bytes of the data set", bytes, COUNTABLE);
    let handed = reader.batch.max(reader.batch_eval) as f64 * reader.handed_bytes as f64;
    at_most("the bytes sent to the trainer at the same time", handed * reader.prefetch.max(2) as f64, COUNTABLE);
    at_most("the samples per step (batch_size * ranks)", reader.batch as f64 * ranks as f64, COUNTABLE);
    let evaluated = reader.batch_eval as f64 * ranks as f64;
    at_most("the samples per evaluation step (batch_size_eval * ranks)", evaluated, COUNTABLE);
    at_most("workload.reader.shuffle_size", reader.shuffle_size as f64, COUNTABLE);
    at_most("workload.reader.prefetch_size", reader.prefetch as f64, COUNTABLE);
    at_most("workload.reader.read_threads", reader.workers as f64, PROCESSES_MAX as f64);
    at_most("--ranks", ranks as f64, PROCESSES_MAX as f64);
    for (key, count) in [("train", dataset.subfolders_train), ("eval", dataset.subfolders_eval)] {
        at_most(&format!("workload.dataset.num_subfolders_{key}"), count as f64, SUBFOLDERS_MAX as f64);
    }
    for column in &dataset.parquet_columns {
        if let Some(Value::Int(size)) = column.get("size") {
            at_most("the size of a Parquet column", *size as f64, VALUE_MAX as f64);
        }
    }
    at_most("workload.model.num_layers", model.layers as f64, LAYERS_MAX as f64);
    let (hidden, heads) = (model.hidden as f64, model.heads.max(1) as f64);
    let layer = hidden * (2.0 + 2.0 * hidden + 2.0 * hidden / heads * model.kv_heads as f64 + 3.0 * model.ffn as f64);
    let listed: f64 =
        model.layer_parameters.iter().chain(&model.optimization_groups).map(|numbers| *numbers as f64).sum();
    let numbers = 2.0 * model.vocab as f64 * hidden + model.layers.max(1) as f64 * (layer + listed);
    let copies = 4.0 * 8.0 * ranks as f64;
    at_most("the bytes of a checkpoint", model.size_bytes as f64 * ranks as f64 + numbers * copies, COUNTABLE);
    at_most("model.parallelism", model.tensor as f64 * model.pipeline as f64 * model.data.max(1) as f64, COUNTABLE);
    let transfer = config.checkpoint.transfer_size.unwrap_or(0);
    at_most("workload.checkpoint.transfer_size", transfer as f64, TRANSFER_MAX as f64);
    let checkpoints = config.checkpoint.writes as f64 + config.checkpoint.reads as f64;
    at_most("the checkpoints of the run", checkpoints, COUNTABLE);
    let excluded = config.output.exclude_start as f64 + config.output.exclude_end as f64;
    at_most("the excluded steps", excluded, COUNTABLE);
}

/// Returns a number of up to nine digits as it is, and a larger one with an exponent.
fn in_digits(number: f64) -> String {
    if number < 1e9 && number.fract() == 0.0 { number.to_string() } else { format!("{number:.3e}") }
}

fn is_url(path: &Path) -> bool {
    path.to_string_lossy().contains(":/")
}

fn storage(config: &Config, list: &mut List) {
    let object_store = matches!(config.storage_type.as_str(), "s3" | "aistore");
    list.0.extend(config.store_complaints.iter().cloned());
    objects(config, list);
    let folders = [
        ("dataset.data_folder", Some(&config.dataset.folder)),
        ("checkpoint.checkpoint_folder", Some(&config.checkpoint.folder)),
        ("checkpoint.fast_folder", config.checkpoint.fast_folder.as_ref()),
    ];
    let named = folders.into_iter().find_map(|(key, folder)| Some((key, folder.filter(|folder| is_url(folder))?)));
    let others = [
        ("output.folder", config.output.folder.as_ref()),
        ("storage.cache.folder", config.cache.as_ref().map(|cache| &cache.folder)),
    ];
    for (key, folder) in folders.into_iter().chain(others) {
        list.0.extend(folder.and_then(|folder| unexpanded(&format!("workload.{key}"), folder)));
    }
    if let Some((key, folder)) = named.filter(|_| !object_store) {
        list.0.push(no_folder(key, &folder.to_string_lossy(), &config.storage_type));
    }
    for (key, class) in &config.classes {
        list.refuse(true, format!("workload.{key}={class}: Python classes are not supported"), "remove the key");
    }
    let profiler = matches!(config.profiler.as_str(), "darshan" | "tensorboard");
    let what = format!("workload.profiling.profiler={} is not supported", config.profiler);
    list.refuse(config.workflow.profile && profiler, what, "use iostat, or --trace for every single operation");
}

/// Returns the failure for a path that is written for a shell: it would be the name of a new directory here.
pub fn unexpanded(key: &str, path: &Path) -> Option<Failure> {
    let names = || path.components().filter_map(|part| part.as_os_str().to_str()).filter(|part| *part != ".");
    let refused = |what: &str| Failure::refused(format!("{key}={}: {what} is not expanded here", path.display()));
    if names().next() == Some("~") {
        return Some(refused("~").remedy("write $HOME in a shell, ${oc.env:HOME} in a file, or the whole path"));
    }
    let is_variable = |name: &&str| name.strip_prefix('$').is_some_and(|name| name.starts_with(char::is_alphabetic));
    let variable = names().find(is_variable)?;
    Some(refused(variable).remedy(format!("write ${{oc.env:{}}} for an environment variable", &variable[1..])))
}

/// Returns the failure for a directory given by a URL if data are files.
fn no_folder(key: &str, name: &str, storage_type: &str) -> Failure {
    let object = ["s3://", "ais://"].iter().find_map(|scheme| name.find(scheme).map(|at| (&name[at..], *scheme)));
    let Some((object, scheme)) = object else {
        let what = format!("workload.{key}: {name} is not a path");
        return Failure::refused(what).remedy("use a directory of a mounted file system");
    };
    let bucket = object.trim_start_matches(scheme).split('/').next().unwrap_or_default();
    let what = format!(
        "workload.{key}={object} is in an object store, but workload.storage.storage_type={storage_type} is for files"
    );
    Failure::refused(what).remedy(format!(
        "set ++workload.storage.storage_type={} ++workload.storage.storage_root={bucket}, or use a local directory",
        if scheme == "s3://" { "s3" } else { "aistore" }
    ))
}

/// Refuses features that only files support.
fn objects(config: &Config, list: &mut List) {
    if let Some(cache) = &config.cache {
        let (what, here) = ("workload.storage.cache", config.store.is_some());
        list.refuse(!here, format!("{what} caches an object store, but the data are files"), "leave it out");
        list.refuse(
            is_url(&cache.folder),
            format!("{what}.folder must be a local directory"),
            "use a directory on a fast disk",
        );
        list.refuse(cache.block == Some(0), format!("{what}.block_size must be at least 1"), "");
    }
    if config.store.is_none() {
        return;
    }
    list.refuse(
        config.reader.direct,
        "workload.reader.odirect applies to files, but the data are objects",
        "leave it out",
    );
    let sent = config.checkpoint.direct && store::is_object(&config.checkpoint.folder);
    list.refuse(sent, "workload.checkpoint.odirect applies to files, but checkpoints are objects", "leave it out");
    list.refuse(
        config.checkpoint.transfer_size.is_some() && store::is_object(&config.checkpoint.folder),
        "workload.checkpoint.transfer_size applies to files, but checkpoints are objects, uploaded in parts",
        "leave it out",
    );
    list.refuse(
        config.dataset.format == "mmap_indexed_binary",
        "workload.dataset.format=mmap_indexed_binary maps files, but the data are objects",
        "use indexed_binary, which reads the same objects in ranges",
    );
    list.refuse(
        config.checkpoint.fast_folder.as_ref().is_some_and(|fast| is_url(fast)),
        "workload.checkpoint.fast_folder must be a local directory",
        "use a directory on a fast disk; its contents are copied to the store",
    );
}

fn dataset(config: &Config, list: &mut List) {
    let dataset = &config.dataset;
    if let Err(failure) = crate::data_set::formats::find(&dataset.format) {
        list.0.push(failure);
    }
    let least = |list: &mut List, key: &str, count: u64| {
        list.refuse(count == 0, format!("workload.{key} must be at least 1"), "");
    };
    least(list, "dataset.num_samples_per_file", dataset.samples_per_file);
    list.refuse(
        dataset.files_train == 0 && !config.evaluates_only(),
        "workload.dataset.num_files_train must be at least 1",
        "only an evaluation needs no training files: ++workload.workflow.evaluation=true \
            ++workload.dataset.num_files_eval=N",
    );
    list.refuse(
        dataset.folder.as_os_str() == "./",
        "workload.dataset.data_folder is empty",
        "write ++workload.dataset.data_folder=DIR, or . for the current directory",
    );
    list.refuse(
        dataset.record_dims.is_empty() && dataset.record_bytes < 1.0,
        "workload.dataset.record_length_bytes must be at least 1",
        "",
    );
    list.refuse(dataset.record_dims.contains(&0), "workload.dataset.record_dims has a dimension of 0", "");
    list.refuse(
        !dataset.record_dims.is_empty() && dataset.record_bytes_stdev > 0.0,
        "workload.dataset.record_dims and record_length_bytes_stdev cannot be combined",
        "remove one of them: ++workload.dataset.record_length_bytes_stdev=0",
    );
    list.refuse(dataset.record_bytes_stdev < 0.0, "workload.dataset.record_length_bytes_stdev is negative", "");
    list.refuse(
        dataset.prefix.contains('/'),
        "workload.dataset.file_prefix must be a name, not a path",
        "use data_folder for the path",
    );
    list.refuse(
        dataset.parquet_partition.is_some(),
        "workload.dataset.parquet.partition_by is not supported",
        "leave it out",
    );
    let evaluated = dataset.files_eval > 0 && (config.workflow.generate || config.workflow.evaluate);
    for (key, folders, used) in
        [("train", dataset.subfolders_train, true), ("eval", dataset.subfolders_eval, evaluated)]
    {
        list.refuse(
            dataset.format == "mds" && used && folders > 1,
            format!("shards of mds must be in one directory, next to their index, not in {folders}"),
            format!("set ++workload.dataset.num_subfolders_{key}=0"),
        );
    }
    list.refuse(
        dataset.format == "webdataset" && (dataset.shard_extension.is_empty() || dataset.shard_extension == "cls"),
        "workload.dataset.webdataset.extension is the extension of the member with a sample's bytes",
        "use bin, jpg, npy or another one; cls is the label",
    );
    existing_files(config, list);
    hdf5(config, list);
    parquet(config, list);
}

/// Refuses impossible uses of files that no generation of these keys made.
fn existing_files(config: &Config, list: &mut List) {
    let dataset = &config.dataset;
    list.refuse(
        dataset.listing && !dataset.keep_files,
        "workload.dataset.keep_files=false removes generated files, but workload.dataset.listing reads existing ones",
        "remove one of them",
    );
    let in_store = config.store.is_some() && (config.reader.profile.is_some() || dataset.listing);
    list.refuse(
        in_store,
        "workload.reader.profile and dataset.listing read files, but the data are objects",
        "use storage_type=local_fs, with the bucket mounted",
    );
    list.refuse(
        !dataset.file_bytes.is_empty() && config.reader.profile.is_none() && dataset.suffix != "raw",
        format!("workload.dataset.file_bytes generates files that no reader of {} can read", dataset.suffix),
        "set workload.reader.profile, or remove file_bytes",
    );
}

/// The keys of a Parquet column, and its types.
const COLUMN_KEYS: [&str; 4] = ["name", "dtype", "size", "read"];
const COLUMN_TYPES: [&str; 16] = [
    "float16", "float32", "float", "float64", "double", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64", "string", "binary", "bytes",
];

fn parquet(config: &Config, list: &mut List) {
    for column in &config.dataset.parquet_columns {
        let complaint = match column {
            Value::Map(entries) => entries.iter().find_map(|(key, value)| match (key.as_str(), value) {
                ("dtype", Value::Text(kind)) if !COLUMN_TYPES.contains(&kind.as_str()) => {
                    Some(format!("dtype: {}", keys::none_of(kind, &COLUMN_TYPES)))
                }
                ("size", value) if !matches!(value, Value::Int(1..)) => {
                    Some(format!("size: expected an integer of at least 1, got {}", value.inline()))
                }
                (key, _) if !COLUMN_KEYS.contains(&key) => Some(keys::none_of(key, &COLUMN_KEYS)),
                _ => None,
            }),
            other => Some(format!("expected a map, got {}", other.inline())),
        };
        if let Some(complaint) = complaint {
            let remedy = "write columns as [{name: a, dtype: float32, size: 4}]";
            list.refuse(true, format!("workload.dataset.parquet.columns: {complaint}"), remedy);
        }
    }
}

fn hdf5(config: &Config, list: &mut List) {
    let dataset = &config.dataset;
    if dataset.format != "hdf5" {
        return;
    }
    let parts = dataset.datasets_per_record.max(1);
    let first = dataset.record_dims.first().copied().unwrap_or(dataset.record_bytes.sqrt() as u64);
    list.refuse(
        !first.is_multiple_of(parts),
        format!("the first dimension of a sample, {first}, cannot be divided among {parts} data sets"),
        "choose another workload.dataset.hdf5.num_dset_per_record",
    );
    list.refuse(
        parts > 1 && dataset.record_bytes_stdev > 0.0,
        "workload.dataset.hdf5.num_dset_per_record needs samples of one size",
        "set ++workload.dataset.record_length_bytes_stdev=0",
    );
    let shape = hdf5::part_shape(&Layout::new(dataset).shapes().at(0), dataset.samples_per_file, dataset);
    let dims = shape.len();
    list.refuse(
        dataset.chunk_dims.len() > dims,
        "workload.dataset.hdf5.chunk_dims has more dimensions than the data sets",
        format!("use at most {dims}: samples, then those of a sample"),
    );
    list.refuse(
        !dataset.max_shape.is_empty() && !(dims - 1..=dims).contains(&dataset.max_shape.len()),
        "workload.dataset.hdf5.max_shape: the number of dimensions differs from the data sets",
        format!("use the {} of a sample, or the number of samples followed by them", dims - 1),
    );
    let smallest = if dataset.max_shape.len() < dims { &shape[1..] } else { &shape[..] };
    let too_small = dataset.max_shape.iter().zip(smallest).any(|(limit, dim)| *limit < *dim as u64);
    list.refuse(
        too_small,
        format!("workload.dataset.hdf5.max_shape is smaller than the data sets, {smallest:?}"),
        "make it at least as large",
    );
}

fn compression(config: &Config, list: &mut List) {
    let (format, compression) = (config.dataset.format.as_str(), config.dataset.compression.as_str());
    let possible: &[&str] = match format {
        "npz" => &["zip"],
        "hdf5" => &["gzip", "lzf"],
        "csv" => &["gzip", "bz2", "zip", "xz"],
        _ => &[],
    };
    let known = if possible.is_empty() { "none".into() } else { format!("none, {}", possible.join(", ")) };
    list.refuse(
        compression != "none" && !possible.contains(&compression),
        format!("workload.dataset.compression={compression} does not exist for {format}"),
        format!("{format} supports {known}"),
    );
}

/// The maximum side of an image in either format.
const IMAGE_SIDE: u64 = 65_535;

fn images(config: &Config, list: &mut List) {
    let dataset = &config.dataset;
    if !matches!(dataset.format.as_str(), "jpeg" | "png") {
        return;
    }
    list.refuse(
        dataset.record_dims.len() > 2,
        format!("{} samples have at most two dimensions", dataset.format),
        "shorten workload.dataset.record_dims",
    );
    let side = dataset.record_dims.iter().copied().max().unwrap_or(dataset.record_bytes.sqrt() as u64);
    list.refuse(
        side > IMAGE_SIDE,
        format!("an image cannot be {side} pixels wide"),
        "choose smaller samples or another format",
    );
    list.refuse(
        dataset.samples_per_file > 1,
        format!("a {} file contains one sample", dataset.format),
        "set ++workload.dataset.num_samples_per_file=1",
    );
}

fn reading(config: &Config, list: &mut List) {
    let reader = &config.reader;
    let foreign = match config.framework {
        Framework::PyTorch => reader.loader == LoaderKind::TensorFlow,
        Framework::TensorFlow => reader.loader == LoaderKind::PyTorch,
    };
    list.refuse(
        foreign && config.workflow.train,
        format!("workload.reader.data_loader={} does not match workload.framework", reader.loader_name),
        match config.framework {
            Framework::PyTorch => "set ++workload.reader.data_loader=pytorch, or ++workload.framework=tensorflow",
            Framework::TensorFlow => "set ++workload.reader.data_loader=tensorflow, or ++workload.framework=pytorch",
        },
    );
    list.refuse(
        config.dataset.format == "tfrecord" && reader.loader == LoaderKind::PyTorch && config.workflow.train,
        "tfrecord has no PyTorch reader",
        "set ++workload.framework=tensorflow ++workload.reader.data_loader=tensorflow",
    );
    collective(config, list);
    list.refuse(
        reader.direct
            && !matches!(
                config.dataset.format.as_str(),
                "npz" | "npy" | "indexed_binary" | "mmap_indexed_binary" | "synthetic"
            ),
        format!("workload.reader.odirect does not exist for {}", config.dataset.format),
        "use npz, npy or indexed_binary",
    );
    list.refuse(
        config.dataset.format == "hdf5"
            && config.dataset.element == Element::named("float16")
            && config.dataset.compression == "lzf",
        "hdf5 does not support lzf with float16",
        "use gzip",
    );
}

/// Refuses collective reads unless all ranks read one file, sample by sample, through MPI.
fn collective(config: &Config, list: &mut List) {
    let Config { reader, dataset, .. } = config;
    if !reader.collective {
        return;
    }
    let word = format!("workload.reader.file_access={}", reader.file_access);
    // A run that is to be traced joins the MPI after its restart.
    let by_mpi = mpi::is_joined() || (mpi::is_offered() && !locate::is_traced());
    let remedy = "start dlio with mpirun and install libdlio_mpi.so (make build-mpi), or use multi";
    list.refuse(!by_mpi, format!("{word} needs MPI"), remedy);
    let in_chunks = dataset.compression != "none"
        || dataset.chunk_bytes > 0
        || !dataset.chunk_dims.is_empty()
        || !dataset.max_shape.is_empty();
    let by_place = match dataset.format.as_str() {
        "indexed_binary" | "mmap_indexed_binary" => true,
        "hdf5" => !in_chunks,
        _ => false,
    };
    let what = format!("{word} needs one shared file of indexed_binary, or of hdf5 without chunks");
    let several = dataset.files_train > 1 || dataset.files_eval > 1 || reader.profile.is_some();
    list.refuse(
        !by_place || several || reader.direct || config.store.is_some(),
        what,
        "set ++workload.dataset.format=indexed_binary (or hdf5) ++workload.dataset.num_files_train=1, without odirect or a store",
    );
}

fn steps(config: &Config, ranks: u64, list: &mut List) {
    let layout = Layout::new(&config.dataset);
    let mut whole_steps = |what: &str, split: Split, batch: u64, key: &str| {
        list.refuse(batch == 0, format!("workload.reader.{key} must be at least 1"), "");
        let (samples, needed) = (layout.samples(split), batch * ranks);
        let files = needed.div_ceil(config.dataset.samples_per_file.max(1));
        list.refuse(
            batch > 0 && samples < needed,
            format!("{samples} {what} samples are not enough for a step of {batch} on {ranks} rank(s)"),
            format!(
                "use at least {needed} samples (++workload.dataset.{}={files}), or a smaller ++workload.reader.{key}",
                split.files_key()
            ),
        );
        samples / needed.max(1)
    };
    // Without training files only the evaluation has steps.
    let available = match config.dataset.files_train {
        0 => 0,
        _ => whole_steps("training", Split::Train, config.reader.batch, "batch_size"),
    };
    if config.workflow.evaluate {
        whole_steps("evaluation", Split::Valid, config.reader.batch_eval, "batch_size_eval");
        list.refuse(config.evaluation.every == 0, "workload.evaluation.epochs_between_evals must be at least 1", "");
    }
    let asked = config.train.steps_max.unwrap_or(0);
    list.refuse(
        asked > available && available > 0,
        format!("workload.train.total_training_steps={asked}, but an epoch has {available} steps"),
        "remove it to use all steps, or generate a larger data set",
    );
    list.refuse(config.train.epochs == 0, "workload.train.epochs must be at least 1", "");
    list.refuse(!(0.0..=1.0).contains(&config.au), "workload.metric.au must be between 0 and 1", "write 90 % as 0.90");
}

fn checkpoints(config: &Config, ranks: u64, list: &mut List) {
    let model = &config.model;
    let checkpoint = &config.checkpoint;
    let parallel = model.tensor.max(1) * model.pipeline.max(1);
    list.refuse(
        checkpoint.fast_folder.as_ref() == Some(&checkpoint.folder),
        "workload.checkpoint.fast_folder is the same as checkpoint_folder",
        "use a directory on a faster disk, or remove the key",
    );
    list.refuse(
        model.pipeline > 1 && model.zero_stage == 3,
        "zero stage 3 and pipeline parallelism cannot be combined",
        "set ++workload.model.parallelism.pipeline=1 or another zero_stage",
    );
    list.refuse(!(0..=3).contains(&model.zero_stage), "workload.model.parallelism.zero_stage must be 0, 1, 2 or 3", "");
    list.refuse(
        checkpoint.format == CheckpointFormat::Distributed
            && (checkpoint.asynchronous || checkpoint.fast_folder.is_some()),
        "workload.checkpoint.format=distributed is complete when rank 0 writes .metadata, which a background writer \
            cannot wait for",
        "remove workload.checkpoint.asynchronous and fast_folder, or use another format",
    );
    let only = config.only_checkpoints();
    list.refuse(
        only && !checkpoint.subset && !ranks.is_multiple_of(parallel),
        format!("{ranks} rank(s) are not a multiple of the model's parallelism {parallel} (tensor * pipeline)"),
        format!(
            "use a multiple of {parallel} ranks, or ++workload.checkpoint.mode=subset ++workload.model.parallelism.data={} \
             for a subset",
            copies(parallel, ranks)
        ),
    );
    list.refuse(
        checkpoint.subset && model.data <= 0,
        "workload.checkpoint.mode=subset needs workload.model.parallelism.data: the total number of ranks is unknown",
        format!("set ++workload.model.parallelism.data={}", copies(parallel, ranks)),
    );
    let all = parallel.saturating_mul(model.data.max(0) as u64);
    list.refuse(
        checkpoint.subset && model.data > 0 && all < ranks,
        format!("{ranks} rank(s) are not a subset of the {all} of the model's parallelism (tensor * pipeline * data)"),
        format!("use at most {all} ranks, or a larger ++workload.model.parallelism.data"),
    );
    let data = Shards { model, checkpoints: checkpoint, framework: config.framework, ranks }.data_parallel();
    list.refuse(
        only && !checkpoint.subset && model.data > 0 && data * parallel != ranks,
        format!("workload.model.parallelism.data={data} does not fit {ranks} rank(s)"),
        "remove it: it is computed from the ranks",
    );
    list.refuse(
        only && checkpoint.reads > checkpoint.writes.max(0) && checkpoint.writes > 0,
        format!("{} checkpoints cannot be read after writing {}", checkpoint.reads, checkpoint.writes),
        "lower workload.checkpoint.num_checkpoints_read",
    );
    list.refuse(
        only && checkpoint.reads <= 0 && checkpoint.writes <= 0,
        "a checkpoint-only run needs workload.checkpoint.num_checkpoints_write or num_checkpoints_read",
        "",
    );
    list.refuse(
        !only && checkpoint.every_steps.is_none() && checkpoint.every_epochs == 0,
        "workload.checkpoint.epochs_between_checkpoints must be at least 1",
        "",
    );
}

/// Returns the data parallelism that the ranks are a subset of: in MLPerf Storage, 8 for models that fit on one host,
/// and 2 for larger ones.
fn copies(parallel: u64, ranks: u64) -> u64 {
    let usual = if parallel <= 8 { 8 } else { 2 };
    ranks.div_ceil(parallel).max(usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::grammar::parse;
    use crate::workload::presets::compose;

    fn refused(typed: &[&str], ranks: u64) -> String {
        let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
        let config = Config::read(&compose(&overrides, None).unwrap().workload).unwrap();
        complaints(&config, ranks).iter().map(|failure| format!("{failure}\n")).collect()
    }

    #[test]
    fn shipped_training_workloads_are_possible() {
        for name in
            ["default", "unet3d", "resnet50", "cosmoflow", "bert", "dlrm", "megatron", "resnet50_tf", "unet3d_v100"]
        {
            assert_eq!(refused(&[&format!("workload={name}")], 1), "", "{name}");
        }
    }

    #[test]
    fn impossible_combinations_are_refused() {
        for (typed, word) in [
            (&["workload=unet3d", "++workload.dataset.record_dims=[2,3]"][..], "cannot be combined"),
            (&["workload=unet3d", "++workload.framework=tensorflow"], "does not match"),
            (&["workload=unet3d", "++workload.dataset.format=tfrecord"], "no PyTorch reader"),
            (&["workload=unet3d", "++workload.reader.batch_size=0"], "at least 1"),
            (&["workload=unet3d", "++workload.reader.batch_size=1000"], "not enough for a step"),
            (&["workload=unet3d", "++workload.train.total_training_steps=99999"], "an epoch has"),
            (&["workload=unet3d", "++workload.dataset.compression=gzip"], "npz supports none, zip"),
            (
                &["workload=unet3d", "++workload.dataset.format=png", "++workload.dataset.record_dims=[2,3,4]"],
                "two dimensions",
            ),
            (&["workload=unet3d", "++workload.dataset.format=hdf5", "++workload.reader.odirect=true"], "odirect"),
            (&["workload=unet3d", "++workload.reader.reader_classname=a.B"], "not supported"),
            (&["workload=unet3d", "++workload.reader.file_access=mpio"], "needs MPI"),
            (&["workload=unet3d_h100_s3", "++workload.storage.storage_options.endpoint=x"], "endpoint_url"),
            (&["workload=default", "++workload.dataset.num_files_eval=0"], "evaluation samples"),
            (&["workload=default", "++workload.dataset.data_folder="], "data_folder is empty"),
            (&["workload=flux", "++workload.dataset.parquet.columns=[a]"], "expected a map, got a"),
            (&["workload=flux", "++workload.dataset.parquet.columns=[{dtype: float31}]"], "did you mean float32?"),
            (&["workload=flux", "++workload.dataset.parquet.columns=[{size: 0}]"], "at least 1, got 0"),
            (&["workload=flux", "++workload.dataset.parquet.columns=[{type: int8}]"], "expected one of name, dtype"),
            (&["workload=default", "++workload.dataset.data_folder=~/x"], "~ is not expanded"),
            (&["workload=default", "++workload.checkpoint.checkpoint_folder=/a/$SCRATCH/x"], "${oc.env:SCRATCH}"),
            (
                &["workload=default", "++workload.dataset.format=mds", "++workload.dataset.num_subfolders_train=0"],
                "num_subfolders_eval=0",
            ),
            (&["workload=llama_7b", "++workload.checkpoint.num_checkpoints_read=20"], "cannot be read"),
            (
                &[
                    "workload=llama_7b",
                    "++workload.checkpoint.format=distributed",
                    "++workload.checkpoint.asynchronous=true",
                ],
                "complete when rank 0",
            ),
            (&["workload=llama_7b_zero3", "++workload.model.parallelism.pipeline=2"], "cannot be combined"),
            (&["workload=llama_70b"], "multiple of 32"),
            (&["workload=llama3_70b", "++workload.checkpoint.mode=subset"], "set ++workload.model.parallelism.data=8"),
            (&["workload=llama3_1t", "++workload.checkpoint.mode=subset"], "set ++workload.model.parallelism.data=2"),
            (&["workload=llama_7b", "++workload.checkpoint.transfer_size=99999999999"], "transfer_size would be"),
            (
                &[
                    "workload=unet3d",
                    "++workload.dataset.record_length_bytes_stdev=0",
                    "++workload.dataset.format=hdf5",
                    "++workload.dataset.hdf5.num_dset_per_record=7",
                ],
                "divided",
            ),
        ] {
            assert!(refused(typed, 1).contains(word), "{typed:?} gave: {}", refused(typed, 1));
        }
    }

    #[test]
    fn a_subset_is_of_a_known_whole() {
        let typed = |data: &'static str| ["workload=llama3_70b", "++workload.checkpoint.mode=subset", data];
        assert_eq!(refused(&typed("++workload.model.parallelism.data=8"), 8), "");
        let one = refused(&typed("++workload.model.parallelism.data=1"), 9);
        assert!(one.contains("9 rank(s) are not a subset of the 8"), "{one}");
    }

    /// Every key with every number: refused or possible, without overflow, panic or exhausted memory.
    #[test]
    fn no_number_is_too_large_to_be_refused() {
        for key in crate::keys::KEYS {
            let text = match key.kind {
                crate::keys::Kind::Whole => "9223372036854775807",
                crate::keys::Kind::Number | crate::keys::Kind::Time => "1e300",
                crate::keys::Kind::Wholes => "[9223372036854775807,9223372036854775807,3]",
                _ => continue,
            };
            for workload in ["unet3d", "default", "llama_7b", "megatron"] {
                let typed = [format!("workload={workload}"), format!("++workload.{}={text}", key.path)];
                let overrides: Vec<_> = typed.iter().map(|text| parse(text).unwrap()).collect();
                let Ok(config) = Config::read(&compose(&overrides, None).unwrap().workload) else { continue };
                complaints(&config, 3);
            }
        }
    }

    #[test]
    fn products_that_cannot_be_counted_are_refused() {
        for typed in [
            &["++workload.dataset.num_samples_per_file=9223372036854775807"][..],
            &["++workload.dataset.num_files_train=4294967296", "++workload.dataset.num_samples_per_file=4294967296"],
            &[
                "++workload.dataset.record_dims=[4294967296,4294967296]",
                "++workload.dataset.record_length_bytes_stdev=0",
            ],
            &["++workload.dataset.record_length_bytes=1e300"],
            &["++workload.dataset.record_length_bytes_stdev=1e300"],
            &["++workload.reader.batch_size=9223372036854775807"],
            &["++workload.reader.read_threads=1000000000"],
        ] {
            let found = refused(&[&["workload=unet3d"], typed].concat(), 3);
            assert!(found.contains("is supported"), "{typed:?}: {found}");
        }
    }

    #[test]
    fn folders_that_nothing_is_in_do_not_matter() {
        let mds = ["workload=default", "++workload.dataset.format=mds", "++workload.dataset.num_subfolders_train=0"];
        let training = ["++workload.workflow.evaluation=false"];
        let generation = ["++workload.workflow.generate_data=true", "++workload.dataset.num_files_eval=0"];
        assert_eq!(refused(&[&mds[..], &training].concat(), 1), "");
        assert_eq!(refused(&[&mds[..], &training, &generation].concat(), 1), "");
    }

    #[test]
    fn explicit_none_disables_compression() {
        let typed = ["workload=unet3d", "++workload.dataset.format=hdf5", "++workload.dataset.compression=none"];
        assert_eq!(refused(&typed, 1), "");
    }

    #[test]
    fn all_complaints_are_returned_together() {
        let text = refused(&["workload=unet3d", "++workload.train.epochs=0", "++workload.reader.batch_size=0"], 1);
        assert_eq!(text.lines().filter(|line| line.contains("at least 1")).count(), 2);
    }
}
