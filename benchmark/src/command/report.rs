//! `dlio bench report DIR`: prints the numbers of a finished run, dlio's or DLIO's, from the files in its directory.
//!
//! ```text
//! <rank>_output.json             load and compute of every step
//! <rank>_per_epoch_stats.json    durations
//! summary.json                   samples, sizes, checkpoints
//! iostat.json                    the devices, if they were sampled
//! ```

use crate::failure::{Failure, Kind, Outcome};
use crate::results::metrics::{mean_stdev, percentile};
use crate::results::run_folder::run_folder;
use crate::results::summary::standing;
use crate::system::terminal;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

pub fn print(folder: &Path, as_json: bool) -> Outcome<()> {
    let report = read(run_folder(folder))?;
    let json = || serde_json::to_string_pretty(&report).unwrap_or_default() + "\n";
    terminal::answer(&if as_json { json() } else { text(&report) })
}

fn json_in(folder: &Path, name: &str) -> Outcome<Option<Value>> {
    let path = folder.join(name);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| Failure::damaged(&path, error))
}

/// Returns the outputs of ranks 0, 1, ... up to the last one that exists.
fn ranks(folder: &Path, summary: &Value) -> Outcome<Vec<Value>> {
    let mut all = Vec::new();
    while let Some(output) = json_in(folder, &format!("{}_output.json", all.len()))? {
        all.push(output);
    }
    if all.is_empty() {
        let status = standing(summary).map(|standing| format!("; run status: {standing}")).unwrap_or_default();
        let what = format!("{} contains no 0_output.json{status}", folder.display());
        return Err(Failure::new(Kind::MissingData, what)
            .remedy("pass the directory of a training run: hydra_log/<model>/<date>"));
    }
    Ok(all)
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Returns mean, std, min, median, p90, p99 and max; null if there are no values.
fn spread(mut values: Vec<f64>) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    values.sort_by(f64::total_cmp);
    let (mean, std) = mean_stdev(&values);
    json!({
        "mean": mean, "std": std, "min": values.first().copied().unwrap_or(0.0), "median": percentile(&values, 0.5),
        "p90": percentile(&values, 0.9), "p99": percentile(&values, 0.99), "max": values.last().copied().unwrap_or(0.0),
    })
}

fn epochs_of(output: &Value) -> Vec<(String, &Value)> {
    let mut epochs: Vec<(u64, &Value)> =
        output.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key.parse().ok()?, value))).collect();
    epochs.sort_by_key(|(number, _)| *number);
    epochs.into_iter().map(|(number, value)| (number.to_string(), value)).collect()
}

