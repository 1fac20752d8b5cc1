//! Paths, names and sample sizes of a data set. Everything is computed: a name follows from its number, so a million
//! files need neither a list nor a directory listing.
//!
//! ```text
//! <folder>/train/<prefix>_<number, as wide as N>_of_<N>.<format>      with subfolders: train/<number mod S>/...
//! <folder>/valid/...                                                  the evaluation files; also created if empty
//! <folder>/index/train/<file>.idx                                     tfrecord only
//! ```

use crate::config::profile::Distribution;
use crate::config::{Dataset, Element};
use crate::store;
use crate::system::random::{NumpyLegacy, Permutation, mixed};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    Train,
    Valid,
}

impl Split {
    pub fn folder(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Valid => "valid",
        }
    }

    /// Returns the key for the number of files.
    pub fn files_key(self) -> &'static str {
        match self {
            Split::Train => "num_files_train",
            Split::Valid => "num_files_eval",
        }
    }
}

/// One file: enough to write it or to know its content.
#[derive(Debug, Clone)]
pub struct FileSpec {
    pub path: PathBuf,
    /// The tfrecord index of the data, in a separate directory.
    pub index_path: PathBuf,
    pub number: u64,
    /// Shape of one sample, in elements.
    pub dims: Vec<u64>,
    pub samples: u64,
    pub element: Element,
    pub content_seed: u64,
}

impl FileSpec {
    pub fn sample_elements(&self) -> u64 {
        self.dims.iter().product()
    }

    pub fn sample_bytes(&self) -> u64 {
        self.sample_elements() * self.element.bytes
    }

    pub fn payload_bytes(&self) -> u64 {
        self.sample_bytes() * self.samples
    }
}

/// Names that differ only in a number.
pub struct Names {
    first: String,
    last: String,
    /// Digits of the number, including leading zeros.
    width: usize,
}

impl Names {
    /// Returns the number in a name; `None` for an unrelated name.
    pub fn number(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(self.first.as_str())?.strip_suffix(self.last.as_str())?;
        let plain = digits.len() == self.width || digits.len() > self.width && !digits.starts_with('0');
        if plain && digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
    }
}

/// The default seed of all content: data sets on two hosts are identical.
pub const CONTENT_SEED: u64 = 10;

/// Sizes drawn to estimate the bytes of a data set: the mean of this many is within a few thousandths of that of all,
/// and drawing them takes milliseconds.
const DRAWS_MAX: u64 = 1 << 20;

/// The maximum number of files checked before a run.
const PROBES_MAX: u64 = 1000;

#[derive(Debug, Clone)]
pub struct Layout {
    pub dataset: Dataset,
}

impl Layout {
    pub fn new(dataset: &Dataset) -> Layout {
        Layout { dataset: dataset.clone() }
    }

