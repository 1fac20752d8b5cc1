//! The split of the time.

use std::fmt::Write;

use dlio_schemas::ops::Class;
use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::catalog::Origin;
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{grouped, moment, share, time};
use crate::summary::report::layout::{heading, pairs};
use crate::summary::time::intervals::Set;

/// The split of the time. Each value is the exact length of a union of intervals over all processes.
#[derive(Serialize, Deserialize, Debug, Default)]
pub struct Time {
    pub start_ts: i64,
    pub end_ts: i64,
    pub total_ns: i64,
    /// `null` if spans do not show compute, or only parts of it; likewise all values that depend on it.
    pub compute_ns: Option<i64>,
    pub app_io_ns: Option<i64>,
    /// `None` if calls were counted without their times.
    pub io_ns: Option<i64>,
    pub unoverlapped_app_io_ns: Option<i64>,
    pub unoverlapped_app_compute_ns: Option<i64>,
    pub unoverlapped_io_ns: Option<i64>,
    pub unoverlapped_compute_ns: Option<i64>,
    /// Neither I/O nor compute.
    pub other_ns: Option<i64>,
    /// Events whose stream was out of order, and that are only partly counted.
    pub late: u64,
    pub late_ns: i64,
}

impl Section for Time {
    type Values = Self;

    const MEANING: &'static str = "\
        Split of time: each number is the length of a union of intervals over all processes and threads, exact to the \
        nanosecond; two calls at the same time count once. Total: from the first event's start to the last event's \
        end; with a time filter, only the parts of events inside its window count (SQL uses whole events). I/O: calls \
        that read, write, sync or access metadata of files, and requests to object stores (spans of the category \
        object). Calls on pipes, sockets and terminals are not I/O, and neither are waits (calls of the layer wait). \
        Compute: spans whose category begins with compute, gpu or framework. Compute is unknown if there are none, and \
        if spans backward or optimizer.step of the category pipeline show that the forward pass of a training run was not \
        recorded. Application I/O: spans whose category begins with data, reader, fetch, io or checkpoint. \
        Unoverlapped I/O: I/O while nothing computed; unoverlapped compute: the reverse. Neither: no I/O and no \
        compute in any process. Late: events whose stream was out of order, and the I/O time that may be missing \
        because of them.";
    const FIELDS: &'static str = "\
        `start_ts`, `end_ts`, `total_ns`; `io_ns`, `app_io_ns`, `compute_ns` and their `unoverlapped_*`: \
        lengths of unions over all processes, `null` if unknown; `other_ns`; `late`, `late_ns`: events whose stream was out of \
        order";
    const SQL: Option<&'static str> = Some(include_str!("../../../sql/time.sql"));

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let kinds = trace.catalog.kinds();
        let (start_ts, end_ts) = analysis.bounds().unwrap_or((0, 0));
        let measures = &analysis.measured.measures;
        let spans = |wanted: &[Class]| {
            let mut rows = analysis.rows(&kinds).filter(|(_, kind, _)| kind.origin == Origin::Span);
            rows.any(|(_, kind, _)| wanted.contains(&kind.class))
        };
        let is_known = spans(&[Class::Compute]) && analysis.counted.knows_computing(&kinds);
        let compute = is_known.then_some(measures.of(Set::Compute));
        let app_io = spans(&[Class::Read, Class::Write]).then_some(measures.of(Set::AppIo));
        let io = measures.of(Set::Io);
        let knows_io = analysis.tally.as_ref().is_none_or(|tally| tally.untimed == 0);
        let covered = io + compute.map_or(0, |compute| compute - measures.compute_and_io);
        Time {
            start_ts,
            end_ts,
            total_ns: end_ts - start_ts,
            compute_ns: compute,
            app_io_ns: app_io,
            io_ns: knows_io.then_some(io),
            unoverlapped_app_io_ns: compute.and(app_io).map(|io| io - measures.compute_and_app_io),
            unoverlapped_app_compute_ns: app_io.and(compute).map(|compute| compute - measures.compute_and_app_io),
            unoverlapped_io_ns: compute.map(|_| io - measures.compute_and_io),
            unoverlapped_compute_ns: compute.map(|compute| compute - measures.compute_and_io),
            other_ns: knows_io.then_some(end_ts - start_ts - covered),
            late: analysis.measured.late,
            late_ns: analysis.measured.late_ns,
        }
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let spent = &summary.time;
        heading("Split of time", out);
        let of_total = |ns: i64| format!("{:>9}  {:>7}", time(ns as f64), share(ns, spent.total_ns));
        let mut rows =
            vec![("start", format!("{:>9}", moment(spent.start_ts))), ("total time", of_total(spent.total_ns))];
        let known = [
            ("application: I/O", spent.app_io_ns),
            ("application: unoverlapped I/O", spent.unoverlapped_app_io_ns),
            ("application: unoverlapped compute", spent.unoverlapped_app_compute_ns),
            ("compute", spent.compute_ns),
            ("I/O", spent.io_ns),
            ("unoverlapped I/O", spent.unoverlapped_io_ns),
            ("unoverlapped compute", spent.unoverlapped_compute_ns),
        ];
        rows.extend(known.into_iter().filter_map(|(name, ns)| Some((name, of_total(ns?)))));
        let neither = if spent.compute_ns.is_some() { "neither" } else { "no I/O" };
        rows.extend(spent.other_ns.map(|ns| (neither, of_total(ns))));
        pairs(&rows, out);
        out.push_str("  Shares are of the total time.\n");
        if spent.io_ns.is_none() {
            out.push_str(
                "  When I/O was active is unknown: calls were counted per file, without the time of each call.\n",
            );
        }
        if spent.compute_ns.is_none() {
            out.push_str(
                "  Compute, and which I/O it hides, is unknown: spans mark none of the computation, or only a part.\n",
            );
        }
        if spent.late > 0 {
            let missing = time(spent.late_ns as f64);
            let _ =
                writeln!(out, "  {} events out of order: I/O times may be up to {missing} short", grouped(spent.late));
        }
    }
}
