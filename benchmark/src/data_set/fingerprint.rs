//! A record, stored with the files of a data set, of how they were generated. It prevents files generated with other
//! settings from being mistaken for the requested ones: most formats look alike from outside regardless of chunks,
//! shapes or element types.
//!
//! ```text
//! <data folder>/.dlio/<split>[.<subfolders>].<prefix>_of_<N>.<format>.json     one for all files of a name
//! ```
//!
//! It is written before the first file and contains only settings that change the bytes: the number of files and the
//! format are in the file names. A generation with other values first removes the files, then writes the new record, so
//! the record is valid at any time. Data of another program have no record; their files are inspected individually.

use crate::config::Dataset;
use crate::data_set::formats;
use crate::data_set::layout::{Layout, Split};
use crate::failure::{Failure, Kind, Outcome};
use crate::files::atomic_file::write_whole;
use crate::keys::value::Value;
use crate::store;
use serde_json::{Map, Value as Json, json};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory of fingerprints. Programs that list a data set skip names that start with a dot.
const FOLDER: &str = ".dlio";

/// Values by their keys below `dataset`.
#[derive(Debug, Clone, PartialEq)]
pub struct Fingerprint(Map<String, Json>);

/// A key whose recorded value differs; `None` if the key was not requested.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    pub key: String,
    pub made: Option<Json>,
    pub asked: Option<Json>,
}

impl Fingerprint {
    /// Returns the fingerprint of a split's files as they would be generated now.
    pub fn of(layout: &Layout, split: Split) -> Outcome<Fingerprint> {
        let dataset = &layout.dataset;
        let mut facts = Map::new();
        let mut set = |key: &str, value: Json| facts.insert(key.into(), value);
        set("num_samples_per_file", json!(dataset.samples_per_file));
        set("record_element_type", json!(dataset.element.name));
        if has_spread(dataset) {
            set("record_length_bytes", json!(dataset.record_bytes));
            set("record_length_bytes_stdev", json!(dataset.record_bytes_stdev));
            if split == Split::Valid {
                // Sizes come from one sequence, training files first.
                set("num_files_train", json!(layout.named(Split::Train)));
            }
        } else if dataset.file_bytes.is_empty() {
            // Lengths with equal roots produce identical files.
            set("record_dims", json!(layout.shapes().at(0)));
        }
        for (key, value) in formats::find(&dataset.format)?.made_with(dataset) {
            set(key, value);
        }
        // Round trip through the file: floating-point numbers may change in their last digit.
        let text = Json::Object(facts).to_string();
        Ok(Fingerprint(serde_json::from_str(&text).expect("what was just written as JSON")))
    }

    /// Returns the fingerprint stored with the files; `None` if there is none.
    pub fn read(layout: &Layout, split: Split) -> Outcome<Option<Fingerprint>> {
        let path = place(layout, split);
        let Some(text) = text_of(&path)? else { return Ok(None) };
        let json: Json = serde_json::from_slice(&text).unwrap_or_default();
        let own = formats::find(&layout.dataset.format)?.writer();
        match (&json["dataset"], json["writer"].as_u64()) {
            (Json::Object(facts), Some(writer)) if writer == own => Ok(Some(Fingerprint(facts.clone()))),
            (Json::Object(facts), Some(writer)) => {
                let other = Map::from_iter([("writer".to_string(), json!(writer))]);
                Ok(Some(Fingerprint(facts.clone().into_iter().chain(other).collect())))
            }
            _ => Err(Failure::damaged(&path, "it does not record how the files were generated")
                .remedy("remove it to use the data set as another program's, or generate it with --regenerate")),
        }
    }

    fn write(&self, layout: &Layout, split: Split) -> Outcome<()> {
        let path = place(layout, split);
        let folder = path.parent().unwrap_or(&path);
        if !store::is_object(&path) {
            fs::create_dir_all(folder).map_err(|error| Failure::unwritable("create directory", folder, error))?;
        }
        let writer = formats::find(&layout.dataset.format)?.writer();
        let made_by = concat!("dlio ", env!("CARGO_PKG_VERSION"));
        let json = json!({"made_by": made_by, "writer": writer, "dataset": self.0});
        write_whole(&path, (serde_json::to_string_pretty(&json).unwrap_or_default() + "\n").as_bytes())
    }

