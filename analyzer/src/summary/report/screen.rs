//! The report on one screen: the verdict, where the time went, and the most important rows of each table.

use std::fmt::Write;

use super::Summary;
use super::damage::damage_sentence;
use super::findings::{Finding, NO_CALLS, NOTHING, OVERLAP, Severity};
use super::folders::folded;
use super::functions::inexactness;
use super::layout::{heading, hung, wrapped};
use super::next_step::NAMES_NO_CAUSE;
use super::processes::{ALL_IO, ProcessUse, in_order};
use super::runs::scope;
use super::time_rows::rows;
use super::verdict::UNKNOWN;
use super::what_if::helping;
use crate::summary::figures::units::{bytes, grouped, many, share, time};
use crate::summary::training::Role;
use crate::summary::wording::Wording;
use crate::text_table::Grid;

/// The lines of a screen; its last line is for the prompt.
const LINES: usize = 39;

/// Rows per table if there is enough space, and the minimum: a single row of many is useless.
const ROWS: usize = 6;
const ROWS_MIN: usize = 2;

/// The number of tables: calls, directories, processes.
const TABLES: usize = 3;

/// The number of findings if there is enough space.
const FINDINGS: usize = 5;

/// Tables may displace all findings except these; the verdict box already recommends the most important change.
const FINDINGS_MIN: usize = 1;

/// The size of a screen.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub width: usize,
    /// Rows per table, regardless of space.
    pub rows: Option<usize>,
}

/// Prints the parts that fit.
pub fn print(summary: &Summary, page: Page) -> String {
    let with = |room: &Room| made(summary, page.width, *room);
    match page.rows {
        Some(rows) => with(&Room { rows, tables: TABLES, findings: FINDINGS, helping: HELPING, verifies: true }),
        None => {
            // Findings take precedence over rows of tables, and tables over all findings but the first ones.
            let rooms = |tables, findings| {
                (ROWS_MIN..=ROWS).rev().map(move |rows| Room {
                    rows,
                    tables,
                    findings,
                    helping: HELPING,
                    verifies: true,
                })
            };
            let some = (FINDINGS_MIN..=FINDINGS).rev().flat_map(|findings| rooms(TABLES, findings));
            let fewer = (1..TABLES).rev().flat_map(|tables| rooms(tables, FINDINGS));
            let least = |tables, findings: std::ops::Range<usize>| {
                let room = Room { rows: ROWS_MIN, tables, findings: 0, helping: HELPING, verifies: true };
                findings.rev().map(move |findings| Room { findings, ..room })
            };
            let (one, none) = (least(1, FINDINGS_MIN..FINDINGS), least(0, 1..FINDINGS + 1));
            let fits = |room: &Room| with(room).lines().count() <= LINES;
            let least = Room { rows: ROWS_MIN, tables: 0, findings: 1, helping: 0, verifies: true };
            let less_help = (0..HELPING).rev().map(|helping| Room { helping, ..least });
            let less = less_help.chain([Room { findings: 0, helping: 0, ..least }]);
            let last = Room { verifies: false, ..least };
            with(&some.chain(fewer).chain(one).chain(none).chain(less).find(fits).unwrap_or(last))
        }
    }
}

/// The rows per table, and the numbers of tables, findings and other changes that help.
#[derive(Clone, Copy)]
struct Room {
    rows: usize,
    tables: usize,
    findings: usize,
    helping: usize,
    /// Whether the box has the command that verifies its change.
    verifies: bool,
}

fn made(summary: &Summary, width: usize, room: Room) -> String {
    let Room { rows, tables, findings, helping: changes, verifies } = room;
    let mut out = scope(&summary.runs).map_or(String::new(), |scope| wrapped(&scope, width));
    let (first, rest) = summary.verdict.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    // The box may already contain a sentence.
    let is_new = |sentence: &&str| !summary.headline.why.contains(sentence);
    out += &wrapped(Some(first).filter(is_new).unwrap_or_default(), width);
    let rest: Vec<&str> = rest.iter().map(String::as_str).filter(is_new).collect();
    out += &wrapped(&rest.join(" "), width);
    if let Some(damage) = damage_sentence(&summary.damage).filter(|_| is_new(&UNKNOWN)) {
        out += &wrapped(&format!("Damage: {damage}; --section damage lists the files."), width);
    }
    let space = if out.is_empty() { "" } else { "\n" };
    out = format!("{}{space}{out}", summary.headline.box_of(width, verifies));
    if !summary.findings.is_empty() {
        found(summary, width, findings, &mut out);
    }
    helps(summary, width, changes, &mut out);
    if summary.jobs.len() > 1 {
        heading("Jobs with the most I/O time", &mut out);
        super::jobs::table(&summary.jobs, rows).print_within(width, &mut out);
        left_out(summary.jobs.len(), rows, "jobs", &mut out);
    }
    if summary.allocation.events > 0 {
        times(summary, width, &mut out);
        [functions, folders, processes].iter().take(tables).for_each(|table| table(summary, width, rows, &mut out));
    }
    out.push('\n');
    out += &wrapped(&closing(summary), width);
    out
}

