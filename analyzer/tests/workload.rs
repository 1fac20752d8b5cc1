//! Tests derived workloads from scripted traces: every time in them is known, so every value can be checked.

mod generator;
mod support;

use std::collections::BTreeMap;

use dlio_schemas::ops::Op;
use dlio_schemas::record::{POS_UNKNOWN, STEP_NONE};
use generator::script::Script;
use generator::{Plan, generate, generate_counted};
use serde_json::Value;
use support::program::{analyze, printed, text};
use support::temp_dir;
use tempfile::TempDir;

const MIB: i64 = 1 << 20;

/// Returns keys with their values and their stated reliability.
fn derived(folder: &TempDir, more: &[&str]) -> BTreeMap<String, (String, String)> {
    let trace = folder.path().display().to_string();
    let yaml = printed(&[&[&*trace, "--workload", "-"], more].concat());
    let (mut section, mut found) = (String::new(), BTreeMap::new());
    for line in yaml.lines().filter(|line| !line.starts_with('#')) {
        let (said, told) = line.split_once(" # ").unwrap_or((line, ""));
        let Some((key, value)) = said.split_once(':') else { continue };
        let sure = told.split(':').next().unwrap_or_default().to_string();
        match line.starts_with(' ') {
            true => drop(found.insert(format!("{section}.{}", key.trim()), (value.trim().to_string(), sure))),
            false => {
                section = key.to_string();
                found.insert(section.clone(), (value.trim().to_string(), sure));
            }
        }
    }
    found
}

fn values(found: &BTreeMap<String, (String, String)>, expected: &[(&str, &str)]) {
    for (key, expected) in expected {
        let value = found.get(*key).map(|(value, _)| value.as_str());
        assert_eq!(value, Some(*expected), "{key} of {found:#?}");
    }
}

/// Returns a file that no longer exists, so that the trace is the only source.
fn file(number: u64, suffix: &str) -> String {
    format!("/no-such-data/sample-{number:03}.{suffix}")
}

#[test]
fn steps_without_spans_come_from_pauses() {
    let folder = temp_dir("pauses");
    let mut program = Script::new(100, 1);
    for epoch in 0..2 {
        for number in 0..32 {
            program.load(&file(number, "npy"), MIB + 128, 300).rest(200);
            if number % 8 == 7 || epoch == 2 {
                program.rest(50_000);
            }
        }
    }
    program.write_to(folder.path());
    let found = derived(&folder, &[]);
    values(
        &found,
        &[
            ("dataset.format", "npy"),
            ("dataset.num_files_train", "32"),
            ("dataset.num_samples_per_file", "1"),
            ("dataset.record_length_bytes", "1048576"),
            ("reader.batch_size", "8"),
            ("reader.read_threads", "0"),
            ("reader.file_shuffle", "off"),
            ("train.epochs", "2"),
            ("train.computation_time", "0.05"),
            ("workflow.train", "true"),
            ("workflow.checkpoint", "false"),
        ],
    );
    assert!(!found.contains_key("reader.profile") && !found.contains_key("dataset.file_bytes"), "{found:#?}");
    assert_eq!(found["dataset.num_files_train"].1, "certain");
    assert_eq!(found["reader.batch_size"].1, "likely");
}

#[test]
fn steps_come_from_spans() {
    let folder = temp_dir("places");
    let mut program = Script::new(100, 1);
    program.open(&file(0, "h5"), 5).read(&file(0, "h5"), 0, 8, 5);
    for epoch in 0..2 {
        for step in 0..16 {
            let begun = program.now();
            for sample in 0..4 {
                let place = (step * 4 + sample) * 37 % 64;
                program.read(&file(0, "h5"), 2048 + place * 40_000, 40_000, 100).rest(50);
            }
            let took = program.now() - begun;
            program.span_at(begun, took, "fetch", "data", (epoch + 1, step as i32));
            program.span("train", "compute", 20_000);
        }
    }
    program.close(&file(0, "h5"), 2);
    program.write_to(folder.path());
    let found = derived(&folder, &[]);
    values(
        &found,
        &[
            ("dataset.format", "hdf5"),
            ("dataset.num_files_train", "1"),
            ("dataset.num_samples_per_file", "64"),
            ("dataset.file_bytes", "[2562048]"),
            ("reader.batch_size", "4"),
            ("reader.sample_shuffle", "seed"),
            ("reader.read_type", "memory"),
            ("train.epochs", "2"),
            ("train.computation_time", "0.02"),
        ],
    );
    assert_eq!(found["train.computation_time"].1, "certain");
    let yaml = printed(&[&folder.path().display().to_string(), "--workload", "-"]);
    assert!(yaml.contains("- {call: read, at: place, bytes: 40000}"), "{yaml}");
}

