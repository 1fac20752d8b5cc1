//! The report as text.

use std::fmt::Write;

use super::model::{Function, Spread, Summary, Time, Use, Work};
use super::tally::Tally;
use super::units::{bytes, grouped, many, moment, share, time};
use crate::grid::Grid;
use crate::load::tally::OTHER_FILES;

/// Prints everything; of long tables the first `top` rows.
pub fn print(summary: &Summary, top: usize) -> String {
    let mut out = String::new();
    for sentence in &summary.verdict {
        out.push_str(sentence);
        out.push('\n');
    }
    damage(summary, &mut out);
    passed_over(summary, &mut out);
    if summary.allocation.events == 0 {
        return out;
    }
    allocation(summary, &mut out);
    dataset(summary, &mut out);
    split_of_time(&summary.time, &mut out);
    functions("Metrics by function", &summary.functions, top, &mut out);
    functions("Spans", &summary.spans, top, &mut out);
    directories(summary, top, &mut out);
    files(summary, top, &mut out);
    processes(summary, top, &mut out);
    ranks(summary, top, &mut out);
    if let Some(tally) = &summary.tally {
        counted(tally, &mut out);
    } else if !summary.is_exact() {
        out.push_str(
            "\nQuantiles of times are off by 0.4 % at most; --exact reads the trace twice for the very values.",
        );
    }
    out.push_str("\nMB is 10^6 bytes. What each figure means: --explain; its SQL: --show-sql SECTION.\n");
    out
}

/// What processes counted themselves, and how good the figures are that come of it.
fn counted(tally: &Tally, out: &mut String) {
    heading("Counted while the programs ran, not recorded", out);
    let mut rows = vec![
        ("events", grouped(tally.events)),
        ("by processes", grouped(tally.processes)),
        ("quantiles", "to a sixteenth; counts, sums, smallest and largest are exact".to_string()),
    ];
    if tally.gap_ns > 0 {
        rows.push(("unions of time", format!("where they overlap, to gaps of {}", time(tally.gap_ns as f64))));
    }
    if tally.left_out > 0 {
        rows.push(("in no figure", format!("{}, as counts cannot be filtered so", grouped(tally.left_out))));
    }
    for (name, column) in [("read", &tally.activity.bytes_read), ("written", &tally.activity.bytes_written)] {
        if let Some(most) = column.iter().max().filter(|most| **most > 0) {
            let rate = *most as f64 * 1e9 / tally.activity.column_ns.max(1) as f64;
            rows.push((name, format!("|{}| to {}/s", bars(column), bytes(rate))));
        }
    }
    pairs(&rows, out);
    if tally.access.is_empty() {
        return;
    }
    let mut grid = Grid::new(&["<access", "calls", "sequential", "consecutive"]);
    for access in &tally.access {
        let of_calls = |n: u64| share(n as i64, access.calls.saturating_sub(1).max(1) as i64);
        let cells = [of_calls(access.sequential), of_calls(access.consecutive)];
        grid.row([access.name.clone(), grouped(access.calls)].into_iter().chain(cells).collect());
    }
    grid.print(out);
}

/// A column of numbers as a line of bars.
fn bars(column: &[u64]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = column.iter().copied().max().unwrap_or(0).max(1);
    column.iter().map(|&value| HEIGHTS[(value as u128 * 8).div_ceil(most as u128) as usize]).collect()
}

fn heading(title: &str, out: &mut String) {
    let _ = writeln!(out, "\n{title}");
}

/// Says how many rows a table leaves out.
fn more(rows: usize, top: usize, out: &mut String) {
    if rows > top {
        let _ = writeln!(out, "  ... and {} more (--top {rows} shows all)", grouped((rows - top) as u64));
    }
}

fn pairs(rows: &[(&str, String)], out: &mut String) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        let _ = writeln!(out, "  {name:<width$}  {value}");
    }
}

fn damage(summary: &Summary, out: &mut String) {
    let (remarks, damage): (Vec<_>, Vec<_>) = summary.damage.iter().partition(|note| note.remark);
    if !remarks.is_empty() {
        heading("Remarks", out);
        for note in remarks.iter().take(DAMAGE_SHOWN) {
            let _ = writeln!(out, "  {}: {}", note.path, note.what);
        }
        more(remarks.len(), DAMAGE_SHOWN, out);
    }
    if damage.is_empty() {
        return;
    }
    heading("Damage", out);
    for note in damage.iter().take(DAMAGE_SHOWN) {
        let most = note.events_max.map_or("an unknown number of".into(), |most| format!("at most {}", grouped(most)));
        let _ = writeln!(out, "  {}: {} ({most} events)", note.path, note.what);
    }
    more(damage.len(), DAMAGE_SHOWN, out);
}

const DAMAGE_SHOWN: usize = 10;