/// Prints the changes that would certainly shorten the training.
fn helps(summary: &Summary, width: usize, most: usize, out: &mut String) {
    let lines = helping(summary, summary.headline.change.as_deref());
    if lines.is_empty() || most == 0 {
        return;
    }
    heading("What else would help, by replay (details: --section what_if)", out);
    lines.iter().take(most).for_each(|line| hung("  ", line, (4, width), out));
}

/// The number of helpful changes on the screen.
const HELPING: usize = 2;

/// Prints the findings with the largest savings, one sentence each. The first one that names a cause includes its
/// remedy.
fn found(summary: &Summary, width: usize, most: usize, out: &mut String) {
    // The verdict box already gives the answer, unless no other finding is left to list.
    let is_other = |finding: &&Finding| finding.fired() && finding.id != NAMES_NO_CAUSE;
    let is_boxed = summary.headline.share.is_some() && summary.findings.iter().any(|finding| is_other(&finding));
    let is_listed = |finding: &&Finding| finding.fired() && !(is_boxed && finding.id == NAMES_NO_CAUSE);
    let fired: Vec<_> = summary.findings.iter().filter(is_listed).collect();
    let is_change = |finding: &&&Finding| finding.severity < Some(Severity::Good);
    let none = match summary.knows_calls() {
        false => NO_CALLS,
        _ => NOTHING,
    };
    let fires = fired.iter().any(|finding| is_change(&finding));
    heading(&if fires { "Findings".into() } else { format!("Findings: {none}") }, out);
    let cause = fired.iter().position(|finding| is_change(&finding) && finding.id != NAMES_NO_CAUSE).unwrap_or(0);
    for (at, finding) in fired.iter().take(most).enumerate() {
        let severity = finding.severity.map_or("", Severity::word);
        let worth = finding.worth().map_or(String::new(), |worth| format!(", {worth}"));
        let mut text = format!("{severity}: {}{worth}: {}.", finding.id, finding.says);
        let is_next = summary.headline.finding.as_ref() == Some(&finding.id);
        if at == cause && is_change(&finding) && !is_next {
            text += &format!(" Change: {}.", finding.remedy);
        }
        hung("  ", &text, (4, width), out);
    }
    let sum: f64 = fired.iter().take(most).filter_map(|finding| finding.worth_share).sum();
    if sum > 1.0 {
        hung("  ", OVERLAP, (2, width), out);
    }
    if fired.len() > most {
        let _ = writeln!(out, "  --findings shows all findings and their evidence");
    }
}

/// Points to the options that print the rest.
fn closing(summary: &Summary) -> String {
    let remarks = summary.damage.iter().filter(|note| note.remark).count() + summary.passed_over.len();
    let remarks = match remarks {
        0 => String::new(),
        number => format!("{}: --section damage. ", many(number as u64, "note", "notes")),
    };
    let inexact = inexactness(summary).map_or(String::new(), |mark| format!("{mark} "));
    if summary.allocation.events == 0 {
        return format!("{remarks}Definitions: --explain.");
    }
    format!(
        "{inexact}{remarks}More: --findings (evidence and changes), --full (all tables), --section processes (one \
         table), --view (timeline), --explain (definitions)."
    )
}

