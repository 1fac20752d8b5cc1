//! Predicts the effect of changes by replaying the run with them.

use super::causes::causes;
use super::findings::State;
use super::machine::Machine;
use super::{Section, Summary};
use crate::load::Trace;
use crate::replay::change::Change;
use crate::replay::pipeline::{Kind, Pipeline};
use crate::replay::predict::{Prediction, Proven, Replay, prove};
use crate::summary::analysis::Analysis;
use crate::summary::figures::units::time;
use crate::summary::report::layout::{heading, wrapped};
use crate::summary::training::{RankGroup, rank_groups, told};
use crate::summary::waits::parts::{Part, Parts};
use crate::summary::wording::Wording;
use crate::text_table::Grid;

/// The section on predictions.
pub struct WhatIf;

/// The name of the row without any wait.
pub const NO_WAIT: &str = "no wait";

impl Section for WhatIf {
    type Values = Option<Replay>;

    const MEANING: &'static str = "\
        What would help: a simulation replays the training with the batches, readers and steps of the trace, first \
        unchanged, then with a change. If the replay without a change differs from the measurement by more than 5 % of the \
        wait and 3 % of the time, the section contains the reason instead of a prediction. A prediction is an \
        interval. It allows for effects that the trace does not show (how storage slows down under load, the cost of \
        further readers, whether a batch or its reader is slow) and for the variation between resampled batches, and extends \
        at least 5 % of the training time to each side. If the interval contains the measured time, the row shows nothing measurable, or unknown if \
        an end of the interval is more than 15 % away. Rows are sorted by the smallest gain in their interval. Gains \
        cannot be added: --what-if storage=2,workers=4 replays both changes together. No change to the loader can \
        save more than the amount in the row without any wait.";
    const FIELDS: &'static str = "\
        `null` without a training run, else `measured_ns` (the training), `replayed_ns` (the same, replayed unchanged), `wait_ns`, \
        `replayed_wait_ns`, `loader` (its setup as batches show it: `readers`, `prefetch`, `any_order`, `passes`, \
        `fresh_passes`, `batches`; or `null`), `refused` (why nothing is predicted, or `null`), `changes` (a list, the surest gain first: \
        `change`, `what` (in words), `code` (arguments of PyTorch's loader), `time_ns` (the predicted training), \
        `low_ns`, `high_ns` (its interval), `wait_ns` (the remaining wait), `refused` (why there is no prediction, or \
        `null`), `notes` (what would narrow the interval)), `remedies` (the same for the remedies of findings)";

    fn values(analysis: &Analysis, trace: &Trace) -> Self::Values {
        replay(analysis, trace, None)
    }

    fn print(summary: &Summary, _top: usize, out: &mut String) {
        if let Some(replay) = &summary.what_if {
            heading("What would help", out);
            out.push_str(&table(replay, 80));
        }
    }

    fn print_within(summary: &Summary, _top: usize, width: usize, out: &mut String) {
        if let Some(replay) = &summary.what_if {
            heading("What would help", out);
            out.push_str(&table(replay, width));
        }
    }
}

/// Replays the training of a trace with changes, or with the changes that help most often. Returns `None` without a
/// training run.
pub fn replay(analysis: &Analysis, trace: &Trace, changes: Option<&[Change]>) -> Option<Replay> {
    let groups = rank_groups(&trace.catalog, analysis);
    let group = groups.first()?;
    let refused = |why: String| Replay {
        measured_ns: group.trained_ns,
        wait_ns: group.waited_ns.unwrap_or(0),
        refused: Some(why),
        ..Replay::default()
    };
    let pipeline = match pipeline(analysis, trace, &groups) {
        Ok(pipeline) => pipeline,
        Err(why) => return Some(refused(why)),
    };
    let proven = match prove(&pipeline) {
        Ok(proven) => proven,
        Err(replay) => return Some(*replay),
    };
    let mut found = proven.replay().clone();
    found.changes = match changes {
        Some(changes) => changes.iter().map(|change| proven.predict(change)).collect(),
        None => {
            let (rows, remedies) = usual(&proven);
            found.remedies = remedies;
            rows
        }
    };
    found.changes.sort_by_key(|row| std::cmp::Reverse(row.sure_ns(found.measured_ns).unwrap_or(i64::MIN)));
    if changes.is_none() {
        found.changes.push(without_wait(&found));
    }
    Some(found)
}

/// Waits that a GPU hides for this share of a training change what a faster loader saves.
const HIDDEN: f64 = 0.01;

/// Returns the input pipeline of the training, if replaying it reproduces the measurements.
pub fn replayable(analysis: &Analysis, trace: &Trace) -> Option<Pipeline> {
    let groups = rank_groups(&trace.catalog, analysis);
    groups.first()?;
    let pipeline = pipeline(analysis, trace, &groups).ok()?;
    prove(&pipeline).is_ok().then_some(pipeline)
}

