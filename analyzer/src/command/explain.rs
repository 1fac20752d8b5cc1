//! `--explain` and `--show-sql`: the meaning of each section, and the SQL over the tables that gives the same figures.

use clap::builder::PossibleValuesParser;

use crate::compare::metrics;
use crate::similarity::{self, features};
use crate::summary::report::SECTIONS;

const COMPARING: &str = "\
    Comparing (--compare, --fail-if): counts and bytes are exact, any change of them is real. Times of one run a side \
    are judged by their steps, ten and more, by a block bootstrap: the mean of the faster half is what \
    they take undisturbed, and changed by 5 % and more where the whole 95 % interval lies beyond 2 %; the mean of all, which \
    moves with whatever else the machine does, where it lies beyond 10 %. Of four runs a side and more the U test tells, where one claim in twenty may be wrong. \
    The figures:\n";

/// The sections whose figures the tables give too.
pub fn sections_with_sql() -> PossibleValuesParser {
    PossibleValuesParser::new(SECTIONS.iter().filter(|section| section.sql.is_some()).map(|section| section.name))
}

/// All sections.
pub fn sections() -> PossibleValuesParser {
    PossibleValuesParser::new(SECTIONS.iter().map(|section| section.name))
}

/// The query that gives a section.
pub fn sql(section: &str) -> &'static str {
    SECTIONS.iter().find(|known| known.name == section).and_then(|known| known.sql).unwrap_or_default()
}

/// The meaning of every section, and of what is compared.
pub fn explanation() -> String {
    let paragraphs: Vec<_> = SECTIONS.iter().map(|section| section.meaning).collect();
    let comparing = [COMPARING, &metrics::listing(), "\n", similarity::MEANING, &features::listing()].concat();
    paragraphs.join("\n\n") + "\n\n" + &comparing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_is_explained() {
        let all = explanation();
        assert!(SECTIONS.iter().all(|section| section.meaning.len() > 20 && all.contains(section.meaning)));
        let with_sql = SECTIONS.iter().filter(|section| section.sql.is_some());
        assert!(with_sql.clone().count() >= 9 && with_sql.clone().all(|section| sql(section.name).starts_with("--")));
    }
}
