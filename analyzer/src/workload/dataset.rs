//! Keys of the section `dataset`, and the calls that read samples.

use super::calls::{FILE_SIZES, Profile, known_reader, quantiles};
use super::entry::{Confidence, Entries};
use super::job::{DataSet, Job};
use super::shape::{Shape, Traversal};
use super::yaml::quoted;
use crate::summary::figures::units::bytes;

/// Formats of the benchmark, and their extensions.
const FORMATS: &[(&str, &[&str])] = &[
    ("npz", &["npz"]),
    ("npy", &["npy"]),
    ("hdf5", &["hdf5", "h5", "he5", "hdf"]),
    ("tfrecord", &["tfrecord", "tfrecords"]),
    ("csv", &["csv", "csv.gz", "csv.bz2", "csv.xz", "tsv"]),
    ("jpeg", &["jpeg", "jpg"]),
    ("png", &["png"]),
    ("parquet", &["parquet"]),
    ("indexed_binary", &["indexed_binary"]),
    ("mmap_indexed_binary", &["mmap_indexed_binary"]),
];

/// How samples are read.
pub struct ReadMethod {
    pub format: &'static str,
    /// Whether the benchmark's reader of the format makes the recorded calls.
    pub plain: bool,
}

pub fn add(job: &Job, set: &DataSet, shape: &Shape, name: &str, entries: &mut Entries) -> ReadMethod {
    let suffix = set.family.suffix.as_str();
    let by_suffix = FORMATS.iter().find(|(_, suffixes)| suffixes.contains(&suffix)).map(|(format, _)| *format);
    let by_start =
        shape.peek.as_ref().and_then(|peek| peek.format).filter(|it| FORMATS.iter().any(|(known, _)| known == it));
    let format = by_suffix.or(by_start).unwrap_or("raw");
    let (confidence, evidence) = match (by_suffix, by_start) {
        (Some(a), Some(b)) if a == b => (Confidence::Certain, format!("extension .{suffix}, and the contents match")),
        (Some(_), Some(b)) => (Confidence::Guess, format!("extension .{suffix}, although the contents look like {b}")),
        (Some(_), None) => (Confidence::Likely, format!("extension .{suffix}")),
        (None, Some(b)) => (Confidence::Likely, format!("the contents look like {b}")),
        (None, None) if suffix.is_empty() => (Confidence::Guess, "no extension, and unknown contents".into()),
        (None, None) => (
            Confidence::Likely,
            format!(
                "files with extension .{suffix} are not in a format of the \
            benchmark"
            ),
        ),
    };
    entries.add("dataset.format", format, confidence, evidence);
    let folder = set.files.first().and_then(|file| crate::summary::analysis::directory(&file.path)).unwrap_or(".");
    entries.certain(
        "dataset.data_folder",
        quoted(&format!("data/{name}")),
        format!("generated there; the original files are in {folder}"),
    );
    let told = &shape.files;
    entries.add("dataset.num_files_train", told.value, told.confidence, &*told.evidence);
    let told = &shape.samples_per_file;
    entries.add("dataset.num_samples_per_file", told.value, told.confidence, &*told.evidence);
    let folders = set.folders().len();
    if folders > 1 {
        entries.certain("dataset.num_subfolders_train", folders, "number of directories with files");
    }
    if let Some(valid) = &job.valid {
        entries.certain(
            "dataset.num_files_eval",
            valid.files.len(),
            format!("number of {} read", valid.family.described()),
        );
    }
    let sizes = Sizes::of(set, shape);
    let transfer = known_reader(set, shape, format);
    sizes.add(format, transfer.is_some(), shape, entries);
    add_reads(set, shape, format, transfer, entries);
    ReadMethod { format, plain: transfer.is_some() }
}

fn add_reads(set: &DataSet, shape: &Shape, format: &str, transfer: Option<u64>, entries: &mut Entries) {
    match (shape.traversal, transfer) {
        (_, Some(0)) => entries.certain("reader.transfer_size", 0, "each file is read in one go"),
        (_, Some(transfer)) => entries.certain("reader.transfer_size", transfer, "bytes requested per read"),
        (traversal, None) => {
            let does = match traversal {
                Traversal::Opened => "calls on a file from open to close",
                Traversal::Loaded => "a file is read completely when it is opened, and its samples come from memory",
                Traversal::Streamed => "files are read from start to end",
                Traversal::Visited => "reads jump from position to position",
            };
            let why = format!("{does}; no reader of {format} does the same");
            Profile::of(set, shape).add(entries, why);
        }
    }
    if shape.traversal != Traversal::Opened && transfer.is_none() {
        entries.likely("reader.read_type", "memory", "files stay open between samples");
    }
}

