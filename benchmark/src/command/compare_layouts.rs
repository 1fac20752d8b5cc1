//! `dlio bench --compare-layouts`: reads the same samples as one file each and packed into shards, from a file system
//! and, if the workload names one, an object store. Prints one table, and for the store also the factor that its
//! latency and rate explain.

use crate::bench::{self, Request};
use crate::config::Config;
use crate::failure::{Failure, Outcome};
use crate::results::summary::summary_in;
use crate::system::terminal;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// How the samples are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Loose,
    Sharded,
}

/// One layout in one location.
#[derive(Debug, Clone)]
struct Setting {
    layout: Layout,
    in_store: bool,
}

/// The result of one pass over the samples.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct RunResult {
    seconds: f64,
    samples_per_second: f64,
    bytes: f64,
    /// For an object store: requests, the median seconds to their first bytes, and the total seconds of all requests.
    requests: f64,
    first_byte: f64,
    in_requests: f64,
}

/// The samples, and the readers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Terms {
    samples: u64,
    shards: u64,
    /// Loader workers of all ranks.
    readers: u64,
    /// Each reader waits for one request at a time.
    one_at_a_time: bool,
}

/// Generates and reads all settings; the results go to `folder`.
pub fn run(request: &Request, shards: u64, folder: &Path) -> Outcome<()> {
    let config = bench::configuration(request.overrides.clone(), request.config_dir.clone())?;
    let terms = terms(&config, request.ranks, shards)?;
    let places = if config.store.is_some() { vec![false, true] } else { vec![false] };
    let with = |in_store: bool| [Layout::Loose, Layout::Sharded].map(|layout| Setting { layout, in_store });
    let settings: Vec<Setting> = places.into_iter().flat_map(with).collect();
    // Errors in any setting are reported before the first run.
    let requests: Vec<Request> =
        settings.iter().map(|setting| of_setting(request, &config, setting, terms, folder)).collect();
    for request in &requests {
        bench::prepare(request)?;
    }
    fs::create_dir_all(folder).map_err(|error| Failure::unwritable("create directory", folder, error))?;
    let mut outturns = Vec::new();
    for (setting, request) in settings.iter().zip(&requests) {
        terminal::line(format_args!("{}: generating and reading", setting.name()));
        one_run(request, &["++workload.workflow.generate_data=true", "++workload.workflow.train=false"])?;
        let run = folder.join(setting.name().replace(' ', "-"));
        one_run(
            request,
            &["++workload.workflow.generate_data=false", &format!("++hydra.run.dir=\"{}\"", run.display())],
        )?;
        outturns.push(outturn(&run)?);
    }
    save(folder, &settings, &outturns, terms)?;
    terminal::answer(&table(&settings, &outturns, terms))
}

fn terms(config: &Config, ranks: u64, shards: u64) -> Outcome<Terms> {
    let dataset = &config.dataset;
    let samples = dataset.files_train * dataset.samples_per_file;
    if shards > samples || !samples.is_multiple_of(shards) {
        let near = (1..=samples.min(shards.saturating_mul(2))).filter(|count| samples.is_multiple_of(*count));
        let near = near.min_by_key(|count| count.abs_diff(shards)).unwrap_or(1);
        return Err(Failure::refused(format!(
            "{samples} samples cannot be divided into {shards} shards of equal size"
        ))
        .remedy(format!("--compare-layouts={near}")));
    }
    let one_at_a_time = config.store.as_ref().is_none_or(|store| store.prefetch_window == 0);
    Ok(Terms { samples, shards, readers: ranks * config.reader.workers.max(1) as u64, one_at_a_time })
}

impl Setting {
    fn name(&self) -> String {
        let layout = if self.layout == Layout::Loose { "loose" } else { "shards" };
        format!("{} {layout}", if self.in_store { "store" } else { "files" })
    }
}

