//! The option `--run`: the last run, a run by its number, or all runs.

/// The requested run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunChoice {
    All,
    Last,
    /// Counted from 1.
    Number(usize),
}

pub fn parse_run(text: &str) -> Result<RunChoice, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(RunChoice::Number(number)),
        _ if text == "last" => Ok(RunChoice::Last),
        _ if text == "all" => Ok(RunChoice::All),
        _ => Err("use last, all, or a number of 1 or more".into()),
    }
}