fn passed_over(summary: &Summary, out: &mut String) {
    if summary.passed_over.is_empty() {
        return;
    }
    heading("Passed over, because other files hold the same processes", out);
    for passed in summary.passed_over.iter().take(DAMAGE_SHOWN) {
        let what = match passed.processes {
            0 => "a copy".to_string(),
            processes => format!("{} of its processes", grouped(processes)),
        };
        let _ = writeln!(out, "  {}: {what}; {} is read instead", passed.path, passed.instead);
    }
    more(summary.passed_over.len(), DAMAGE_SHOWN, out);
}

fn allocation(summary: &Summary, out: &mut String) {
    let who = &summary.allocation;
    heading("Allocation", out);
    let killed = if who.killed > 0 { format!(" ({} killed)", grouped(who.killed)) } else { String::new() };
    let programs = match who.processes == who.pids {
        true => grouped(who.pids),
        false => format!("{}, of {}", grouped(who.pids), many(who.processes, "program", "programs")),
    };
    let mut rows = vec![
        ("hosts", grouped(who.hosts)),
        ("processes", programs + &killed),
        (
            "threads",
            format!(
                "{} ({} with I/O, {} with compute)",
                grouped(who.threads),
                grouped(who.io_threads),
                grouped(who.compute_threads)
            ),
        ),
        ("events", grouped(who.events)),
        ("lost events", grouped(who.lost)),
    ];
    if who.aggregated > 0 {
        let calls = grouped(who.aggregated);
        rows.push((
            "aggregated",
            format!("{calls} of the lost: calls that DFTracer counted together, nobody knows when"),
        ));
    }
    if who.filtered > 0 {
        rows.push(("left out by filters", grouped(who.filtered)));
    }
    if who.names_lost > 0 {
        rows.push((
            "names lost",
            format!("{}, for want of room: their events are there without", grouped(who.names_lost)),
        ));
    }
    if who.misused_spans > 0 {
        rows.push((
            "misused spans",
            format!("{}, closed on another thread than their own", grouped(who.misused_spans)),
        ));
    }
    for host in summary.hosts.iter().filter(|host| host.clock_spread_ns.abs() > CLOCK_SPREAD_SHOWN_NS) {
        let stepped = format!("stepped by {} on {} while it was traced", time(host.clock_spread_ns as f64), host.host);
        rows.push(("wall clock", stepped));
    }
    pairs(&rows, out);
}

/// Less than this is how well two clocks can be read one after the other.
const CLOCK_SPREAD_SHOWN_NS: i64 = 1_000_000;

fn dataset(summary: &Summary, out: &mut String) {
    let what = &summary.dataset;
    heading("Dataset", out);
    let (read, written) = (grouped(what.files_read), grouped(what.files_written));
    let least = what.at_least();
    let mut rows = vec![
        ("files", format!("{least}{} ({least}{read} read, {least}{written} written)", grouped(what.files))),
        ("read", bytes(what.bytes_read as f64)),
        ("written", bytes(what.bytes_written as f64)),
        ("extent reached", format!("{least}{}", bytes(what.bytes_reached as f64))),
    ];
    if what.at_least {
        let events = many(what.other_events, "event is", "events are");
        rows.push((OTHER_FILES, format!("{events} on files that found no row of their own and were counted together")));
    }
    if what.elsewhere_read + what.elsewhere_written > 0 {
        let (read, written) = (bytes(what.elsewhere_read as f64), bytes(what.elsewhere_written as f64));
        rows.push(("besides", format!("{read} read and {written} written through pipes, sockets and terminals")));
    }
    pairs(&rows, out);
}

fn split_of_time(spent: &Time, out: &mut String) {
    heading("Split of time", out);
    let of_total = |ns: i64| format!("{:>9}  {:>7}", time(ns as f64), share(ns, spent.total_ns));
    let mut rows = vec![("start", format!("{:>9}", moment(spent.start_ts))), ("total time", of_total(spent.total_ns))];
    let known = [
        ("application: I/O", spent.app_io_ns),
        ("application: unoverlapped I/O", spent.unoverlapped_app_io_ns),
        ("application: unoverlapped compute", spent.unoverlapped_app_compute_ns),
        ("compute", spent.compute_ns),
        ("I/O", Some(spent.io_ns)),
        ("unoverlapped I/O", spent.unoverlapped_io_ns),
        ("unoverlapped compute", spent.unoverlapped_compute_ns),
    ];
    rows.extend(known.into_iter().filter_map(|(name, ns)| Some((name, of_total(ns?)))));
    rows.push((if spent.compute_ns.is_some() { "neither" } else { "no I/O" }, of_total(spent.other_ns)));
    pairs(&rows, out);
    if spent.compute_ns.is_none() {
        out.push_str("  Compute, and what of the I/O it covers, is unknown: no span of a compute category says so.\n");
    }
    if spent.late > 0 {
        let missing = time(spent.late_ns as f64);
        let _ = writeln!(out, "  {} events out of order: I/O times are up to {missing} short", grouped(spent.late));
    }
}

