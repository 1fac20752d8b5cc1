//! Predictions of the runs before (`--what-if`), next to the training times of the runs after.

use serde::Serialize;

use super::run::Run;
use crate::replay::predict::{Loader, Prediction, Replay};
use crate::summary::figures::quantiles::median;

/// Changes to a loader that its batches show, by the prefix of their name.
const SHOWN_BY_BATCHES: [&str; 4] = ["workers=", "prefetch=", "order=", "persistent="];

/// A predicted training time, and the measured one.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Predicted {
    pub change: String,
    /// The change in words.
    pub what: String,
    pub predicted_ns: i64,
    pub low_ns: i64,
    pub high_ns: i64,
    /// The median of the runs after.
    pub measured_ns: i64,
    /// `true` if the interval contains the measured time.
    pub inside: bool,
}

/// The predictions for the change that was made.
#[derive(Serialize, Clone, Debug, PartialEq, Default)]
pub struct Predictions {
    /// The change to the loader that batches show, such as `workers=4`; `null` if they show none.
    pub made: Option<String>,
    pub rows: Vec<Predicted>,
    pub notes: Vec<String>,
}

/// Compares the predictions of the runs before with the runs after. Returns `None` if nothing was predicted or if one
/// side has no training.
pub fn predictions(before: &Run, after: &[Run]) -> Option<Predictions> {
    let replay = before.what_if.as_ref()?;
    let note = |text: String| {
        let notes = vec![text];
        before.typed_changes.then(|| Predictions { notes, ..Predictions::default() })
    };
    if let Some(why) = &replay.refused {
        return note(format!("The run before cannot be replayed: {why}."));
    }
    let measured: Vec<&Replay> = after.iter().filter_map(|run| run.what_if.as_ref()).collect();
    let Some(first) = measured.first() else { return note("The run after shows no training.".into()) };
    let mut found = Predictions::default();
    let loaders = replay.loader.zip(first.loader);
    // Runs of different lengths are compared per batch.
    let length = |replay: &Replay| replay.loader.map_or(1, |loader| loader.batches.max(1)) as f64;
    let took =
        median(measured.iter().map(|replay| replay.measured_ns as f64 / length(replay)).collect())? * length(first);
    let parts = loaders.map_or_else(Vec::new, |(was, is)| was.changes(&is));
    found.made = (!parts.is_empty()).then(|| parts.join(","));
    let ratio = loaders.map_or(1.0, |(was, is)| is.batches.max(1) as f64 / was.batches.max(1) as f64);
    if ratio != 1.0 {
        let (was, is) = loaders.map_or((0, 0), |(was, is)| (was.batches, is.batches));
        found.notes.push(format!("The runs have {was} and {is} batches; predictions are scaled to {is}."));
    }
    let rows = chosen(before, replay, loaders, &mut found);
    let row = |row: &Prediction| {
        let [predicted, low, high] = [row.time_ns?, row.low_ns?, row.high_ns?].map(|ns| (ns as f64 * ratio) as i64);
        Some(Predicted {
            change: row.change.clone(),
            what: row.what.clone(),
            predicted_ns: predicted,
            low_ns: low,
            high_ns: high,
            measured_ns: took as i64,
            inside: low as f64 <= took && took <= high as f64,
        })
    };
    found.rows = rows.into_iter().filter_map(row).collect();
    (!found.rows.is_empty() || found.made.is_some() || before.typed_changes).then_some(found)
}

/// Returns the predictions for the change that was made, and notes how they were chosen.
fn chosen<'a>(
    before: &Run,
    replay: &'a Replay,
    loaders: Option<(Loader, Loader)>,
    found: &mut Predictions,
) -> Vec<&'a Prediction> {
    if before.typed_changes {
        let refused = |row: &Prediction| Some(format!("{}: no prediction, {}.", row.change, row.refused.as_ref()?));
        found.notes.extend(replay.changes.iter().filter_map(refused));
        return replay.changes.iter().collect();
    }
    let mut all: Vec<&Prediction> = Vec::new();
    for row in replay.changes.iter().chain(&replay.remedies) {
        if !all.iter().any(|other| other.change == row.change) {
            all.push(row);
        }
    }
    if let Some(made) = &found.made {
        all.retain(|row| is_same_change(&row.change, made));
        let note = format!("The loader changed ({made}). To compare with the prediction for it, add --what-if {made}.");
        found.notes.extend(all.is_empty().then_some(note));
        return all;
    }
    all.retain(|row| row.change.contains('=') && !SHOWN_BY_BATCHES.iter().any(|key| row.change.contains(key)));
    let why = match (loaders, replay.loader) {
        (Some(_), _) => "The loader has the same setup in both runs",
        (None, None) => "The run before does not show how its loader is set up",
        (None, Some(_)) => "The run after does not show how its loader is set up",
    };
    found.notes.push(format!(
        "{why}. Look at the row of the change that you made; --what-if CHANGE adds a row for another change."
    ));
    all
}

