//! Calls past files: on pipes, sockets and terminals, calls of the network, and calls that wait.

use super::functions::{self, Function, Part};
use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;

/// See the module.
pub struct PastFiles;

impl Section for PastFiles {
    type Values = Vec<Function>;

    const MEANING: &'static str = "\
        Past files: calls on pipes, sockets and terminals, those of the layer net (recv, send, connect, getaddrinfo), and \
        calls that wait for others or for a time, those for a lock on a file included. None of it is I/O in any other \
        figure; a file that is sent to a socket by sendfile or splice is read, which is. In summary mode such calls stand under Metrics by function.";
    const FIELDS: &'static str = "\
        a list, as `functions`";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/past_files.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        functions::rows(analysis, &trace.catalog.kinds(), Part::PastFiles)
    }

    fn print(summary: &Summary, top: usize, out: &mut String) {
        functions::print("Past files", &summary.past_files, top, out);
    }
}
