//! Detects an I/O limit of the job's control group that its reads reach.

use super::super::devices::{DataMount, by_storage, waited_mount};
use super::super::{COMPARE, Cost, Group, Rule};
use crate::findings::rule_context::{Case, Judgement};
use crate::summary::figures::units::{bytes, grouped};
use crate::summary::report::findings::{Confidence, Unit};

pub const RULE: Rule = Rule {
    id: "io-limit",
    group: Group::Loader,
    cost: Cost::Worth,
    confidence: Confidence::Inferred,
    asks: "training waits for storage, and over the whole run the device with the data was read at half or more of the \
        rate that the job's control group allows",
    silences: &[],
    silences_rules: &["slow-but-idle-device", "storage-saturated", "storage-latency-bound", "loader-capacity"],
    remedy: "raise the I/O limit of the control group (io.max, blkio.throttle, docker --device-read-bps, systemd \
        IOReadBandwidthMax), or read fewer bytes; more readers and faster storage would not help",
    torch: "",
    elsewhere: "",
    verify: COMPARE,
    judge,
};

/// A limit on reads, and the rate of the run.
struct Rate {
    limit: u64,
    read: f64,
    text: fn(f64) -> String,
    remedy: Option<&'static str>,
}

/// Change to make if the number of requests is limited, and not the bytes.
const FEWER_REQUESTS: &str = "raise the limit on the requests of the control group (io.max, blkio.throttle, docker --device-read-iops, systemd \
    IOReadIOPSMax), or read the same bytes with fewer, larger calls; more readers and faster storage would not help";

impl Rate {
    fn share(&self) -> f64 {
        self.read / self.limit as f64
    }
}

fn judge(case: &Case) -> Judgement {
    let data = waited_mount(case);
    let device = data.as_ref().and_then(|data| data.device());
    let rate = data.as_ref().and_then(closest);
    let mut judgement = by_storage(case);
    // A sampled device without a limit is not limited.
    let used = rate.as_ref().map(Rate::share).or_else(|| device.map(|_| 0.0));
    judgement.measures.push(case.at_least("used", used));
    if let Some((rate, device)) = rate.zip(device) {
        judgement.remedy = rate.remedy;
        judgement.says = format!(
            "the control group of this job is limited to reading {} from device {}, which stores the data; the run read {}, {} of \
             this limit",
            (rate.text)(rate.limit as f64),
            device.device,
            (rate.text)(rate.read),
            Unit::Share.text(rate.share())
        );
    }
    judgement
}

/// Returns the limit that the run came closest to.
fn closest(data: &DataMount) -> Option<Rate> {
    let device = data.device()?;
    let per_second = |count: Option<u64>| Some(count? as f64 * 1e9 / data.sampled.ns.max(1) as f64);
    let rate =
        |limit: Option<u64>, count, text, remedy| Some(Rate { limit: limit?, read: per_second(count)?, text, remedy });
    let by_bytes = rate(data.mount.read_bytes_limit, device.read_bytes, |rate| format!("{}/s", bytes(rate)), None);
    let in_words = |rate| format!("{} times per second", grouped(rate as u64));
    let by_count = rate(data.mount.reads_limit, device.reads, in_words, Some(FEWER_REQUESTS));
    [by_bytes, by_count].into_iter().flatten().max_by(|a, b| a.share().total_cmp(&b.share()))
}
