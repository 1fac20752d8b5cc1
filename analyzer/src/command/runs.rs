//! Choosing one of the runs that lie in a folder.

use crate::summary::report::runs::Run;

/// The run that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunChoice {
    Last,
    /// Counted from 1.
    Number(usize),
}

pub fn parse_run(text: &str) -> Result<RunChoice, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(RunChoice::Number(number)),
        _ if text == "last" => Ok(RunChoice::Last),
        _ => Err("use last, or a number from 1 on".into()),
    }
}

/// Begin and end of the run that is asked for; or why there is none.
pub fn chosen(runs: &[Run], choice: RunChoice) -> Result<(i64, i64), String> {
    let found = match choice {
        RunChoice::Last => runs.last(),
        RunChoice::Number(number) => runs.get(number - 1),
    };
    found.map(|run| (run.start_ts, run.end_ts.saturating_add(1))).ok_or_else(|| match runs.len() {
        0 => {
            "traces of this kind do not say which runs they hold: give the files of one run, or --from and --to".into()
        }
        1 => "there is one run in this trace (--run 1)".into(),
        more => format!("there are {more} runs in this trace (--run 1 to {more}, or last)"),
    })
}
