//! Reads a run once, with everything that its files show about how it uses them.

use std::sync::Arc;

use super::open_trace::{Input, OpenTrace};
use super::outcome::report_damage;
use super::progress;
use super::question::Question;
use super::refusals::failure::Failure;
use crate::io_profile::{IoProfile, observe};
use crate::load::Trace;
use crate::summary::report::Section;
use crate::summary::report::damage::notes;
use crate::summary::report::runs::{Runs, scope};

/// A run and its files.
pub struct ObservedRun {
    pub trace: Arc<Trace>,
    pub behaviour: IoProfile,
    /// `true` if part of the trace is damaged, or events are lost.
    pub lacking: bool,
}

/// Reads a run and reports its damage. If the trace has several runs, reads the last one by default.
pub fn observe_run(question: &Question, typed: &[String]) -> Result<ObservedRun, Failure> {
    let OpenTrace { trace, filter, .. } = OpenTrace::open(question, Input::find(question, typed)?)?;
    let behaviour =
        progress::reading(question, &trace, |progress| observe(&trace, &filter, question.threads, progress))?;
    if let Some(scope) = scope(&Runs::values(&behaviour.analysis, &trace)).filter(|_| filter.run.is_some()) {
        notice!("dlio-analyze: {}: {scope}", typed.join(" "));
    }
    let damage = notes(&trace, &filter);
    let lost = behaviour.analysis.counted.processes.iter().any(|process| process.lost > process.aggregated);
    let lacking = report_damage(&damage) | lost;
    Ok(ObservedRun { trace, behaviour, lacking })
}
