//! The command line: names, refusals, full disks, help, completions, and output without a reader.

mod program;

use program::{Folder, GENERATE, command, dlio, run, small, stderr, stdout};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

#[test]
fn short_name_selects_and_prints_newest_variant() {
    let folder = Folder::new("alias");
    let output = run(&folder, &[GENERATE]);
    assert!(stdout(&output).contains("workload unet3d is unet3d_h100"), "{}", stdout(&output));
    assert!(stdout(&output).contains("AU"));
}

#[test]
fn a_run_of_nothing_in_particular_is_not_begun() {
    let folder = Folder::new("nothing-asked");
    let bare = Command::new(env!("CARGO_BIN_EXE_dlio")).arg("bench").current_dir(folder.path()).output();
    let output = bare.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("dlio bench workload=unet3d"), "{}", stderr(&output));
    assert!(folder.files("").is_empty());
}

#[test]
fn missing_files_are_counted_before_training() {
    let folder = Folder::new("missing-files");
    let many = "++workload.dataset.num_files_train=100";
    assert!(run(&folder, &[many, GENERATE, "++workload.workflow.train=false"]).status.success());
    for number in ["001", "040", "041", "097"] {
        std::fs::remove_file(folder.path().join(format!("data/train/img_{number}_of_100.npz"))).unwrap();
    }
    let output = run(&folder, &[many]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("4 of 100 training files are missing: ./data/train/img_001_of_100.npz"), "{said}");
    assert!(
        said.contains("img_041_of_100.npz, ...") && said.contains("++workload.workflow.generate_data=true"),
        "{said}"
    );
    let output = run(&folder, &[many, "--on-error=skip"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    assert!(stdout(&output).contains("note: 4 of 100 training files are missing"), "{}", stdout(&output));
    // With a sample of the files, the run fails when it reaches the first missing one.
    let sampled = run(&folder, &[many, "++workload.dataset.skip_listing=true"]);
    assert_ne!(sampled.status.code(), Some(0));
    assert!(!stderr(&sampled).contains("of 100 training files"), "{}", stderr(&sampled));
}

#[test]
fn hydras_short_options_of_folders_are_taken() {
    let folder = Folder::new("short-options");
    std::fs::create_dir_all(folder.path().join("own/workload")).unwrap();
    std::fs::write(folder.path().join("own/workload/mine.yaml"), "model: mine\ncheckpoint: {model_size: 7}\n").unwrap();
    for options in [&["-cd", "own"][..], &["-cp", "own"], &["-cd=own"], &["--config-dir", "own"]] {
        let output = dlio(&folder, &[&["bench"], options, &["workload=mine", "--cfg", "job"]].concat());
        assert!(
            stdout(&output).contains("name: mine") && stdout(&output).contains("model_size_bytes: 7"),
            "{output:?}"
        );
    }
    let output = dlio(&folder, &["bench", "-cn", "config", "workload=unet3d"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--config-name"), "{}", stderr(&output));
    assert!(stdout(&dlio(&folder, &["bench", "-c", "workload=unet3d"])).contains("name: unet3d"));
}

#[test]
fn missing_data_error_has_generate_command() {
    let folder = Folder::new("missing");
    let output = run(&folder, &[]);
    assert_eq!(output.status.code(), Some(3));
    let printed = stderr(&output);
    assert!(printed.contains("img_0_of_8.npz"), "{printed}");
    let line = printed.lines().find(|line| line.contains(" bench workload=unet3d")).unwrap();
    let typed: Vec<&str> = line.split_whitespace().skip(1).collect();
    assert!(dlio(&folder, &typed).status.success());
    assert!(run(&folder, &[]).status.success());
}

#[test]
fn default_data_are_generated_first() {
    let folder = Folder::new("first");
    let typed: Vec<String> = small(&[]).into_iter().filter(|word| !word.contains("data_folder")).collect();
    let output = dlio(&folder, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(folder.files("data/unet3d/train").len(), 8);
}

#[test]
fn original_name_accepts_original_arguments() {
    let folder = Folder::new("original");
    std::fs::create_dir_all(folder.path().join("configs/workload")).unwrap();
    let yaml = "framework: pytorch\nmodel: {name: mine}\nworkflow: {generate_data: True, train: True}\n\
        dataset: {data_folder: data, format: npz, num_files_train: 4, num_samples_per_file: 1, record_length_bytes: 4096}\n\
        reader: {data_loader: pytorch, batch_size: 2, file_shuffle: off}\ntrain: {epochs: 1, computation_time: 0.001}\n";
    std::fs::write(folder.path().join("configs/workload/mine.yaml"), yaml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
    let typed = [
        "workload=mine",
        "++hydra.run.dir=out/x",
        "++hydra.output_subdir=dlio_config",
        "++workload.reader.read_threads=1",
        "--config-dir=configs",
    ];
    let output = command.arg0("dlio_benchmark").current_dir(folder.path()).args(typed).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("[METRIC] Training Accelerator Utilization"), "{}", stdout(&output));
    let written: Vec<String> = folder.files("out/x");
    let expected = [
        "out/x/0_output.json",
        "out/x/0_per_epoch_stats.json",
        "out/x/dlio.log",
        "out/x/dlio_config/config.yaml",
        "out/x/dlio_config/hydra.yaml",
        "out/x/dlio_config/overrides.yaml",
        "out/x/summary.json",
    ];
    assert_eq!(written, expected);
    let overrides = std::fs::read_to_string(folder.path().join("out/x/dlio_config/overrides.yaml")).unwrap();
    assert!(overrides.contains("- ++workload.reader.read_threads=1"), "{overrides}");
}

#[test]
fn the_configuration_can_be_printed_without_running() {
    let folder = Folder::new("cfg");
    let output = run(&folder, &["--cfg", "job"]);
    assert!(stdout(&output).starts_with("workload:\n  framework: pytorch\n"), "{}", stdout(&output));
    let output = run(&folder, &["++workload.workflow.query=reader.batch_size"]);
    assert_eq!(stdout(&output).trim(), "2");
    assert!(folder.files(".").is_empty());
}

#[test]
fn generation_keeps_complete_files() {
    let folder = Folder::new("resume");
    let generate = [GENERATE, "++workload.workflow.train=false"];
    run(&folder, &generate);
    let file = folder.path().join("data/train/img_3_of_8.npz");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..100]).unwrap();
    std::fs::remove_file(folder.path().join("data/train/img_5_of_8.npz")).unwrap();
    let output = run(&folder, &generate);
    assert!(
        stdout(&output).contains("generated 2 files") && stdout(&output).contains("6 existed already"),
        "{}",
        stdout(&output)
    );
    assert_eq!(std::fs::read(&file).unwrap(), whole, "content is the same in every run");
}

#[test]
fn too_large_data_set_is_rejected_early() {
    let folder = Folder::new("space");
    let output = run(
        &folder,
        &[GENERATE, "++workload.dataset.num_files_train=100000000", "++workload.dataset.record_length_bytes=100000000"],
    );
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("GB free"));
    assert!(folder.files("data").is_empty());
}

/// Runs the arguments with a disk of `size` at `small` that only this run sees.
fn on_small_disk(folder: &Folder, size: &str, more: &[&str]) -> std::process::Output {
    std::fs::create_dir_all(folder.path().join("small")).unwrap();
    let typed: Vec<String> = small(more).into_iter().filter(|word| !word.contains("checkpoint=false")).collect();
    let mounted =
        format!("mount -t tmpfs -o size={size} tmpfs small && \"$@\"; code=$?; find small -type f >left; exit $code");
    Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &mounted, "sh", env!("CARGO_BIN_EXE_dlio")])
        .args(typed)
        .arg("++hydra.run.dir=run")
        .current_dir(folder.path())
        .output()
        .unwrap()
}

