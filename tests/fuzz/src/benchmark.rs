//! The parsers of `dlio-benchmark`: user input, workloads, and files of data sets and checkpoints.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use dlio_benchmark::checkpoint::files::safetensors;
use dlio_benchmark::config::Config;
use dlio_benchmark::data_set::formats;
use dlio_benchmark::data_set::formats::containers::zip;
use dlio_benchmark::data_set::formats::hdf5::{chunks, head};
use dlio_benchmark::files::input::Access;
use dlio_benchmark::keys::grammar;
use dlio_benchmark::keys::interpolation::resolved;
use dlio_benchmark::keys::value::parse_yaml;
use dlio_benchmark::store::xml;
use dlio_benchmark::workload::presets::compose;

pub const ENTRIES: &[crate::rounds::Entry] = &[
    ("overrides", overrides),
    ("yaml", yaml),
    ("workload", workload),
    ("zip_directory", zip_directory),
    ("safetensors", safetensors),
    ("npz", npz),
    ("npy", npy),
    ("csv", csv),
    ("tfrecord", tfrecord),
    ("jpeg", jpeg),
    ("png", png),
    ("indexed_binary", indexed_binary),
    ("webdataset", webdataset),
    ("mds", mds),
    ("hdf5", hdf5),
    ("store_answer", store_answer),
];

/// Parses an override, and the workload that it makes.
pub fn overrides(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(typed) = grammar::parse(&text)
        && let Ok(workload) = grammar::parse("workload=unet3d")
        && let Ok(composed) = compose(&[workload, typed], None)
    {
        let _ = Config::read(&composed.workload);
    }
}

/// Parses YAML, writes it and reads it back.
pub fn yaml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(value) = parse_yaml("fuzz", &text) {
        let again = parse_yaml("fuzz", &value.to_yaml());
        assert!(again.is_ok(), "{:?}", value.to_yaml());
        let _ = resolved(&value, &value, &[]);
        value.to_json();
    }
}

/// Parses a workload's file.
pub fn workload(bytes: &[u8]) {
    if let Ok(value) = parse_yaml("fuzz", &String::from_utf8_lossy(bytes)) {
        let _ = Config::read(&value);
    }
}

/// A file of these bytes, removed when dropped.
struct InputFile(PathBuf);

impl InputFile {
    fn new(bytes: &[u8]) -> InputFile {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dlio-fuzz-{}-{number}.file", std::process::id()));
        std::fs::write(&path, bytes).expect("room for temporary files");
        InputFile(path)
    }

    fn open(&self) -> File {
        File::open(&self.0).expect("a file that was just written")
    }
}

impl Drop for InputFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn zip_directory(bytes: &[u8]) {
    let given = InputFile::new(bytes);
    zip::entries(&given.open());
    let _ = zip::find(&given.0, bytes, |name| name.ends_with(".npy"));
}

pub fn safetensors(bytes: &[u8]) {
    safetensors::tensors(&InputFile::new(bytes).open());
}

/// Opens a file as one of a data set and reads two samples of it.
fn sampled(format: &str, bytes: &[u8]) {
    let given = InputFile::new(bytes);
    let text = format!("{{dataset: {{format: {format}, num_samples_per_file: 3, record_length_bytes: 400}}}}");
    let config = Config::read(&parse_yaml("fuzz", &text).expect("a workload")).expect("a workload");
    let format = formats::find(format).expect("a format");
    let mut reader = format.reader(&config.dataset, Access::default());
    if reader.open(&given.0).is_ok() {
        for index in [0, 2] {
            if reader.sample(index).is_ok() {
                reader.content(index);
            }
        }
        reader.close();
    }
}

pub fn npz(bytes: &[u8]) {
    sampled("npz", bytes);
}

pub fn npy(bytes: &[u8]) {
    sampled("npy", bytes);
}

pub fn csv(bytes: &[u8]) {
    sampled("csv", bytes);
}

pub fn tfrecord(bytes: &[u8]) {
    sampled("tfrecord", bytes);
}

pub fn jpeg(bytes: &[u8]) {
    sampled("jpeg", bytes);
}

pub fn png(bytes: &[u8]) {
    sampled("png", bytes);
}

pub fn indexed_binary(bytes: &[u8]) {
    sampled("indexed_binary", bytes);
}

pub fn webdataset(bytes: &[u8]) {
    sampled("webdataset", bytes);
}

pub fn mds(bytes: &[u8]) {
    sampled("mds", bytes);
}

/// Parses headers and chunks of HDF5, without its library.
pub fn hdf5(bytes: &[u8]) {
    let given = InputFile::new(bytes);
    let file = given.open();
    let names = || ["records".to_string(), "labels".to_string()].into_iter();
    head::places(&file, names());
    head::extent(bytes);
    head::element_bytes(bytes);
    for mut set in chunks::data_sets(&file, names()).unwrap_or_default() {
        let mut sample = vec![0; set.sample_bytes.min(1 << 20) as usize];
        set.read(&file, 0, &mut sample);
    }
}

/// Parses errors and listings of an object store.
pub fn store_answer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for contents in xml::elements(&text, "Contents") {
        xml::text(contents, "Key");
    }
    xml::text(&text, "Message");
}
