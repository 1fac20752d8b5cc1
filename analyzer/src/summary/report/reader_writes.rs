//! Readers that write: they keep a cache of samples, or a log that they sync. Then faster reads do not help.

use std::collections::BTreeSet;

use super::Summary;
use super::processes::Work;
use crate::summary::count::kinds::COPYING;

/// Writes and syncs set the pace of readers if they take this share of the readers' time in file calls.
const MOST: f64 = 0.5;

/// Returns the time of the readers' own writes and syncs, summed over calls, if most of their time in file calls is for them.
pub fn written_by_readers(summary: &Summary) -> Option<i64> {
    let groups = &summary.training;
    let makers: BTreeSet<u32> = groups.iter().flat_map(|group| &group.readers).map(|reader| reader.proc).collect();
    let is_maker = |proc: u32| makers.contains(&proc);
    // Reader threads of a trainer's process share its row with the training thread, whose writes are known.
    let own: i64 = groups.iter().filter(|group| is_maker(group.proc)).filter_map(|group| group.written_ns).sum();
    let work = || summary.processes.iter().filter(|process| is_maker(process.proc)).map(|process| &process.work);
    let copies = summary.functions.iter().filter(|function| COPYING.contains(&function.name.as_str()));
    let copied: i64 = copies.map(|function| function.time_ns as i64).sum();
    let written = work().map(|work: &Work| (work.write_ns + work.sync_ns) as i64).sum::<i64>() - own - copied;
    let others: i64 = work().map(|work| (work.read_ns + work.metadata_ns) as i64).sum();
    (written > 0 && written as f64 >= MOST * (written + others) as f64).then_some(written)
}