/// Returns the pipeline of the only trainer, or why its training cannot be replayed.
fn pipeline(analysis: &Analysis, trace: &Trace, groups: &[RankGroup]) -> Result<Pipeline, String> {
    let group = &groups[0];
    if groups.len() > 1 {
        return Err("several ranks train together: what one of them waits for depends on the others".into());
    }
    if group.gpu_untimed {
        return Err("a GPU was used and nothing in the trace timed it all the time: its work may hide waits".into());
    }
    if group.device.as_ref().is_some_and(|device| device.hidden_ns as f64 >= HIDDEN * group.trained_ns as f64) {
        return Err("work of the GPU hides a part of the waits, and the replay covers only the host".into());
    }
    if !analysis.filter.takes_whole_runs() {
        return Err("filters leave out a part of the run".into());
    }
    let processes = trace.catalog.processes();
    let lost: u64 = processes.iter().map(|process| process.lost).sum();
    if lost > 0 {
        return Err(format!("{lost} events are lost: a message may be among them"));
    }
    if trace.catalog.hosts().iter().any(|host| host.clock_spread_ns > CLOCK_NS) {
        return Err("the host's clock was set while the training ran".into());
    }
    if group.torch && group.loading.mixes_loaders {
        return Err("several loaders are used at the same time: what one of them delivers depends on the others".into());
    }
    let waits = &analysis.measured.waits;
    if waits.is_cut {
        return Err("the training has more waits and messages than are kept in memory".into());
    }
    if !waits.is_known {
        return Err("the trace does not show who ended waits: record it with a newer dlio".into());
    }
    let own = waits.pipelines.iter().find(|(lane, _)| (lane.proc, lane.tid) == (group.proc, group.tid));
    let (_, found) = own.ok_or("the trainer's waits are not explained by messages")?;
    let mut found = found.clone().and_then(|found| agrees(found, group))?;
    let machine = Machine::values(analysis, trace).into_iter().find(|machine| machine.host == group.host);
    found.taken_cpus = machine.and_then(|machine| machine.others_busy()).unwrap_or(0.0);
    Ok(found)
}

/// Returns the pipeline if its waits match the report; otherwise its messages do not carry batches.
fn agrees(found: Pipeline, group: &RankGroup) -> Result<Pipeline, String> {
    let Some(waited) = group.waited_ns.map(|ns| ns as f64) else {
        return Err("it is not known how long the training waited".into());
    };
    if (found.wait_ns - waited).abs() > WAIT_PART * waited.max(found.wait_ns) + TIME_PART * group.trained_ns as f64 {
        let [by_messages, waited] = [found.wait_ns, waited].map(time);
        return Err(format!("by its messages the training waited {by_messages}, but {waited} by who ended its waits"));
    }
    Ok(found)
}

/// Waits may differ by these shares of the wait and of the time, because unpacking a batch counts as wait or as
/// compute.
const WAIT_PART: f64 = 0.3;
const TIME_PART: f64 = 0.05;

/// If processes disagree by more than this about the time of a host, its clock was set during the run.
const CLOCK_NS: i64 = 10_000_000;

/// Returns the predictions of the default table (storage, decoding, readers, and the best change that costs nothing to
/// try), and predictions for the remedies of findings.
fn usual(proven: &Proven) -> (Vec<Prediction>, Vec<Prediction>) {
    let pipeline = proven.pipeline();
    let predict = |text: &str| proven.predict(&Change::parse(text).expect("a change of the table"));
    let work = pipeline.work();
    let (readers, prefetch) = (pipeline.readers().max(1), pipeline.prefetch());
    let does = |kind: Kind| work[kind as usize] > LEAST * pipeline.passes_ns();
    let mut rows = Vec::new();
    rows.extend(does(Kind::Io).then(|| predict("storage=2")));
    rows.extend(does(Kind::Cpu).then(|| predict("decode=2")));
    rows.push(predict(&format!("workers={}", 2 * readers)));
    let restarts = pipeline.passes.iter().filter(|pass| pass.is_fresh).count() > 1;
    let mut free: Vec<Prediction> = Vec::new();
    free.extend(restarts.then(|| predict("persistent=1")));
    free.extend((readers > 1).then(|| predict("order=any")));
    let [few, many] = [4, 16].map(|times| predict(&format!("prefetch={}", (times * prefetch).min(64))));
    let saves_more =
        few.high_ns.zip(many.high_ns).is_some_and(|(few, many)| (few - many) as f64 >= MORE * pipeline.passes_ns());
    free.push(if saves_more { many } else { few });
    let mut remedies: Vec<Prediction> = rows.iter().chain(&free).cloned().collect();
    remedies.push(predict("handover=0"));
    remedies.extend(pipeline.quota.map(|_| predict("quota=none")));
    rows.extend(free.into_iter().min_by_key(|row| row.high_ns.unwrap_or(i64::MAX)));
    (rows, remedies)
}

