//! The text at the end of a run: the lines of DLIO's log, and the table on the terminal.

use crate::config::Config;
use crate::results::devices::HostUse;
use crate::results::metrics;
use crate::results::run_folder::Log;
use crate::results::summary::{self, Epoch, Results, Status};
use crate::system::locate;
use serde_json::Value;
use std::fmt::Write;

/// The lines of the log, worded as DLIO's.
pub(super) fn log(summary: &Value, log: &mut Log) {
    let metric = &summary["metric"];
    log.metric(&format!("Number of Simulated Accelerators: {}", summary["num_accelerators"]));
    for (key, label) in [
        ("train_au", "Training Accelerator Utilization [AU] (%)"),
        ("train_throughput", "Training Throughput (samples/second)"),
        ("train_io", "Training I/O Throughput (MB/second)"),
        ("eval_au", "Eval Accelerator Utilization [AU] (%)"),
        ("eval_throughput", "Eval Throughput (samples/second)"),
        ("eval_io", "Eval Throughput (MB/second)"),
    ] {
        if let Some((mean, stdev)) = mean_and_stdev(metric, key) {
            log.metric(&format!("{label}: {mean:.4} ({stdev:.4})"));
        }
    }
    for phase in ["train", "eval"] {
        if let Some(verdict) = metric[format!("{phase}_au_meet_expectation")].as_str() {
            log.metric(&format!("{phase}_au_meet_expectation: {verdict}"));
            if let Some(note) = metric[format!("{phase}_au_meet_expectation_note")].as_str() {
                log.output(&format!("{phase}_au_meet_expectation: {note}"));
            }
        }
    }
    log.metric(&format!("Run status: {}", standing(summary)));
}

fn mean_and_stdev(metric: &Value, key: &str) -> Option<(f64, f64)> {
    let unit = match key.rsplit('_').next()? {
        "au" => "percentage",
        "io" => "MB_per_second",
        _ => "samples_per_second",
    };
    let number = |which: &str| metric[format!("{key}_{which}_{unit}")].as_f64();
    Some((number("mean")?, number("stdev")?))
}

/// Returns how the run ended.
fn standing(summary: &Value) -> String {
    summary::standing(summary).unwrap_or_default()
}

/// Returns a fraction as a percentage with the given precision: `90`, `99.9`.
fn percent(fraction: f64) -> f64 {
    (fraction * 1e8).round() / 1e6
}

/// Returns a row of the table: a training or an evaluation. The log has DLIO's rates, which exclude first steps.
fn row(name: &str, au: f64, facts: &Value, cached: &str) -> String {
    let number = |key: &str| facts[key].as_f64().unwrap_or(0.0);
    let wait = |share: &str| format!("{:.2} ms", facts["batch_wait_ms"][share].as_f64().unwrap_or(0.0));
    let (seconds, megabytes) = (number("seconds"), number("bytes_read") / 1e6);
    let row = format!(
        "{name:>6} {seconds:>9.2} {au:>8.2} {:>11.2} {:>10.1} {megabytes:>10.1} {:>9} {:>9} {cached:>7}",
        number("samples_per_second"),
        megabytes / seconds.max(f64::MIN_POSITIVE),
        wait("p50"),
        wait("p99"),
    );
    row.trim_end().to_string() + "\n"
}

/// Returns which steps AU excludes, if any; the trace's wait, printed below, covers all steps.
fn of_counted_steps(config: &Config, epochs: &[&Epoch]) -> String {
    let (start, end) = (config.output.exclude_start, config.output.exclude_end);
    let mut blocks = epochs.iter().flat_map(|epoch| &epoch.blocks);
    // If no step would be left, all count.
    if start + end == 0 || blocks.all(|(_, _, block)| block.steps.len() as u64 <= start + end) {
        return String::new();
    }
    let trace = if locate::is_traced() { ";\nthe waits in the trace cover all steps" } else { "" };
    format!(
        "AU is the share of step time in which a rank computed, without the first {start} and last {end} steps of each \
         epoch{trace}\n"
    )
}

