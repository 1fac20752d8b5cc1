//! Runs every setting, prints the table and the verdict, and writes the files.

use super::knobs::{Knob, named, settings};
use super::page;
use super::results::{RunResult, outturn, spread};
use crate::bench::{self, Request};
use crate::failure::{Failure, Outcome};
use crate::system::random::Permutation;
use crate::system::terminal;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The maximum number of runs in a sweep: more must be a typing error.
const RUNS_MAX: usize = 1000;

/// Runs the whole sweep; the results go to `folder`.
pub fn run(request: &Request, knobs: &[Knob], repeats: usize, seed: u64, folder: &Path) -> Outcome<()> {
    let settings = settings(knobs);
    let runs = settings.len().saturating_mul(repeats);
    if runs > RUNS_MAX {
        return Err(Failure::refused(format!("the sweep has {runs} runs; at most {RUNS_MAX} are supported")));
    }
    // Errors in any setting are reported before the first run.
    let mut requests = Vec::new();
    for setting in &settings {
        let request = of_setting(request, knobs, setting, folder)?;
        bench::prepare(&request)?;
        requests.push(request);
    }
    fs::create_dir_all(folder).map_err(|error| Failure::unwritable("create directory", folder, error))?;
    for request in requests.iter().filter(|request| has_own_data(request)) {
        one_run(generating(request))?;
    }
    terminal::line(format_args!("{} settings, each run {}, in random order", settings.len(), times(repeats)));
    let mut outturns: Vec<Vec<RunResult>> = vec![Vec::new(); settings.len()];
    let order = Permutation::new(runs as u64, seed);
    for place in 0..runs as u64 {
        let number = order.at(place) as usize;
        let (setting, repeat) = (number % settings.len(), number / settings.len());
        let run = folder.join(format!("{setting}-{repeat}"));
        let mut request = requests[setting].clone();
        request.overrides.push(format!("++hydra.run.dir=\"{}\"", run.display()));
        one_run(request)?;
        outturns[setting].push(outturn(&run)?);
        terminal::line(format_args!("{:>4} of {runs}: {}", place + 1, named(knobs, &settings[setting])));
    }
    save(folder, knobs, &settings, &outturns, request)?;
    let best = verdict(knobs, &settings, &outturns);
    let often = format!("Each setting was run {}, in random order.", times(repeats));
    let drawn = page::page(knobs, &settings, &outturns, &[&best, &often, cache(request)]);
    let path = folder.join("sweep.html");
    fs::write(&path, drawn).map_err(|error| Failure::unwritable("write", &path, error))?;
    terminal::answer(&table(knobs, &settings, &outturns, request))
}

fn times(repeats: usize) -> String {
    if repeats == 1 { "once".into() } else { format!("{repeats} times") }
}

const OWN_DATA: &str = "++workload.dataset.data_folder=";

fn of_setting(request: &Request, knobs: &[Knob], setting: &[String], folder: &Path) -> Outcome<Request> {
    let mut request = Request { quiet: true, ..request.clone() };
    request.training.shown = false;
    request.overrides.extend(knobs.iter().zip(setting).map(|(knob, value)| format!("++workload.{}={value}", knob.key)));
    let of_data: Vec<(&Knob, &String)> =
        knobs.iter().zip(setting).filter(|(knob, _)| knob.key.starts_with("dataset.")).collect();
    if !of_data.is_empty() {
        let name: Vec<String> = of_data.iter().map(|(knob, value)| format!("{}-{}", knob.key, value)).collect();
        let name: String = name
            .join("_")
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .collect();
        request.overrides.push(format!("{OWN_DATA}\"{}\"", folder.join("data").join(name).display()));
        request.overrides.push("++workload.workflow.generate_data=true".into());
    }
    Ok(request)
}

fn has_own_data(request: &Request) -> bool {
    request.overrides.last().is_some_and(|typed| typed == "++workload.workflow.generate_data=true")
}

fn generating(request: &Request) -> Request {
    let mut request = request.clone();
    request.overrides.push("++workload.workflow.train=false".into());
    request
}

fn one_run(request: Request) -> Outcome<()> {
    bench::prepare(&request)?.into_iter().try_for_each(|mut run| run.start(&request))
}

fn table(knobs: &[Knob], settings: &[Vec<String>], outturns: &[Vec<RunResult>], request: &Request) -> String {
    let widths: Vec<usize> = (knobs.iter().enumerate())
        .map(|(at, knob)| {
            knob.values
                .iter()
                .map(String::len)
                .max()
                .unwrap_or(0)
                .max(knob.key.len())
                .max(settings.first().map_or(0, |it| it[at].len()))
        })
        .collect();
    let cells = |cells: Vec<&str>| -> String {
        cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}  ")).collect()
    };
    let mut text = cells(knobs.iter().map(|knob| knob.key.as_str()).collect());
    let _ = writeln!(text, "{:>10} {:>21} {:>10} {:>7}", "samples/s", "smallest to largest", "MB/s", "AU %");
    for (setting, outturns) in settings.iter().zip(outturns) {
        let (median, low, high) = spread(outturns, |it| it.samples_per_second);
        let (rate, utilization) =
            (spread(outturns, |it| it.megabytes_per_second).0, spread(outturns, |it| it.utilization).0);
        text += &cells(setting.iter().map(String::as_str).collect());
        let ends = format!("{low:.1} to {high:.1}");
        let _ = writeln!(text, "{median:>10.1} {ends:>21} {rate:>10.1} {utilization:>7.1}");
    }
    text + &verdict(knobs, settings, outturns) + cache(request)
}

