//! Matches rows of two runs by meaning: functions and spans by name, directories by pattern, ranks by number.
//!
//! Process numbers, hosts and absolute paths never match rows, because no two runs share them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Claim;
use super::run::{Folder, Function, Rank, Run};
use crate::summary::figures::pattern::pattern;
use crate::summary::report::folders::common;

/// The totals of a row on one side.
#[derive(Serialize, Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    pub count: u64,
    /// Total over all calls.
    pub time_ns: u64,
    pub bytes: u64,
    /// Per call; `null` if the row covers several kinds of calls.
    pub median_ns: Option<f64>,
}

/// The change of a row.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    Added,
    Gone,
    More,
    Fewer,
    /// An equal number of calls, even if they took a different time.
    Same,
}

#[derive(Serialize, Clone, Debug)]
pub struct Row {
    pub key: String,
    pub group: Group,
    pub before: Option<Figures>,
    pub after: Option<Figures>,
    pub change_ns: i64,
}

/// Pairs the rows of both sides, with the largest change in time first.
fn aligned(before: BTreeMap<String, Figures>, mut after: BTreeMap<String, Figures>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::with_capacity(before.len());
    for (key, figures) in before {
        let other = after.remove(&key);
        rows.push(row(key, Some(figures), other));
    }
    rows.extend(after.into_iter().map(|(key, figures)| row(key, None, Some(figures))));
    rows.sort_by_key(|row| std::cmp::Reverse(row.change_ns.unsigned_abs()));
    rows
}

fn row(key: String, before: Option<Figures>, after: Option<Figures>) -> Row {
    let [a, b] = [before, after].map(Option::unwrap_or_default);
    let group = match (before, after) {
        (None, _) => Group::Added,
        (_, None) => Group::Gone,
        _ => match b.count.cmp(&a.count) {
            std::cmp::Ordering::Greater => Group::More,
            std::cmp::Ordering::Less => Group::Fewer,
            std::cmp::Ordering::Equal => Group::Same,
        },
    };
    Row { key, group, before, after, change_ns: b.time_ns as i64 - a.time_ns as i64 }
}

/// Sums the rows of each key.
fn by_key(rows: impl Iterator<Item = (String, Figures)>) -> BTreeMap<String, Figures> {
    let mut keys: BTreeMap<String, Figures> = BTreeMap::new();
    for (key, figures) in rows {
        keys.entry(key)
            .and_modify(|sum| {
                sum.count += figures.count;
                sum.time_ns += figures.time_ns;
                sum.bytes += figures.bytes;
                sum.median_ns = None;
            })
            .or_insert(figures);
    }
    keys
}

fn of_function(function: &Function) -> Figures {
    Figures {
        count: function.count,
        time_ns: function.time_ns,
        bytes: function.bytes.unwrap_or(0),
        median_ns: Some(function.duration_ns.median),
    }
}

fn key(function: &Function) -> String {
    format!("{} {}", function.cat, function.name)
}

fn named<'a>(functions: impl Iterator<Item = &'a Function>) -> BTreeMap<String, Figures> {
    by_key(functions.map(|function| (key(function), of_function(function))))
}

/// The suffix of call names that move bytes on pipes and similar; [`ON_PIPES`] explains it to users.
const PAST_FILES: &str = "(pipes)";
pub const ON_PIPES: &str = "(pipes): on pipes, sockets and terminals, and not on files.";

/// Returns `true` if the row covers calls on pipes and similar.
pub fn is_past_files(row: &Row) -> bool {
    row.key.ends_with(PAST_FILES)
}

/// Returns file calls, and separate rows for calls of the same name on pipes and similar. Waits count as neither.
fn calls(run: &Run) -> BTreeMap<String, Figures> {
    let past = |function: &Function| match function.class == "wait" {
        true => key(function),
        false => format!("{} {PAST_FILES}", key(function)),
    };
    let files = run.functions.iter().map(|function| (key(function), of_function(function)));
    by_key(files.chain(run.past_files.iter().map(|function| (past(function), of_function(function)))))
}

pub fn functions(before: &Run, after: &Run) -> Vec<Row> {
    aligned(calls(before), calls(after))
}

pub fn spans(before: &Run, after: &Run) -> Vec<Row> {
    aligned(named(before.spans.iter()), named(after.spans.iter()))
}

pub fn folders(before: &Run, after: &Run) -> Vec<Row> {
    aligned(patterns(&before.directories), patterns(&after.directories))
}