/// Many more batches ahead are advised instead of a few if that certainly saves another part of this size.
const MORE: f64 = 0.05;

/// Work below this share of the time does not get a row.
const LEAST: f64 = 0.002;

/// Returns the row without any wait, which limits every change to the loader.
fn without_wait(replay: &Replay) -> Prediction {
    let time = Some((replay.measured_ns - replay.wait_ns).max(0));
    Prediction {
        change: NO_WAIT.into(),
        what: "no wait at all (upper limit)".into(),
        time_ns: time,
        low_ns: time,
        high_ns: time,
        wait_ns: Some(0),
        ..Prediction::default()
    }
}

/// A part of the wait below this share gets no advice.
const CAUSE_MIN: f64 = 0.1;

/// Another reader is not advised if readers waited for a CPU for this share of the wait.
const LACKED_CPUS: f64 = 0.25;

/// The rule that advises fewer readers.
const FEWER_READERS: &str = "too-many-readers";

/// Returns `true` if a finding advises fewer readers.
pub fn is_crowded(summary: &Summary) -> bool {
    let is_one = |state: State| matches!(state, State::Fired | State::Silenced);
    summary.findings.iter().any(|finding| finding.id == FEWER_READERS && is_one(finding.state))
}

/// The rule on the I/O limit of a control group.
pub const LIMITED: &str = "io-limit";

/// Returns `true` if an I/O limit of a control group sets the pace of reads: neither more reads nor other ones of the same bytes help.
pub fn is_limited(summary: &Summary) -> bool {
    summary.findings.iter().any(|finding| finding.id == LIMITED && finding.fired())
}

/// Returns the rows to advise, the surest gain first: they certainly help, speed up a cause of the wait, and contradict
/// no finding.
pub fn advisable(summary: &Summary) -> Vec<&Prediction> {
    let Some(replay) = &summary.what_if else { return Vec::new() };
    let causes = causes(&told(&summary.training));
    let is_cause = |parts: &[Part]| {
        let share = |causes: &Parts| parts.iter().map(|part| causes.get(*part)).sum::<i64>() as f64;
        causes.as_ref().is_none_or(|causes| share(causes) >= CAUSE_MIN * causes.sum() as f64)
    };
    let lacked = |causes: &Parts| causes.get(Part::NoCpu) as f64 >= LACKED_CPUS * causes.sum() as f64;
    let is_short_of_cpus = causes.as_ref().is_some_and(lacked);
    let is_limited = is_limited(summary);
    let helps = |row: &&Prediction| {
        let is_sure = row.change != NO_WAIT && row.sure_ns(replay.measured_ns).is_some_and(|sure| sure > 0);
        is_sure
            && match row.change.split_once('=').map_or("", |(name, _)| name) {
                "decode" => is_cause(&[Part::Cpu, Part::NoCpu, Part::Gil]),
                "storage" => is_cause(&[Part::Storage, Part::PageFaults]),
                "workers" => !is_crowded(summary) && !is_short_of_cpus && !is_limited,
                // The replay does not know the limit.
                "prefetch" | "order" => !is_limited,
                _ => true,
            }
    };
    replay.changes.iter().filter(helps).collect()
}

/// Describes what a change certainly saves.
pub fn outcome(row: &Prediction, measured: i64, wording: Wording) -> Option<String> {
    let percent = |ns: i64| format!("{:.0} %", 100.0 * (measured - ns) as f64 / measured.max(1) as f64);
    let [time_ns, low, high] = [row.time_ns?, row.low_ns?, row.high_ns?];
    let (gain, least, most) = (percent(time_ns), percent(high), percent(low));
    let [after, before] = [time_ns, measured].map(|ns| time(ns as f64));
    let noun = wording.noun();
    Some(format!("a replay predicts {after} of {noun} instead of {before}, {gain} less ({least} to {most})"))
}

/// Describes the rows to advise except one, one line each.
pub fn helping(summary: &Summary, except: Option<&str>) -> Vec<String> {
    let measured = summary.what_if.as_ref().map_or(0, |replay| replay.measured_ns);
    let wording = Wording::of(summary.training.iter());
    let line = |row: &Prediction| {
        let code = if row.code.is_empty() { String::new() } else { format!(" ({})", row.code) };
        Some(format!("{}{code}: {}", row.what, outcome(row, measured, wording)?))
    };
    let rows = advisable(summary).into_iter().filter(|row| Some(row.change.as_str()) != except);
    rows.filter_map(line).collect()
}