#[test]
fn disk_full_in_checkpoint_keeps_results() {
    let folder = Folder::new("full");
    // A file takes at least a page, which its length does not show: all seem to fit.
    let bytes = format!("++workload.checkpoint.file_bytes=[{}]", ["1"; 200].join(","));
    let checkpoints = [
        GENERATE,
        "++workload.workflow.checkpoint=true",
        "++workload.checkpoint.checkpoint_folder=small/checkpoints",
        "++workload.checkpoint.checkpoint_after_epoch=1",
    ];
    let output = on_small_disk(&folder, "400k", &[&checkpoints[..], &[&bytes]].concat());
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let printed = stderr(&output);
    assert!(printed.contains("-0.bin: No space left") && printed.contains("checkpoint_folder"), "{printed}");
    assert!(!std::fs::read_to_string(folder.path().join("left")).unwrap().contains("partial"));
    assert_eq!(folder.json("run/summary.json")["epochs"], 1);
}

#[test]
fn too_large_checkpoints_are_rejected_early() {
    let checkpoints = [
        GENERATE,
        "++workload.workflow.checkpoint=true",
        "++workload.checkpoint.checkpoint_folder=small/checkpoints",
        "++workload.checkpoint.checkpoint_after_epoch=1",
        "++workload.checkpoint.epochs_between_checkpoints=1",
    ];
    let of = |size: &str, more: &[&str]| {
        let folder = Folder::new("no-room");
        let output = on_small_disk(&folder, size, &[&checkpoints[..], more].concat());
        let begun = !folder.files("run").is_empty();
        (output.status.code(), begun, stderr(&output))
    };
    let large = "++workload.model.model_size_bytes=3000000";
    let (code, begun, printed) = of("5m", &[large]);
    assert_eq!((code, begun), (Some(4), false), "{printed}");
    assert!(printed.contains("checkpoints of the run need 6.0 MB (2 of 3.0 MB), "), "{printed}");
    assert!(of("8m", &[large]).1);
    // The data fit alone, and so do the checkpoints.
    let data = ["++workload.dataset.data_folder=small/data", "++workload.model.model_size_bytes=200000"];
    let (code, begun, printed) = of("600k", &data);
    assert_eq!((code, begun), (Some(4), false), "{printed}");
    assert!(printed.contains("need 0.4 MB (2 of 0.2 MB) in addition to 0.3 MB of data"), "{printed}");
    assert_eq!(of("1200k", &data).0, Some(0));
}

