//! In the place of `workers` where this is built without them.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use super::arguments::Arguments;
use super::failure::Failure;
use crate::filter::Filter;
use crate::load::Trace;
use crate::summary::analysis::Analysis;

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