/// The number of readers to test if no change names one.
const READERS: u32 = 8;

/// Formats the table as text.
pub fn table(replay: &Replay, width: usize) -> String {
    let mut out = String::new();
    let measured = replay.measured_ns;
    if let Some(why) = &replay.refused {
        let text = format!(
            "The run cannot be replayed: {why}. A change to data loading would save at most the wait, {}.",
            time(replay.wait_ns as f64)
        );
        out.push_str(&indented(&text, width));
        return out;
    }
    if let (Some(time_ns), Some(wait_ns)) = (replay.replayed_ns, replay.replayed_wait_ns) {
        let percent = |a: i64, b: i64| 100.0 * (a - b).abs() as f64 / b.max(1) as f64;
        let text = format!(
            "The replay without a change is within {:.1} % of the measured time ({}) and within {:.1} % of the measured wait ({} \
             of it).",
            percent(time_ns, measured),
            time(measured as f64),
            percent(wait_ns, replay.wait_ns),
            time(replay.wait_ns as f64),
        );
        out.push_str(&indented(&text, width));
    }
    let mut grid = Grid::new(&["<change", "", "time", "<interval", "<to change"]);
    for row in &replay.changes {
        lines_of(cells(row, measured)).into_iter().for_each(|line| grid.row(line));
    }
    grid.print(&mut out);
    for row in &replay.changes {
        let why = row.refused.iter().map(|why| format!("{}: no prediction, {why}.", row.change));
        let notes = row.notes.iter().map(|note| format!("{}: {note}.", row.change));
        why.chain(notes).for_each(|text| out.push_str(&indented(&text, width)));
    }
    let readers = replay.changes.iter().find_map(|row| row.change.strip_prefix("workers=")?.parse().ok());
    let verify = format!(
        "To verify a change, make it, record the run with dlio trace -o after, and add --compare after to this command. To \
         test how this storage serves more readers, without the program, add --workload job.yaml to this command, then run \
         dlio bench workload=job.yaml ++workload.reader.read_threads={}.",
        readers.unwrap_or(READERS)
    );
    out.push_str(&indented(&verify, width));
    out
}

fn cells(row: &Prediction, measured: i64) -> Vec<String> {
    let percent = |ns: i64| format!("{:+.0} %", 100.0 * (ns - measured) as f64 / measured.max(1) as f64);
    let code = row.code.clone();
    match (row.time_ns, row.low_ns, row.high_ns) {
        (Some(_), Some(low), Some(high)) if row.is_nothing(measured) => {
            let range = format!("{} to {}", percent(low), percent(high));
            let outcome = if row.is_unknown(measured) { "unknown" } else { "nothing measurable" };
            vec![row.what.clone(), String::new(), String::new(), format!("{outcome} ({range})"), code]
        }
        (Some(at), Some(low), Some(high)) => {
            let range = if low == high { String::new() } else { format!("{} to {}", percent(low), percent(high)) };
            vec![row.what.clone(), percent(at), time(at as f64), range, code]
        }
        _ => vec![row.what.clone(), String::new(), String::new(), "no prediction".into(), code],
    }
}

/// Wraps the texts of a row: several changes together have long ones.
fn lines_of(cells: Vec<String>) -> Vec<Vec<String>> {
    const WIDTH: usize = 40;
    let texts = [0, cells.len() - 1].map(|at| wrapped(&cells[at], WIDTH).lines().map(String::from).collect::<Vec<_>>());
    let line = |number: usize| {
        let text = |at: usize| texts[at].get(number).cloned().unwrap_or_default();
        let numbers =
            cells[1..cells.len() - 1].iter().map(|cell| if number == 0 { cell.clone() } else { String::new() });
        [text(0)].into_iter().chain(numbers).chain([text(1)]).collect()
    };
    (0..texts.iter().map(Vec::len).max().unwrap_or(0).max(1)).map(line).collect()
}

fn indented(text: &str, width: usize) -> String {
    wrapped(text, width.saturating_sub(2)).lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_several_changes_is_cut() {
        let what = "storage 2x faster, decoding 2x faster, 8 readers instead of 2, prefetch 16 instead of 2";
        let code = "num_workers=8, prefetch_factor=16, in_order=False, persistent_workers=True";
        let row = Prediction {
            change: "storage=2".into(),
            what: what.into(),
            code: code.into(),
            time_ns: Some(50),
            low_ns: Some(40),
            high_ns: Some(60),
            ..Prediction::default()
        };
        let printed = table(&Replay { measured_ns: 100, changes: vec![row], ..Replay::default() }, 80);
        for word in what.split(' ').chain(code.split(' ')) {
            assert!(printed.contains(word), "{word} in {printed}");
        }
        assert!(!printed.contains('…'), "{printed}");
    }
}