#[test]
fn uncreatable_run_directory_is_a_system_error() {
    let folder = Folder::new("runs");
    for place in ["++hydra.run.dir=/proc/nowhere", "++workload.output.folder=/proc/nowhere"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlio"));
        let output = command.current_dir(folder.path()).args(small(&[GENERATE, place])).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains("++workload.output.folder=DIR"), "{}", stderr(&output));
        assert!(folder.files("data").is_empty());
    }
}

#[test]
fn unwritable_checkpoint_directory_is_rejected_early() {
    let folder = Folder::new("checkpoints");
    std::fs::write(folder.path().join("occupied"), b"a file").unwrap();
    for place in ["/proc/nowhere/at/all", "occupied/checkpoints"] {
        let place = format!("++workload.checkpoint.checkpoint_folder={place}");
        let output = run(&folder, &[GENERATE, "++workload.workflow.checkpoint=true", &place]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains("checkpoint_folder=DIR"), "{}", stderr(&output));
        assert!(folder.files("data").is_empty() && folder.files("run").is_empty());
    }
}

#[test]
fn small_disk_is_reported_in_small_units() {
    let folder = Folder::new("units");
    let place = "++workload.dataset.data_folder=small/data";
    let output = on_small_disk(&folder, "100k", &[GENERATE, place]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("needs 0.3 MB, ./small has 0.1 MB free"), "{}", stderr(&output));
}

#[test]
fn a_million_files_are_planned_without_a_list() {
    let folder = Folder::new("million");
    let typed = [
        "++workload.dataset.num_files_train=1000000",
        "++workload.reader.data_loader=synthetic",
        "++workload.reader.batch_size=1000",
        "++workload.train.computation_time=0",
        "++workload.dataset.format=synthetic",
        "-q",
    ];
    // Names alone would need a hundred bytes per file; the program and its libraries need half of this.
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 60000 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_dlio")])
        .args(small(&typed))
        .arg("++hydra.run.dir=run")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(folder.json("run/0_output.json")["1"]["load"]["block1"].as_array().unwrap().len(), 1000);
}

#[test]
fn help_has_examples_and_every_shell_a_completion() {
    let folder = Folder::new("help");
    for arguments in [&["--help"][..], &["bench", "--help"]] {
        assert!(stdout(&dlio(&folder, arguments)).contains("Examples:"));
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&dlio(&folder, &["completions", shell])).contains("dlio"));
    }
    assert_eq!(dlio(&folder, &["--completions", "zsh"]).stdout, dlio(&folder, &["completions", "zsh"]).stdout);
    assert_eq!(dlio(&folder, &["nonsense"]).status.code(), Some(2));
    assert!(stdout(&dlio(&folder, &["--help"])).contains("\n  analyze "));
    let slip = dlio(&folder, &["analyse"]);
    assert!(slip.status.code() == Some(2) && stderr(&slip).contains("did you mean analyze?"), "{}", stderr(&slip));
}