/// Returns the best setting, unless its runs overlap with those of another one.
fn verdict(knobs: &[Knob], settings: &[Vec<String>], outturns: &[Vec<RunResult>]) -> String {
    let of = |outturns: &Vec<RunResult>| spread(outturns, |it| it.samples_per_second);
    let mut ranked: Vec<usize> = (0..settings.len()).collect();
    ranked.sort_by(|a, b| of(&outturns[*b]).0.total_cmp(&of(&outturns[*a]).0));
    let [best, second, ..] = ranked.as_slice() else { return String::new() };
    let (first, next) = (of(&outturns[*best]), of(&outturns[*second]));
    let margin = (first.0 / next.0.max(1e-9) - 1.0) * 100.0;
    if outturns[*best].len() < 2 {
        let best = named(knobs, &settings[*best]);
        return format!(
            "{best} was {margin:.1} % faster than the next one, but one run per setting cannot distinguish them; \
                --repeat 3 may\n"
        );
    }
    match first.1 > next.2 {
        true => format!("best: {}, {margin:.1} % faster than the next one\n", named(knobs, &settings[*best])),
        false => {
            let overlapping = ranked[1..].iter().filter(|it| of(&outturns[**it]).2 >= first.1);
            let others: Vec<String> = overlapping.map(|it| named(knobs, &settings[*it])).collect();
            let best = named(knobs, &settings[*best]);
            let free = outturns.iter().all(|runs| spread(runs, |it| it.utilization).0 >= COMPUTES);
            let why = if free { ": with all of them, the training is compute-bound" } else { "" };
            format!(
                "best: {best}, but its runs overlap with those of {}, so they cannot be distinguished{why}\n",
                others.join(", ")
            )
        }
    }
}

/// Accelerator utilization in percent at which data loading is no longer the limit.
const COMPUTES: f64 = 97.0;

fn cache(request: &Request) -> &'static str {
    match request.training.drop_caches {
        true => "the data set was dropped from the page cache before each epoch\n",
        false => "cached pages were kept; --drop-caches measures the storage\n",
    }
}

fn save(
    folder: &Path,
    knobs: &[Knob],
    settings: &[Vec<String>],
    outturns: &[Vec<RunResult>],
    request: &Request,
) -> Outcome<()> {
    let rows: Vec<Json> = (settings.iter().zip(outturns))
        .map(|(setting, outturns)| {
            let set: serde_json::Map<String, Json> = knobs.iter().zip(setting).map(|(knob, value)| (knob.key.clone(), json!(value))).collect();
            let runs: Vec<Json> = outturns
                .iter()
                .map(|it| json!({"seconds": it.seconds, "samples_per_second": it.samples_per_second, "MB_per_second": it.megabytes_per_second, "au_percentage": it.utilization}))
                .collect();
            json!({"setting": set, "runs": runs})
        })
        .collect();
    let path: PathBuf = folder.join("sweep.json");
    let text = serde_json::to_string_pretty(&json!({"drop_caches": request.training.drop_caches, "settings": rows}))
        .unwrap_or_default();
    fs::write(&path, text + "\n").map_err(|error| Failure::unwritable("write", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_setting_requires_disjoint_runs() {
        let runs = |rates: &[f64]| -> Vec<RunResult> {
            rates
                .iter()
                .map(|rate| RunResult {
                    seconds: 1.0,
                    samples_per_second: *rate,
                    megabytes_per_second: 1.0,
                    utilization: 50.0,
                })
                .collect()
        };
        let knobs = [Knob::parse("a=1,2").unwrap()];
        let all = settings(&knobs);
        let said = verdict(&knobs, &all, &[runs(&[10.0, 11.0, 12.0]), runs(&[20.0, 22.0, 24.0])]);
        assert_eq!(said, "best: a=2, 100.0 % faster than the next one\n");
        let said = verdict(&knobs, &all, &[runs(&[10.0, 11.0, 21.0]), runs(&[20.0, 22.0, 24.0])]);
        assert!(said.contains("cannot be distinguished"), "{said}");
        let said = verdict(&knobs, &all, &[runs(&[10.0]), runs(&[20.0])]);
        assert!(said.starts_with("a=2 was 100.0 % faster than the next one") && said.contains("--repeat 3"), "{said}");
    }
}