    pub fn files(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.dataset.files_train,
            Split::Valid => self.dataset.files_eval,
        }
    }

    pub fn samples(&self, split: Split) -> u64 {
        self.files(split) * self.dataset.samples_per_file
    }

    /// Returns the number of files in the names.
    pub fn named(&self, split: Split) -> u64 {
        self.dataset.named[split as usize]
    }

    pub fn file_name(&self, split: Split, number: u64) -> String {
        let Names { first, last, width } = self.names(split);
        format!("{first}{number:0width$}{last}")
    }

    /// Returns the naming scheme of a split.
    pub fn names(&self, split: Split) -> Names {
        let width = match self.dataset.format.as_str() {
            "webdataset" => 6,
            "mds" => 5,
            _ => self.named(split).to_string().len(),
        };
        let (first, last) = self.name_ends(split);
        Names { first, last, width }
    }

    /// Returns the text before and after the number in the names of a split.
    pub fn name_ends(&self, split: Split) -> (String, String) {
        let Dataset { prefix, suffix, .. } = &self.dataset;
        let total = self.named(split);
        match suffix.as_str() {
            // Shards are named as their own writers name them.
            "webdataset" => return (format!("{prefix}-"), ".tar".into()),
            "mds" => return ("shard.".into(), ".mds".into()),
            _ => {}
        }
        (format!("{prefix}_"), format!("_of_{total}.{suffix}{}", self.compressed_suffix()))
    }

    /// Returns `true` if the directory contains a file of this data set.
    pub fn has_set(&self, split: Split) -> bool {
        self.existing_set_sizes(split).any(|total| total == self.named(split))
    }

    /// Returns the number of files of the smallest larger data set with these names in the directory.
    pub fn larger_set(&self, split: Split) -> Option<u64> {
        self.existing_set_sizes(split).filter(|total| *total > self.files(split)).min()
    }

    /// Returns the number of files of the largest smaller data set with these names.
    pub fn smaller_set(&self, split: Split) -> Option<u64> {
        self.existing_set_sizes(split).filter(|total| *total < self.files(split)).max()
    }

    /// Returns the numbers of files in the data sets whose names are in the directory.
    fn existing_set_sizes(&self, split: Split) -> impl Iterator<Item = u64> {
        let Dataset { prefix, suffix, .. } = &self.dataset;
        let (first, last) = (format!("{prefix}_"), format!(".{suffix}{}", self.compressed_suffix()));
        // Objects are not listed: `num_files_generated` gives their number.
        let folder = self.folders_of(split).into_iter().next().filter(|folder| !store::is_object(folder));
        let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok());
        entries.into_iter().flatten().flatten().filter_map(move |entry| {
            let name = entry.file_name();
            let between = name.to_str()?.strip_prefix(&first)?.strip_suffix(&last)?;
            let (number, total) = between.split_once("_of_")?;
            number.parse::<u64>().ok()?;
            total.parse().ok()
        })
    }

    /// Returns the numbers of a split's files that represent all: the first, the middle and the last, or as many as
    /// requested.
    pub fn probes(&self, split: Split) -> Vec<u64> {
        let files = self.files(split);
        let mut numbers: Vec<u64> = match self.dataset.listing_interval {
            Some(every) => (0..files).step_by(every.max(files.div_ceil(PROBES_MAX)).max(1) as usize).collect(),
            None => vec![0, files / 2, files.saturating_sub(1)],
        };
        numbers.retain(|number| *number < files);
        numbers.dedup();
        numbers
    }

    /// Returns a name for all files of a split, distinct from other names in the same directory.
    pub fn set_name(&self, split: Split) -> String {
        let (first, last) = self.name_ends(split);
        let subfolders = match self.subfolders(split) {
            0 | 1 => String::new(),
            count => format!(".{count}"),
        };
        format!("{}{subfolders}.{}{last}", split.folder(), first.trim_end_matches(['_', '-', '.']))
    }

    /// Compressed text has an extension for its readers; the other formats compress inside.
    fn compressed_suffix(&self) -> &'static str {
        match (self.dataset.format.as_str(), self.dataset.compression.as_str()) {
            ("csv", "gzip") => ".gz",
            ("csv", "bz2") => ".bz2",
            ("csv", "zip") => ".zip",
            ("csv", "xz") => ".xz",
            _ => "",
        }
    }

    fn subfolders(&self, split: Split) -> u64 {
        match split {
            Split::Train => self.dataset.subfolders_train,
            Split::Valid => self.dataset.subfolders_eval,
        }
    }

    /// Returns the directory of the split or its subdirectory, below the data directory or its index.
    fn folder(&self, split: Split, number: u64) -> PathBuf {
        let folder = PathBuf::from(split.folder());
        match self.subfolders(split) {
            0 | 1 => folder,
            count => folder.join(format!("{:01$}", self.place(split, number), count.to_string().len())),
        }
    }

    /// Returns the index of a file's directory among those of its split.
    pub fn place(&self, split: Split, number: u64) -> u64 {
        number % self.subfolders(split).max(1)
    }

    pub fn path(&self, split: Split, number: u64) -> PathBuf {
        if let Some(path) = self.dataset.listed[split as usize].as_ref().and_then(|files| files.get(number as usize)) {
            return path.clone();
        }
        self.dataset.folder.join(self.folder(split, number)).join(self.file_name(split, number))
    }

    fn index_path(&self, split: Split, number: u64) -> PathBuf {
        let name = format!("{}.idx", self.file_name(split, number));
        self.dataset.folder.join("index").join(self.folder(split, number)).join(name)
    }

    /// Returns every directory of the data set, with index directories if the format has them. DLIO lists both splits
    /// and expects the configured number of subdirectories, even if they are empty.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for split in [Split::Train, Split::Valid] {
            folders.extend(self.folders_of(split));
            if self.dataset.format == "tfrecord" {
                let index = self.dataset.folder.join("index");
                folders.extend(self.subfolder_names(split).map(|folder| index.join(folder)));
            }
        }
        folders
    }

    /// Returns the directories of the data set and those above them up to the data directory, the deepest first.
    pub fn all_folders(&self) -> Vec<PathBuf> {
        let top = &self.dataset.folder;
        let mut all = self.folders();
        let above = all.iter().flat_map(|folder| folder.ancestors().skip(1).take_while(|above| above.starts_with(top)));
        let above: Vec<PathBuf> = above.map(PathBuf::from).collect();
        all.extend(above);
        all.sort_by_key(|folder| std::cmp::Reverse((folder.components().count(), folder.clone())));
        all.dedup();
        all
    }

    /// Returns the directories of a split's files.
    pub fn folders_of(&self, split: Split) -> Vec<PathBuf> {
        self.subfolder_names(split).map(|folder| self.dataset.folder.join(folder)).collect()
    }

    fn subfolder_names(&self, split: Split) -> impl Iterator<Item = PathBuf> + '_ {
        (0..self.subfolders(split).max(1)).map(move |number| self.folder(split, number))
    }

    /// Returns the number of files of both splits. They form one range, training first: the order in which DLIO draws
    /// their sizes.
    pub fn total_files(&self) -> u64 {
        self.dataset.files_train + self.dataset.files_eval
    }

    pub fn split_of(&self, number: u64) -> (Split, u64) {
        let train = self.dataset.files_train;
        if number < train { (Split::Train, number) } else { (Split::Valid, number - train) }
    }

    /// Returns the position of a file's size in the sequence of draws: all training files come first, whether or not
    /// they are read.
    pub fn drawn(&self, number: u64) -> u64 {
        match self.split_of(number) {
            (Split::Train, within) => within,
            (Split::Valid, within) => self.named(Split::Train) + within,
        }
    }

    pub fn spec(&self, number: u64, dims: Vec<u64>) -> FileSpec {
        let (split, within) = self.split_of(number);
        FileSpec {
            path: self.path(split, within),
            index_path: self.index_path(split, within),
            number,
            dims,
            samples: self.dataset.samples_per_file,
            element: self.dataset.element,
            content_seed: mixed(&[CONTENT_SEED, split as u64, within]),
        }
    }

    pub fn shapes(&self) -> Shapes {
        Shapes::new(&self.dataset)
    }

    /// Returns the bytes of all samples in the data set, without the format's overhead. If the sizes are drawn and the
    /// files are many, the first draws stand for all.
    pub fn payload_bytes(&self) -> u64 {
        let samples = self.dataset.samples_per_file * self.dataset.element.bytes;
        let mut shapes = self.shapes();
        let files = self.total_files();
        if shapes.legacy.is_none() && shapes.sizes.is_none() {
            return shapes.at(0).iter().product::<u64>() * samples * files;
        }
        let drawn = files.min(DRAWS_MAX);
        let bytes: u128 =
            (0..drawn).map(|number| u128::from(shapes.at(number).iter().product::<u64>()) * u128::from(samples)).sum();
        u64::try_from(bytes * u128::from(files) / u128::from(drawn.max(1))).unwrap_or(u64::MAX)
    }

    /// Returns the average size of a sample, as configured (DLIO's `record_length`).
    pub fn record_bytes(&self) -> f64 {
        let dataset = &self.dataset;
        if dataset.record_dims.is_empty() {
            return dataset.record_bytes;
        }
        (dataset.record_dims.iter().product::<u64>() * dataset.element.bytes) as f64
    }
}

