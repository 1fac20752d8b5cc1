//! `synthetic`: files that contain only their number and are never read. It measures a run without any input.

use super::format::{Format, Output, Reader};
use crate::config::Dataset;
use crate::data_set::layout::FileSpec;
use crate::failure::Outcome;
use crate::files::atomic_file::AtomicFile;
use crate::files::input::Access;
use std::path::Path;

pub struct Synthetic;

impl Format for Synthetic {
    fn name(&self) -> &'static str {
        "synthetic"
    }

    fn growth(&self, _: &Dataset) -> f64 {
        0.0
    }

    fn write(&self, spec: &FileSpec, _: &Dataset, draft: &mut AtomicFile, _: &mut Vec<u8>) -> Outcome<()> {
        Output::create(draft, &spec.path)?.write(spec.number.to_string().as_bytes())
    }

    fn file_bytes(&self, spec: &FileSpec, _: &Dataset) -> Option<u64> {
        Some(spec.number.to_string().len() as u64)
    }

    fn expected(&self, _: &FileSpec, _: &Dataset, _: u64) -> Outcome<Vec<u8>> {
        Ok(Vec::new())
    }

    fn reads_whole(&self) -> bool {
        false
    }

    fn reader(&self, _: &Dataset, _: Access) -> Box<dyn Reader> {
        Box::new(Nothing)
    }
}

struct Nothing;

impl Reader for Nothing {
    fn open(&mut self, _: &Path) -> Outcome<()> {
        Ok(())
    }

    fn sample(&mut self, _: u64) -> Outcome<()> {
        Ok(())
    }

    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn content(&self, _: u64) -> Vec<u8> {
        Vec::new()
    }

    fn take_moved(&mut self) -> u64 {
        0
    }

    fn close(&mut self) {}
}
