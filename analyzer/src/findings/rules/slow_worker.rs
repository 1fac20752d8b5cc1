//! Detects a reader that is slower than the others and delays every round.

use std::collections::BTreeSet;

use super::super::loader::{Numbered, busiest, busy_ns, largest_load, largest_turn, numbered, starts_anew};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Waited, part};
use crate::summary::figures::quantiles::median;
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::training::{RankGroup, ReaderUse, WaitedFor};
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::waits::trainers::WaitKind;

pub const RULE: Rule = Rule {
    id: "slow-worker",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits, half of the wait is for one reader's turn or that reader does half of all work, it does at \
        least 1.5 times as much as the others, and half of the wait for it is work and not sleep, locks or the network",
    silences: &[],
    silences_rules: &["loader-capacity", "loader-jitter"],
    remedy: "shard by bytes instead of files, make samples equally large, take batches as they become ready; check the slow reader's files",
    torch: "shard by bytes instead of files, make samples equally large, in_order=False if the order does not matter; \
        check the slow reader's files",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// Changes to make if batches are already taken as they become ready.
const ANY_ORDER: &str = "shard by bytes instead of files, make samples equally large; check the slow reader's files";

/// Changes to make if the slow reader reads no more bytes than the others.
const EVEN: &str = "find out why the slow reader's files take longer, although it reads no more bytes than the others (slower storage, more work per \
    sample), and spread them over all readers";

/// Changes to make if two readers may have a queue and work of their own, as those of two loaders.
const ALONE: &str = "find out what takes the slow reader longer (slower storage, larger samples, more work per sample); if both readers can do that \
    work, let them share it";

const TWO_LOADERS: usize = 2;

/// If a reader reads at least this many times as many bytes as the others, it has more data or larger samples.
const MORE_BYTES: f64 = 1.25;

/// Returns the change to make for a slow reader, or `None` if the rule's default remedy applies.
fn remedy(slow: &Slow) -> Option<&'static str> {
    match (slow.reads_more, slow.group.loading.out_of_order) {
        _ if slow.is_alone => Some(ALONE),
        (Some(false), _) => Some(EVEN),
        (_, true) => Some(ANY_ORDER),
        (_, false) => None,
    }
}

/// A reader of a trainer that is slower than the others.
struct Slow<'a> {
    group: &'a RankGroup,
    /// The reader's work, relative to the median of the other readers.
    ratio: f64,
    name: String,
    /// Whether the reader reads more bytes than the others; `None` if the trace does not show how many bytes they read.
    reads_more: Option<bool>,
    /// Whether no other reader is known to send through the same pipe, as the workers of one PyTorch loader do.
    is_alone: bool,
    /// The share of work in the waits for this reader; `None` if the trace does not show what it did.
    works: Option<f64>,
}

/// Work that grows with the data of a reader. Neither bytes nor samples of other sizes change the time of its other waits.
const WORK: [Part; 7] =
    [Part::Storage, Part::PageFaults, Part::Cpu, Part::FileCalls, Part::NoCpu, Part::Gil, Part::OutsideCalls];

/// Returns the share of work in the waits for a reader, or in all waits if its own are not listed.
fn work_share(group: &RankGroup, reader: &Numbered) -> Option<f64> {
    let is_its = |row: &&WaitedFor| {
        let is_thread = |reader: &&ReaderUse| reader.pid == row.pid && row.tid.is_none_or(|tid| tid == reader.tid);
        row.kind == WaitKind::Data && row.processes == 1 && reader.readers.iter().any(is_thread)
    };
    let its: Vec<&WaitedFor> = group.waited_for.iter().filter(is_its).collect();
    let causes = match its.is_empty() {
        true => group.causes?,
        false => its.iter().fold(Parts::default(), |sum, row| sum + row.causes),
    };
    part(WORK.iter().map(|part| causes.get(*part)).sum::<i64>() as f64, causes.without(Part::Start).sum() as f64)
}