/// Returns directories by pattern, relative to their common parent.
fn patterns(folders: &[Folder]) -> BTreeMap<String, Figures> {
    let root = folders.iter().map(|folder| folder.directory.clone()).reduce(common).unwrap_or_default();
    let row = |folder: &Folder| {
        let below = folder.directory[root.len()..].trim_start_matches('/');
        let key = if below.is_empty() { ".".into() } else { pattern(below) };
        let bytes = folder.bytes_read + folder.bytes_written;
        (key, Figures { count: folder.opens, time_ns: folder.time_ns, bytes, median_ns: None })
    };
    by_key(folders.iter().map(row))
}

pub fn ranks(before: &Run, after: &Run) -> Vec<Row> {
    let rows = |run: &Run| by_key(run.ranks.iter().map(|rank| (format!("rank {}", rank.rank), of_rank(rank))));
    aligned(rows(before), rows(after))
}

fn of_rank(rank: &Rank) -> Figures {
    Figures {
        count: rank.events,
        time_ns: rank.read_ns + rank.write_ns + rank.metadata_ns + rank.sync_ns,
        bytes: rank.bytes_read + rank.bytes_written,
        median_ns: None,
    }
}

/// A finding on one side or on both.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct FindingChange {
    pub id: String,
    pub change: Turn,
    /// The largest possible saving; `null` if the finding did not fire.
    pub before_ns: Option<i64>,
    pub after_ns: Option<i64>,
    /// Whether the change is more than noise.
    pub claim: Claim,
    /// The sentence of the side that has the finding; if both have it, of the side after.
    pub says: String,
}

/// The change of a finding.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Turn {
    New,
    Worse,
    Same,
    Better,
    Gone,
}

/// Findings whose costs differ by less than this count as unchanged.
const SAME_WORTH: f64 = 0.05;

/// Returns the findings that fired on either side, new ones first.
pub fn findings(before: &Run, after: &Run) -> Vec<FindingChange> {
    let fired = |run: &Run, id: &str| run.fired().find(|finding| finding.id == id).cloned();
    let mut ids: Vec<&str> = after.fired().chain(before.fired()).map(|finding| finding.id.as_str()).collect();
    let mut seen = std::collections::HashSet::new();
    ids.retain(|id| seen.insert(*id));
    let change = |id: &str| {
        let (a, b) = (fired(before, id), fired(after, id));
        let worth = |finding: &Option<super::run::Finding>| finding.as_ref().map(|f| f.worth_ns.unwrap_or(0));
        let (before_ns, after_ns) = (worth(&a), worth(&b));
        let is_unknown = [&a, &b].iter().any(|side| side.as_ref().is_some_and(|finding| finding.at_most_wait));
        let change = match (before_ns, after_ns) {
            (None, _) => Turn::New,
            (_, None) => Turn::Gone,
            // It is on both sides; its costs cannot be compared.
            _ if is_unknown => Turn::Same,
            (Some(a), Some(b)) if (b - a).abs() as f64 <= SAME_WORTH * a.abs().max(b.abs()) as f64 => Turn::Same,
            (Some(a), Some(b)) if b > a => Turn::Worse,
            _ => Turn::Better,
        };
        let says = b.or(a).map_or(String::new(), |finding| finding.says);
        let claim = if change == Turn::Same && !is_unknown { Claim::Same } else { Claim::Undecided };
        FindingChange { id: id.into(), change, before_ns, after_ns, claim, says }
    };
    let mut changes: Vec<_> = ids.into_iter().map(change).collect();
    changes.sort_by_key(|finding| finding.change);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(directory: &str, time_ns: u64) -> Folder {
        Folder { directory: directory.into(), opens: 1, time_ns, ..Folder::default() }
    }

    #[test]
    fn folders_of_two_runs_meet_whatever_lies_above_them_and_whatever_their_numbers() {
        let before = Run { directories: vec![folder("/a/x/data/1", 5), folder("/a/x/out", 1)], ..Run::default() };
        let after = Run {
            directories: vec![folder("/b/data/17", 9), folder("/b/data/2", 1), folder("/b/tmp", 2)],
            ..Run::default()
        };
        let rows: Vec<_> =
            folders(&before, &after).into_iter().map(|row| (row.key, row.group, row.change_ns)).collect();
        let wanted = [("data/#", Group::More, 5), ("tmp", Group::Added, 2), ("out", Group::Gone, -1)];
        assert_eq!(rows, wanted.map(|(key, group, change)| (key.to_string(), group, change)));
    }

    #[test]
    fn a_single_folder_is_its_own_root() {
        assert_eq!(patterns(&[folder("/a/b", 1)]).into_keys().collect::<Vec<_>>(), ["."]);
        assert!(patterns(&[]).is_empty());
        assert_eq!(
            patterns(&[folder("/a/img_0012_of_40", 1), folder("/a/b", 1)]).into_keys().next_back().unwrap(),
            "img_#_of_#"
        );
    }
}
