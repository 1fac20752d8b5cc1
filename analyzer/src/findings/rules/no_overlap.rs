//! Detects reads during which nothing computes.

use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, RECORD_COMPUTE, Worth, part};
use crate::summary::figures::units::time;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "no-overlap",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Exact,
    asks: "the trainer's own thread reads half or more of the bytes; without readers, less than 10 % of I/O happens \
        during compute",
    silences: &[],
    silences_rules: &["loader-cpu-bound"],
    remedy: "let another thread or process read the next batch during compute (tf.data: prefetch, num_parallel_calls)",
    torch: "set num_workers to 1 or more, prefetch (tf.data: prefetch, num_parallel_calls), or read the next batch \
        before computing",
    elsewhere: "read ahead in another thread during compute, or let the system do it (posix_fadvise)",
    verify: COMPARE,
    judge,
};

fn judge(case: &Case) -> Judgement {
    let spent = &case.summary.time;
    let exposed = spent.unoverlapped_io_ns;
    // Its readers may deliver data that do not come from files.
    let own = own_bytes(case).filter(|_| case.reads_itself() || waits_for_files(case));
    // Writes that do not overlap compute are checkpoints, which have a separate rule. If readers read for a trainer,
    // the loader rules report why it waits.
    let reads = case.summary.dataset.bytes_read >= case.summary.dataset.bytes_written;
    let overlap = exposed.filter(|_| reads && own.is_none());
    let io_ns = spent.io_ns.unwrap_or(0);
    let overlap = overlap.and_then(|exposed| part((io_ns - exposed) as f64, io_ns as f64));
    let worth = exposed.map_or_else(|| case.exposed_io(), |ns| Worth { ns, exposed: true });
    // A trainer that reads for itself also reads before the training and writes after it.
    let waited = case.waited().filter(|_| own.is_some());
    let worth = Worth { ns: waited.map_or(worth.ns, |waited| worth.ns.min(waited.waited_ns)), ..worth };
    let says = match (own, overlap) {
        (Some(own), _) => format!("{} of the bytes were read by the trainer's own thread", Unit::Share.text(own)),
        (None, share) => {
            format!("{} of the time in I/O was during compute", Unit::Share.text(share.unwrap_or(0.0)))
        }
    };
    let measures = match own {
        Some(_) => vec![case.at_least("own-bytes", own)],
        None => vec![case.at_least("own-bytes", own), case.below("overlap", overlap)],
    };
    Judgement {
        measures,
        any: true,
        says,
        evidence: vec![format!("in I/O {}, without compute {}", time(io_ns as f64), time(worth.ns as f64))],
        worth: Some(worth),
        decide: RECORD_COMPUTE,
        ..Judgement::default()
    }
}

/// Files are the cause of a wait if they are this share of it.
const BY_FILES: f64 = 0.25;

fn waits_for_files(case: &Case) -> bool {
    let files = case.cause_share(&[Part::Storage, Part::FileCalls, Part::PageFaults]);
    files.is_none_or(|share| share >= BY_FILES)
}

/// Returns the share of bytes that trainers read themselves.
fn own_bytes(case: &Case) -> Option<f64> {
    let sum = |own: bool| -> u64 {
        let groups = case.summary.training.iter();
        let readers = groups.flat_map(|group| {
            let is_own = move |proc: u32, tid: i32| (proc, tid) == (group.proc, group.tid);
            group.readers.iter().filter(move |reader| !own || is_own(reader.proc, reader.tid))
        });
        readers.map(|reader| reader.bytes_read).sum()
    };
    part(sum(true) as f64, sum(false) as f64)
}