/// Shapes of the samples of file 0, 1, 2, ... With a spread they come from one sequence of draws, so the cursor only
/// advances; it keeps no data about earlier files.
pub struct Shapes {
    fixed: Vec<u64>,
    /// The distribution of sizes, the order of files, and the number of samples per file.
    sizes: Option<(Distribution, Permutation, u64)>,
    legacy: Option<NumpyLegacy>,
    deviation: f64,
    next: u64,
}

/// DLIO's seed for the sizes of every data set.
const SIZE_SEED: u32 = 10;

impl Shapes {
    fn new(dataset: &Dataset) -> Shapes {
        let side = dataset.record_bytes.sqrt() as u64;
        let explicit = !dataset.record_dims.is_empty();
        let spread = dataset.record_bytes_stdev > 0.0 && !explicit;
        let files = dataset.named[0] + dataset.named[1];
        let sized = (!dataset.file_bytes.is_empty()).then(|| {
            let order = Permutation::new(files.max(1), u64::from(SIZE_SEED));
            (Distribution::new(dataset.file_bytes.clone()), order, dataset.samples_per_file.max(1))
        });
        Shapes {
            sizes: sized,
            fixed: if explicit { dataset.record_dims.clone() } else { vec![side, side] },
            legacy: spread.then(|| NumpyLegacy::new(SIZE_SEED)),
            deviation: dataset.record_bytes_stdev / 2.0 / dataset.record_bytes.sqrt(),
            next: 0,
        }
    }

