//! A data set of existing files with any names: all files in a directory and its subdirectories.
//!
//! The files with the format's extension are used, or, if there are none, those with the extension that has most of the
//! bytes. Files below an evaluation directory are for evaluation, if the workload evaluates.

use crate::config::Config;
use crate::data_set::layout::Split;
use crate::failure::{Failure, Kind, Outcome};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Extensions of one format.
const KIN: &[&[&str]] = &[
    &["tfrecord", "tfrecords"],
    &["hdf5", "h5", "he5", "hdf"],
    &["jpeg", "jpg"],
    &["indexed_binary", "bin"],
    &["mmap_indexed_binary", "bin"],
];

/// Directories with data for evaluation.
const EVALUATION: [&str; 6] = ["valid", "validation", "val", "eval", "evaluation", "test"];

/// The maximum depth of subdirectories.
const DEPTH_MAX: usize = 16;

/// Finds the files; returns a note if their number differs from the workload's.
pub fn list(config: &mut Config) -> Outcome<Vec<String>> {
    let mut notes = Vec::new();
    // Objects are not listed; the configuration rules report that.
    if !config.dataset.listing || config.store.is_some() {
        return Ok(notes);
    }
    let folder = config.dataset.folder.clone();
    if config.workflow.generate {
        return Err(Failure::refused("dataset.listing reads existing files, but generate_data is set")
            .remedy("remove one of them"));
    }
    let files = files_of(&folder, &config.dataset.suffix)?;
    let (valid, train): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| config.workflow.evaluate && evaluates(&folder, file));
    for (split, found) in [(Split::Train, train), (Split::Valid, valid)] {
        let wanted = match split {
            Split::Train => &mut config.dataset.files_train,
            Split::Valid => &mut config.dataset.files_eval,
        };
        // Without an evaluation its files are not read.
        let is_read = split == Split::Train || config.workflow.evaluate;
        if found.is_empty() && *wanted > 0 && is_read {
            let what = format!("{}: no files of the split `{}`", folder.display(), split.folder());
            return Err(Failure::new(Kind::MissingData, what).remedy("pass their directory with --data"));
        }
        if (found.len() as u64) < *wanted {
            let note = format!(
                "{1} contains {0} files, but the configuration has {wanted}; reading all of them",
                found.len(),
                folder.display()
            );
            notes.extend(is_read.then_some(note));
            *wanted = found.len() as u64;
        }
        config.dataset.listed[split as usize] = Some(Arc::new(found));
    }
    Ok(notes)
}

fn files_of(folder: &Path, format: &str) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    let failed = |error| {
        Failure::io("list", folder, error).remedy("--data DIR needs an existing directory with the files to read")
    };
    walk(folder, 0, &mut found).map_err(failed)?;
    let kin = KIN.iter().find(|kin| kin[0] == format).copied().unwrap_or(&[]);
    let is_its = |suffix: &str| suffix == format || kin.contains(&suffix);
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    found.iter().for_each(|(path, size)| *bytes.entry(suffix(path)).or_default() += size);
    let most = bytes.iter().max_by_key(|(_, bytes)| **bytes).map(|(suffix, _)| suffix.clone());
    let has_its = bytes.keys().any(|suffix| is_its(suffix));
    let chosen = |path: &Path| {
        let suffix = suffix(path);
        if has_its { is_its(&suffix) } else { Some(suffix) == most }
    };
    let mut files: Vec<PathBuf> = found.into_iter().map(|(path, _)| path).filter(|path| chosen(path)).collect();
    files.sort();
    Ok(files)
}

fn suffix(path: &Path) -> String {
    path.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

/// Skips names that start with a dot, and follows links to files.
fn walk(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, u64)>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < DEPTH_MAX {
            walk(&path, depth + 1, found)?;
        } else if let Some(meta) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) {
            found.push((path, meta.len()));
        }
    }
    Ok(())
}

fn evaluates(folder: &Path, file: &Path) -> bool {
    let below = file.strip_prefix(folder).unwrap_or(file);
    let mut folders = below.parent().into_iter().flat_map(Path::components);
    folders.any(|part| EVALUATION.iter().any(|word| part.as_os_str().eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::parse_yaml;

    fn listed(dir: &Path, text: &str) -> Outcome<(Config, Vec<String>)> {
        let text = format!("{{dataset: {{data_folder: {}, listing: true, {text}}}}}", dir.display());
        let mut config = Config::read(&parse_yaml("t", &text).unwrap())?;
        let notes = list(&mut config)?;
        Ok((config, notes))
    }

    #[test]
    fn files_of_the_format_are_found_by_extension() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        fs::create_dir_all(folder.join("cats")).unwrap();
        for name in ["b.jpg", "cats/a.jpeg", "labels.csv", ".hidden.jpg"] {
            fs::write(folder.join(name), [0; 10]).unwrap();
        }
        fs::write(folder.join("labels.csv"), [0; 1000]).unwrap();
        let (config, notes) = listed(folder, "format: jpeg, num_files_train: 2").unwrap();
        let names: Vec<_> =
            config.dataset.listed[0].as_ref().unwrap().iter().map(|path| path.strip_prefix(folder).unwrap()).collect();
        assert_eq!(names, [Path::new("b.jpg"), Path::new("cats/a.jpeg")]);
        assert!(notes.is_empty());
        let (config, notes) = listed(folder, "format: raw, num_files_train: 8").unwrap();
        assert_eq!((config.dataset.files_train, notes.len()), (1, 1));
        assert!(listed(&folder.join("none"), "format: npz").is_err());
    }
}
