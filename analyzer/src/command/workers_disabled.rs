//! In the place of `workers` where this is built without them.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::error::Result as Answered;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use super::arguments::Arguments;
use super::refusals::failure::Failure;
use crate::filter::Filter;
use crate::load::Trace;
use crate::scan::Progress;
use crate::summary::analysis::Analysis;
use crate::tables::cancel::Latest;
use crate::tables::query;

/// There are none.
pub type Cluster = Infallible;

pub fn asked(_: &Arguments) -> Result<Option<Arc<Cluster>>, Failure> {
    Ok(None)
}

/// Workers, and the files that they are to read.
pub type Helpers<'a> = (&'a Arc<Cluster>, &'a [(PathBuf, bool)]);

pub fn analysed(_: &Arguments, (cluster, _): Helpers, _: &Trace, _: &Filter) -> Result<Analysis, Failure> {
    match **cluster {}
}

pub fn wrote_parquet(_: &Arguments, (cluster, _): Helpers, _: &Trace, _: &Analysis, _: &Path) -> Result<bool, Failure> {
    match **cluster {}
}

/// Nobody to be asked by queries.
#[derive(Clone)]
pub enum Asking {}

impl query::Helpers for Asking {
    fn analyse(&self, _: &Arc<Progress>) -> Answered<Analysis> {
        match *self {}
    }

    fn rule(&self, _: &Latest) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        match *self {}
    }
}

pub fn asking(_: &Arguments, (cluster, _): Helpers, _: &Arc<Trace>, _: &Filter) -> Asking {
    match **cluster {}
}

pub fn say_done(asking: &Asking) {
    match *asking {}
}
