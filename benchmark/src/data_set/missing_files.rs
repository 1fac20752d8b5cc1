//! Finds the missing files of a data set by listing its directories: reading a million names takes less time than
//! checking a thousand files individually when each check is a request to a server.

use crate::data_set::layout::{Layout, Split};
use crate::failure::Outcome;
use crate::store;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The missing files of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub split: Split,
    /// Number of missing files among those checked.
    pub count: u64,
    /// The first missing files.
    pub names: Vec<PathBuf>,
    /// `true` if all files were checked, not only a sample of them.
    pub all: bool,
}

/// Number of names in the message.
const TOLD: usize = 3;

/// Up to this many files are checked individually if their directories cannot be listed.
const FEW: u64 = 64;

/// Directory entries that can be read in the time of one check.
const NAMES_A_QUESTION: u64 = 16;

/// Returns the missing files of a split; `None` if all files that were checked exist. With
/// `dataset.listing_validation_interval` and `dataset.skip_listing`, and for objects, only some are checked.
pub fn of(layout: &Layout, split: Split) -> Outcome<Option<Missing>> {
    let dataset = &layout.dataset;
    let some = dataset.listing_interval.is_some() || dataset.skip_listing;
    if some || dataset.listed[split as usize].is_some() || store::is_object(&dataset.folder) {
        return check_each(layout, split, layout.probes(split).into_iter(), false);
    }
    let (files, folders) = (layout.files(split), layout.folders_of(split).len() as u64);
    if layout.named(split) / NAMES_A_QUESTION > files || folders > files {
        return check_each(layout, split, 0..files, true);
    }
    // A listing reads only names. A check of each file would also load metadata into memory whose reads the first epoch measures.
    match listed(layout, split) {
        Ok(missing) => Ok(missing),
        Err(_) if files <= FEW => check_each(layout, split, 0..files, true),
        // A directory may permit access but not listing.
        Err(_) => check_each(layout, split, layout.probes(split).into_iter(), false),
    }
}

/// Checks one file after another.
fn check_each(
    layout: &Layout,
    split: Split,
    numbers: impl Iterator<Item = u64>,
    all: bool,
) -> Outcome<Option<Missing>> {
    let mut missing = Missing { split, count: 0, names: Vec::new(), all };
    for number in numbers {
        let path = layout.path(split, number);
        let there = match store::is_object(&path) {
            true => store::length(&path)?.is_some(),
            // Like a listing, this finds names: whether a link resolves to a file is known when it is opened.
            false => path.symlink_metadata().is_ok(),
        };
        if !there {
            missing.note(path);
        }
        // One missing file of a sample is enough.
        if missing.count > 0 && !all {
            break;
        }
    }
    Ok(missing.if_any())
}

impl Missing {
    fn note(&mut self, path: PathBuf) {
        self.count += 1;
        if self.names.len() < TOLD {
            self.names.push(path);
        }
    }

    /// Returns the number of missing files, and the first names.
    pub fn describe(&self, layout: &Layout) -> String {
        let names: Vec<String> = self.names.iter().map(|path| path.display().to_string()).collect();
        let more = if self.count > names.len() as u64 { ", ..." } else { "" };
        let word = if self.split == Split::Train { "training" } else { "evaluation" };
        let files = layout.files(self.split);
        format!("{} of {files} {word} files are missing: {}{more}", self.count, names.join(", "))
    }

    fn if_any(self) -> Option<Missing> {
        (self.count > 0).then_some(self)
    }
}

/// Reads the names in the directories of a split. Keeps one bit per file.
fn listed(layout: &Layout, split: Split) -> io::Result<Option<Missing>> {
    let files = layout.files(split);
    let (mut there, mut count) = (vec![0u64; files.div_ceil(64) as usize], 0);
    let names = layout.names(split);
    for (place, folder) in layout.folders_of(split).into_iter().enumerate() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| names.number(name)).filter(|number| *number < files);
            let Some(number) = number.filter(|number| layout.place(split, *number) == place as u64) else { continue };
            let (word, bit) = (&mut there[(number / 64) as usize], 1 << (number % 64));
            count += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }
    let mut missing = Missing { split, count: 0, names: Vec::new(), all: true };
    if count < files {
        let absent = (0..files).filter(|number| there[(number / 64) as usize] & 1 << (number % 64) == 0);
        absent.take(TOLD).for_each(|number| missing.note(layout.path(split, number)));
        missing.count = files - count;
    }
    Ok(missing.if_any())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::keys::value::parse_yaml;
    use tempfile::TempDir;

    /// Creates a data set of empty files, without the files of some numbers.
    fn made(folder: &TempDir, more: &str, without: &[u64]) -> Layout {
        let text = format!("{{dataset: {{data_folder: {}, format: npz, {more}}}}}", folder.path().display());
        let layout = Layout::new(&Config::read(&parse_yaml("t", &text).unwrap()).unwrap().dataset);
        layout.folders().iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        for number in (0..layout.files(Split::Train)).filter(|number| !without.contains(number)) {
            fs::write(layout.path(Split::Train, number), "").unwrap();
        }
        layout
    }

    #[test]
    fn every_file_that_is_not_there_is_counted() {
        for (more, files) in [
            ("num_files_train: 5", 5),
            ("num_files_train: 300", 300),
            ("num_files_train: 300, num_subfolders_train: 7", 300),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let layout = made(&folder, more, &[]);
            assert_eq!(of(&layout, Split::Train).unwrap(), None, "{more}");
            let gone = [1, 2, files - 2].map(|number| layout.path(Split::Train, number));
            gone.iter().for_each(|path| fs::remove_file(path).unwrap());
            let missing = of(&layout, Split::Train).unwrap().unwrap();
            assert_eq!((missing.count, &missing.names[..], missing.all), (3, &gone[..], true), "{more}");
        }
    }

    #[test]
    fn unrelated_names_do_not_count_as_files() {
        let folder = tempfile::tempdir().unwrap();
        let layout = made(&folder, "num_files_train: 100, num_subfolders_train: 2", &[7, 50]);
        let train = folder.path().join("train");
        for other in ["img_7_of_100.npz", "img_0007_of_100.npz", "img_007_of_1000.npz", "img_007_of_100.npz.tmp"] {
            fs::write(train.join("1").join(other), "").unwrap();
        }
        // In the directory of the odd numbers.
        fs::write(train.join("1").join("img_050_of_100.npz"), "").unwrap();
        assert_eq!(of(&layout, Split::Train).unwrap().unwrap().count, 2);
        let folder = tempfile::tempdir().unwrap();
        let none = made(&folder, "num_files_train: 100", &[]);
        fs::remove_dir_all(&none.dataset.folder).unwrap();
        assert_eq!(of(&none, Split::Train).unwrap().unwrap().count, 100);
    }

    #[test]
    fn listing_interval_checks_a_sample() {
        let gone: Vec<u64> = (60..80).collect();
        for (more, found) in [
            ("listing_validation_interval: 50", false),
            ("listing_validation_interval: 10", true),
            ("skip_listing: true", false),
            ("keep_files: true", true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let layout = made(&folder, &format!("num_files_train: 100, {more}"), &gone);
            let missing = of(&layout, Split::Train).unwrap();
            assert_eq!(missing.is_some(), found, "{more}");
            assert!(missing.is_none_or(|missing| missing.names[0] == layout.path(Split::Train, 60)), "{more}");
        }
    }
}