fn times(summary: &Summary, width: usize, out: &mut String) {
    heading("Time", out);
    let rows = rows(summary);
    let has_training = rows.iter().any(|row| row.training.is_some());
    let of_training = format!("of {}", Wording::of(summary.training.iter()).noun());
    let heads = ["<", "", "of the run", &of_training];
    let columns = if has_training { heads.len() } else { heads.len() - 1 };
    let mut grid = Grid::new(&heads[..columns]);
    for row in rows {
        let part = |of: Option<i64>| of.map_or(String::new(), |whole| share(row.ns, whole));
        let (of_run, of_training) = (part(row.run), part(row.training));
        grid.row([row.name, time(row.ns as f64), of_run, of_training].into_iter().take(columns).collect());
    }
    grid.print_within(width, out);
}

fn left_out(all: usize, shown: usize, section: &str, out: &mut String) {
    if all > shown {
        let _ = writeln!(out, "  ... and {} more: --section {section}", grouped((all - shown) as u64));
    }
}

fn functions(summary: &Summary, width: usize, rows: usize, out: &mut String) {
    let calls: Vec<_> = summary.functions.iter().filter(|function| function.is_io()).collect();
    if calls.is_empty() {
        return;
    }
    heading(if summary.tally.is_some() { "Calls on files, pipes and sockets" } else { "File calls" }, out);
    let mut grid = Grid::new(&["<", "count", "failed", "time", "median", "moved"]);
    for function in calls.iter().take(rows) {
        let failed = if function.failed == 0 { "-".into() } else { grouped(function.failed) };
        let moved = function.bytes.map_or("-".into(), |moved| bytes(moved as f64));
        let median = Some(function.duration_ns.median_time()).filter(|_| summary.knows_times());
        let (all, median) = (took(summary, function.time_ns), median.unwrap_or("-".into()));
        grid.row(vec![function.named(&summary.functions), grouped(function.count), failed, all, median, moved]);
    }
    grid.print_within(width, out);
    left_out(calls.len(), rows, "functions", out);
    apart(summary, width, out);
}

/// Formats the time of calls, if calls have times.
fn took(summary: &Summary, ns: u64) -> String {
    if summary.knows_times() { time(ns as f64) } else { "-".into() }
}

/// Prints the calls that are not in the table of calls.
fn apart(summary: &Summary, width: usize, out: &mut String) {
    let count: u64 = summary.past_files.iter().map(|function| function.count).sum();
    let ns: u64 = summary.past_files.iter().map(|function| function.time_ns).sum();
    if count > 0 {
        let (calls, ns) = (many(count, "call", "calls"), took(summary, ns));
        let text =
            format!("pipes, sockets, waits: {calls}, {ns} summed over threads (--section past_files lists them)");
        hung("  ", &text, (4, width), out);
    }
}

fn folders(summary: &Summary, width: usize, rows: usize, out: &mut String) {
    if summary.directories.is_empty() {
        return;
    }
    heading("Directories", out);
    let mut grid = Grid::new(&["<", "files", "opens", "read", "written", "time"]);
    for row in folded(&summary.directories, rows) {
        let [read, written] = [row.use_.bytes_read, row.use_.bytes_written].map(|moved| bytes(moved as f64));
        let (files, opens) = (grouped(row.files), grouped(row.use_.opens));
        grid.row(vec![row.directory, files, opens, read, written, took(summary, row.use_.time_ns)]);
    }
    grid.print_within(width, out);
}

fn processes(summary: &Summary, width: usize, rows: usize, out: &mut String) {
    heading("Processes", out);
    let counted = summary.tally.is_some();
    let moved = if counted { ["read (all)", "written (all)", "t(all I/O)"] } else { ["read", "written", "t(I/O)"] };
    let mut grid = Grid::new(&["<", "<", moved[0], moved[1], moved[2], "t(wait)", "<ended"]);
    for process in in_order(summary).into_iter().take(rows) {
        let work = &process.work;
        let cells = [
            bytes(work.bytes_read as f64),
            bytes(work.bytes_written as f64),
            took(summary, work.io_ns()),
            took(summary, work.wait_ns),
        ];
        let head = [named(process), process.role.map_or("", Role::name).into()];
        grid.row(head.into_iter().chain(cells).chain([process.ending()]).collect());
    }
    grid.print_within(width, out);
    left_out(summary.processes.len(), rows, "processes", out);
    if counted {
        let _ = writeln!(out, "  {ALL_IO}");
    }
}

fn named(process: &ProcessUse) -> String {
    let rank = process.rank.map_or(String::new(), |rank| format!(" rank {rank}"));
    format!("{}{rank} ({})", process.called, process.pid)
}