fn functions(title: &str, functions: &[Function], top: usize, out: &mut String) {
    if functions.is_empty() {
        return;
    }
    heading(title, out);
    let mut grid =
        Grid::new(&["<function", "<cat", "count", "failed", "time", "min", "25 %", "mean", "median", "75 %", "max"]);
    for function in functions.iter().take(top) {
        let Spread { min, p25, mean, median, p75, max, .. } = function.duration_ns;
        let head = [function.name.clone(), function.cat.clone(), grouped(function.count), dash(function.failed)];
        let times = [function.time_ns as f64, min, p25, mean, median, p75, max].map(time);
        grid.row(head.into_iter().chain(times).collect());
    }
    grid.print(out);
    more(functions.len(), top, out);
    sizes(functions, top, out);
}

fn sizes(functions: &[Function], top: usize, out: &mut String) {
    let sized: Vec<_> = functions.iter().filter_map(|f| f.size.map(|size| (f, size))).collect();
    if sized.is_empty() {
        return;
    }
    out.push('\n');
    let mut grid = Grid::new(&["<bytes moved by", "sum", "per second", "min", "25 %", "mean", "median", "75 %", "max"]);
    for (function, size) in sized.iter().take(top) {
        let sum = function.bytes.unwrap_or(0) as f64;
        let rate = if function.time_ns > 0 { bytes(sum * 1e9 / function.time_ns as f64) } else { "-".into() };
        let sizes = [size.min, size.p25, size.mean, size.median, size.p75, size.max].map(bytes);
        grid.row([function.name.clone(), bytes(sum), rate].into_iter().chain(sizes).collect());
    }
    grid.print(out);
    let silent = functions.iter().filter(|function| function.size.is_none());
    let silent: Vec<_> = silent.map(|function| function.name.as_str()).take(top).collect();
    if !silent.is_empty() {
        let _ = writeln!(out, "  {} moved no bytes.", silent.join(", "));
    }
}

fn dash(count: u64) -> String {
    if count == 0 { "-".into() } else { grouped(count) }
}

fn use_cells(use_: &Use) -> [String; 5] {
    [
        grouped(use_.events),
        grouped(use_.opens),
        bytes(use_.bytes_read as f64),
        bytes(use_.bytes_written as f64),
        time(use_.time_ns as f64),
    ]
}

fn directories(summary: &Summary, top: usize, out: &mut String) {
    if summary.directories.is_empty() {
        return;
    }
    heading("By directory", out);
    let mut grid = Grid::new(&["<directory", "files", "events", "opens", "read", "written", "time"]);
    for row in summary.directories.iter().take(top) {
        grid.row([row.directory.clone(), dash(row.files)].into_iter().chain(use_cells(&row.use_)).collect());
    }
    grid.print(out);
    more(summary.directories.len(), top, out);
}

fn files(summary: &Summary, top: usize, out: &mut String) {
    if summary.files.is_empty() {
        return;
    }
    heading("By file", out);
    let mut grid = Grid::new(&["<file", "events", "opens", "read", "written", "time"]);
    for row in summary.files.iter().take(top) {
        grid.row([row.path.clone()].into_iter().chain(use_cells(&row.use_)).collect());
    }
    grid.print(out);
    more(summary.dataset.files as usize + summary.dataset.at_least as usize, top, out);
}

const WORK_HEADS: [&str; 8] = ["events", "failed", "read", "written", "t(read)", "t(write)", "t(meta)", "t(compute)"];

fn work_cells(work: &Work) -> [String; 8] {
    [
        grouped(work.events),
        dash(work.failed),
        bytes(work.bytes_read as f64),
        bytes(work.bytes_written as f64),
        time(work.read_ns as f64),
        time((work.write_ns + work.sync_ns) as f64),
        time(work.metadata_ns as f64),
        time(work.compute_ns as f64),
    ]
}

fn processes(summary: &Summary, top: usize, out: &mut String) {
    heading("By process", out);
    let mut grid = Grid::new(&[&["<process", "<host", "<ended", "lost", "threads"][..], &WORK_HEADS].concat());
    for row in summary.processes.iter().take(top) {
        let name = format!("{} {}", row.pid, row.program);
        let head = [name, row.host.clone(), row.ended.clone(), grouped(row.lost), grouped(row.threads)];
        grid.row(head.into_iter().chain(work_cells(&row.work)).collect());
    }
    grid.print(out);
    more(summary.processes.len(), top, out);
}

fn ranks(summary: &Summary, top: usize, out: &mut String) {
    if summary.ranks.is_empty() {
        return;
    }
    heading("By rank", out);
    let mut grid = Grid::new(&[&["rank", "processes"][..], &WORK_HEADS].concat());
    for row in summary.ranks.iter().take(top) {
        grid.row([row.rank.to_string(), grouped(row.pids)].into_iter().chain(work_cells(&row.work)).collect());
    }
    grid.print(out);
    more(summary.ranks.len(), top, out);
}