    /// Returns the differences between the files described by this and the requested ones.
    pub fn differences(&self, asked: &Fingerprint) -> Vec<Difference> {
        let keys = self.0.keys().chain(asked.0.keys().filter(|key| !self.0.contains_key(*key)));
        keys.filter(|key| self.0.get(*key) != asked.0.get(*key))
            .map(|key| Difference {
                key: key.clone(),
                made: self.0.get(key).cloned(),
                asked: asked.0.get(key).cloned(),
            })
            .collect()
    }
}

impl Difference {
    /// Returns "hdf5.chunk_dims=[1, 8, 8] instead of [1, 4, 4]", with `made` first.
    pub fn text(&self) -> String {
        let shown = |value: &Option<Json>| value.as_ref().map_or("nothing".into(), |value| Value::from(value).inline());
        format!("{}={} instead of {}", self.key, shown(&self.made), shown(&self.asked))
    }

    /// Returns the path of the value in a configuration.
    pub fn path(&self) -> Vec<&str> {
        ["dataset"].into_iter().chain(self.key.split('.')).collect()
    }
}

/// Lists differences in terms of the configuration: if that sets a length of samples, so does the list.
pub fn listed(differences: &[Difference], asked: &Dataset) -> String {
    let told = if asked.record_dims.is_empty() { by_length(differences, asked) } else { None };
    told.as_deref().unwrap_or(differences).iter().map(Difference::text).collect::<Vec<_>>().join(", ")
}

/// Returns the differences with a length instead of dimensions, if a length explains them.
fn by_length(differences: &[Difference], asked: &Dataset) -> Option<Vec<Difference>> {
    let of = |key: &str| differences.iter().find(|difference| difference.key == key);
    let dims = of("record_dims")?;
    let made = |key: &str| of(key).and_then(|difference| difference.made.clone());
    let square = |dims: &Json| {
        let sides: Vec<u64> = dims.as_array()?.iter().filter_map(Json::as_u64).collect();
        (sides.len() == 2 && sides[0] == sides[1]).then(|| json!(sides[0] * sides[1]))
    };
    let length = match &dims.made {
        Some(dims) => square(dims)?,
        None => made("record_length_bytes")?,
    };
    let spread = made("record_length_bytes_stdev").unwrap_or(json!(0));
    let sizes = [
        ("record_length_bytes", length, asked.record_bytes),
        ("record_length_bytes_stdev", spread, asked.record_bytes_stdev),
    ];
    let sizes = sizes.into_iter().filter(|(_, made, asked)| made.as_f64() != Some(*asked));
    let whole = |number: f64| if number.fract() == 0.0 { json!(number as u64) } else { json!(number) };
    let sizes = sizes.map(|(key, made, asked)| Difference {
        key: key.into(),
        made: made.as_f64().map(whole),
        asked: Some(whole(asked)),
    });
    let others = differences.iter().filter(|difference| !difference.key.starts_with("record_length_bytes"));
    Some(sizes.chain(others.filter(|difference| difference.key != "record_dims").cloned()).collect())
}

/// Returns `None` if the file does not exist.
fn text_of(path: &Path) -> Outcome<Option<Vec<u8>>> {
    if store::is_object(path) {
        return store::get(path);
    }
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Failure::io("read", path, error)),
    }
}

fn has_spread(dataset: &Dataset) -> bool {
    dataset.record_bytes_stdev > 0.0 && dataset.record_dims.is_empty()
}

pub fn place(layout: &Layout, split: Split) -> PathBuf {
    layout.dataset.folder.join(FOLDER).join(format!("{}.json", layout.set_name(split)))
}

/// How a run uses a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Generate,
    Read,
}

