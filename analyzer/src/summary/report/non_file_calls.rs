//! Calls that are not on files: on pipes, sockets and terminals, network calls, and calls that wait.

use super::functions::{self, Function, Part};
use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;

/// The section on calls that are not on files.
pub struct PastFiles;

impl Section for PastFiles {
    type Values = Vec<Function>;

    const MEANING: &'static str = "\
        Calls not on files: calls on pipes, sockets and terminals, calls of the layer net (recv, send, connect, \
        getaddrinfo), calls of HDF5 and MPI-IO, whose file calls are counted themselves (see Data sets of HDF5 and \
        Files of MPI-IO), \
        and calls that wait for an event or for time to pass, including calls that wait for a lock on a file. They never \
        count as I/O, except that a file sent to a socket by sendfile or splice counts as read. In summary mode these \
        calls are listed under Metrics by function.";
    const FIELDS: &'static str = "\
        a list, as `functions`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/past_files.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        functions::rows(analysis, &trace.catalog.kinds(), Part::PastFiles)
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        functions::print("Calls not on files", &summary.past_files, top, out);
    }
}