/// Describes the load of the CPUs and of the device with the data during all epochs; `None` if nothing is known.
fn host_line(epochs: &[Epoch]) -> Option<String> {
    let used = || epochs.iter().filter_map(|epoch| Some((epoch.whole_seconds(), epoch.host.as_ref()?)));
    let mean = |of: fn(&HostUse) -> Option<f64>| {
        let known = || used().filter_map(|(seconds, host)| Some((seconds, of(host)?)));
        let whole = known().map(|(seconds, _)| seconds).sum::<f64>();
        (whole > 0.0).then(|| 100.0 * known().map(|(seconds, share)| seconds * share).sum::<f64>() / whole)
    };
    let devices = || used().filter_map(|(_, host)| host.device.as_ref());
    let busy = mean(|host| Some(host.device.as_ref()?.2));
    let device = devices().next().zip(busy).map(|((name, ..), busy)| {
        let megabytes = devices().map(|(_, bytes, _)| *bytes as f64 / 1e6).sum::<f64>();
        format!("device {name}, which stores the data, read {megabytes:.1} MB and was busy {busy:.0} % of the time")
    });
    let cpus = mean(|host| host.cpu_busy_share).map(|busy| format!("CPUs of the host were busy {busy:.0} %"));
    let both = || epochs.iter().filter_map(Epoch::from_storage_and_memory);
    let own = both().next().map(|_| {
        let [storage, memory] = both().fold([0.0; 2], |[storage, memory], (more_storage, more_memory)| {
            [storage + more_storage as f64 / 1e6, memory + more_memory as f64 / 1e6]
        });
        format!("the run read {storage:.1} MB from storage and {memory:.1} MB from memory")
    });
    let parts: Vec<String> = [own, device, cpus].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the short table at the end of a run.
pub(super) fn table(results: &Results, summary: &Value, config: &Config) -> String {
    let mut text = String::new();
    let trained = results.epochs.iter().any(|epoch| !epoch.blocks.is_empty());
    if trained || results.epochs.iter().any(|epoch| epoch.evaluation.is_some()) {
        add_epochs(results, summary, config, &mut text);
    }
    // Saving blocks the trainer, unless a separate process drains the checkpoints.
    let waited = if trained && results.beside.is_none() { ", included in the seconds of their epochs" } else { "" };
    add_checkpoints(results, summary, waited, &mut text);
    if results.failed > 0 {
        let _ = writeln!(text, "cannot read {} samples; the first: {}", results.failed, results.failures[0]);
    }
    if results.is_whole_but_for_samples(config) {
        let _ = writeln!(text, "the results are complete except for them");
    } else if results.status != Status::Success {
        let _ = writeln!(text, "these are partial results: {}", standing(summary));
    }
    text
}

/// Adds a row per epoch and evaluation, with the object store and the expected AU.
fn add_epochs(results: &Results, summary: &Value, config: &Config, text: &mut String) {
    let _ = writeln!(
        text,
        "{:>6} {:>9} {:>8} {:>11} {:>10} {:>10} {:>9} {:>9} {:>7}",
        "epoch", "seconds", "AU %", "samples/s", "MB/s", "MB read", "wait p50", "wait p99", "cached"
    );
    for (epoch, facts) in results.epochs.iter().zip(summary["epoch"].as_array().into_iter().flatten()) {
        let cached = epoch.cached.map_or("?".into(), |share| format!("{:.0} %", 100.0 * share));
        if config.dataset.files_train > 0 {
            *text += &row(&epoch.number.to_string(), epoch.figures(0).au, facts, &cached);
        }
        if epoch.evaluation.is_some() {
            *text += &row("eval", epoch.figures(2).au, &facts["evaluation"], "");
        }
    }
    for epoch in &results.epochs {
        if let Some(requests) = &epoch.requests {
            let line = requests.line(epoch.whole_seconds());
            let _ = writeln!(text, "epoch {}: {line}", epoch.number);
        }
    }
    if let Some(line) = host_line(&results.epochs) {
        let _ = writeln!(text, "{line}");
    }
    for without in results.epochs.iter().filter_map(|epoch| epoch.without()) {
        let _ = writeln!(text, "without {without}, which stopped responding");
    }
    let counted = results.counted(config);
    let mean = metrics::mean_stdev(&counted.iter().map(|epoch| epoch.figures(0).au).collect::<Vec<_>>()).0;
    // The summary's verdict: an incomplete run meets no target.
    let verdict = match &results.status {
        Status::Success if summary["metric"]["train_au_meet_expectation"] == "success" => "reached",
        Status::Success => "not reached",
        _ if results.is_whole_but_for_samples(config) => "not reached: samples are missing",
        _ => "not reached: the run is incomplete",
    };
    if !counted.is_empty() {
        let other = summary["metric"]["train_au_meet_expectation_note"].as_str();
        let other = other.map(|other| format!(" ({other})")).unwrap_or_default();
        let _ = writeln!(text, "AU {mean:.2} %, {} % expected: {verdict}{other}", percent(config.au));
        *text += &of_counted_steps(config, &counted);
    }
}

/// Adds the checkpoints saved and loaded, and the checkpoints that a process wrote while the rank trained.
fn add_checkpoints(results: &Results, summary: &Value, waited: &str, text: &mut String) {
    for (word, key, within) in [("saved", "save", waited), ("loaded", "load", "")] {
        let number = |what: &str| summary["metric"][format!("{key}_checkpoint_{what}")].as_f64();
        if let Some(seconds) = number("duration_mean_seconds") {
            let size = summary["metric"]["checkpoint_size_GB"].as_f64().unwrap_or(0.0);
            let _ = match number("io_mean_GB_per_second") {
                // Divide the size by the time that is printed next to it. The mean of the rates, which DLIO reports, may differ.
                Some(_) => {
                    let rate = size / seconds.max(f64::MIN_POSITIVE);
                    writeln!(
                        text,
                        "checkpoints of {size:.3} GiB {word} in {seconds:.3} s each, {rate:.3} GiB/s{within}"
                    )
                }
                None => writeln!(text, "checkpoints of {size:.3} GiB started in {seconds:.3} s each"),
            };
        }
    }
    if let Some(beside) = &results.beside {
        let _ = writeln!(
            text,
            "in the background: {} checkpoints, {:.3} GiB, in {:.3} s: {:.3} s hidden, {:.3} s waited for",
            beside.count,
            beside.bytes as f64 / (1u64 << 30) as f64,
            beside.seconds,
            beside.hidden,
            beside.waited
        );
    }
}