/// Keeps generations by other runs out as long as the returned file is open. `None` if there is no data set yet, or if
/// the file system does not support locks.
pub fn lock(layout: &Layout, use_of: Use) -> Outcome<Option<File>> {
    let folder = layout.dataset.folder.join(FOLDER);
    if store::is_object(&folder) {
        return Ok(None);
    }
    if use_of == Use::Generate {
        fs::create_dir_all(&folder).map_err(|error| Failure::unwritable("create directory", &folder, error))?;
    }
    let Ok(file) = File::open(&folder) else { return Ok(None) };
    let tried = if use_of == Use::Generate { file.try_lock() } else { file.try_lock_shared() };
    match tried {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            let what = format!("cannot use {}: another run is generating it", layout.dataset.folder.display());
            Err(Failure::refused(what)
                .remedy("wait for it to end, or choose another directory with ++workload.dataset.data_folder=DIR"))
        }
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// The state of a directory with existing files, before the first one is written.
#[derive(Debug, Default)]
pub struct Prepared {
    /// Notes for the user.
    pub words: Vec<String>,
    /// By split, whether another program's files are among the existing ones.
    pub foreign: [bool; 2],
}

/// Removes files generated with other settings, and records the settings of the new ones. With `again`, no file is
/// kept.
pub fn prepare(layout: &Layout, again: bool) -> Outcome<Prepared> {
    let mut prepared = Prepared::default();
    for split in [Split::Train, Split::Valid].into_iter().filter(|split| layout.files(*split) > 0) {
        let asked = Fingerprint::of(layout, split)?;
        let folder = layout.dataset.folder.join(split.folder());
        let made = match Fingerprint::read(layout, split) {
            Err(failure) if failure.kind == Kind::DamagedData && again => None,
            found => found?,
        };
        match made {
            Some(made) if made == asked => continue,
            Some(made) => prepared.words.push(format!(
                "the files in {} were generated with {}; rewriting them",
                folder.display(),
                listed(&made.differences(&asked), &layout.dataset)
            )),
            None if !again && any_exists(layout, split)? => {
                prepared.foreign[split as usize] = true;
                prepared.words.push(format!(
                    "no record of how the files in {} were generated; files that match the configuration are kept \
                     (--regenerate rewrites all)",
                    folder.display()
                ));
                continue;
            }
            None => {}
        }
        remove_files(layout, split)?;
        asked.write(layout, split)?;
    }
    Ok(prepared)
}

/// Returns `true` if any file of these names exists.
fn any_exists(layout: &Layout, split: Split) -> Outcome<bool> {
    if store::is_object(&layout.dataset.folder) {
        for number in layout.probes(split) {
            if store::length(&layout.path(split, number))?.is_some() {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let (first, last) = layout.name_ends(split);
    let listed = layout.folders_of(split).into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    Ok(listed.flatten().flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(&first) && name.ends_with(&last)
    }))
}

fn remove_files(layout: &Layout, split: Split) -> Outcome<()> {
    if !any_exists(layout, split)? {
        return Ok(());
    }
    for number in 0..layout.files(split) {
        let path = layout.path(split, number);
        if store::is_object(&path) {
            store::delete(&path)?;
            continue;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Failure::unwritable("remove", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the first difference found in the first, the middle and the last file of a data set without a fingerprint.
pub fn looked_at(layout: &Layout, split: Split) -> Outcome<Option<String>> {
    if store::is_object(&layout.dataset.folder) {
        // Inspecting objects would mean reading them.
        return Ok(None);
    }
    let format = formats::find(&layout.dataset.format)?;
    let files = layout.files(split);
    let before = if split == Split::Valid { layout.files(Split::Train) } else { 0 };
    let mut numbers = vec![0, files / 2, files.saturating_sub(1)];
    numbers.dedup();
    let mut shapes = layout.shapes();
    for number in numbers.into_iter().filter(|number| *number < files).map(|number| before + number) {
        let spec = layout.spec(number, shapes.at(layout.drawn(number)));
        if let Some(difference) = format.differs(&spec, &layout.dataset) {
            return Ok(Some(format!("{}: {difference}", spec.path.display())));
        }
    }
    Ok(None)
}

/// Returns `true` if a path below the data directory belongs to a fingerprint.
pub fn is_own(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == FOLDER)
}