fn of_setting(request: &Request, config: &Config, setting: &Setting, terms: Terms, folder: &Path) -> Request {
    let mut request = Request { quiet: true, ..request.clone() };
    request.training.shown = false;
    let (format, files) = match setting.layout {
        Layout::Loose => ("npy", terms.samples),
        Layout::Sharded => ("webdataset", terms.shards),
    };
    let name = setting.name().replace(' ', "-");
    let mut keys = vec![
        format!("dataset.format={format}"),
        format!("dataset.num_files_train={files}"),
        format!("dataset.num_samples_per_file={}", terms.samples / files),
        "dataset.num_files_eval=0".into(),
        "workflow.train=true".into(),
        "workflow.evaluation=false".into(),
        "workflow.checkpoint=false".into(),
        "train.epochs=1".into(),
        "train.computation_time=0".into(),
    ];
    match setting.in_store {
        true => keys.push(format!("dataset.data_folder=\"{}\"", config.dataset.folder.join(name).display())),
        false => {
            keys.push("storage.storage_type=local_fs".into());
            keys.push("storage.storage_root=\"./\"".into());
            keys.push(format!("dataset.data_folder=\"{}\"", folder.join("data").join(name).display()));
        }
    }
    request.overrides.extend(keys.iter().map(|key| format!("++workload.{key}")));
    request
}

fn one_run(request: &Request, more: &[&str]) -> Outcome<()> {
    let mut request = request.clone();
    request.overrides.extend(more.iter().map(ToString::to_string));
    bench::prepare(&request)?.into_iter().try_for_each(|mut run| run.start(&request))
}

fn outturn(folder: &Path) -> Outcome<RunResult> {
    let summary = summary_in(folder)?;
    let epoch = &summary["epoch"][0];
    let number = |value: &Json| value.as_f64().unwrap_or(0.0);
    let (seconds, object) = (number(&epoch["seconds"]), &epoch["object"]);
    Ok(RunResult {
        seconds,
        samples_per_second: number(&epoch["samples_per_second"]),
        bytes: number(&epoch["bytes_read"]),
        requests: number(&object["get_requests"]),
        first_byte: number(&object["first_byte_ms"]["p50"]) / 1e3,
        in_requests: number(&object["gets_in_flight_mean"]) * seconds,
    })
}

/// Returns the factor by which shards are read faster: as measured, and as modelled from the latency of a request and
/// the rate of a stream, with each reader waiting for one request at a time.
///
/// ```text
/// loose     samples / readers x (latency + bytes of a sample / rate)
/// sharded   shards of the busiest reader x (latency + bytes of a shard / rate)
/// ```
fn factors(loose: RunResult, sharded: RunResult, terms: Terms) -> Option<(f64, f64)> {
    let latency = loose.first_byte;
    // If bytes arrive immediately, subtracting the latency may leave a negative time.
    let streamed = (sharded.in_requests - sharded.requests * sharded.first_byte).max(0.0);
    if !terms.one_at_a_time || latency <= 0.0 || sharded.bytes <= 0.0 || sharded.seconds <= 0.0 {
        return None;
    }
    let (samples, shards, readers) = (terms.samples as f64, terms.shards as f64, terms.readers as f64);
    let byte = streamed / sharded.bytes;
    let each = (samples / readers) * (latency + loose.bytes / samples * byte);
    let packed = (shards / readers).ceil() * (latency + sharded.bytes / shards * byte);
    Some((loose.seconds / sharded.seconds, each / packed))
}

/// Returns `true` if one run of each is enough to tell them apart: one took longer by a factor that exceeds the usual
/// variation of a run.
fn differ_clearly(loose: RunResult, sharded: RunResult) -> bool {
    let (short, long) = (loose.seconds.min(sharded.seconds), loose.seconds.max(sharded.seconds));
    long > 1.5 * short && long - short > 0.1
}

fn table(settings: &[Setting], outturns: &[RunResult], terms: Terms) -> String {
    let mut text = format!("{} samples, {} shards, {} readers\n", terms.samples, terms.shards, terms.readers);
    let _ = writeln!(
        text,
        "{:<14} {:>9} {:>11} {:>9} {:>9} {:>14}",
        "", "seconds", "samples/s", "MB/s", "GETs", "first byte ms"
    );
    for (setting, it) in settings.iter().zip(outturns) {
        let rate = it.bytes / 1e6 / it.seconds.max(1e-9);
        let (name, samples) = (setting.name(), it.samples_per_second);
        let _ = write!(text, "{name:<14} {:>9.3} {samples:>11.1} {rate:>9.1}", it.seconds);
        let _ = match setting.in_store {
            true => writeln!(text, " {:>9} {:>14.2}", it.requests, it.first_byte * 1e3),
            false => writeln!(text, " {:>9} {:>14}", "", ""),
        };
    }
    for pair in settings.iter().zip(outturns).collect::<Vec<_>>().chunks(2) {
        let [(setting, loose), (_, sharded)] = pair else { continue };
        let place = if setting.in_store { "the store" } else { "files" };
        let measured = loose.seconds / sharded.seconds.max(1e-9);
        let _ = write!(text, "{place}: shards were read {measured:.1} times as fast, in one run");
        if let Some((_, modelled)) = factors(**loose, **sharded, terms) {
            let _ = write!(text, "; latency and rate explain {modelled:.1}");
        }
        text += if differ_clearly(**loose, **sharded) { "\n" } else { ": one run each cannot distinguish them\n" };
    }
    text
}

