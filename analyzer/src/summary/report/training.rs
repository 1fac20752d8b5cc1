//! Trainers and their readers, and how long the one waited for the other.

use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, share, time};
use crate::summary::report::layout::{heading, more};
use crate::summary::training::{RankGroup, rank_groups};
use crate::text_table::Grid;

/// See the module.
pub struct Training;

impl Section for Training {
    type Values = Vec<RankGroup>;

    const MEANING: &'static str = "\
        Training: a trainer is a process with spans of compute, or with spans that wait for the next batch (called \
        fetch, or as PyTorch's and Lightning's profilers call it). It trains from the start of the first of these \
        spans to the end of the last; what went by before is its start-up. Waited: the union of its waits; where spans \
        tell of computing alone, the time in which its own thread reads files or waits for its readers, within the \
        training and beside no compute. Readers: \
        threads that read files in the trainer's process or in those below it; what they do is not the trainer's \
        waiting. Starting, in I/O, elsewhere: the wait, shared out as the time that readers were busy before they took \
        the task of their first batch, then in calls on files, then with something else, while their trainer waited; a \
        reader that waits itself counts for none of it. Starting is a part of the wait in every figure of it; what \
        readers do otherwise is judged without it. Inferred: where no span says it, a trainer is a process that takes \
        messages on pipes or sockets from readers of its own program and works for 1 ms or more after one in four of \
        them at least (or for half of its time; a parent that only gathers what its pool makes trains nothing, nor \
        does a program that is neither Python, Julia nor a launcher's rank), and waits where its first thread waits \
        for messages, locks or children (not where it sleeps) from their first event to their last message (not on \
        sockets, where readers hand over through pipes only: others answer there); it trains \
        on until, with the last message taken, it next waits for somebody, or its readers have ended. What it costs to \
        take a batch over once its message is there (copying, unpickling) is no waiting there: a program's own clock \
        around its loader shows more. Held: ranks that talk to one another wait for the slowest of them; what waits of \
        any of them cost a rank is its own wait and its communication at most, and no more than the time in which any \
        rank waited. Overlap: the time from the first span of a rank (its trainer and the processes below it) to the \
        last, in four parts: I/O of any of its threads while the trainer computed, compute alone, I/O alone, neither. \
        Where the trace tells who ended each wait, that decides in place of the readers' work meanwhile: see the section \
        waits. \
        There is no SQL for it: how much of one thread's waits another one's calls overlap is no sum over rows; a \
        query over `events` where `name` is fetch gives the waits themselves.";
    const FIELDS: &'static str = "\
        a list, a row a trainer: `proc` (key into the table `processes`), `host`, `pid`, `tid` (the thread that \
        trains), `rank`, `trainer` (its name), `inferred` (no span says it), `torch` (the trace tells of PyTorch), \
        `gpu_untimed` (the run used a GPU, and nothing timed it: waits are upper bounds), \
        `start_ts`, `startup_ns` (since the process began, in the run; `null` under a filter of time, which cuts that \
        off), `trained_ns`, `waited_ns` (for batches), `wait_start_ns`, `wait_io_ns`, `wait_elsewhere_ns` (of it, \
        readers starting, then in I/O and busy elsewhere), `causes` (of it, nanoseconds by cause; `null` where the trace does \
        not tell who ended waits), `own_work_ns`, `peer_wait_ns`, `unknown_wait_ns` (waits that are not for data, where \
        calls tell of waits), `peers` (of `peer_wait_ns`, by other trainer: `proc`, `pid`, \
        `rank`, `wait_ns`), `held_ns` (what waits of any rank cost it at most; `null` of one that talks to no other), \
        `computed_ns`, `communicated_ns`, `checkpoint_ns` (in \
        spans of checkpoints; `null` where none tells of them and files of 1 MiB or more were written), `written_ns` (its \
        own thread in writes and synchronisations while it trained, beside neither compute nor a wait), `overlap` (`both_ns`, \
        `compute_only_ns`, `io_only_ns`, `neither_ns`; `null` where computing is not known or trainers share a group), \
        `batches` (waits that spans tell of), `epochs` (from the first that spans number to the last), `readers` (a \
        list: `proc`, `pid`, `tid`, `name`, `bytes_read`, `io_ns`, `idle_ns`, `first_ts`, `last_ts`, and while the \
        trainer waited `wait_alive_ns`, `wait_start_ns` (busy before its first batch), `wait_io_ns`, `wait_idle_ns`)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        rank_groups(&trace.catalog, analysis)
    }

    /// A row a trainer, and below it a row a reader.
    fn print(summary: &Summary, top: usize, out: &mut String) {
        if summary.training.is_empty() {
            return;
        }
        heading("Training", out);
        let known = |ns: Option<i64>| ns.map_or("unknown".into(), |ns| time(ns as f64));
        let heads = [
            "<trainer",
            "rank",
            "start-up",
            "trained",
            "waited",
            "starting",
            "in I/O",
            "elsewhere",
            "held",
            "computed",
            "wrote",
            "checkpoints",
        ];
        let mut grid = Grid::new(&heads);
        for group in summary.training.iter().take(top) {
            let rank = group.rank.map_or("-".into(), |rank| rank.to_string());
            let inferred = if group.inferred { ", inferred" } else { "" };
            let name = format!("{} ({}){inferred}", group.trainer, group.pid);
            let before = [group.startup_ns, Some(group.trained_ns), group.waited_ns, group.wait_start_ns];
            let waits = [group.wait_io_ns, group.wait_elsewhere_ns];
            // Of one that talks to no other there is nothing to know.
            let held = group.held_ns.map_or("-".into(), |ns| time(ns as f64));
            let after = [group.computed_ns, group.written_ns, group.checkpoint_ns];
            let cells = [name, rank].into_iter().chain(before.map(known)).chain(waits.map(known));
            grid.row(cells.chain([held]).chain(after.map(known)).collect());
        }
        grid.print(out);
        more(summary.training.len(), top, out);
        print_overlaps(&summary.training, top, out);
        let readers = || summary.training.iter().flat_map(|group| &group.readers);
        if readers().next().is_none() {
            return;
        }
        out.push('\n');
        let mut grid =
            Grid::new(&["<reader", "read", "t(I/O)", "while it waited: alive", "starting", "in I/O", "idle"]);
        for reader in readers().take(top) {
            let name = format!("{} ({}, thread {})", reader.name, reader.pid, reader.tid);
            let waits = [reader.wait_alive_ns, reader.wait_start_ns, reader.wait_io_ns, reader.wait_idle_ns];
            let times = [reader.io_ns].into_iter().chain(waits).map(|ns| time(ns as f64));
            grid.row([name, bytes(reader.bytes_read as f64)].into_iter().chain(times).collect());
        }
        grid.print(out);
        more(readers().count(), top, out);
        out.push_str(OWN_TIMES);
    }
}

/// Why the times of readers are not those of their trainer's row.
const OWN_TIMES: &str = "  Readers' times are their own, while their trainer waited; its wait is shared out by\n  \
    them, idle times left out, so that its parts add up to it.\n";

/// A row a trainer whose computing is known.
fn print_overlaps(groups: &[RankGroup], top: usize, out: &mut String) {
    let known: Vec<_> = groups.iter().filter_map(|group| Some((group, group.overlap?))).collect();
    if known.is_empty() {
        return;
    }
    out.push('\n');
    let mut grid = Grid::new(&["<overlap of", "rank", "I/O beside compute", "compute alone", "I/O alone", "neither"]);
    for (group, overlap) in known.iter().take(top) {
        let rank = group.rank.map_or("-".into(), |rank| rank.to_string());
        let parts = [overlap.both_ns, overlap.compute_only_ns, overlap.io_only_ns, overlap.neither_ns];
        let all = parts.iter().sum();
        let cells = parts.map(|ns| format!("{} ({})", time(ns as f64), share(ns, all)));
        grid.row([format!("{} ({})", group.trainer, group.pid), rank].into_iter().chain(cells).collect());
    }
    grid.print(out);
    more(known.len(), top, out);
}
