//! The loaders of a trainer: which readers belong together, and in which order their batches are requested.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::family::Family;
use super::passes::{Exchange, PassMade, Production};

/// The loaders of a trainer.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loaders {
    /// The object through which each process sends its batches: the workers of one PyTorch loader share a pipe.
    pub channels: BTreeMap<u32, u64>,
    /// `true` if readers get another request whenever they have made a batch, instead of in turns.
    pub is_out_of_order: bool,
    /// `true` if batches of several channels alternate.
    pub alternates: bool,
    /// `true` if batches of several channels follow each other in long runs, as those of training and validation do.
    #[serde(default)]
    pub has_phases: bool,
}

/// Readers that take turns are asked equally often, and one of them may be asked once more. This difference is none of turns.
const AHEAD: usize = 4;

/// Fewer changes from one channel to another one may be those from training to validation.
const CHANGES_MIN: usize = 4;

/// Fewer batches show no phases.
const BATCHES_MIN: usize = 16;

/// Batches alternate if at least one in this many comes from another channel than the previous one.
const CHANGES_PART: usize = 4;

impl Loaders {
    pub fn of(family: &Family, exchange: &Exchange) -> Loaders {
        let messages = &exchange.messages;
        let mut counts: BTreeMap<u32, BTreeMap<u64, usize>> = BTreeMap::new();
        for batch in &messages.batches {
            let proc = family.threads[batch.from].lane.proc;
            *counts.entry(proc).or_default().entry(batch.object).or_default() += 1;
        }
        let most = |objects: &BTreeMap<u64, usize>| objects.iter().max_by_key(|(_, count)| **count).map(|(id, _)| *id);
        let channels: BTreeMap<u32, u64> =
            counts.iter().filter_map(|(proc, objects)| Some((*proc, most(objects)?))).collect();
        let passes = exchange.passes.as_deref().unwrap_or_default();
        let is_out_of_order = !messages.is_shared && passes.iter().any(|pass| runs_ahead(&pass.productions));
        let changes: Vec<Changes> = passes.iter().map(|pass| changes(pass, &channels)).collect();
        let (alternates, has_phases) =
            (changes.iter().any(Changes::alternate), changes.iter().any(Changes::are_phases));
        Loaders { channels, is_out_of_order, alternates, has_phases }
    }

    /// Returns the number of the channel of a process.
    pub fn number(&self, proc: u32) -> Option<u64> {
        let own = self.channels.get(&proc)?;
        let all: BTreeSet<u64> = self.channels.values().copied().collect();
        all.iter().position(|object| object == own).map(|at| at as u64)
    }
}

/// Returns `true` if a reader was asked much more often than another one that was asked again later.
fn runs_ahead(productions: &[Production]) -> bool {
    let mut left: BTreeMap<u32, usize> = BTreeMap::new();
    productions.iter().for_each(|made| *left.entry(made.reader).or_default() += 1);
    let mut asked: BTreeMap<u32, usize> = left.keys().map(|reader| (*reader, 0)).collect();
    productions.iter().any(|made| {
        *asked.entry(made.reader).or_default() += 1;
        left.entry(made.reader).and_modify(|left| *left -= 1);
        let goes_on = asked.iter().filter(|(reader, _)| left[reader] > 0).map(|(_, count)| *count);
        goes_on.min().is_some_and(|least| asked[&made.reader] >= least + AHEAD)
    })
}

/// The batches of a pass, and how often one comes from another channel than the previous one.
struct Changes {
    batches: usize,
    changes: usize,
}

impl Changes {
    /// Returns `true` if the batches come from several channels in turns.
    fn alternate(&self) -> bool {
        self.changes >= CHANGES_MIN && CHANGES_PART * self.changes >= self.batches
    }

    /// Returns `true` if the batches come from several channels, many of one after many of the other.
    fn are_phases(&self) -> bool {
        self.changes > 0 && self.batches >= BATCHES_MIN && CHANGES_PART * self.changes < self.batches
    }
}

fn changes(pass: &PassMade, channels: &BTreeMap<u32, u64>) -> Changes {
    let mut taken: Vec<(i64, u32)> = pass.productions.iter().map(|made| (made.taken.1, made.reader)).collect();
    taken.sort_unstable();
    let changes = taken.windows(2).filter(|pair| channels.get(&pair[0].1) != channels.get(&pair[1].1)).count();
    Changes { batches: taken.len(), changes }
}

#[cfg(test)]
mod tests {
    use super::super::passes;
    use super::*;

    fn made(readers: &[u32]) -> Vec<Production> {
        readers.iter().zip(0..).map(|(reader, at)| passes::tests::made(*reader, at, at, false)).collect()
    }

    #[test]
    fn a_reader_that_is_asked_again_before_the_others_does_not_take_turns() {
        let turns = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2];
        assert!(!runs_ahead(&made(&turns)));
        // A reader that has no more samples is not asked any more.
        assert!(!runs_ahead(&made(&[0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1])));
        assert!(runs_ahead(&made(&[0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1, 2])));
    }

    #[test]
    fn batches_of_two_pipes_alternate_in_one_loop() {
        let pass = |readers: &[u32]| PassMade {
            productions: made(readers),
            readers: vec![0, 1],
            is_fresh: true,
            requested_from: 0,
        };
        let of = |objects: [u64; 2]| BTreeMap::from([(0, objects[0]), (1, objects[1])]);
        let in_turns = pass(&[0, 1, 0, 1, 0, 1, 0, 1]);
        assert!(changes(&in_turns, &of([7, 8])).alternate());
        assert!(!changes(&in_turns, &of([7, 7])).alternate());
        assert!(!changes(&pass(&[0, 0, 0, 0, 1, 1, 1, 1]), &of([7, 8])).alternate());
        // Validation after many steps of the training.
        let in_phases = pass(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(changes(&in_phases, &of([7, 8])).are_phases() && !changes(&in_phases, &of([7, 8])).alternate());
        assert!(!changes(&in_phases, &of([7, 7])).are_phases() && !changes(&in_turns, &of([7, 8])).are_phases());
    }
}