fn read(folder: &Path) -> Outcome<Value> {
    let summary = json_in(folder, "summary.json")?.unwrap_or(Value::Null);
    let outputs = ranks(folder, &summary)?;
    let mut epochs = Map::new();
    let (mut waits, mut computes, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for (epoch, _) in epochs_of(&outputs[0]) {
        let mut blocks = Map::new();
        let names: Vec<String> =
            outputs[0][&epoch]["load"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        for name in names {
            let of =
                |what: &str| outputs.iter().flat_map(|rank| numbers(&rank[&epoch][what][&name])).collect::<Vec<f64>>();
            let figure =
                |what: &str| outputs.iter().filter_map(|rank| rank[&epoch][what][&name].as_f64()).collect::<Vec<f64>>();
            let (load, compute, throughput) = (of("load"), of("compute"), figure("throughput"));
            let facts = json!({
                "steps": load.len() / outputs.len(),
                "samples_per_second": throughput.iter().sum::<f64>(),
                "au_percentage": mean_stdev(&figure("au")).0,
                "wait_seconds": spread(load.clone()),
                "compute_seconds": spread(compute.clone()),
            });
            blocks.insert(name, facts);
            waits.extend(load);
            computes.extend(compute);
            rates.push(throughput.iter().sum::<f64>());
        }
        epochs.insert(epoch, Value::Object(blocks));
    }
    Ok(json!({
        "folder": folder.display().to_string(),
        "ranks": outputs.len(),
        "status": summary["status"],
        "error": summary["error"],
        "missing": summary["missing"],
        "metric": summary["metric"],
        "overall": {"wait_seconds": spread(waits), "compute_seconds": spread(computes), "samples_per_second": spread(rates)},
        "epochs": epochs,
        "devices": devices(json_in(folder, "iostat.json")?),
    }))
}

/// Returns the distribution of each counter of the devices and the CPUs over all samples.
fn devices(iostat: Option<Value>) -> Value {
    let Some(iostat) = iostat else { return Value::Null };
    let empty = Vec::new();
    let samples = iostat["sysstat"]["hosts"][0]["statistics"].as_array().unwrap_or(&empty);
    let mut found = Map::new();
    let names = samples
        .iter()
        .flat_map(|sample| sample["disk"].as_array().into_iter().flatten())
        .filter_map(|disk| disk["disk_device"].as_str());
    for name in names.collect::<std::collections::BTreeSet<_>>() {
        let of = |field: &str| {
            let disks = samples.iter().flat_map(|sample| sample["disk"].as_array().into_iter().flatten());
            spread(disks.filter(|disk| disk["disk_device"] == name).filter_map(|disk| disk[field].as_f64()).collect())
        };
        let fields = ["r/s", "w/s", "rMB/s", "wMB/s", "r_await", "w_await", "aqu-sz", "util"];
        found.insert(
            name.to_string(),
            fields.iter().map(|field| (field.to_string(), of(field))).collect::<Map<_, _>>().into(),
        );
    }
    let processor =
        |field: &str| spread(samples.iter().filter_map(|sample| sample["avg-cpu"][field].as_f64()).collect());
    let fields = ["user", "system", "iowait", "steal", "idle"];
    found.insert(
        "cpu".into(),
        fields.iter().map(|field| (field.to_string(), processor(field))).collect::<Map<_, _>>().into(),
    );
    Value::Object(found)
}

fn text(report: &Value) -> String {
    use std::fmt::Write;
    let mut text = format!("{} - {} rank(s)\n", report["folder"].as_str().unwrap_or_default(), report["ranks"]);
    if let Some(standing) = standing(report) {
        let _ = writeln!(text, "run status: {standing}");
    }
    text.push('\n');
    let mut headed = false;
    let mut line = |name: &str, spread: &Value, scale: f64| {
        if spread.is_null() {
            return;
        }
        if !std::mem::replace(&mut headed, true) {
            let _ = writeln!(
                text,
                "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
                "", "mean", "std", "min", "median", "p90", "p99", "max"
            );
        }
        let cell = |what: &str| spread[what].as_f64().unwrap_or(0.0) * scale;
        let cells: Vec<f64> = ["mean", "std", "min", "median", "p90", "p99", "max"].into_iter().map(cell).collect();
        let cells: String = cells.iter().map(|cell| format!(" {cell:>10.3}")).collect();
        let _ = writeln!(text, "{name:<28}{cells}");
    };
    let overall = &report["overall"];
    line("samples/s per block", &overall["samples_per_second"], 1.0);
    line("wait for a batch, ms", &overall["wait_seconds"], 1e3);
    line("computation per step, ms", &overall["compute_seconds"], 1e3);
    for (epoch, blocks) in report["epochs"].as_object().into_iter().flatten() {
        for (block, facts) in blocks.as_object().into_iter().flatten() {
            line(&format!("epoch {epoch} {block}: wait, ms"), &facts["wait_seconds"], 1e3);
        }
    }
    for (device, fields) in report["devices"].as_object().into_iter().flatten() {
        for (field, spread) in fields.as_object().into_iter().flatten() {
            line(&format!("{device} {field}"), spread, 1.0);
        }
    }
    if headed {
        text.push('\n');
    }
    for (key, value) in report["metric"].as_object().into_iter().flatten() {
        if value.is_number() || value.is_string() {
            let _ = writeln!(text, "{key}: {value}");
        }
    }
    text
}