/// Returns a training run of twenty steps, with the writes of `save` inside a span after every `every` steps.
fn train_and_save(folder: &TempDir, every: i32, save: impl Fn(&mut Script, i32)) {
    let mut program = Script::new(100, 1);
    for step in 0..20 {
        program.load(&file(step as u64, "npy"), MIB, 300);
        let now = program.now();
        program.span_at(now, 100, "fetch", "data", (1, step)).at(now + 100);
        program.span("train", "compute", 10_000);
        if (step + 1) % every == 0 {
            let begun = program.now();
            save(&mut program, step);
            let took = program.now() - begun;
            program.span_at(begun, took, "save", "checkpoint", (1, step));
        }
    }
    program.write_to(folder.path());
}

#[test]
fn checkpoints_have_their_period() {
    let folder = temp_dir("saved");
    train_and_save(&folder, 5, |program, step| {
        let path = format!("/no-such-data/out/model-{step}.pt");
        program.open(&path, 5).write(&path, 0, 3 * MIB, 900).call(dlio_schemas::ops::Op::FSYNC, &path, 50, (0, 0, 0));
        program.close(&path, 2);
    });
    values(
        &derived(&folder, &[]),
        &[
            ("workflow.checkpoint", "true"),
            ("model.model_size_bytes", "3145728"),
            ("checkpoint.transfer_size", "3145728"),
            ("checkpoint.steps_between_checkpoints", "5"),
            ("checkpoint.fsync", "true"),
            ("dataset.num_files_train", "20"),
        ],
    );
}

#[test]
fn checkpoints_without_tensors_match_by_size() {
    let folder = temp_dir("pickled");
    train_and_save(&folder, 10, |program, step| {
        for (name, mebibytes) in [("weights", 2), ("moments", 4)] {
            let path = format!("/no-such-data/out/{name}-{step}.pkl");
            program.open(&path, 5);
            for at in 0..mebibytes {
                program.write(&path, at * MIB, MIB, 400);
            }
            program.close(&path, 2);
        }
    });
    let found = derived(&folder, &[]);
    values(
        &found,
        &[
            ("checkpoint.file_bytes", "[2097152, 4194304]"),
            ("checkpoint.transfer_size", "1048576"),
            ("checkpoint.steps_between_checkpoints", "10"),
        ],
    );
    assert!(!found.contains_key("model.model_size_bytes"), "{found:#?}");
}

