//! Turns arguments into runs that can start. Nothing is written here.

use super::request::{Request, combinations, parsed};
use super::run::Run;
use crate::config::{Config, LoaderKind};
use crate::data_set::listing;
use crate::failure::{Failure, Outcome};
use crate::keys::grammar::Override;
use crate::keys::value::Value;
use crate::keys::{self, interpolation};
use crate::results::devices;
use crate::store::{self, settings};
use crate::system::{locate, terminal};
use crate::workload::presets::{self, Composed};
use crate::workload::rules;
use std::path::PathBuf;

/// Returns the requested runs: one, or one per combination of a sweep.
pub fn prepare(request: &Request) -> Outcome<Vec<Run>> {
    let combinations = combinations(&request.parsed()?, request.multirun)?;
    let many = combinations.len() > 1;
    let mut runs = Vec::new();
    for (number, overrides) in combinations.into_iter().enumerate() {
        let mut run = prepare_one(request, overrides)?;
        // Hydra numbers a single run too.
        if many || request.multirun && hydra_dir(&run.composed, "sweep").is_some() {
            run.folder.push(number.to_string());
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Returns the composed configuration of each run as YAML. Whether such a run is possible here is not checked.
pub fn configurations(request: &Request) -> Outcome<Vec<String>> {
    combinations(&request.parsed()?, request.multirun)?
        .iter()
        .map(|overrides| {
            let (composed, _) = composed(request, overrides)?;
            let written = settings::without_secrets(&composed.written);
            Ok(Value::Map(vec![("workload".into(), written)]).to_yaml())
        })
        .collect()
}

/// Returns the configuration of overrides that are not for a run.
pub fn configuration(overrides: Vec<String>, config_dir: Option<PathBuf>) -> Outcome<Config> {
    let typed = parsed(&overrides)?;
    let mut composed = presets::compose(&typed, config_dir.as_deref())?;
    match composed.complaints.is_empty() {
        true => Config::read(&composed.workload),
        false => Err(joined(&mut composed.complaints)),
    }
}

/// Returns the composed tree of the overrides, and its configuration.
fn composed(request: &Request, overrides: &[Override]) -> Outcome<(Composed, Config)> {
    let mut composed = presets::compose(overrides, request.config_dir.as_deref())?;
    refuse_or_warn(&mut composed, request)?;
    if !request.as_original {
        scale_spread(&mut composed, overrides, request);
    }
    let config = Config::read(&composed.workload)?;
    Ok((composed, config))
}

fn prepare_one(request: &Request, overrides: Vec<Override>) -> Outcome<Run> {
    let (composed, mut config) = composed(request, &overrides)?;
    store::enter(config.store.as_ref());
    let listed = listing::list(&mut config)?;
    let mut complaints = rules::complaints(&config, request.ranks);
    if !complaints.is_empty() {
        return Err(joined(&mut complaints));
    }
    refuse_nothing(&config, request)?;
    let generate_first = should_generate_first(&config, &overrides, request);
    config.workflow.generate |= generate_first;
    let (folder, own_folder) = run_folder(&config, &composed, request.multirun)?;
    rules::unexpanded("hydra.run.dir", &folder).map_or(Ok(()), Err)?;
    let ignored = composed.ignored.iter().map(|note| settings::masked(note));
    let samples_devices = config.workflow.profile && config.profiler == "iostat";
    let devices = if samples_devices { devices::unknown(&config.iostat_devices) } else { Vec::new() };
    let devices = devices.into_iter().map(|name| {
        format!("iostat.json will have no numbers of `{name}`: /proc/diskstats has no such device (profiling.iostat_devices)")
    });
    let notes = ignored.chain(config.store_remarks.clone()).chain(listed).chain(devices).collect();
    let (called, ranks) = (request.command(), request.ranks);
    let goes_on = request.training.skip_failures;
    let mut run = Run {
        goes_on,
        config,
        composed,
        overrides,
        folder,
        own_folder,
        notes,
        generate_first,
        called,
        ranks,
        lock: None,
        data_lock: None,
    };
    if run.answer().is_none() {
        run.adopt_data_set()?;
    }
    Ok(run)
}

/// Refuses a run that would do nothing, which must be a mistake: an evaluation is part of a training run.
fn refuse_nothing(config: &Config, request: &Request) -> Outcome<()> {
    let workflow = &config.workflow;
    let does = workflow.generate || config.measures() || request.verify || !config.dataset.keep_files;
    if does || workflow.query.is_some() {
        return Ok(());
    }
    let what = "nothing to do: workflow.generate_data, train and checkpoint are all false";
    let (evaluation, remedy) = match workflow.evaluate {
        true => (
            "; an evaluation is a part of a training run",
            "set ++workload.workflow.train=true, with ++workload.dataset.num_files_train=0 to only evaluate",
        ),
        false => ("", "set ++workload.workflow.train=true or one of the other keys"),
    };
    Err(Failure::refused(format!("{what}{evaluation}")).remedy(remedy))
}

fn refuse_or_warn(composed: &mut Composed, request: &Request) -> Outcome<()> {
    if composed.complaints.is_empty() {
        return Ok(());
    }
    if !request.lenient {
        return Err(joined(&mut composed.complaints));
    }
    for complaint in composed.take_complaints() {
        terminal::warn(format_args!("warning: {} (ignored)", complaint.what));
    }
    Ok(())
}

fn joined(complaints: &mut Vec<Failure>) -> Failure {
    let first = complaints.remove(0);
    let rest: String = complaints.drain(..).map(|failure| format!("\n{failure}")).collect();
    Failure { what: format!("{first}{rest}"), remedy: String::new(), kind: first.kind }
}

/// Scales the spread of record sizes with a record length given on the command line, unless the spread was given too. A
/// smaller record with the spread of the large one would make most files one byte or one gigabyte long.
fn scale_spread(composed: &mut Composed, overrides: &[Override], request: &Request) {
    let number = |tree: &Value, key| match tree.at(&["dataset", key]) {
        Some(Value::Int(number)) => Some(*number as f64),
        Some(Value::Float(number)) => Some(*number),
        _ => None,
    };
    let named = |typed: &Override| keys::present_name(typed.key.strip_prefix("workload.").unwrap_or_default());
    let typed = |key: &str| overrides.iter().any(|typed| named(typed) == format!("dataset.{key}"));
    let own = number(&presets::renamed(&composed.found.tree), "record_length_bytes");
    let (Some(own), Some(spread)) = (own, number(&composed.workload, "record_length_bytes_stdev")) else {
        return;
    };
    let Some(asked) = number(&composed.workload, "record_length_bytes") else { return };
    if typed("record_length_bytes_stdev") || !typed("record_length_bytes") || spread <= asked || own <= 0.0 {
        return;
    }
    let scaled = (spread * asked / own).round();
    for tree in [&mut composed.workload, &mut composed.written] {
        tree.put(&["dataset", "record_length_bytes_stdev"], Value::Int(scaled as i64));
    }
    // A traced run printed this before it restarted under the library.
    if !request.quiet && !locate::is_traced() {
        terminal::warn(format_args!(
            "note: record_length_bytes_stdev is scaled with the record length: {scaled} instead of {spread}"
        ));
    }
}

/// Returns `true` if the data are to be generated first: no directory was given and none exist, so that a first run is
/// a single command.
fn should_generate_first(config: &Config, overrides: &[Override], request: &Request) -> bool {
    let place_typed = overrides.iter().any(|typed| {
        matches!(
            typed.key.as_str(),
            "workload.dataset.data_folder" | "workload.storage.storage_root" | "workload.workflow.generate_data"
        )
    });
    let reads = config.workflow.train && config.reader.loader != LoaderKind::Synthetic;
    let in_store = config.store.is_some();
    reads
        && !in_store
        && !config.workflow.generate
        && !place_typed
        && !request.as_original
        && !config.dataset.folder.exists()
}

/// Returns the directory that Hydra's settings give for a run, or for the runs of a sweep.
fn hydra_dir<'a>(composed: &'a Composed, which: &str) -> Option<&'a Value> {
    composed.hydra.at(&[which, "dir"])
}

/// Returns the run directory: `output.folder`, Hydra's sweep or run directory, or its default; and whether it is the
/// default.
fn run_folder(config: &Config, composed: &Composed, multirun: bool) -> Outcome<(PathBuf, bool)> {
    if let Some(folder) = &config.output.folder {
        return Ok((folder.clone(), false));
    }
    let of_sweep = hydra_dir(composed, "sweep").filter(|_| multirun);
    let (template, default) = match of_sweep.or_else(|| hydra_dir(composed, "run")) {
        Some(template) => (template.clone(), false),
        None => (Value::Text("./hydra_log/${workload.model.name}/${now:%Y-%m-%d}-${now:%H-%M-%S}".into()), true),
    };
    let root = [("workload", &composed.workload), ("hydra", &composed.hydra)];
    let root = Value::Map(root.map(|(key, tree)| (key.to_string(), tree.clone())).into());
    match interpolation::resolved(&root, &template, &["hydra", "run", "dir"])? {
        Value::Text(folder) => Ok((PathBuf::from(folder), default)),
        other => Ok((PathBuf::from(other.inline()), default)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::loader::WorkerKind;
    use crate::training::trainer;
    use std::time::Duration;

    fn request(typed: &[&str]) -> Request {
        Request {
            called: vec!["dlio".into(), "bench".into()],
            overrides: typed.iter().map(ToString::to_string).collect(),
            config_dir: None,
            lenient: false,
            training: trainer::Options { drop_caches: false, busy: false, skip_failures: false, shown: false },
            original_order: false,
            workers: WorkerKind::Processes,
            verify: false,
            regenerate: false,
            ranks: 1,
            barrier_timeout: Duration::from_secs(60),
            multirun: false,
            as_original: false,
            quiet: true,
        }
    }

    #[test]
    fn sweep_makes_one_run_per_value_on_request() {
        let sweep =
            request(&["workload=unet3d", "++workload.reader.batch_size=1,2", "++workload.reader.read_threads=0,1,2"]);
        assert!(prepare(&sweep).unwrap_err().to_string().contains("--multirun"));
        let runs = prepare(&Request { multirun: true, ..sweep }).unwrap();
        assert_eq!(runs.len(), 6);
        assert_eq!((runs[5].config.reader.batch, runs[5].config.reader.workers), (2, 2));
        assert!(runs[5].folder.ends_with("5"));
    }

    #[test]
    fn a_run_that_would_do_nothing_is_refused() {
        let idle = ["workload=default", "++workload.workflow.train=false"];
        let refused = prepare(&request(&idle)).unwrap_err();
        assert!(refused.what.contains("nothing to do") && refused.what.contains("an evaluation"), "{refused}");
        let with = |more: &'static str| prepare(&request(&[idle[0], idle[1], more]));
        assert!(!with("++workload.workflow.evaluation=false").unwrap_err().what.contains("an evaluation"));
        assert!(with("++workload.workflow.generate_data=true").is_ok());
        assert!(with("++workload.workflow.query=dataset.format").is_ok());
        assert!(prepare(&Request { verify: true, ..request(&idle) }).is_ok());
    }

    #[test]
    fn run_directory_follows_hydra_settings() {
        let runs = prepare(&request(&["workload=unet3d", "++hydra.run.dir=/tmp/${workload.model.name}/x"])).unwrap();
        assert_eq!(runs[0].folder, PathBuf::from("/tmp/unet3d/x"));
        let runs = prepare(&request(&["workload=unet3d"])).unwrap();
        assert!(runs[0].folder.starts_with("./hydra_log/unet3d/"));
        let typed = request(&["workload=unet3d", "hydra.sweep.dir=/tmp/s", "hydra.run.dir=/tmp/x"]);
        assert_eq!(prepare(&typed).unwrap()[0].folder, PathBuf::from("/tmp/x"));
        let runs = prepare(&Request { multirun: true, ..typed }).unwrap();
        assert_eq!(runs[0].folder, PathBuf::from("/tmp/s/0"));
    }

    #[test]
    fn the_spread_of_sizes_follows_a_typed_length() {
        let spread = |typed: &[&str]| prepare(&request(typed)).unwrap()[0].config.dataset.record_bytes_stdev;
        assert_eq!(spread(&["workload=unet3d"]), 68_341_808.0);
        assert_eq!(spread(&["workload=unet3d", "++workload.dataset.record_length_bytes=2097152"]), 977_644.0);
        let both = [
            "workload=unet3d",
            "++workload.dataset.record_length_bytes=2097152",
            "++workload.dataset.record_length_bytes_stdev=5",
        ];
        assert_eq!(spread(&both), 5.0);
    }

    #[test]
    fn lenient_drops_unknown_keys() {
        let typed = request(&["workload=unet3d", "++workload.reader.batchsize=9", "++workload.reader.batch_size=[1]"]);
        let failure = prepare(&typed).unwrap_err();
        assert!(failure.to_string().matches("workload.reader.batch").count() >= 3, "{failure}");
        let runs = prepare(&Request { lenient: true, ..typed }).unwrap();
        assert_eq!(runs[0].config.reader.batch, 1);
    }

    #[test]
    fn the_command_that_generates_can_be_pasted() {
        let runs = prepare(&request(&[
            "workload=unet3d",
            "++workload.dataset.record_dims=[2, 3]",
            "++workload.dataset.record_length_bytes_stdev=0",
        ]))
        .unwrap();
        let command = runs[0].generate_command();
        assert!(
            command.contains("'++workload.dataset.record_dims=[2, 3]'")
                && command.ends_with("++workload.workflow.train=false"),
            "{command}"
        );
    }
}
