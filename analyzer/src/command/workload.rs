//! `--workload FILE`: the workload that does what the trace did.

use std::io::Write;
use std::path::Path;

use super::arguments::Arguments;
use super::outcome::Outcome;
use super::refusals::destination::Destination;
use super::refusals::failure::Failure;
use super::similarity::observed;
use crate::atomic_file::Output;
use crate::workload::entry::Confidence;
use crate::workload::{Workload, derive};

/// Derives it, writes it, says how to run it.
pub fn run(arguments: &Arguments, file: &Path, mut out: Output) -> Result<Outcome, Failure> {
    if file.exists() && !arguments.force && file.is_file() {
        return Err(Destination::Exists(file.to_path_buf()).into());
    }
    let failed = |error| Failure::unwritable(file, error);
    let to_stdout = file == Path::new("-");
    let draft = if to_stdout { None } else { Some(crate::atomic_file::Draft::new(file).map_err(failed)?) };
    let mut lacking = false;
    let (trace, behaviour) = observed(arguments, &arguments.traces, &mut lacking)?;
    let named = if to_stdout { "job.yaml".to_string() } else { file.display().to_string() };
    let workload = derive(&behaviour, &trace, &arguments.traces, &named)
        .map_err(|refusal| Failure::NoWorkload(arguments.traces.join(" "), refusal))?;
    let said = match draft {
        None => workload.yaml(),
        Some(draft) => {
            draft.file().write_all(workload.yaml().as_bytes()).map_err(failed)?;
            draft.commit().map_err(failed)?;
            announcement(&workload, &named)
        }
    };
    out.write_all(said.as_bytes()).and_then(|()| out.finish()).map_err(Failure::Write)?;
    Ok(Outcome { lacking, nothing_passed: false, limits: None })
}

fn announcement(workload: &Workload, file: &str) -> String {
    let count = |confidence: Confidence| workload.entries.iter().filter(|entry| entry.confidence == confidence).count();
    let guessed: Vec<_> =
        workload.entries.iter().filter(|entry| entry.confidence == Confidence::Guess).map(|entry| entry.key).collect();
    let guesses = match guessed.len() {
        0 => String::new(),
        _ => format!("Nothing tells {}: look at them.\n", guessed.join(", ")),
    };
    format!(
        "{file}: {} values are certain, {} likely, {} guessed.\n{guesses}Run it with\n    dlio bench workload={file}\nand hold it against the program with what stands at its head.\n",
        count(Confidence::Certain),
        count(Confidence::Likely),
        count(Confidence::Guess)
    )
}
