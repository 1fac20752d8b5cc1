//! The words for the loop that takes batches: it is called a training only if the trace shows one.
//!
//! Calls show a thread that takes data from readers and works on it. That may be a training, a conversion of files or a
//! server: only spans, a framework, a GPU or the name of the program distinguish them.

use serde::{Deserialize, Serialize};

use super::training::RankGroup;

/// The name of the loop that takes batches.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Wording {
    #[default]
    Training,
    MainLoop,
}

impl Wording {
    /// Returns the words for trainers: those of a training if one of them is known to train.
    pub fn of<'a>(mut groups: impl Iterator<Item = &'a RankGroup>) -> Wording {
        if groups.any(RankGroup::trains) { Wording::Training } else { Wording::MainLoop }
    }

    /// `77 % of training`
    pub fn noun(self) -> &'static str {
        self.choose("training", "the main loop")
    }

    /// `the training lasted 3 s`
    pub fn definite(self) -> &'static str {
        self.choose("the training", "the main loop")
    }

    /// The noun at the start of a sentence.
    pub fn subject(self) -> &'static str {
        self.choose("Training", "The main loop")
    }

    /// The name of a row in a table.
    pub fn row(self) -> &'static str {
        self.choose("training", "main loop")
    }

    /// `train.py trained for 3 s`
    pub fn verb(self) -> &'static str {
        self.choose("trained", "ran its main loop")
    }

    /// `2 trainers trained for 3 s`
    pub fn plural_verb(self) -> &'static str {
        self.choose("trained", "ran their main loops")
    }

    /// `waiting for batches`
    pub fn items(self) -> &'static str {
        self.choose("batches", "data")
    }

    /// `the training thread wrote files`
    pub fn thread(self) -> &'static str {
        self.choose("the training thread", "the thread that runs the main loop")
    }

    /// `mean of 2 trainers`
    pub fn processes(self) -> &'static str {
        self.choose("trainers", "processes")
    }

    fn choose(self, training: &'static str, main_loop: &'static str) -> &'static str {
        match self {
            Wording::Training => training,
            Wording::MainLoop => main_loop,
        }
    }
}

impl RankGroup {
    /// Returns `true` if something other than its calls shows that it trains.
    pub fn trains(&self) -> bool {
        let name = self.trainer.to_ascii_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        let is_named = words.any(|word| word.starts_with("train") || word.starts_with("pretrain"));
        !self.inferred || self.torch || self.gpu_untimed || self.device.is_some() || is_named
    }
}
