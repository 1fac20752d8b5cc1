//! `--tables`: lists the tables that queries read.

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::listing;
use crate::command::outcome::Outcome;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

struct Tables;

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    typed.tables.then(|| Box::new(Tables) as Box<dyn Answer>)
}

impl Answer for Tables {
    fn give(&mut self, _: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        print(&listing::everything(), out)
    }
}
