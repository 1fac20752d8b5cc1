//! Tests the extension points: each extension is one file and its lines in one list. Nothing else imports from that
//! file, so nothing else has to change for another one. CONTRIBUTING.md shows one of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dlio_tests::home;
use dlio_tests::imports::Imports;

/// Directories of plug-ins, by crate; and files in them that others import for other reasons.
const PLUGINS: &[(&str, &str, &[&str])] = &[
    // Processes of Perfetto traces are exported again, and profiles from PyTorch are added to archives.
    ("analyzer", "load/formats", &["perfetto", "json_file"]),
    // A tar and a zip contain traces for Perfetto with equal names, and DFTracer's lines cost as much as Chrome's.
    ("analyzer", "viewer/forms", &["perfetto", "chrome", "bundle"]),
    ("analyzer", "findings/rules", &[]),
    // The functions common to all answers.
    ("analyzer", "command/answers", &["answer"]),
    // `format` has the traits. An .npz is a zip of .npy, and the rules reject chunks that no data set of an HDF5 file
    // can have.
    ("benchmark", "data_set/formats", &["format", "npy", "hdf5"]),
];

fn root() -> PathBuf {
    home().parent().expect("the crate is in the workspace").to_path_buf()
}

fn sources(folder: &Path, into: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            sources(&entry, into);
        } else if entry.extension().is_some_and(|ending| ending == "rs") {
            let name = entry.strip_prefix(root()).expect("below the workspace").to_str().expect("a name in UTF-8");
            into.push((name.into(), std::fs::read_to_string(&entry).expect("a source")));
        }
    }
}

#[test]
fn plug_in_is_imported_only_by_its_list() {
    for (member, folder, shared) in PLUGINS {
        let src = format!("{member}/src/");
        let mut all = Vec::new();
        sources(&root().join(&src), &mut all);
        let imports = Imports::of(&src, all.iter().map(|(name, text)| (name.as_str(), text.as_str())));
        let (list, below) = (format!("{src}{folder}/mod.rs"), format!("{src}{folder}/"));
        let stem = |name: &str| name.strip_prefix(&below)?.strip_suffix(".rs").map(str::to_string);
        let plugins = all.iter().filter_map(|(name, _)| Some((name.as_str(), stem(name)?)));
        let plugins: Vec<_> = plugins.filter(|(_, stem)| stem != "mod" && !stem.contains('/')).collect();
        assert!(plugins.len() > 3, "{folder} has {plugins:?}");
        for (file, stem) in plugins.iter().filter(|(_, stem)| !shared.contains(&stem.as_str())) {
            let own = format!("{below}{stem}/");
            let users: BTreeSet<&str> =
                imports.users(file).into_iter().filter(|user| !user.starts_with(&own)).collect();
            assert_eq!(users, BTreeSet::from([list.as_str()]), "{file} is used by more than its list");
        }
    }
}
