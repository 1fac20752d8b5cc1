//! Options and verbs of other programs that users may type here, and their equivalents.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::keys::KEYS;

/// Names with the same meaning, and what to type instead.
type Equivalents = &'static [(&'static [&'static str], &'static str)];

/// Options typed for `dlio trace`, mostly those of strace, perf, py-spy and Darshan.
const TRACE: Equivalents = &[
    (
        &["-e", "--trace", "--call", "--calls", "--filter"],
        "every traced call is recorded; select calls later: dlio-analyze -e open,read (or files now: --include GLOB)",
    ),
    (
        &["-f", "--follow-forks", "--follow", "-F", "--children", "--subprocesses"],
        "child processes are always traced; omit it",
    ),
    (&["-c", "-C", "--summary-only", "--summary", "--stat"], "use --mode summary"),
    (
        &["-t", "-r", "-T", "-y", "-s", "-x", "-v", "--verbose", "-i", "-k", "--timestamps"],
        "times, durations, paths and sizes are always recorded; omit it",
    ),
    (
        &["-d", "--duration", "--for", "--timeout", "--time", "--seconds"],
        "the whole run is recorded; select a part later: dlio-analyze --from 5s --for 10s",
    ),
    (
        &["--attach"],
        "the tracer must be loaded when a program starts; use `strace -f -tt -T -y -p PID -o FILE` for a running one, \
         whose output dlio-analyze can read",
    ),
    (&["--rate", "--freq", "--frequency", "--sample"], "every call is recorded, not samples; omit it"),
    (&["--dir", "--output-dir", "--trace-dir", "--out", "--log", "-w"], "use -o DIR"),
    (&["--max-size", "--size", "--limit", "--buffer"], "use --max-mb MEGABYTES"),
    (&["--html", "--page"], "use --report FILE"),
    (&["--path", "-P"], "use --include GLOB"),
];

/// Verbs of other tools.
const VERBS: Equivalents = &[
    (&["record", "run", "start", "exec", "attach", "profile", "capture", "strace"], "dlio trace -- COMMAND"),
    (
        &["report", "stat", "stats", "show", "summary", "explain", "script", "view", "sql", "html", "compare", "diff"],
        "dlio analyze TRACE",
    ),
    (&["generate", "train", "benchmark", "simulate"], "dlio bench workload=NAME"),
    (&["list", "ls"], "dlio workloads"),
    (&["watch", "live", "ps"], "dlio top"),
    (&["completion"], "dlio completions SHELL"),
];

/// Returns the message for an option or verb of other tools; `None` for any other error.
pub fn message(error: &clap::Error, typed: &[String]) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let find = |known: Equivalents, name: &str| {
        known.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
    };
    match error.kind() {
        ErrorKind::UnknownArgument if typed.get(1).is_some_and(|verb| verb == "trace") => {
            let option = context(ContextKind::InvalidArg)?;
            Some(format!("dlio: unknown option {option} of dlio trace: {}", find(TRACE, option)?))
        }
        ErrorKind::InvalidSubcommand => {
            let verb = context(ContextKind::InvalidSubcommand)?;
            Some(format!("dlio: no command {verb}; use {}", find(VERBS, verb)?))
        }
        _ => None,
    }
}

/// Options typed for `dlio bench`; `N` and others stand for their value.
const BENCH: Equivalents = &[
    (&["--workload", "-w"], "workload=NAME"),
    (&["-n", "-np", "--np", "--nprocs", "--nproc", "--num-ranks", "--num-processes"], "--ranks=N"),
    (&["--dry-run", "--print-config", "--show"], "--cfg, which prints the configuration"),
    (&["-o", "--output", "--output-dir", "--results-dir"], "++hydra.run.dir=DIR"),
    (&["--config", "--config-file", "-f", "--file"], "workload=FILE"),
    (&["--force", "--overwrite"], "--regenerate"),
    (&["--generate", "--generate-data"], "++workload.workflow.generate_data=true"),
    (&["--profile"], "--trace"),
];

/// Returns the hint for an unknown option, as typed: `--name`, `--name=value` or `-n`.
pub fn bench_hint(typed: &str) -> Option<String> {
    let (option, value) = typed.split_once('=').map_or((typed, None), |(option, value)| (option, Some(value)));
    if let Some((_, instead)) = BENCH.iter().find(|(options, _)| options.contains(&option)) {
        return Some(format!("write {instead}"));
    }
    let word = option.strip_prefix("--")?.replace('-', "_");
    let name = word.rsplit('.').next().unwrap_or_default();
    let key = KEYS.iter().find(|key| key.path.rsplit('.').next() == Some(name))?;
    Some(format!("write ++workload.{}={}", key.path, value.unwrap_or("VALUE")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_other_programs_have_a_hint() {
        for (typed, expected) in [
            ("--workload", "write workload=NAME"),
            ("-n", "write --ranks=N"),
            ("--num_files_train=8", "write ++workload.dataset.num_files_train=8"),
            ("--batch-size", "write ++workload.reader.batch_size=VALUE"),
            ("--workload.train.epochs=2", "write ++workload.train.epochs=2"),
        ] {
            assert_eq!(bench_hint(typed).as_deref(), Some(expected), "{typed}");
        }
        assert_eq!(bench_hint("--nonsense"), None);
    }
}