/// Sizes of files.
struct Sizes {
    /// In ascending order with their counts.
    values: Vec<(f64, u64)>,
    mean: f64,
    deviation: f64,
    evidence: String,
    confidence: Confidence,
}

impl Sizes {
    fn of(set: &DataSet, shape: &Shape) -> Sizes {
        let reached: Vec<f64> = set.files.iter().map(|file| file.count.size.max(0) as f64).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let there = shape.peek.as_ref().map(|peek| peek.sizes.iter().map(|size| *size as f64).collect::<Vec<_>>());
        // Files that are read in part are larger than the trace shows.
        let step = shape.peek.as_ref().map_or(1, |peek| peek.step);
        let looked_at: Vec<f64> = reached.iter().copied().step_by(step).collect();
        let read_in_part = there.as_ref().is_some_and(|there| mean(there) > 1.02 * mean(&looked_at));
        let (values, confidence, evidence) = match there {
            Some(there) if read_in_part => {
                let told = format!("{} of the files, which still exist; only a part of each is read", there.len());
                (there, Confidence::Likely, told)
            }
            _ if reached.iter().all(|size| *size == 0.0) => {
                let each = set.bytes_read() as f64 / reached.len().max(1) as f64 / shape.epochs.value as f64;
                let told = "positions of reads are unknown: bytes read from a file per epoch".to_string();
                (vec![each.round(); reached.len()], Confidence::Guess, told)
            }
            _ => {
                let told = format!("extent of reads in {} files", reached.len());
                (reached, Confidence::Certain, told)
            }
        };
        let average = mean(&values);
        let square = values.iter().map(|size| (size - average).powi(2)).sum::<f64>();
        let deviation = (square / values.len().max(1) as f64).sqrt();
        let mut counted: Vec<(f64, u64)> = values.iter().map(|size| (*size, 1)).collect();
        counted.sort_by(|a, b| a.0.total_cmp(&b.0));
        counted.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        Sizes { values: counted, mean: average, deviation, evidence, confidence }
    }

    fn add(&self, format: &str, plain: bool, shape: &Shape, entries: &mut Entries) {
        let samples = shape.samples_per_file.value as f64;
        let confidence = self.confidence.min(shape.samples_per_file.confidence);
        let (record, spread) = match plain {
            true => payload(format, self.mean / samples, self.deviation / samples),
            false => (self.mean / samples, self.deviation / samples),
        };
        let told = format!("files of {} on average ({})", bytes(self.mean), self.evidence);
        entries.add("dataset.record_length_bytes", record.max(1.0).round(), confidence, told);
        if plain && spread > 0.005 * record {
            entries.add("dataset.record_length_bytes_stdev", spread.round(), confidence, "their standard deviation");
        }
        if !plain {
            let sizes: Vec<String> = quantiles(&self.values, FILE_SIZES).iter().map(u64::to_string).collect();
            let told = "the files' sizes, from smallest to largest, at evenly spaced shares";
            entries.add("dataset.file_bytes", format!("[{}]", sizes.join(", ")), self.confidence, told);
        }
    }
}

/// Returns the sample's share of its part of a file, and its spread: formats add headers, and compress.
fn payload(format: &str, bytes: f64, spread: f64) -> (f64, f64) {
    /// An `Example` around an image, and the frame of a record.
    const TFRECORD: f64 = 60.0;
    const NPZ: f64 = 498.0;
    const NPY: f64 = 128.0;
    /// The compression ratio of noise, which generated images contain.
    const JPEG: f64 = 0.555;
    match format {
        "tfrecord" => (bytes - TFRECORD, spread),
        "npz" => (bytes - NPZ, spread),
        "npy" => (bytes - NPY, spread),
        "jpeg" => (bytes / JPEG, spread / JPEG),
        _ => (bytes, spread),
    }
}
