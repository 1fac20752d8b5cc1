//! Trainers and their readers, and how long trainers waited for readers.

use super::wait_enders::name_enders;
use super::{Section, Summary};
use crate::load::Trace;
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::{bytes, share, time};
use crate::summary::report::layout::{heading, more};
use crate::summary::training::{RankGroup, rank_groups};
use crate::text_table::Grid;

/// The section on training.
pub struct Training;

impl Section for Training {
    type Values = Vec<RankGroup>;

    const MEANING: &'static str = "\
        Training: a trainer is a process with spans of compute, or with spans that wait for the next batch (called \
        fetch, or as PyTorch's and Lightning's profilers name them). Its training lasts from the start of the first of \
        these spans to the end of the last; the time before is its start-up. Waited: the union of its waits. If spans \
        show only compute, a wait is time within the training in which nothing computes and the training thread reads files \
        or waits for the readers. Readers: threads that read files in the trainer's process or in its \
        descendants; their activity is not the trainer's waiting. Starting, in I/O, other work: three parts of the \
        wait. They are proportional to the time that the readers spent, while their trainer waited, on starting (until they \
        took the task of their first batch), in file calls, and on other work. A waiting reader does not count. The wait \
        always includes the time of starting; that time is left out only where the other work of the readers is judged. Inferred: without spans, a trainer is a process \
        that takes messages on pipes or sockets from readers of its own program, and works for 1 ms or more after at \
        least one in four of them (or for half of its time). A parent that only collects the results of its pool is \
        not a trainer, and neither is a program other than Python, Julia or a launcher's rank. Between the first \
        event and the last message of its readers, a trainer waits while its first thread waits for messages, locks or \
        children. Sleep does not count. If the readers use only pipes, waits on sockets do not count either, because other \
        processes respond on the sockets. After the last message, the training continues until the trainer waits for another thread or process, \
        or until its readers have ended. Receiving a batch whose message has arrived (copying, unpickling) counts as \
        waiting with PyTorch's loader, which then requests another batch. With other loaders, the program's own timer shows more. Held: the time \
        that a rank loses because some rank waits for data, since ranks that communicate wait for the slowest one. It is at most \
        the rank's own wait plus its communication, and at most the time in which any rank waited. Overlap: the time from the first span of a rank (its trainer and the \
        processes below it) to the last, in four parts: I/O of any of its threads while the trainer computed, compute \
        alone, I/O alone, neither. If the trace shows the thread that ended each wait, the causes come from that \
        thread and not from all readers: see the section waits. There is no SQL for this section: the overlap of one \
        thread's waits with another thread's calls is not a sum over rows. A query over `events` where `name` is fetch \
        returns the waits themselves.";
    const FIELDS: &'static str = "\
        a list, one row per trainer: `proc` (key into the table `processes`), `host`, `pid`, `tid` (the training \
        thread), `rank`, `trainer` (its name), `inferred` (no span shows it), `torch` (the trace shows PyTorch), \
        `gpu_untimed` (the run used a GPU that was not timed during at least 90 % of the waits: waits are upper \
        bounds), `device` (the time of its GPU during the training; `null` if nothing timed it: `by_kernels` (otherwise \
        events delimit steps, and `busy_ns` is an upper bound), `busy_ns`, `collective_ns` (only kernels of \
        communication), `copy_ns` (only copies), `pageable_ns`, `kernels`, `hidden_ns` (waits for data while it was \
        busy), `idle_ns` with its parts `idle_data_ns`, `idle_save_ns`, `idle_rest_ns`, `sync_ns` and `syncs` (calls \
        in which the training thread waited for it, and waits of its process that only CUPTI shows), `timed_wait_ns` of `wait_ns`, and of `each` of its GPUs `device` (its \
        number; `null` if unknown), `busy_ns`, `collective_ns`, `idle_ns`, `kernels`; several GPUs are busy while one of \
        them is, and idle while all are; `steps` (the idle time by step, from one wait for data to the next one: `steps`, `median_ns`, \
        `p95_ns`, `longest_ns`, and `longest_ts`, the start of that step; `null` if unknown)), `start_ts`, `startup_ns` \
        (since the process started, within the run; `null` with a time filter, which cuts that off), `startup_causes` \
        (the training thread before the training, nanoseconds by cause), `trained_ns`, \
        `waited_ns` (for batches, without `hidden_ns`), `wait_start_ns`, `wait_io_ns`, `wait_elsewhere_ns` (of it, readers starting, then \
        in I/O and busy with other work), `causes` (of it, nanoseconds by cause; `null` if the trace does not show \
        what ended waits), `faults` (of the threads that made batches, in intervals in which storage served some: \
        `major`, which storage served, and `minor`; `null` if unknown), `counts_receipts` (waits include the work of the training \
        thread on batches that it had received), `generations` (how often it created readers, as calls show it), `forks_readers` (its readers are forks of it, which have the modules that it had imported), `out_of_order` (its readers get another request whenever they have made a batch, instead of in turns), `mixes_loaders` (batches from several pipes alternate, as those of several loaders do in one loop), `own_work_ns`, `lock_wait_ns`, `peer_wait_ns`, `unknown_wait_ns` (waits that are not for data, if only \
        calls show waits), `own_gil_ns` and `own_no_cpu_ns` (the training thread outside its waits: waiting for \
        Python's interpreter lock, and ready to run without a free CPU), `file_waits` (waits of its process for files that did not exist yet), `reader_file_wait_ns` (the longest time, over the processes of its readers, in which one waited for such files while it waited for data), `sleeper` (the process that slept while readers waited for it: key into `processes`; `null` if its readers slept, or no process did), `shared_by` (a process that sends its readers much more through pipes and sockets than they send to it, such as the manager of a dictionary; `null` if none does), `may_start_earlier` (batches were ready long before the training that calls show), `peers` (of `peer_wait_ns`, by other trainer: `proc`, `pid`, `rank`, `wait_ns`), `waited_for` (the \
        threads and programs that ended its waits, at most two per kind of wait: `kind`, `name`, `processes` (how many \
        have this name), `pid`, `tid` (if it is a thread of the trainer's process), `threads` (how many of them, if each ended few waits), `waits`, `wait_ns`, `causes`), `held_ns` \
        (the most that waits of all ranks cost it; `null` if it does not communicate with other ranks), \
        `computed_ns`, `communicated_ns`, `checkpoint_ns` (in checkpoint spans; `null` if there are none and files of \
        1 MiB or more were written), `written_ns` (its own thread in writes and syncs during the training, and between them while it \
        saves a file and does nothing else that calls show; without compute or a wait at the same time), `written_calls_ns` (the part of it in calls that write or sync; the rest lies between opening and closing these files; `null` if unknown), `written_last_ns` (the part of it after the last batch; `null` if spans show \
        the waits), `own_read_ns` (its own thread in calls that read files, in addition to \
        its readers, and in page faults of mapped files; `null` if spans show the waits), `own_fault_ns` (the part of it in page faults, at least), `overlap` (`both_ns`, `compute_only_ns`, `io_only_ns`, \
        `neither_ns`; `null` if compute is unknown or trainers share a group), `batches` (waits that spans show), \
        `epochs` (from the first to the last number in spans), `readers` (a list: `proc`, `pid`, `tid`, `name`, `channel` (the number of the pipe through which its process sends batches: the workers of one PyTorch loader share it; `null` if unknown), \
        `bytes_read`, `io_ns`, `idle_ns`, `first_ts`, `last_ts`, and while the trainer waited `wait_alive_ns`, \
        `wait_start_ns` (busy before its first batch), `wait_io_ns`, `wait_idle_ns`)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        let mut groups = rank_groups(&trace.catalog, analysis);
        name_enders(&mut groups, analysis, &trace.catalog.processes());
        groups
    }

    /// Prints one row per trainer, and below it one row per reader.
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
            "other work",
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
            // Unknown for a trainer that does not communicate with any other.
            let held = group.held_ns.map_or("-".into(), |ns| time(ns as f64));
            let after = [group.computed_ns, group.written_ns, group.checkpoint_ns];
            let cells = [name, rank].into_iter().chain(before.map(known)).chain(waits.map(known));
            grid.row(cells.chain([held]).chain(after.map(known)).collect());
        }
        grid.print(out);
        more(summary.training.len(), top, out);
        super::gpu::print(&summary.training, top, out);
        print_overlaps(&summary.training, top, out);
        let readers = || summary.training.iter().flat_map(|group| &group.readers);
        if readers().next().is_none() {
            return;
        }
        out.push('\n');
        let mut grid =
            Grid::new(&["<reader", "read", "t(I/O)", "while trainer waited: alive", "starting", "in I/O", "idle"]);
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

/// The note on why the times of readers differ from their trainer's row.
const OWN_TIMES: &str = "  Readers' times are those while their trainer waited. The trainer's wait is divided in \
    proportion\n  to them, without idle time, so its parts add up to the wait.\n";

/// Prints one row per trainer whose compute time is known.
fn print_overlaps(groups: &[RankGroup], top: usize, out: &mut String) {
    let known: Vec<_> = groups.iter().filter_map(|group| Some((group, group.overlap?))).collect();
    if known.is_empty() {
        return;
    }
    out.push('\n');
    let mut grid = Grid::new(&["<overlap of", "rank", "I/O during compute", "compute alone", "I/O alone", "neither"]);
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