/// Returns `true` if two texts name the same changes, in any order.
fn is_same_change(a: &str, b: &str) -> bool {
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split(',').map(|part| part.trim().to_string()).collect();
        parts.sort();
        parts
    };
    parts(a) == parts(b)
}

impl Loader {
    /// Returns the changes from this loader to another, as `--what-if` writes them.
    fn changes(&self, after: &Loader) -> Vec<String> {
        let mut parts = Vec::new();
        parts.extend((self.readers != after.readers).then(|| format!("workers={}", after.readers)));
        parts.extend((self.prefetch != after.prefetch).then(|| format!("prefetch={}", after.prefetch)));
        parts.extend((!self.any_order && after.any_order).then(|| "order=any".to_string()));
        let is_persistent = |loader: &Loader| loader.passes > 1 && loader.fresh_passes <= 1;
        parts.extend((!is_persistent(self) && is_persistent(after)).then(|| "persistent=1".to_string()));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: Loader =
        Loader { readers: 2, prefetch: 2, any_order: false, passes: 3, fresh_passes: 3, batches: 100 };

    fn run(measured_ns: i64, loader: Loader, changes: &[(&str, i64)]) -> Run {
        let row = |(change, time): &(&str, i64)| Prediction {
            change: change.to_string(),
            time_ns: Some(*time),
            low_ns: Some(time - 50),
            high_ns: Some(time + 50),
            ..Prediction::default()
        };
        let changes = changes.iter().map(row).collect();
        let replay = Replay { measured_ns, loader: Some(loader), changes, ..Replay::default() };
        Run { what_if: Some(replay), ..Run::default() }
    }

    #[test]
    fn the_prediction_for_the_change_that_was_made_is_compared() {
        let before =
            run(1000, LOADER, &[("storage=2", 700), ("workers=4", 600), ("persistent=1", 900), ("no wait", 500)]);
        let four = run(640, Loader { readers: 4, ..LOADER }, &[]);
        let found = predictions(&before, &[four]).unwrap();
        assert_eq!(found.made.as_deref(), Some("workers=4"));
        let [row] = found.rows.as_slice() else { panic!("{found:?}") };
        assert_eq!((row.change.as_str(), row.predicted_ns, row.measured_ns, row.inside), ("workers=4", 600, 640, true));
        let kept = run(960, Loader { fresh_passes: 1, ..LOADER }, &[]);
        let found = predictions(&before, &[kept]).unwrap();
        assert_eq!((found.rows[0].change.as_str(), found.rows[0].inside), ("persistent=1", false));
    }

    #[test]
    fn a_change_without_a_prediction_names_the_option_that_predicts_it() {
        let before = run(1000, LOADER, &[("workers=4", 600)]);
        let found = predictions(&before, &[run(640, Loader { readers: 8, prefetch: 4, ..LOADER }, &[])]).unwrap();
        assert!(found.rows.is_empty() && found.notes[0].contains("--what-if workers=8,prefetch=4"), "{found:?}");
    }

    #[test]
    fn changes_outside_the_loader_are_listed_and_scaled_to_the_batches() {
        let before = run(1000, LOADER, &[("storage=2", 700), ("workers=4", 600), ("no wait", 500)]);
        let found = predictions(&before, &[run(1420, Loader { batches: 200, ..LOADER }, &[])]).unwrap();
        assert_eq!((found.made.clone(), found.rows.len()), (None, 1), "{found:?}");
        let row = &found.rows[0];
        assert_eq!((row.change.as_str(), row.predicted_ns, row.low_ns, row.inside), ("storage=2", 1400, 1300, true));
        assert!(found.notes[0].contains("100 and 200 batches"), "{found:?}");
    }

    #[test]
    fn nothing_is_compared_without_a_prediction_or_a_training() {
        let before = run(1000, LOADER, &[("storage=2", 700)]);
        assert_eq!(predictions(&before, &[Run::default()]), None);
        assert_eq!(predictions(&Run::default(), std::slice::from_ref(&before)), None);
        let mut refused = before.clone();
        refused.what_if.as_mut().unwrap().refused = Some("why".into());
        assert_eq!(predictions(&refused, &[before]), None);
    }
}
