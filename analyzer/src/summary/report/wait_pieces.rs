//! The waits of trainers for a plot: waits shorter than a pixel are merged.

use serde::{Deserialize, Serialize};

use super::waits::called;
use crate::catalog::Process;
use crate::summary::tree::LaneId;
use crate::summary::waits::parts::Parts;
use crate::summary::waits::trainers::{TrainerWaits, Wait, WaitKind, Waits};

/// The waits of one trainer.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct TrainerPieces {
    pub proc: u32,
    pub pid: i32,
    pub tid: i32,
    pub rank: Option<i32>,
    pub name: String,
    /// The number of all its waits, and their total time.
    pub waits: u64,
    pub wait_ns: i64,
    pub pieces: Vec<WaitPiece>,
}

/// One wait, or several within a pixel.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct WaitPiece {
    pub start_ts: i64,
    pub end_ts: i64,
    pub waits: u32,
    pub wait_ns: i64,
    /// The kind of the longest wait in it.
    pub kind: WaitKind,
    pub made_by: Option<String>,
    pub causes: Parts,
}

/// The width of a plot in pixels; shorter waits are merged.
const PIXELS: i64 = 1000;

/// The number of trainers that are drawn.
const DRAWN: usize = 4;

/// Returns the waits of the trainers that waited longest, within the time range of a run.
pub fn pieces(waits: &Waits, processes: &[Process], (start, end): (i64, i64)) -> Vec<TrainerPieces> {
    let waited = |trainer: &TrainerWaits| trainer.waits.iter().map(|wait| wait.end - wait.start).sum::<i64>();
    let mut trainers: Vec<&TrainerWaits> = waits.trainers.iter().filter(|trainer| waited(trainer) > 0).collect();
    trainers.sort_by_key(|trainer| (std::cmp::Reverse(waited(trainer)), trainer.lane));
    trainers.truncate(DRAWN);
    trainers.sort_by_key(|trainer| trainer.lane);
    let names = if trainers.is_empty() { Vec::new() } else { waits.names(processes) };
    let name = |lane: LaneId| {
        let pid = processes.get(lane.proc as usize).map_or(0, |process| process.pid);
        called(names.get(lane.proc as usize).map_or("", String::as_str), pid, lane.tid)
    };
    let pixel = ((end - start) / PIXELS).max(1);
    let of = |trainer: &&TrainerWaits| TrainerPieces {
        proc: trainer.lane.proc,
        pid: processes.get(trainer.lane.proc as usize).map_or(0, |process| process.pid),
        tid: trainer.lane.tid,
        rank: processes.get(trainer.lane.proc as usize).and_then(|process| process.rank),
        name: name(trainer.lane),
        waits: trainer.waits.len() as u64,
        wait_ns: waited(trainer),
        pieces: gathered(&trainer.waits, pixel).iter().map(|waits| piece(waits, name)).collect(),
    };
    trainers.iter().map(of).collect()
}

/// Groups waits, in order of time: each group fits into a pixel or is a single wait.
fn gathered(waits: &[Wait], pixel: i64) -> Vec<&[Wait]> {
    let (mut runs, mut from) = (Vec::new(), 0);
    for at in 1..=waits.len() {
        if waits.get(at).is_none_or(|wait| wait.end - waits[from].start > pixel) {
            runs.push(&waits[from..at]);
            from = at;
        }
    }
    runs
}

fn piece(waits: &[Wait], name: impl Fn(LaneId) -> String) -> WaitPiece {
    let longest = waits.iter().max_by_key(|wait| wait.end - wait.start).expect("a run has a wait");
    WaitPiece {
        start_ts: waits[0].start,
        end_ts: waits[waits.len() - 1].end,
        waits: waits.len() as u32,
        wait_ns: waits.iter().map(|wait| wait.end - wait.start).sum(),
        kind: longest.kind,
        made_by: longest.maker.map(name),
        causes: waits.iter().fold(Parts::default(), |sum, wait| sum + wait.parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::waits::parts::Part;

    fn wait(start: i64, end: i64, part: Part) -> Wait {
        let maker = Some(LaneId { proc: 0, tid: 2 });
        let parts = Parts::of(part, end - start);
        Wait { start, end, kind: WaitKind::Data, maker, limiter: None, depth: 0, acts: Vec::new(), parts }
    }

    #[test]
    fn waits_within_a_pixel_are_one_piece_and_no_time_is_lost() {
        let lane = LaneId { proc: 0, tid: 1 };
        let mut waits: Vec<Wait> = (0..50).map(|i| wait(100 * i, 100 * i + 10, Part::Cpu)).collect();
        waits.push(wait(500_000, 700_000, Part::Storage));
        let trainer = TrainerWaits {
            lane,
            by_spans: false,
            waits,
            from: 0,
            to: 1_000_000,
            last: 1_000_000,
            written: None,
            works: 50,
            messages: 51,
            own_storage: 0,
            outside: Parts::default(),
            before: Parts::default(),
            file_waits: 0,
            reader_file_wait_ns: 0,
            sleeper: None,
            shared_by: None,
            may_start_earlier: false,
            is_supplied: false,
            requests: Vec::new(),
            counts_receipts: false,
            own_fetch_ns: 0,
            generations: 0,
            readers: Vec::new(),
            loaders: Default::default(),
            has_twins: false,
            faults: None,
        };
        let all = Waits { is_known: true, is_cut: false, trainers: vec![trainer], ..Waits::default() };
        let processes = [Process { pid: 1, rank: Some(3), ..Process::default() }];
        let drawn = pieces(&all, &processes, (0, 1_000_000));
        let [of] = &drawn[..] else { panic!("{drawn:?}") };
        assert_eq!((of.waits, of.wait_ns, of.rank), (51, 200_500, Some(3)));
        let shape: Vec<_> = of.pieces.iter().map(|piece| (piece.start_ts, piece.waits, piece.wait_ns)).collect();
        assert_eq!(
            shape,
            [(0, 10, 100), (1000, 10, 100), (2000, 10, 100), (3000, 10, 100), (4000, 10, 100), (500_000, 1, 200_000)]
        );
        assert!(of.pieces.iter().all(|piece| piece.causes.sum() == piece.wait_ns));
        assert_eq!(of.pieces[5].causes.largest(), Part::Storage);
    }
}