fn save(folder: &Path, settings: &[Setting], outturns: &[RunResult], terms: Terms) -> Outcome<()> {
    let row = |(setting, it): (&Setting, &RunResult)| {
        json!({
            "place": if setting.in_store { "store" } else { "files" },
            "layout": if setting.layout == Layout::Loose { "loose" } else { "shards" },
            "seconds": it.seconds,
            "samples_per_second": it.samples_per_second,
            "bytes": it.bytes,
            "get_requests": it.requests,
            "first_byte_s": it.first_byte,
        })
    };
    let rows: Vec<Json> = settings.iter().zip(outturns).map(row).collect();
    let of_store: Vec<RunResult> =
        settings.iter().zip(outturns).filter(|(it, _)| it.in_store).map(|(_, it)| *it).collect();
    let factors = match of_store[..] {
        [loose, sharded] => factors(loose, sharded, terms),
        _ => None,
    };
    let whole = json!({
        "samples": terms.samples,
        "shards": terms.shards,
        "readers": terms.readers,
        "runs": rows,
        "factor_measured": factors.map(|it| it.0),
        "factor_modelled": factors.map(|it| it.1),
    });
    let path = folder.join("layouts.json");
    let text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    fs::write(&path, text + "\n").map_err(|error| Failure::unwritable("write", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_each_separates_large_differences() {
        let told = |loose: f64, sharded: f64| {
            let terms = Terms { samples: 20, shards: 2, readers: 1, one_at_a_time: true };
            let of = |layout| Setting { layout, in_store: false };
            let took = |seconds| RunResult { seconds, ..RunResult::default() };
            table(&[of(Layout::Loose), of(Layout::Sharded)], &[took(loose), took(sharded)], terms)
        };
        for (loose, sharded) in [(0.0024, 0.002), (0.008, 0.002), (12.0, 10.0), (10.0, 12.0)] {
            let text = told(loose, sharded);
            assert!(text.ends_with("times as fast, in one run: one run each cannot distinguish them\n"), "{text}");
        }
        assert!(told(20.0, 10.0).ends_with("files: shards were read 2.0 times as fast, in one run\n"));
        assert!(told(10.0, 20.0).ends_with("files: shards were read 0.5 times as fast, in one run\n"));
    }

    #[test]
    fn model_counts_latency_per_sample_and_per_shard() {
        let terms = Terms { samples: 2000, shards: 20, readers: 4, one_at_a_time: true };
        // 10 ms to the first byte, 100 MB/s per stream, 100 kB per sample.
        let loose = RunResult { seconds: 5.6, bytes: 2e8, requests: 2000.0, first_byte: 0.01, ..RunResult::default() };
        let sharded = RunResult {
            seconds: 0.6,
            bytes: 2e8,
            requests: 20.0,
            first_byte: 0.01,
            in_requests: 0.2 + 2.0,
            ..RunResult::default()
        };
        let (measured, modelled) = factors(loose, sharded, terms).unwrap();
        assert!((measured - 9.33).abs() < 0.01);
        // 500 x 11 ms against 5 x 110 ms.
        assert!((modelled - 10.0).abs() < 0.01, "{modelled}");
        // Bytes that arrive immediately: 500 requests against 5.
        let at_once = RunResult { in_requests: 0.19, ..sharded };
        assert!((factors(loose, at_once, terms).unwrap().1 - 100.0).abs() < 0.01);
        assert_eq!(factors(RunResult::default(), sharded, terms), None);
        assert_eq!(factors(loose, sharded, Terms { one_at_a_time: false, ..terms }), None);
    }
}