/// Writes a run of two ranks that read their data themselves. One of them creates the data set first and saves alone.
/// Each epoch has sixteen samples per rank in steps of two, a checkpoint after every third step, and an evaluation of
/// four samples in one step that computes less.
fn evaluated(folder: &TempDir) {
    let valid = |number: u64| format!("/no-such-data/valid/sample-{number:03}.npy");
    for rank in 0..2 {
        let mut program = Script::ranked(100 + rank, rank);
        if rank == 0 {
            for number in 0..40 {
                // It gets its name when it is complete.
                let path = if number < 32 { file(number, "npy") } else { valid(number - 32) } + ".partial-vm-100";
                program.open(&path, 5).write(&path, 0, 2 * MIB, 300).close(&path, 2);
            }
            let took = program.now();
            program.span_at(0, took, "generate", "pipeline", (STEP_NONE, STEP_NONE));
        }
        program.at(20_000);
        for epoch in 1..3 {
            for step in 0..8 {
                let begun = program.now();
                for sample in 0..2 {
                    program.load(&file(rank as u64 * 16 + step * 2 + sample, "npy"), 2 * MIB, 300);
                }
                let took = program.now() - begun;
                program.span_at(begun, took, "fetch", "data", (epoch, step as i32)).span("compute", "compute", 20_000);
                if step % 3 == 2 {
                    let (begun, path) = (program.now(), format!("/no-such-data/out/model-{epoch}-{step}.pt"));
                    if rank == 0 {
                        program.open(&path, 5).write(&path, 0, 3 * MIB, 900).call(Op::FSYNC, &path, 50, (0, 0, 0));
                        program.close(&path, 2);
                    }
                    let took = program.now() - begun + 1;
                    program.span_at(begun, took, "checkpoint.save", "checkpoint", (epoch, step as i32));
                }
            }
            let evaluation = program.now();
            for sample in 0..4 {
                program.load(&valid(rank as u64 * 4 + sample), 2 * MIB, 300);
            }
            let took = program.now() - evaluation;
            program.span_at(evaluation, took, "fetch", "data", (epoch, 0)).span("compute", "compute", 5_000);
            let took = program.now() - evaluation;
            program.span_at(evaluation, took, "evaluate", "pipeline", (epoch, STEP_NONE));
        }
        program.write_to(folder.path());
    }
}

#[test]
fn evaluation_and_generation_are_distinguished() {
    let folder = temp_dir("evaluated");
    evaluated(&folder);
    let found = derived(&folder, &[]);
    values(
        &found,
        &[
            ("dataset.num_files_train", "32"),
            ("dataset.num_files_eval", "8"),
            ("reader.batch_size", "2"),
            ("reader.batch_size_eval", "4"),
            ("train.epochs", "2"),
            ("train.computation_time", "0.02"),
            ("evaluation.eval_time", "0.005"),
            ("model.model_size_bytes", "3145728"),
            ("checkpoint.checkpoint_folder", "checkpoints/train"),
            ("checkpoint.fsync", "true"),
            ("checkpoint.steps_between_checkpoints", "3"),
        ],
    );
    for absent in ["checkpoint.type", "checkpoint.file_bytes", "train.computation_time_stdev"] {
        assert!(!found.contains_key(absent), "{absent}: {found:#?}");
    }
    assert_eq!(found["evaluation.eval_time"].1, "certain");
    let yaml = printed(&[&folder.path().display().to_string(), "--workload", "-"]);
    assert!(yaml.contains("the original files are in /no-such-data/out"), "{yaml}");
}

#[test]
fn program_that_makes_its_data_trains_on_it() {
    let folder = temp_dir("own-data");
    let mut program = Script::new(100, 1);
    program.load("/no-such-data/train.py", 40_000, 20);
    for number in 0..8 {
        let path = file(number, "npy");
        program.open(&path, 5).write(&path, 0, MIB, 300).close(&path, 2);
    }
    for number in 0..8 {
        program.load(&file(number, "npy"), MIB, 300).rest(20_000);
    }
    program.write_to(folder.path());
    values(&derived(&folder, &[]), &[("dataset.format", "npy"), ("dataset.num_files_train", "8")]);
}

#[test]
fn lost_events_reduce_confidence() {
    let folder = temp_dir("lost");
    let mut program = Script::new(100, 1);
    (0..32).for_each(|number| {
        program.load(&file(number, "npy"), MIB, 300);
    });
    program.lost = 9;
    program.write_to(folder.path());
    let found = derived(&folder, &[]);
    assert!(found.values().all(|(_, sure)| sure != "certain"), "{found:#?}");
    let yaml = printed(&[&folder.path().display().to_string(), "--workload", "-"]);
    assert!(yaml.contains("# 9 events are lost"), "{yaml}");
}

