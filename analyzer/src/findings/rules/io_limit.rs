//! Detects an I/O limit of the job's control group that its reads or writes reach.

use super::super::devices::{DataMount, by_storage, waited_mount};
use super::super::storage_pace::{Direction, pace};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement, Worth, part};
use crate::summary::figures::units::{bytes, grouped};
use crate::summary::report::findings::{Confidence, Unit};
use crate::summary::report::headline::Bottleneck;
use crate::summary::report::reader_writes::written_by_readers;
use crate::summary::training::told;
use crate::summary::waits::parts::Part;

pub const RULE: Rule = Rule {
    id: "io-limit",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, and while it waits, the job reads or writes at 70 % or more of the rate that its control \
        group allows",
    silences: &[],
    silences_rules: &[
        "slow-but-idle-device",
        "storage-saturated",
        "storage-latency-bound",
        "loader-capacity",
        "hot-file",
    ],
    remedy: "raise the I/O limit of the control group (io.max, blkio.throttle, docker --device-read-bps, systemd \
        IOReadBandwidthMax), or read fewer bytes; more readers and faster storage would not help",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// A limit, and the rate of the job while training waited.
struct Rate {
    direction: Direction,
    limit: u64,
    used: f64,
    text: fn(f64) -> String,
    remedy: Option<&'static str>,
}

/// Change to make if the number of requests is limited, and not the bytes.
const FEWER_REQUESTS: &str = "raise the limit on the requests of the control group (io.max, blkio.throttle, docker --device-read-iops, systemd \
    IOReadIOPSMax), or read the same bytes with fewer, larger calls; more readers and faster storage would not help";

/// Changes to make if writes are limited.
const WRITE_LESS: &str = "let readers write and sync less (write a cache once, one fsync for many samples), or raise the write limit of the \
    control group (io.max, blkio.throttle, docker --device-write-bps, systemd IOWriteBandwidthMax); more readers and faster storage \
    would not help";
const FEWER_WRITES: &str = "let readers write and sync less often (one larger write and one fsync for many samples), or raise the limit on the \
    requests of the control group (io.max, blkio.throttle, docker --device-write-iops, systemd IOWriteIOPSMax); more readers and \
    faster storage would not help";

impl Rate {
    /// A job cannot exceed its limit: a measured rate above it is inexact.
    fn share(&self) -> f64 {
        (self.used / self.limit as f64).min(1.0)
    }

    /// `during` is the time over which the rate was measured.
    fn says(&self, device: &str, during: &str) -> String {
        let (may, did) = match self.direction {
            Direction::Read => ("reading", "read"),
            Direction::Write => ("writing", "wrote"),
        };
        let (limit, used) = ((self.text)(self.limit as f64), (self.text)(self.share() * self.limit as f64));
        let place = if self.direction == Direction::Read { "from" } else { "to" };
        let share = Unit::Share.text(self.share());
        format!(
            "the control group of this job is limited to {may} {limit} {place} device {device}, which stores the data; {during}, the job \
             {did} {used}, {share} of this limit"
        )
    }
}

fn judge(case: &Case) -> Judgement {
    let data = waited_mount(case);
    let device = data.as_ref().and_then(|data| data.device());
    let written = written_by_readers(case.summary);
    let rate = data.as_ref().and_then(|data| closest(case, data, written.is_some()));
    let mut judgement = in_calls(case).or_else(|| in_main_thread(case)).unwrap_or_else(|| by_storage(case));
    // If the device was sampled and has no limit, 0 % of a limit is in use.
    let used = rate.as_ref().map(Rate::share).or_else(|| device.map(|_| 0.0));
    judgement.measures.push(case.at_least("used", used));
    if let Some((rate, device)) = rate.zip(device) {
        judgement.remedy = rate.remedy;
        let during = match case.summary.training.is_empty() {
            true => "over the whole run".into(),
            false => format!("while {} waited for storage", case.loop_name()),
        };
        judgement.says = rate.says(&device.device, &during);
    }
    judgement
}

/// Returns the initial judgement if the trace shows only how long readers were in file calls while training waited.
fn in_calls(case: &Case) -> Option<Judgement> {
    let waited = case.waited().filter(|_| case.causes().is_none())?;
    let groups = told(&case.summary.training);
    // Where the calls of a trainer's readers are unknown, they count as none.
    let io: i64 = groups.iter().filter_map(|group| group.wait_io_ns).sum();
    let all: i64 = groups.iter().filter_map(|group| group.waited_ns).sum();
    let share = part(io as f64, all as f64).filter(|_| groups.iter().any(|group| group.wait_io_ns.is_some()))?.min(1.0);
    let measures = vec![case.at_least("wait", Some(waited.share())), case.at_least("storage", Some(share))];
    let worth = Some(Worth { ns: (waited.waited_ns as f64 * share) as i64, exposed: true });
    Some(Judgement { measures, worth, confidence: Some(Confidence::Inferred), ..Judgement::default() })
}

/// Returns the initial judgement if a main thread that reads the data itself is the bottleneck.
fn in_main_thread(case: &Case) -> Option<Judgement> {
    let headline = &case.summary.headline;
    let share = headline.share.filter(|_| headline.bottleneck == Bottleneck::StorageBound)?;
    let measures = vec![case.at_least("wait", Some(share)), case.at_least("storage", Some(1.0))];
    let worth = Some(Worth { ns: (share * case.summary.time.total_ns as f64) as i64, exposed: true });
    let measured = Judgement { measures, worth, confidence: Some(Confidence::Inferred), ..Judgement::default() };
    case.summary.training.is_empty().then_some(measured)
}

/// Returns the limit that the job came closest to.
fn closest(case: &Case, data: &DataMount, writes: bool) -> Option<Rate> {
    let (device, mount) = (data.device()?, data.mount);
    let [faults, calls] = [Part::PageFaults, Part::Storage].map(|part| case.cause_share(&[part]).unwrap_or(0.0));
    let direction = if writes { Direction::Write } else { Direction::Read };
    let by_bytes = pace(&case.summary.timeline, data, direction, writes || faults <= calls)?;
    let (bytes_limit, count_limit, count, moved, remedy, fewer) = match direction {
        Direction::Read => {
            (mount.read_bytes_limit, mount.reads_limit, device.reads, device.read_bytes, None, FEWER_REQUESTS)
        }
        Direction::Write => {
            let limits = (mount.write_bytes_limit, mount.writes_limit);
            (limits.0, limits.1, device.writes, device.write_bytes, Some(WRITE_LESS), FEWER_WRITES)
        }
    };
    let rate = |limit: Option<u64>, used, text, remedy| Some(Rate { direction, limit: limit?, used, text, remedy });
    // Other programs' requests are assumed to be equally large.
    let each = count.zip(moved).and_then(|(count, moved)| part(count as f64, moved as f64));
    let in_words = |rate| format!("{} times per second", grouped(rate as u64));
    let rates = [
        rate(bytes_limit, by_bytes, |rate| format!("{}/s", bytes(rate)), remedy),
        each.and_then(|each| rate(count_limit, by_bytes * each, in_words, Some(fewer))),
    ];
    rates.into_iter().flatten().max_by(|a, b| a.share().total_cmp(&b.share()))
}
