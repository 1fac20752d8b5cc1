//! Replaces `workers` in a build without them.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::error::Result as Answered;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use super::question::Question;
use super::refusals::failure::Failure;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::tables::cancel::LatestQuery;
use crate::tables::query;

/// A cluster, which cannot exist in this build.
pub type Cluster = Infallible;

pub fn connect(_: &Question, _: usize) -> Result<Option<Arc<Cluster>>, Failure> {
    Ok(None)
}

/// Workers, and the files that they read.
#[derive(Clone)]
pub struct WorkerInputs {
    pub cluster: Arc<Cluster>,
    /// Each file, and whether it was given by name.
    pub files: Vec<(PathBuf, bool)>,
}

pub fn analyse(_: &Question, inputs: &WorkerInputs, _: &Trace, _: &Filter) -> Result<Analysis, Failure> {
    match *inputs.cluster {}
}

pub fn write_parquet(
    _: &Question,
    inputs: &WorkerInputs,
    _: (&Trace, &Filter),
    _: &Analysis,
    _: &Path,
) -> Result<bool, Failure> {
    match *inputs.cluster {}
}

/// Workers for queries, which cannot exist in this build.
#[derive(Clone)]
pub enum WorkerExecConfig {}

impl query::QueryWorkers for WorkerExecConfig {
    fn analyse(&self, _: &Arc<Progress>) -> Answered<Analysis> {
        match *self {}
    }

    fn rule(&self, _: &LatestQuery) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        match *self {}
    }
}

pub fn for_queries(_: &Question, inputs: &WorkerInputs, _: &Arc<Trace>, _: &Filter) -> WorkerExecConfig {
    match *inputs.cluster {}
}

pub fn report_query(asking: &WorkerExecConfig) {
    match *asking {}
}