#[test]
fn non_job_is_rejected_with_a_remedy() {
    let refused = |folder: &TempDir, more: &[&str]| {
        let trace = folder.path().display().to_string();
        let output = analyze(&[&[&*trace, "--workload", "-"], more].concat());
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let idle = temp_dir("idle");
    let mut program = Script::new(100, 1);
    program
        .open("/no-such-data/log.txt", 5)
        .write("/no-such-data/log.txt", 0, 100, 5)
        .close("/no-such-data/log.txt", 1);
    program.write_to(idle.path());
    let said = refused(&idle, &[]);
    assert!(said.contains("no file read that could be a data set"), "{said}");
    let mapped = temp_dir("mapped");
    let map = "{\"ph\":\"X\",\"name\":\"mmap\",\"cat\":\"posix\",\"ts\":1,\"dur\":2,\"pid\":1,\"tid\":1,\"args\":{\"file\":\"/data/a\"}}";
    std::fs::write(mapped.path().join("t.json"), format!("[{map},{map}]")).unwrap();
    let said = refused(&mapped, &[]);
    assert!(said.contains("its files are mapped (mmap: 2 calls)"), "{said}");
    let counted = temp_dir("counted");
    generate_counted(counted.path(), 20).unwrap();
    let said = refused(&counted, &[]);
    assert!(said.contains("cannot derive a workload"), "{said}");
    let several = temp_dir("several");
    let plan = Plan { events: 1000, ..Plan::default() };
    generate(several.path(), &plan, &|_, _, _| ()).unwrap();
    let later = Plan { after_ns: 3_600_000_000_000, seed: 2, ..plan };
    generate(&several.path().join("later"), &later, &|_, _, _| ()).unwrap();
    let said = refused(&several, &["--run", "all"]);
    assert!(said.contains("the trace contains 2 runs") && said.contains("--run last"), "{said}");
    assert_eq!(derived(&several, &[]), derived(&several, &["--run", "last"]));
}

#[test]
fn existing_file_is_not_replaced() {
    let folder = temp_dir("there");
    let mut program = Script::new(100, 1);
    (0..32).for_each(|number| {
        program.load(&file(number, "npy"), MIB, 300);
    });
    let trace = folder.path().join("trace");
    std::fs::create_dir(&trace).unwrap();
    program.write_to(&trace);
    let (trace, job) = (trace.display().to_string(), folder.path().join("job.yaml"));
    std::fs::write(&job, "mine").unwrap();
    let named = job.display().to_string();
    let output = analyze(&[&trace, "--workload", &named]);
    assert_eq!((output.status.code(), std::fs::read_to_string(&job).unwrap().as_str()), (Some(1), "mine"));
    let said = printed(&[&trace, "--workload", &named, "--force"]);
    assert!(
        said.contains("dlio bench workload=") && std::fs::read_to_string(&job).unwrap().contains("num_files_train: 32")
    );
}

// ---- similarity -----------------------------------------------------------------------------------------------------

fn run(name: &str, size: i64, files: u64) -> TempDir {
    let folder = temp_dir(name);
    let mut program = Script::new(100, 1);
    (0..files).for_each(|number| {
        program.load(&file(number, "npy"), size, 300).rest(100);
    });
    program.write_to(folder.path());
    folder
}

fn similarity(a: &TempDir, b: &TempDir, more: &[&str]) -> Value {
    let (a, b) = (a.path().display().to_string(), b.path().display().to_string());
    let typed = [&[&*a, "--compare", &*b, "--similarity", "--format", "json"], more].concat();
    serde_json::from_str(&printed(&typed)).unwrap()
}

#[test]
fn run_is_similar_only_to_itself() {
    let (a, same, other) = (run("a", MIB, 64), run("same", MIB, 64), run("other", MIB / 4, 64));
    let found = similarity(&a, &same, &[]);
    assert_eq!(
        (&found["schema"], found["cosine"].as_f64().map(|it| (it * 1e9).round())),
        (&"dlio-similarity".into(), Some(1e9))
    );
    assert!(found["distances"].as_array().unwrap().iter().all(|it| it["distance"] == 0.0), "{found}");
    let found = similarity(&a, &other, &[]);
    let of =
        |name: &str| found["features"].as_array().unwrap().iter().find(|it| it["feature"] == name).unwrap().clone();
    assert_eq!(
        (&of("read.size.mean")["before"], &of("read.size.mean")["after"]),
        (&1_048_576.0.into(), &262_144.0.into())
    );
    assert_eq!((&of("read.bytes")["difference"], &of("files")["difference"]), (&0.75.into(), &0.0.into()));
    let sizes = found["distances"].as_array().unwrap().iter().find(|it| it["distribution"] == "read.size").unwrap();
    assert!((sizes["distance"].as_f64().unwrap() - 0.6).abs() < 1e-9, "{sizes}");
    let said =
        printed(&[&a.path().display().to_string(), "--compare", &other.path().display().to_string(), "--similarity"]);
    assert!(
        said.contains("Features that differ by more than 15 %") && said.contains("read.size.mean (75 %)"),
        "{said}"
    );
}

#[test]
fn similarity_needs_one_trace_per_side() {
    let (a, b) = (run("one", MIB, 8), run("two", MIB, 8));
    let (a, b) = (a.path().display().to_string(), b.path().display().to_string());
    for (typed, said) in [
        (vec![&*a, &*b, "--compare", &*b, "--similarity"], "one trace, and one to --compare"),
        (vec![&*a, "--compare", &*b, "--similarity", "--format", "csv"], "use text or json"),
        (vec![&*a, "--similarity"], "--compare"),
        (vec![&*a, "--compare", "/no/such/trace", "--similarity"], "/no/such/trace"),
    ] {
        let output = analyze(&typed);
        assert!(!output.status.success() && text(&output.stderr).contains(said), "{typed:?}: {}", text(&output.stderr));
    }
    assert!(printed(&["--explain"]).contains("read.size.median"));
}

#[test]
fn file_sizes_come_from_moved_bytes() {
    const FAR: i64 = 1 << 40;
    let folder = temp_dir("sizes");
    let mut program = Script::new(100, 1);
    for number in 0..4 {
        program.load(&file(number, "sample"), MIB, 100);
        program.call(Op::PREAD, &file(number, "sample"), 5, (FAR, 1, 0));
    }
    program.call(Op::TRUNCATE, "/data/none", 5, (FAR, 0, -2));
    program.call(Op::FTRUNCATE, "/data/made", 5, (3000, 0, 0));
    program.call(Op::POSIX_FALLOCATE, "/data/kept", 5, (100, 200, 0));
    program.write("/data/asked", 0, 100, 5).call(Op::PWRITE, "/data/asked", 5, (FAR, 100, -9));
    for op in [Op::POSIX_FADVISE, Op::READAHEAD, Op::SYNC_FILE_RANGE, Op::FALLOCATE] {
        program.call(op, "/data/asked", 5, (FAR, 4096, 0));
    }
    program.write_to(folder.path());
    let trace = folder.path().display().to_string();
    let query = "select path, size from files where path not like '%.sample' order by path";
    let sizes = printed(&[&trace, "--format", "csv", "--sql", query]);
    assert_eq!(sizes, "path,size\n/data/asked,100\n/data/kept,300\n/data/made,3000\n/data/none,\n");
    let report: Value = serde_json::from_str(&printed(&[&trace, "--format", "json"])).unwrap();
    assert_eq!(report["dataset"]["bytes_reached"], 4 * MIB + 3400);
    values(&derived(&folder, &[]), &[("dataset.record_length_bytes", "1048576")]);
}

/// Returns a trainer that writes its data, and whose two readers then make all batches at once: it takes them in the
/// beginning and computes each for 20 ms, mostly alone. At the same time a compiler reads more than they do.
fn pool() -> Vec<Script> {
    const SAMPLES: u64 = 24;
    let mut trainer = Script::new(100, 1);
    (0..SAMPLES).for_each(|number| {
        trainer.write(&file(number, "sample"), 0, MIB, 100);
    });
    let made = trainer.now() + 1000;
    trainer.at(made + 100);
    for _ in 0..SAMPLES {
        trainer.call(Op::READ, "<pipe>", 1500, (POS_UNKNOWN, 64, 64));
    }
    (0..SAMPLES).for_each(|_| {
        trainer.call(Op::CLOCK_NANOSLEEP, "", 20_000, (0, 0, 0));
    });
    trainer.call(Op::WAITPID, "", 1000, (0, 0, 0));
    let end = trainer.now();
    let reader = |number: u64| {
        let mut reader = Script::new(200 + number as i32, 100);
        reader.at(made);
        for sample in (number..SAMPLES).step_by(2) {
            reader.call(Op::READ, "<pipe>", 10, (POS_UNKNOWN, 64, 64));
            reader.load(&file(sample, "sample"), MIB, 2000);
            reader.call(Op::WRITE, "<pipe>", 10, (POS_UNKNOWN, 64, 64));
        }
        reader.at(end - 2000).call(Op::READ, "<pipe>", 1500, (POS_UNKNOWN, 0, 0));
        reader
    };
    let mut compiler = Script::new(300, 100);
    compiler.command = "cc1\0job.c\0";
    (0..60).for_each(|number| {
        compiler.load(&format!("/usr/include/{number}.h"), 2 * MIB, 100);
    });
    vec![trainer, reader(0), reader(1), compiler]
}

/// Returns a parent that collects the output of two workers that read files, and works `own_us` after each message.
fn gatherer(program: &'static str, own_us: u64) -> TempDir {
    const FILES: u64 = 24;
    let folder = temp_dir("gatherer");
    let mut parent = Script::new(100, 1);
    parent.program = program;
    parent.call(Op::READ, "<pipe>", 3000, (POS_UNKNOWN, 64, 64));
    for _ in 1..FILES {
        parent.at(parent.now() + own_us).call(Op::READ, "<pipe>", 5000, (POS_UNKNOWN, 64, 64));
    }
    parent.at(parent.now() + own_us).call(Op::WAITPID, "", 1000, (0, 0, 0));
    parent.write_to(folder.path());
    for number in 0..2 {
        let mut worker = Script::new(200 + number as i32, 100);
        worker.program = program;
        for made in (number..FILES).step_by(2) {
            worker.load(&file(made, "sample"), MIB, 2000);
            worker.call(Op::WRITE, "<pipe>", 10, (POS_UNKNOWN, 64, 64));
            worker.at(worker.now() + 7000);
        }
        worker.write_to(folder.path());
    }
    folder
}

#[test]
fn collecting_parent_is_not_a_trainer() {
    let report = |program, own_us| -> Value {
        let folder = gatherer(program, own_us);
        serde_json::from_str(&printed(&[&folder.path().display().to_string(), "--format", "json"])).unwrap()
    };
    let gathers = report("python3.11", 100);
    let said = gathers["verdict"].to_string();
    assert!(gathers["training"].as_array().unwrap().is_empty(), "{said}");
    assert!(said.contains("for its 2 workers; calls do not show that it trains"), "{said}");
    let trains = report("python3.11", 3000);
    assert_eq!(trains["training"].as_array().unwrap().len(), 1, "{}", trains["verdict"]);
    let fired = trains["findings"].as_array().unwrap().iter().filter(|finding| finding["state"] == "fired");
    let found: Vec<_> = fired.map(|finding| (finding["id"].as_str().unwrap(), &finding["severity"])).collect();
    assert!(found.iter().any(|(id, severity)| *id == "input-bound" && **severity == "warning"), "{found:?}");
    assert!(found.iter().all(|(_, severity)| **severity != "critical"), "{found:?}");
    // rsync's receiver processes the data of its copies, and it is not reported as a training run.
    let copies = report("rsync", 3000);
    let said = copies["verdict"].to_string().to_lowercase();
    assert!(copies["training"].as_array().unwrap().is_empty(), "{said}");
    assert!(!said.contains("train") && !said.contains("worker"), "{said}");
}

#[test]
fn training_includes_its_last_batch_and_readers() {
    let folder = temp_dir("pool");
    pool().into_iter().for_each(|process| process.write_to(folder.path()));
    let report: Value =
        serde_json::from_str(&printed(&[&folder.path().display().to_string(), "--format", "json"])).unwrap();
    let training = &report["training"][0];
    let of = |field: &str| training[field].as_f64().unwrap() / 1e6;
    assert!((of("trained_ns") - 517.0).abs() < 5.0 && of("waited_ns") < 60.0, "{training}");
    let found = derived(&folder, &[]);
    values(&found, &[("dataset.num_files_train", "24"), ("reader.read_threads", "2")]);
    let computed: f64 = found["train.computation_time"].0.parse().unwrap();
    assert!((0.018..0.022).contains(&computed), "{found:#?}");
}

/// Records a message of a Python process: its length, then itself.
fn message(process: &mut Script, op: Op, us: u64) {
    process.call(op, "<pipe>", us, (POS_UNKNOWN, 4, 4)).call(op, "<pipe>", 1, (POS_UNKNOWN, 288, 288));
}

/// Two readers make batches of four files. Their trainer sometimes takes two at a time; it computes 10 ms per batch
/// and saves after every tenth for 200 ms.
#[test]
fn batch_size_comes_from_reader_tasks() {
    const BATCHES: u64 = 40;
    let folder = temp_dir("tasks");
    let mut trainer = Script::new(100, 1);
    trainer.at(8000);
    for batch in 0..BATCHES {
        // The first two of each eight come together, and then there is no wait for the second.
        match batch % 8 {
            0 => [0; 2].iter().for_each(|_| message(&mut trainer, Op::READ, 100)),
            1 => (),
            _ => message(&mut trainer, Op::READ, 100),
        }
        trainer.rest(10_000);
        if batch % 10 == 9 {
            let path = format!("/no-such-data/model-{batch}.pt");
            trainer.open(&path, 5).write(&path, 0, 8 * MIB, 50_000).call(Op::FSYNC, &path, 150_000, (0, 0, 0));
            trainer.close(&path, 2);
        }
    }
    trainer.call(Op::WAITPID, "", 1000, (0, 0, 0));
    let end = trainer.now();
    trainer.write_to(folder.path());
    for number in 0..2 {
        let mut reader = Script::new(200 + number as i32, 100);
        for batch in (number..BATCHES).step_by(2) {
            message(&mut reader, Op::READ, 20);
            (0..4).for_each(|sample| {
                reader.load(&file(batch * 4 + sample, "npy"), MIB, 500);
            });
            reader.call(Op::WRITE, "<pipe>", 10, (POS_UNKNOWN, 292, 292));
            reader.at((batch + 2) * 10_000);
        }
        message(reader.at(end), Op::READ, 20);
        reader.write_to(folder.path());
    }
    let found = derived(&folder, &[]);
    values(&found, &[("reader.batch_size", "4"), ("reader.read_threads", "2"), ("workflow.checkpoint", "true")]);
    assert_eq!(found["reader.batch_size"].1, "likely", "{found:#?}");
    assert_eq!(found["checkpoint.steps_between_checkpoints"].0, "10", "{found:#?}");
    let computed: f64 = found["train.computation_time"].0.parse().unwrap();
    assert!((0.0095..0.0115).contains(&computed), "{found:#?}");
}

#[test]
fn recipe_generates_data_in_a_separate_run() {
    let folder = temp_dir("recipe");
    let mut program = Script::new(100, 1);
    (0..32).for_each(|number| {
        program.load(&file(number, "npy"), MIB, 300);
    });
    program.write_to(folder.path());
    let yaml = printed(&[&folder.path().display().to_string(), "--workload", "-"]);
    let typed: Vec<&str> = yaml.lines().filter(|line| line.starts_with("#   dlio bench ")).collect();
    assert_eq!(typed.len(), 2, "{yaml}");
    assert!(typed[0].contains("generate_data=true") && typed[0].contains("train=false"), "{yaml}");
    assert!(!typed[0].contains("--trace") && typed[1].contains("--trace="), "{yaml}");
}
