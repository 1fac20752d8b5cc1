//! A trace in another format, as `--export` writes it.

// Not every test uses it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use dlio_analyzer::filter::Filter;
use dlio_analyzer::load::inputs;
use dlio_analyzer::scan::Progress;
use dlio_analyzer::viewer::Export;
use dlio_analyzer::viewer::forms::Form;

/// Exports all of a directory's trace to a file, whose path is returned.
pub fn exported(folder: &Path, form: Form, path: PathBuf) -> PathBuf {
    let found = inputs::find(&[folder.display().to_string()]).unwrap();
    let (filter, progress) = (Filter::default(), Progress::default());
    let export = Export::new(&found, &filter, true, 2, &progress).unwrap().unwrap();
    export.write(form, &path, &progress).unwrap();
    path
}
