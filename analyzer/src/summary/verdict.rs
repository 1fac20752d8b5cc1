//! A sentence or two that say what the figures mean.

use super::model::{Dataset, Summary, Time};
use super::units::{bytes, grouped, many, share, time};

/// Above this share of the run, I/O that nothing covers is what a job waits for.
const BOUND: f64 = 0.3;

/// Below this, nobody gains anything by making I/O faster.
const FREE: f64 = 0.05;

pub fn verdict(summary: &Summary) -> Vec<String> {
    if summary.allocation.events == 0 {
        return vec![
            "The trace holds no events: nothing that is traced happened, or filters left all of it out.".into(),
        ];
    }
    let mut sentences = vec![volume(summary), balance(&summary.time)];
    sentences.extend(dearest(summary));
    sentences.extend(loss(summary));
    sentences.extend(aggregated(summary));
    sentences
}

fn volume(summary: &Summary) -> String {
    let (who, what) = (&summary.allocation, &summary.dataset);
    format!(
        "In {}, {} made {} on {}{}, read {} and wrote {}{}.",
        time(summary.time.total_ns as f64),
        who.shown_processes(),
        many(who.events, "event", "events"),
        what.at_least(),
        many(what.files, "file", "files"),
        bytes(what.bytes_read as f64),
        bytes(what.bytes_written as f64),
        elsewhere(what)
    )
}

/// Bytes that went past files, where they are most of what moved.
fn elsewhere(what: &Dataset) -> String {
    let past = what.elsewhere_read + what.elsewhere_written;
    match past > what.bytes_read + what.bytes_written {
        true => format!(", besides {} through pipes, sockets and terminals", bytes(past as f64)),
        false => String::new(),
    }
}

fn balance(spent: &Time) -> String {
    let total = spent.total_ns;
    let Some(waited) = spent.unoverlapped_io_ns else {
        return format!(
            "I/O was going on {} of the time. No span says when the program computed, so what of it was waited for is \
             not known.",
            share(spent.io_ns, total)
        );
    };
    let part = |ns: i64| ns as f64 / total.max(1) as f64;
    let judgement = match part(waited) {
        waited if waited > BOUND => "the run waits for I/O",
        waited if waited < FREE && part(spent.io_ns) < FREE => "it is not what the run waits for",
        waited if waited < FREE => "I/O hides behind compute",
        _ => "some of the run waits for I/O",
    };
    format!(
        "I/O was going on {} of the time, {} of the time without any compute beside it: {judgement}.",
        share(spent.io_ns, total),
        share(waited, total)
    )
}

/// The call most time went into.
fn dearest(summary: &Summary) -> Option<String> {
    let all: u64 = summary.functions.iter().map(|function| function.time_ns).sum();
    let first = summary.functions.first()?;
    Some(format!(
        "Of the time in calls, {} went into {} ({}).",
        share(first.time_ns as i64, all as i64),
        first.name,
        match first.count {
            1 => format!("once, {}", time(first.duration_ns.median)),
            count => format!("{} times, {} each in the median", grouped(count), time(first.duration_ns.median)),
        }
    ))
}

fn aggregated(summary: &Summary) -> Option<String> {
    let calls = summary.allocation.aggregated;
    let calls = (calls > 0).then(|| many(calls, "call", "calls"))?;
    Some(format!(
        "DFTracer aggregated {calls}: only their number is known, and they are missing from every other figure."
    ))
}

fn loss(summary: &Summary) -> Option<String> {
    let lost = summary.allocation.lost.saturating_sub(summary.allocation.aggregated);
    let events = || many(lost, "event found no room and is", "events found no room and are");
    (lost > 0).then(|| format!("{} missing from every figure.", events()))
}
