//! `--sql QUERY`: queries the tables.

use std::io::Read;

use super::answer::Answer;
use crate::atomic_file::Output;
use crate::command::arguments::Arguments;
use crate::command::interrupts::Interrupts;
use crate::command::outcome::Outcome;
use crate::command::question::Question;
use crate::command::refusals::failure::Failure;
use crate::command::shared_trace::SharedTrace;

struct Sql {
    typed: Vec<String>,
    /// The SQL texts.
    queries: Vec<String>,
}

pub fn requested(typed: &Arguments) -> Option<Box<dyn Answer>> {
    let sql = Sql { typed: typed.sql.clone(), queries: Vec::new() };
    (!sql.typed.is_empty()).then(|| Box::new(sql) as Box<dyn Answer>)
}

impl Answer for Sql {
    fn check(&mut self, _: &Question) -> Result<(), Failure> {
        self.queries = self.typed.iter().map(|typed| some_query(typed)).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn give(&mut self, trace: &SharedTrace, out: &mut Output) -> Result<Outcome, Failure> {
        let tables = trace.queries()?;
        for sql in &self.queries {
            tables.run(sql, &mut Interrupts::ignored(), out)?;
        }
        Ok(Outcome::default())
    }
}

/// Returns the text of a query; rejects an empty one.
fn some_query(typed: &str) -> Result<String, Failure> {
    let sql = query(typed)?;
    match sql.trim_matches(|c: char| c.is_whitespace() || c == ';').is_empty() {
        true => Err(Failure::EmptyQuery(typed.into())),
        false => Ok(sql),
    }
}

fn query(typed: &str) -> Result<String, Failure> {
    if let Some(path) = typed.strip_prefix('@') {
        return std::fs::read_to_string(path).map_err(|error| Failure::QueryFile(path.into(), error));
    }
    if typed == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|error| Failure::QueryFile("-".into(), error))?;
        return Ok(text);
    }
    Ok(typed.into())
}
