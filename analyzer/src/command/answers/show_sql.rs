//! `--show-sql SECTION`: prints the query for a section.

use super::answer::{Answer, print};
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::explanations::sql;
use crate::command::outcome::Outcome;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

struct ShowSql {
    section: String,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let section = typed.show_sql.clone()?;
    Some(Box::new(ShowSql { section }))
}

impl Answer for ShowSql {
    fn give(&mut self, _: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        print(&sql(&self.section), out)
    }
}