#[test]
fn options_of_other_programs_are_answered_with_ours() {
    let folder = Folder::new("foreign-options");
    for (typed, words) in [
        (&["bench", "--workload", "unet3d"][..], "write workload=NAME"),
        (&["bench", "workload=unet3d", "-n", "4"], "write --ranks=N"),
        (&["bench", "workload=unet3d", "--num-files-train=8"], "write ++workload.dataset.num_files_train=8"),
        (&["bench", "workload=unet3d", "--trace", "here"], "write --trace=here"),
        (&["bench", "unet3d"], "write workload=unet3d"),
        (&["bench", "workload=unet3d", "--ranks=0"], "expected a number from 1 to 4096"),
    ] {
        let mut mistaken = Command::new(env!("CARGO_BIN_EXE_dlio"));
        let output = mistaken.current_dir(folder.path()).args(typed).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{typed:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{typed:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("to pass '--"), "{typed:?}: {}", stderr(&output));
        assert!(folder.files("").is_empty());
    }
}

#[test]
fn shells_complete_the_names_of_workloads() {
    let folder = Folder::new("names");
    let script = stdout(&dlio(&folder, &["completions", "bash"]));
    std::fs::write(folder.path().join("dlio.bash"), script).unwrap();
    // As readline calls it: the line, its words, and the cursor position.
    let completed = |line: &str, words: &str| {
        let script = format!(
            "source ./dlio.bash; COMP_LINE='{line}'; COMP_POINT={}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
             _dlio_workloads dlio \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo ${{COMPREPLY[@]}}",
            line.len()
        );
        let path = format!("{}:/bin:/usr/bin", folder.text());
        stdout(
            &Command::new("bash").current_dir(folder.path()).env("PATH", path).args(["-c", &script]).output().unwrap(),
        )
    };
    assert!(completed("dlio bench workload=u", "dlio bench workload = u").contains("unet3d unet3d_a100"));
    assert!(completed("dlio workloads show un", "dlio workloads show un").contains("unet3d_h100"));
    assert_eq!(completed("dlio wor", "dlio wor"), "workloads\n");
    let keys = completed("dlio bench ++workload.dataset.num_f", "dlio bench ++workload.dataset.num_f");
    assert!(keys.split_whitespace().any(|key| key == "++workload.dataset.num_files_train="), "{keys}");
    assert!(keys.split_whitespace().all(|key| key.starts_with("++workload.dataset.num_f")), "{keys}");
    // Other programs complete the words after `analyze` and `top`.
    for (verb, word) in [("analyze", "--fu"), ("top", "--on")] {
        let other = folder.path().join(format!("dlio-{verb}"));
        let function = "() { COMPREPLY=(\"$1 $2 ${COMP_WORDS[COMP_CWORD]}\"); }";
        let script = format!("#!/bin/sh\necho '_of_{verb}{function}; complete -F _of_{verb} -o default dlio-{verb}'\n");
        std::fs::write(&other, script).unwrap();
        std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let line = format!("dlio {verb} t {word}");
        assert_eq!(completed(&line, &line), format!("dlio-{verb} {word} {word}\n"));
        assert!(stdout(&dlio(&folder, &["completions", "fish"])).contains(&format!("dlio-{verb} ")));
    }
    let others = ["zsh", "fish"].map(|shell| stdout(&dlio(&folder, &["completions", shell])));
    assert!(others.iter().all(|script| script.contains("workload=unet3d ") && script.contains(" unet3d_h100")));
}

#[test]
fn unknown_verb_runs_program_of_that_name() {
    let folder = Folder::new("dispatch");
    let program = folder.path().join("dlio-hello");
    std::fs::write(&program, "#!/bin/sh\necho hello $1\nexit 7\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let output = command(&folder, &["hello", "there"])
        .env("PATH", folder.text().to_string() + ":/bin:/usr/bin")
        .output()
        .unwrap();
    assert_eq!((output.status.code(), stdout(&output).trim()), (Some(7), "hello there"));
}

#[test]
fn generate_command_works_for_every_workload() {
    let folder = Folder::new("generators");
    let small = [
        "++workload.dataset.num_files_train=4",
        "++workload.dataset.num_files_eval=4",
        "++workload.dataset.num_samples_per_file=2",
        "++workload.dataset.record_length_bytes=1024",
        "++workload.dataset.record_length_bytes_stdev=0",
        "++workload.reader.batch_size=2",
        "++workload.train.total_training_steps=2",
        "++workload.train.epochs=1",
        "++workload.train.computation_time=0",
        "++workload.model.model_size_bytes=1000",
    ];
    for name in ["default", "unet3d", "resnet50", "resnet50_tf", "cosmoflow", "bert", "dlrm", "megatron"] {
        let (workload, data) = (format!("workload={name}"), format!("++workload.dataset.data_folder={name}"));
        let typed = [&["bench", &workload, &data], &small[..]].concat();
        let refused = dlio(&folder, &typed);
        assert_eq!(refused.status.code(), Some(3), "{name}: {}", stderr(&refused));
        let printed = stderr(&refused);
        let line = printed.lines().find(|line| line.contains("generate_data=true")).unwrap().trim();
        let generated = Command::new("sh").args(["-c", line]).current_dir(folder.path()).output().unwrap();
        assert!(generated.status.success(), "{name}: {}", stderr(&generated));
        assert!(stdout(&generated).contains("generated ") && folder.files("checkpoints").is_empty());
        let trained = dlio(&folder, &typed);
        assert!(trained.status.success(), "{name}: {}", stderr(&trained));
    }
}

#[test]
fn checkpoints_that_are_counted_follow_generation() {
    let folder = Folder::new("both");
    let more = [
        GENERATE,
        "++workload.workflow.train=false",
        "++workload.workflow.checkpoint=true",
        "++workload.checkpoint.num_checkpoints_write=1",
        "++workload.checkpoint.time_between_checkpoints=0",
        "++workload.model.model_size_bytes=1000",
    ];
    let output = run(&folder, &more);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((folder.files("data").len(), folder.files("checkpoints").len()), (8, 1));
}

#[test]
fn cfg_prints_even_impossible_configurations() {
    let folder = Folder::new("impossible");
    for name in ["unet3d_h100_s3", "llama_405b", "unet3d"] {
        let workload = format!("workload={name}");
        let [full, short] =
            [&["bench", "--cfg", "job", &workload][..], &["bench", "-c", &workload]].map(|typed| dlio(&folder, typed));
        assert!(full.status.success(), "{name}: {}", stderr(&full));
        assert!(stdout(&full).starts_with("workload:\n") && stdout(&full).contains(&name[..5]), "{}", stdout(&full));
        assert_eq!(stdout(&full), stdout(&short));
    }
    assert_eq!(dlio(&folder, &["bench", "--cfg", "jobs", "workload=unet3d"]).status.code(), Some(2));
}

/// Returns the output of bash for `words`, with the program as $DLIO.
fn in_shell(folder: &Folder, words: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-c", words]).env("DLIO", env!("CARGO_BIN_EXE_dlio")).current_dir(folder.path());
    command.output().unwrap()
}

/// Returns a pipe whose reader is gone.
fn deserted() -> std::io::PipeWriter {
    std::io::pipe().unwrap().1
}

#[test]
fn answers_ignore_closed_pipe_and_report_full_disk() {
    let folder = Folder::new("answers");
    assert!(run(&folder, &[GENERATE]).status.success());
    for words in [
        "workloads",
        "workloads show unet3d",
        "workloads explain",
        "trace --list",
        "trace --help-env",
        "bench report run",
        "bench report run --json",
        "bench -c workload=unet3d",
        "completions bash",
    ] {
        let typed: Vec<&str> = words.split(' ').collect();
        let left = command(&folder, &typed).stdout(deserted()).output().unwrap();
        assert_eq!((left.status.code(), stderr(&left)), (Some(0), String::new()), "{words}");
        let full = in_shell(&folder, &format!("$DLIO {words} > /dev/full"));
        assert_eq!(full.status.code(), Some(4), "{words}");
        assert!(stderr(&full).contains("cannot write the output: No space left"), "{words}: {}", stderr(&full));
    }
}

#[test]
fn run_without_reader_continues() {
    let folder = Folder::new("deserted");
    let typed = small(&[GENERATE]);
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    for deaf in [false, true] {
        let mut run = command(&folder, &typed);
        run.stdout(deserted()).stderr(if deaf { deserted().into() } else { Stdio::piped() });
        let output = run.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
        assert_eq!(folder.json("run/summary.json")["epochs"], 2);
        std::fs::remove_dir_all(folder.path().join("run")).unwrap();
    }
    let full = in_shell(&folder, &format!("$DLIO {} ++hydra.run.dir=run > /dev/full", typed.join(" ")));
    assert!(full.status.success() && folder.path().join("run/summary.json").exists());
    assert_eq!(stderr(&full).matches("cannot write the output").count(), 1, "{}", stderr(&full));
}

/// Lines of prose end if the next word does not fit, or at the end of a paragraph.
#[test]
fn texts_of_help_are_wrapped_once() {
    let folder = Folder::new("help");
    let is_prose = |line: &str| line.starts_with(|c: char| c.is_alphabetic());
    for words in [["trace", "--help"], ["trace", "--help-env"]] {
        let help = String::from_utf8(dlio(&folder, &words).stdout).unwrap();
        let lines: Vec<&str> = help.lines().collect();
        for pair in
            lines.windows(2).filter(|pair| pair.iter().all(|line| is_prose(line)) && !pair[0].ends_with([':', '.']))
        {
            let word = pair[1].split(' ').next().unwrap_or_default();
            assert!(pair[0].len() + 1 + word.len() > 99, "{words:?}: {pair:?}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 116), "{words:?}");
    }
}
