//! Parts of the trace that could not be used, and notes on the rest.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use dlio_schemas::native::Damage;
use serde::{Deserialize, Serialize};

use super::{Section, Summary};
use crate::filter::Filter;
use crate::load::sources::errors::Note;
use crate::load::{NAMES_TOGETHER, Trace};
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::many;
use crate::summary::report::layout::{SHOWN, heading, more};

#[derive(Serialize, Deserialize, Debug)]
pub struct DamageNote {
    pub path: String,
    pub what: String,
    /// `true` if the end is missing.
    pub cut: bool,
    /// Maximum number of lost events; `null` if unknown.
    pub events_max: Option<u64>,
    /// `true` if nothing is damaged and this is only a note.
    #[serde(default)]
    pub remark: bool,
    /// `true` if a run was selected and this file's run is unknown.
    #[serde(default)]
    pub run_unknown: bool,
}

/// The section on damage.
pub struct Damages;

impl Section for Damages {
    type Values = Vec<DamageNote>;

    const MEANING: &'static str = "\
        Damage: parts of the trace that could not be used, and the number of events that this may have cost. Notes: \
        other information about files that are not damaged.";
    const FIELDS: &'static str = "\
        a list: `path`, `what`, `cut`, `events_max` (how many events may be lost), `remark` (a note: nothing is \
        damaged), `run_unknown` (the report covers one of several runs, and the run of this file is unknown; files of \
        other runs are not listed)";
    const FIRST: bool = true;

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        notes(trace, &analysis.filter)
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        let values = &summary.damage;
        let (remarks, damage): (Vec<_>, Vec<_>) = values.iter().partition(|note| note.remark);
        if !remarks.is_empty() {
            heading("Notes", out);
            for note in remarks.iter().take(SHOWN) {
                let _ = writeln!(out, "  {}: {}", note.path, note.what);
            }
            more(remarks.len(), SHOWN, out);
        }
        if damage.is_empty() {
            return;
        }
        heading("Damage", out);
        for note in damage.iter().take(SHOWN) {
            let cost = match note.events_max {
                None => "number of lost events unknown".to_string(),
                Some(0) => "no events beyond the lost ones".to_string(),
                Some(most) => format!("at most {} lost", many(most, "event", "events")),
            };
            let of = if note.run_unknown { "; its run is unknown" } else { "" };
            let _ = writeln!(out, "  {}: {} ({cost}{of})", note.path, note.what.trim_start_matches(DAMAGED));
        }
        more(damage.len(), SHOWN, out);
    }
}

/// The first word of a note, which repeats the title.
const DAMAGED: &str = "damaged: ";

impl DamageNote {
    pub fn of(note: &Note) -> DamageNote {
        let cut = note.what == Damage::Cut;
        let (path, what) = (note.path.display().to_string(), note.what.to_string());
        let remark = matches!(note.what, Damage::Remark(_));
        DamageNote { path, what, cut, events_max: note.events_max, remark, run_unknown: false }
    }
}

/// Returns the notes on a trace. If a filter selects one run, notes on files of other runs are left out.
pub fn notes(trace: &Trace, filter: &Filter) -> Vec<DamageNote> {
    let all = trace.notes.lock().expect("notes");
    if filter.run.is_none() || all.is_empty() {
        return all.iter().map(DamageNote::of).collect();
    }
    let mut processes: HashMap<&Path, Vec<u32>> = HashMap::new();
    for source in &trace.sources {
        let of_source = source.processes().unwrap_or_default();
        source.paths().into_iter().for_each(|path| processes.entry(path).or_default().extend(&of_source));
    }
    let of = |proc: &u32| trace.catalog.is_process(*proc, |process| filter.takes_run_of(process));
    let is_dated = |proc: &u32| trace.catalog.is_process(*proc, |process| process.start_ts.is_some());
    let noted = |note: &Note| {
        // This note applies to the whole trace, but must name a file.
        if note.what == Damage::Remark(NAMES_TOGETHER) {
            return Some(DamageNote::of(note));
        }
        let known = processes.get(note.path.as_path()).map_or(&[][..], Vec::as_slice);
        let of_run: Vec<_> = known.iter().filter(|proc| of(proc)).collect();
        if !known.is_empty() && of_run.is_empty() {
            return None;
        }
        // A file of several processes may be damaged in the part of another run.
        let is_told = !of_run.is_empty() && of_run.len() == known.len() && of_run.into_iter().all(is_dated);
        Some(DamageNote { run_unknown: !is_told, ..DamageNote::of(note) })
    };
    all.iter().filter_map(noted).collect()
}

/// Returns text such as `3 files truncated, 2 places damaged: at most 8,192 events lost`, or nothing.
pub fn damage_sentence(notes: &[DamageNote]) -> Option<String> {
    let notes: Vec<_> = notes.iter().filter(|note| !note.remark).collect();
    let cut = notes.iter().filter(|note| note.cut).count();
    let known: u64 = notes.iter().filter_map(|note| note.events_max).sum();
    let lost = match notes.iter().all(|note| note.events_max.is_some()) {
        true if known == 0 => "no event is missing beyond the lost ones".into(),
        true => format!("at most {} lost", many(known, "event", "events")),
        false => "the number of lost events is unknown".into(),
    };
    let many = |n: usize, one: &str, more: &str| many(n as u64, one, more);
    let mut parts = Vec::new();
    if cut > 0 {
        parts.push(many(cut, "file truncated", "files truncated"));
    }
    if notes.len() > cut {
        parts.push(many(notes.len() - cut, "place damaged", "places damaged"));
    }
    (!parts.is_empty()).then(|| format!("{}: {lost}", parts.join(", ")))
}
