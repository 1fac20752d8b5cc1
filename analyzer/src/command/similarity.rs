//! `--compare OTHER --similarity`: how alike two runs are in their I/O.

use std::io::Write;
use std::path::PathBuf;

use super::arguments::Arguments;
use super::open_trace::Input;
use super::outcome::{Outcome, report_damage, width};
use super::refusals::failure::Failure;
use super::refusals::incomparable::Incomparable;
use super::{progress, time_window};
use crate::atomic_file::Output;
use crate::io_profile::{Behaviour, observe};
use crate::load::Trace;
use crate::load::sources::errors::LoadError;
use crate::scan::Progress;
use crate::similarity::{Side, similarity, text};
use crate::summary::report::damage::DamageNote;
use crate::tables::output::Format;

/// Reads both runs, holds them against each other, prints.
pub fn run(arguments: &Arguments, mut out: Output) -> Result<Outcome, Failure> {
    let form = form(arguments)?;
    let ([typed], [other]) = (arguments.traces.as_slice(), arguments.compare.as_slice()) else {
        return Err(Incomparable::TwoRuns.into());
    };
    let mut lacking = false;
    let typed = side(arguments, typed, &mut lacking)?;
    let other = side(arguments, other, &mut lacking)?;
    let (before, after) = if arguments.compared_first { (other, typed) } else { (typed, other) };
    let printed = form(arguments, &similarity(&before, &after));
    out.write_all(printed.as_bytes()).map_err(Failure::Write)?;
    out.finish().map_err(Failure::Write)?;
    Ok(Outcome { lacking, nothing_passed: false, limits: None })
}

type Form = fn(&Arguments, &crate::similarity::Similarity) -> String;

/// Before anything is read: forms in which it cannot be had.
fn form(arguments: &Arguments) -> Result<Form, Failure> {
    match arguments.format {
        Format::Text => Ok(|arguments, similarity| text::print(similarity, width(arguments))),
        Format::Json => {
            Ok(|_, similarity| serde_json::to_string_pretty(similarity).expect("plain values that are finite") + "\n")
        }
        other => Err(Incomparable::SimilarityFormat(other).into()),
    }
}

fn side(arguments: &Arguments, typed: &str, lacking: &mut bool) -> Result<Side, Failure> {
    let (_, behaviour) = observed(arguments, &[typed.to_string()], lacking)?;
    if behaviour.analysis.events() == 0 {
        let why = "it holds no events, or none that pass the filters".to_string();
        return Err(Incomparable::Report(PathBuf::from(typed), why).into());
    }
    Ok(Side::of(typed, &behaviour))
}

/// A run that was typed, read once with everything its files tell.
pub fn observed(arguments: &Arguments, typed: &[String], lacking: &mut bool) -> Result<(Trace, Behaviour), Failure> {
    let (trace, _) = Input::find(arguments, typed)?.open(arguments)?;
    let arguments = &time_window::resolved(arguments, &trace)?;
    let filter = arguments.filter(trace.start());
    let progress = Progress::default();
    let count = || observe(&trace, &filter, arguments.threads(), &progress);
    let shown = progress::shown(&progress, trace.size(), !arguments.no_progress, count);
    let behaviour = shown.map_err(|error| Failure::Load(LoadError::Memory(error)))?;
    let damage: Vec<_> = trace.notes.lock().expect("notes").iter().map(DamageNote::of).collect();
    let lost = behaviour.analysis.counted.processes.iter().any(|process| process.lost > process.aggregated);
    *lacking |= report_damage(&damage) | lost;
    Ok((trace, behaviour))
}