fn judge(case: &Case) -> Judgement {
    let waited = case.waited();
    let slowest = case.summary.training.iter().filter_map(slowness).max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    // Steps require spans. If readers are restarted, the round-robin order restarts, too.
    let of_one = match case.summary.steps.is_empty() || starts_anew(case) {
        true => case.at_least("load", largest_load(case)),
        false => case.at_least("turn", largest_turn(case)),
    };
    let mut measures = vec![
        case.at_least("wait", waited.as_ref().map(Waited::share_at_work)),
        of_one,
        case.at_least("busy", slowest.as_ref().map(|slow| slow.ratio)),
    ];
    let works = slowest.as_ref().and_then(|slow| slow.works);
    measures.extend(works.map(|share| case.at_least("work", Some(share))));
    let decide = "record waits for batches of two or more readers; with spans, of 2 to 16 that take turns";
    let Some(slow) = slowest else { return Judgement { measures, decide, ..Judgement::default() } };
    Judgement {
        measures,
        says: format!(
            "{} was busy {} times as long as the other readers, and {} waited for {}",
            slow.name,
            Unit::Ratio.text(slow.ratio),
            case.loop_name(),
            if slow.group.loading.out_of_order { "it" } else { "its turn" }
        ),
        remedy: remedy(&slow),
        evidence: busiest(case),
        worth: waited.map(|waited| waited.worth_at_work()),
        decide,
        ..Judgement::default()
    }
}

/// A process that works and reads less than this share of the busiest reader passes the messages of others on, such as a broker.
const PASSES_ON: f64 = 0.02;

/// Returns the busiest reader of a trainer, with the ratio between its work and the median of the other readers of its loader.
/// If the work during the wait is known, only that work counts.
fn slowness(group: &RankGroup) -> Option<Slow<'_>> {
    let readers = numbered(group);
    let (at, busiest) = (0..).zip(&readers).max_by_key(|(_, reader)| reader.busy_ns)?;
    let whole = |numbered: &Numbered| numbered.readers.iter().map(|reader| busy_ns(reader)).sum::<i64>() as f64;
    let read = |numbered: &Numbered| numbered.readers.iter().map(|reader| reader.bytes_read).sum::<u64>() as f64;
    let is_less = |of: &dyn Fn(&Numbered) -> f64, reader: &Numbered| of(reader) < PASSES_ON * of(busiest);
    let passes_on = |reader: &Numbered| is_less(&whole, reader) && is_less(&read, reader);
    let of_others = |of: &dyn Fn(&Numbered) -> f64| {
        let others = (0..).zip(&readers).filter(|(other, reader)| *other != at && !passes_on(reader));
        median(others.map(|(_, reader)| of(reader)).collect())
    };
    let ratio = busiest.busy_ns as f64 / of_others(&|reader| reader.busy_ns as f64)?.max(1.0);
    // Compare the total work, too, because a reader may be the busiest one during the wait by chance.
    let in_all = whole(busiest) / of_others(&whole)?.max(1.0);
    let (own, others) = (read(busiest), of_others(&read)?);
    let reads_more = (own.min(others) > 0.0).then_some(own >= MORE_BYTES * others);
    let name = called(busiest, at + 1, readers.len());
    let channels = |reader: &Numbered| reader.readers.iter().filter_map(|it| it.channel).collect::<BTreeSet<u64>>();
    let own_channels = channels(busiest);
    let shares = |(other, reader): (usize, &Numbered)| other != at && !channels(reader).is_disjoint(&own_channels);
    let is_alone = readers.len() == TWO_LOADERS && !group.torch && !(0..).zip(&readers).any(shares);
    (busiest.busy_ns > 0).then_some(Slow {
        group,
        ratio: ratio.min(in_all),
        name,
        reads_more,
        is_alone,
        works: work_share(group, busiest),
    })
}

/// Returns a name such as `worker 1 (201)`, or `reader 2 of 4 (started 3 times)` for restarted readers.
fn called(reader: &Numbered, number: usize, of: usize) -> String {
    match reader.readers.as_slice() {
        [one] => format!("{} ({})", one.name, one.pid),
        all => format!("reader {number} of {of} (started {} times)", all.len()),
    }
}
