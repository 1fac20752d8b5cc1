//! Selects one of the runs in a directory.

use std::path::Path;

use super::run_argument::RunChoice;
use super::selection::Selection;
use crate::load::bytes::bucket;
use crate::summary::report::runs::{Run, births};

/// The default of an answer if a trace has several runs and none is selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByDefault {
    /// The last run: the default of reports, because shares over two runs and the pause between them describe neither
    /// run.
    LastRun,
    /// All runs: the default of tables and exports, which must not drop rows silently.
    AllRuns,
}

/// Returns the time range in which the processes of the selected run start; `None` for all runs, or if there is only
/// one.
pub fn chosen(
    runs: &[Run],
    selection: &Selection,
    typed: &[String],
    by_default: ByDefault,
) -> Result<Option<(i64, i64)>, String> {
    match selection.run {
        Some(RunChoice::All) => Ok(None),
        // A trace that does not show its runs counts as one.
        Some(RunChoice::Last) if runs.is_empty() => Ok(None),
        Some(RunChoice::Last) => asked(runs, runs.len()).map(Some),
        Some(RunChoice::Number(number)) => asked(runs, number).map(Some),
        None if by_default == ByDefault::AllRuns || runs.len() < 2 => Ok(None),
        None if selection.chooses_runs() || !is_one_place(typed) => Ok(None),
        None => Ok(births(runs, runs.len() - 1)),
    }
}

/// Returns the time range of a run, counted from 1, or an error message.
fn asked(runs: &[Run], number: usize) -> Result<(i64, i64), String> {
    births(runs, number - 1).ok_or_else(|| match runs.len() {
        0 => "traces of this kind do not show which runs they contain: pass the files of one run, or --from and --to"
            .into(),
        1 => format!("there is no run {number}: this trace contains one run (--run 1)"),
        more => format!("there is no run {number}: this trace contains {more} runs (--run 1 to {more}, last or all)"),
    })
}

/// Returns `true` if the user gave a single directory or file. Several paths, or a pattern, already select runs.
fn is_one_place(typed: &[String]) -> bool {
    let [only] = typed else { return false };
    match bucket::is_object(Path::new(only)) {
        true => bucket::fixed(only) == only.trim_end_matches('/'),
        false => Path::new(only).exists(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::command::arguments::Arguments;

    fn of(words: &[&str], typed: &[&str], by_default: ByDefault) -> Result<Option<(i64, i64)>, String> {
        let run = |start_ts| Run { start_ts, end_ts: start_ts + 5, processes: 1, reported: true, ..Run::default() };
        let selection = Arguments::try_parse_from([&["dlio-analyze"], words].concat()).unwrap().selection;
        let typed: Vec<_> = typed.iter().map(|typed| typed.to_string()).collect();
        chosen(&[run(10), run(20), run(30)], &selection, &typed, by_default)
    }

    #[test]
    fn the_last_run_is_chosen_unless_something_else_is_said() {
        let (here, last) = (&["."][..], Ok(Some((30, i64::MAX))));
        assert_eq!(of(&[], here, ByDefault::LastRun), last);
        assert_eq!(of(&[], here, ByDefault::AllRuns), Ok(None));
        assert_eq!(of(&["--run", "all"], here, ByDefault::LastRun), Ok(None));
        assert_eq!(of(&["--run", "2"], here, ByDefault::AllRuns), Ok(Some((20, 30))));
        assert!(of(&["--run", "4"], here, ByDefault::LastRun).unwrap_err().contains("--run 1 to 3, last or all"));
        // Filters within a run apply to the last one; filters on a process or a date apply to all.
        for words in [&["--rank", "0"], &["--cat", "posix"], &["--from", "1s"], &["--epoch", "2"]] {
            assert_eq!(of(words, here, ByDefault::LastRun), last, "{words:?}");
        }
        for words in [&["--pid", "7"], &["--from", "2026-11-21T02:08:07"], &["--to", "1795226887.5"]] {
            assert_eq!(of(words, here, ByDefault::LastRun), Ok(None), "{words:?}");
        }
        // Several paths select several runs.
        assert_eq!(of(&[], &[".", ".."], ByDefault::LastRun), Ok(None));
        assert_eq!(of(&[], &["no/such/*"], ByDefault::LastRun), Ok(None));
        assert_eq!(of(&[], &["s3://bucket/trace/"], ByDefault::LastRun), last);
        assert_eq!(of(&[], &["s3://bucket/*/trace"], ByDefault::LastRun), Ok(None));
    }

    #[test]
    fn one_run_needs_no_choice() {
        let selection = Arguments::try_parse_from(["dlio-analyze"]).unwrap().selection;
        let run = Run { start_ts: 10, end_ts: 15, processes: 1, reported: true, ..Run::default() };
        for runs in [&[][..], &[run]] {
            assert_eq!(chosen(runs, &selection, &[".".into()], ByDefault::LastRun), Ok(None));
        }
        let last = Arguments::try_parse_from(["dlio-analyze", "--run", "last"]).unwrap().selection;
        assert_eq!(chosen(&[], &last, &[".".into()], ByDefault::AllRuns), Ok(None));
    }
}