    pub fn at(&mut self, number: u64) -> Vec<u64> {
        if let Some((sizes, order, samples)) = &self.sizes {
            let share = order.at(number) as f64 / (order.length() - 1).max(1) as f64;
            return vec![(sizes.at(share) / samples).max(1)];
        }
        let Some(legacy) = &mut self.legacy else { return self.fixed.clone() };
        assert!(number >= self.next, "a cursor over drawn sizes only goes forward");
        let mean = self.fixed[0] as f64;
        let mut side = || (legacy.normal(mean, self.deviation) as i64).max(1) as u64;
        for _ in self.next..number {
            side();
            side();
        }
        let dims = vec![side(), side()];
        self.next = number + 1;
        dims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keys::value::parse_yaml;

    fn layout(text: &str) -> Layout {
        Layout::new(&Config::read(&parse_yaml("t", text).unwrap()).unwrap().dataset)
    }

    #[test]
    fn names_are_as_wide_as_the_number_of_files() {
        let layout = layout("{dataset: {data_folder: d, format: npz, num_files_train: 16, num_files_eval: 2}}");
        assert_eq!(layout.path(Split::Train, 0), PathBuf::from("./d/train/img_00_of_16.npz"));
        assert_eq!(layout.path(Split::Valid, 1), PathBuf::from("./d/valid/img_1_of_2.npz"));
    }

    #[test]
    fn subfolders_take_files_in_turn() {
        let layout =
            layout("{dataset: {data_folder: d, format: tfrecord, num_files_train: 16, num_subfolders_train: 10}}");
        assert_eq!(layout.path(Split::Train, 13), PathBuf::from("./d/train/03/img_13_of_16.tfrecord"));
        // Including the evaluation's, which are empty.
        assert_eq!(layout.folders().len(), 22);
        assert_eq!(layout.set_name(Split::Train), "train.10.img_of_16.tfrecord");
    }

    #[test]
    fn a_sample_is_the_largest_square_that_fits() {
        let layout = layout("{dataset: {record_length_bytes: 2097152}}");
        assert_eq!(layout.shapes().at(0), [1448, 1448]);
        assert_eq!(layout.payload_bytes(), 8 * 2_096_704);
    }

    /// `RandomState(10).normal(12107, 68341808/2/sqrt(146600628), 6)` as integers, by NumPy 2.4.
    #[test]
    fn drawn_sizes_are_numpys() {
        let layout = layout(
            "{dataset: {record_length_bytes: 146600628, record_length_bytes_stdev: 68341808, num_files_train: 3}}",
        );
        let mut shapes = layout.shapes();
        let sides: Vec<u64> = (0..3).flat_map(|number| shapes.at(number)).collect();
        assert_eq!(sides, [15865, 14125, 7745, 12083, 13860, 10074]);
        assert_eq!(layout.shapes().at(2), [13860, 10074]);
    }

    #[test]
    fn explicit_dims_win_over_the_length() {
        let layout = layout("{dataset: {record_dims: [2, 3, 4], record_element_type: float32, num_files_train: 1}}");
        assert_eq!(layout.payload_bytes(), 96);
        assert_eq!(layout.record_bytes(), 96.0);
    }
}
