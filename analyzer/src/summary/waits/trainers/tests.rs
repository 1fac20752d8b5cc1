//! Trainers and their waits, from made timelines.

use dlio_schemas::evidence::Counters;

use super::*;
use crate::batch::Usage;
use crate::summary::waits::messages;
use crate::summary::waits::timeline::{FileMade, Object, STEPS_MAX, Step, StepKind, ThreadPart, TimelinePart};

const MS: i64 = 1_000_000;
const TRAINER: LaneId = LaneId { proc: 0, tid: 1 };
const READER: LaneId = LaneId { proc: 1, tid: 2 };
const FEEDER: LaneId = LaneId { proc: 1, tid: 3 };
const PIPE: Object = Object { id: 7, network: false };

/// Threads from this number start with their first step, all others at the start of the trace.
const STARTED_LATER: i32 = 100;

fn step(kind: StepKind, object: Object, start: i64, end: i64) -> Step {
    Step { start: start * MS, end: end * MS, kind, object, amount: 100, ..Step::NOTHING }
}

fn woken(start: i64, end: i64, waker: LaneId) -> Step {
    let object = Object { id: 0x1000, network: false };
    Step { waker: waker.tid, woken: 1_000, ..step(StepKind::Wait, object, start, end) }
}

/// Returns the waits of a trainer and its child, given the steps of their threads from timestamp zero.
fn waits(threads: Vec<(LaneId, Vec<Step>, Vec<Usage>)>) -> Waits {
    let mut timelines = Timelines::default();
    for (lane, steps, usage) in threads {
        let first = steps.iter().map(|step| step.start).min().unwrap_or(0);
        let first = if lane.tid >= STARTED_LATER { first } else { first.min(0) };
        let part = ThreadPart { steps, usage, first: Some(first), ..ThreadPart::default() };
        timelines.threads.insert(lane, part);
    }
    let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
    explained(timelines, &[process(1, None), process(2, Some(1)), process(STARTED_LATER, Some(1))])
}

/// Returns the trainer's waits for five batches, 30 ms each, with steps of 10 ms.
fn trainer() -> Vec<Step> {
    (0..5).map(|i| step(StepKind::Take, PIPE, 40 * i, 40 * i + 30)).collect()
}

/// Returns a reader that sends a batch every 40 ms and reads for `storage` of that time.
fn reader(storage: i64) -> Vec<Step> {
    let give = |i: i64| Step { storage: storage * MS, ..step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30) };
    (0..5).map(give).collect()
}

#[track_caller]
fn only(waits: &Waits) -> &TrainerWaits {
    let [trainer] = &waits.trainers[..] else { panic!("{:?}", waits.trainers) };
    assert_eq!(trainer.lane, TRAINER);
    for wait in &trainer.waits {
        assert_eq!(wait.parts.sum(), wait.end - wait.start, "{wait:?}");
    }
    trainer
}

#[test]
fn more_steps_than_there_is_room_for_are_said_to_be_unexplained() {
    let piece = || {
        let mut part = TimelinePart::default();
        part.begin(LaneId { proc: 0, tid: 1 }, 0);
        part.step(Step { start: 0, end: 10, kind: StepKind::Wait, ..Step::NOTHING });
        part
    };
    let waits = |before: usize| {
        let mut all = Timelines { steps: before, ..Timelines::default() };
        all.take(piece());
        explained(all, &[])
    };
    assert!(!waits(STEPS_MAX - 1).is_cut && waits(STEPS_MAX).is_cut);
    // Parts measured on several hosts.
    let mut both = Waits::default();
    both.merge(waits(STEPS_MAX));
    both.merge(waits(0));
    assert!(both.is_cut && both.trainers.is_empty());
}

#[test]
fn a_wait_has_the_composition_of_its_makers_work() {
    let usage = (0..5).map(|i| Usage {
        ts: (40 * i + 30) * MS,
        counters: Counters { cpu_us: 10_000, run_delay_us: Some(0), ..Counters::default() },
    });
    let found = waits(vec![(TRAINER, trainer(), Vec::new()), (READER, reader(30), usage.collect())]);
    let parts = only(&found).parts(WaitKind::Data);
    assert_eq!(parts.largest(), Part::Storage);
    assert!(parts.get(Part::Cpu) > 20 * MS && parts.get(Part::Storage) > 90 * MS, "{parts:?}");
    assert_eq!(only(&found).ns(WaitKind::Data), 150 * MS);
    assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
}

#[test]
fn a_file_that_a_call_sends_is_read_until_it_has_arrived() {
    // The last bytes are still under way when the trainer has its batch.
    let sends = |i: i64| {
        let given = step(StepKind::Give, PIPE, 40 * i + 35, 40 * i + 35);
        Step { woken: 30 * MS, storage: 30 * MS, ..given }
    };
    let found = waits(vec![(TRAINER, trainer(), Vec::new()), (READER, (0..5).map(sends).collect(), Vec::new())]);
    assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
    assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
}

#[test]
fn threads_that_take_turns_to_wait_for_messages_relay_them() {
    const EVENT: Object = Object { id: 8, network: false };
    let [receiver, poller] = [LaneId { proc: 0, tid: 9 }, LaneId { proc: 0, tid: 10 }];
    // One thread waits for all messages. It wakes another one, which receives the message and wakes the trainer.
    let trainer = (0..5).map(|i| step(StepKind::Take, EVENT, 40 * i, 40 * i + 31)).collect();
    let receives = |i: i64| {
        let at = (40 * i + 30) * MS + MS / 2;
        let woken = Step { end: at, ..woken(40 * i, 40 * i + 30, poller) };
        let taken = Step { start: at, end: at, ..step(StepKind::Take, PIPE, 0, 0) };
        [woken, taken, step(StepKind::Give, EVENT, 40 * i + 31, 40 * i + 31)]
    };
    let polls = (0..5).map(|i| step(StepKind::Poll, Object::default(), 40 * i, 40 * i + 30)).collect();
    let found = waits(vec![
        (TRAINER, trainer, Vec::new()),
        (receiver, (0..5).flat_map(receives).collect(), Vec::new()),
        (poller, polls, Vec::new()),
        (READER, reader(30), Vec::new()),
    ]);
    assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
    assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
}

#[test]
fn a_semaphore_that_is_taken_again_before_it_is_posted_is_no_lock() {
    let semaphore = Object { id: 11, network: false };
    let taken = |start: i64, end: i64| Step { shared: true, ..step(StepKind::Wait, semaphore, start, end) };
    let posted = |at: i64| Step { is_lock: true, ..step(StepKind::Post, semaphore, at, at) };
    // As at a barrier, the reader posts what it took at an earlier one; the trainer only takes.
    let trainer = (0..8).map(|i| taken(40 * i, 40 * i + 30)).collect();
    let reader = (0..8).map(|i| Step { storage: 25 * MS, ..posted(40 * i + 30) }).collect();
    let found = waits(vec![(TRAINER, trainer, Vec::new()), (READER, reader, Vec::new())]);
    assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
}

#[test]
fn a_program_that_a_reader_thread_starts_does_no_work_of_the_trainers_own() {
    let reads = LaneId { proc: 0, tid: 9 };
    let (mut own, mut reader, mut timelines) = (Vec::new(), Vec::new(), Timelines::default());
    let mut processes = vec![Process { pid: 1, ..Process::default() }];
    for i in 0..8 {
        let lane = LaneId { proc: i as u32 + 1, tid: i as i32 + 101 };
        own.push(woken(40 * i, 40 * i + 31, reads));
        reader
            .push(Step { amount: lane.tid as i64, ..step(StepKind::Fork, Object::default(), 40 * i + 2, 40 * i + 3) });
        reader.push(step(StepKind::Take, PIPE, 40 * i + 3, 40 * i + 30));
        let steps = vec![step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30)];
        let part = ThreadPart { steps, first: Some((40 * i + 3) * MS), ..ThreadPart::default() };
        timelines.threads.insert(lane, part);
        processes.push(Process { pid: lane.tid, ppid: Some(1), program: Some("gzip".into()), ..Process::default() });
    }
    for (lane, steps) in [(TRAINER, own), (reads, reader)] {
        timelines.threads.insert(lane, ThreadPart { steps, first: Some(0), ..ThreadPart::default() });
    }
    let found = explained(timelines, &processes);
    assert_eq!((only(&found).ns(WaitKind::OwnWork), only(&found).ns(WaitKind::Data)), (0, 248 * MS));
}

#[test]
fn a_thread_that_passes_a_batch_on_is_not_its_maker() {
    let mut feeder = Vec::new();
    for i in 0..5 {
        feeder.push(woken(40 * i, 40 * i + 30, READER));
        feeder.push(step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30));
    }
    let edges = |i: i64| Step { storage: 35 * MS, ..step(StepKind::Edge, Object::default(), 40 * i + 30, 40 * i + 30) };
    let reader: Vec<Step> = (0..5).map(edges).collect();
    let threads = vec![(TRAINER, trainer(), vec![]), (READER, reader, vec![]), (FEEDER, feeder, vec![])];
    let found = waits(threads);
    assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
    assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
}

#[test]
fn a_wait_that_nobody_was_seen_to_end_is_unknown() {
    let mut unseen = trainer();
    unseen.push(step(StepKind::Wait, Object::default(), 200, 290));
    unseen.push(step(StepKind::Take, PIPE, 300, 330));
    let mut gives = reader(30);
    gives.push(step(StepKind::Give, PIPE, 330, 330));
    let found = waits(vec![(TRAINER, unseen, Vec::new()), (READER, gives, Vec::new())]);
    assert_eq!(only(&found).ns(WaitKind::Unknown), 90 * MS);
    assert_eq!(only(&found).ns(WaitKind::Data), 180 * MS);
}

#[test]
fn a_thread_that_answers_at_once_does_the_trainers_own_work() {
    let own = LaneId { proc: 0, tid: 9 };
    let asks = |i: i64| woken(40 * i, 40 * i + 30, own);
    let answers = |i: i64| woken(40 * i - 10, 40 * i, TRAINER);
    let loader = (0..5).map(|i| step(StepKind::Take, PIPE, 40 * i + 38, 40 * i + 38));
    let mut steps: Vec<Step> = (0..5).map(asks).chain(loader).collect();
    steps.sort_by_key(|step| step.start);
    let threads = vec![
        (TRAINER, steps, Vec::new()),
        (own, (1..5).map(answers).collect(), Vec::new()),
        (READER, reader(1), Vec::new()),
    ];
    let found = waits(threads);
    assert_eq!(only(&found).ns(WaitKind::Data), 0);
    assert!(only(&found).ns(WaitKind::OwnWork) >= 100 * MS);
}

/// Returns the steps of a trainer in two passes, which made a reader for each or one for both, and of the readers.
fn passes(readers: [LaneId; 2]) -> Vec<(LaneId, Vec<Step>, Vec<Usage>)> {
    let nowhere = Object::default();
    let mut steps = Vec::new();
    let mut threads: Vec<(LaneId, Vec<Step>, Vec<Usage>)> = Vec::new();
    for (pass, reader) in (0..).zip(readers) {
        let at = 400 * pass;
        let late = |step: &Step| Step { start: step.start + at * MS, end: step.end + at * MS, ..*step };
        let is_new = pass == 0 || readers[0] != reader;
        if is_new {
            steps.push(Step { amount: reader.tid as i64, ..step(StepKind::Fork, nowhere, at - 20, at - 8) });
        }
        steps.extend(trainer().iter().map(late));
        if pass == 1 || readers[0] != readers[1] {
            steps.push(step(StepKind::Poll, Object { id: 99, network: false }, at + 210, at + 290));
            steps.push(Step { amount: reader.tid as i64, ..step(StepKind::Child, nowhere, at + 290, at + 290) });
        }
        let mut made: Vec<Step> = self::reader(30).iter().map(late).collect();
        made.push(step(StepKind::Edge, nowhere, at + 289, at + 289));
        match threads.last_mut() {
            Some((_, before, _)) if !is_new => before.extend(made),
            _ => threads.push((reader, made, Vec::new())),
        }
    }
    threads.push((TRAINER, steps, Vec::new()));
    threads
}

/// A loader with readers for each pass waits for their end within the pass; readers of several passes end after
/// the training. Their start lasts until the first wait for a batch.
#[test]
fn making_readers_is_the_time_of_their_start_and_so_is_their_end_within_a_pass() {
    let second = LaneId { proc: 2, tid: STARTED_LATER };
    let renewed = waits(passes([READER, second]));
    let kept = waits(passes([READER, READER]));
    for (found, made) in [(&renewed, 2 * (20 + 80)), (&kept, 20)] {
        let trainer = only(found);
        assert!(trainer.parts(WaitKind::Data).get(Part::Start) >= made * MS, "{trainer:?}");
        assert_eq!((trainer.ns(WaitKind::Data), trainer.ns(WaitKind::Unknown)), ((300 + made) * MS, 0));
    }
    let trained = [&renewed, &kept].map(|found| only(found).to - only(found).from);
    assert_eq!(trained, [(400 + 290 + 20) * MS, (400 + 210 + 20) * MS]);
}

/// Messages larger than a pipe arrive in chunks. The next message begins with its length, after the trainer's step.
#[test]
fn chunks_of_two_messages_are_two_waits() {
    let take = |from: i64, took_us: i64, bytes: i64| {
        let start = from * 1_000;
        Step { start, end: start + took_us * 1_000, amount: bytes, ..step(StepKind::Take, PIPE, 0, 0) }
    };
    // Each message waits 10 ms for its length, or finds it there; its chunks follow within 20 us each.
    let message = |i: i64| {
        let (from, waited) = (40_000 * i, if i % 2 == 0 { 10_000 } else { 2 });
        let at = from + waited;
        let sleep = Step { amount: 0, ..step(StepKind::Sleep, Object::default(), 0, 0) };
        let sleep = Step { start: (at + 60) * 1_000, end: (at + 10_060) * 1_000, ..sleep };
        [take(from, waited, 4), take(at + 10, 20, 65_536), take(at + 35, 20, 36_864), sleep]
    };
    let steps: Vec<Step> = (0..10).flat_map(message).collect();
    let gives = (0..10).map(|i| Step { storage: 30 * MS, ..step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5) });
    let found = waits(vec![(TRAINER, steps, Vec::new()), (READER, gives.collect(), Vec::new())]);
    let trainer = only(&found);
    let longest = trainer.waits.iter().map(|wait| wait.end - wait.start).max();
    assert!(longest < Some(11 * MS) && trainer.ns(WaitKind::Data) < 60 * MS, "{trainer:?}");
}

/// PyTorch waits for a batch with a timeout, and looks for ended workers after it.
#[test]
fn a_look_for_ended_readers_divides_no_wait() {
    let mut steps = trainer();
    let looked = 250 * MS + 20_000;
    steps.extend([
        Step { timed_out: true, amount: 0, ..step(StepKind::Poll, PIPE, 200, 250) },
        Step { end: looked, amount: 0, ..step(StepKind::Child, Object::default(), 250, 250) },
        Step { start: looked, ..step(StepKind::Take, PIPE, 250, 290) },
    ]);
    let mut made = reader(30);
    made.push(Step { storage: 90 * MS, ..step(StepKind::Give, PIPE, 290, 290) });
    let found = waits(vec![(TRAINER, steps, Vec::new()), (READER, made, Vec::new())]);
    assert_eq!((only(&found).ns(WaitKind::Data), only(&found).ns(WaitKind::Unknown)), ((150 + 90) * MS, 0));
}

/// A trainer starts a thread for each step and joins it; then a reader delivers the batch that the trainer
/// requests.
#[test]
fn a_joined_thread_and_the_delivery_after_it_are_two_waits() {
    let (asks, answers) = (Object { id: 8, network: false }, Object { id: 9, network: false });
    let (mut own, mut server, mut threads) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..6 {
        let worker = LaneId { proc: 0, tid: STARTED_LATER + i as i32 };
        own.push(Step { is_lock: true, ..woken(40 * i, 40 * i + 30, worker) });
        own.push(step(StepKind::Give, asks, 40 * i + 30, 40 * i + 30));
        own.push(step(StepKind::Take, answers, 40 * i + 30, 40 * i + 31));
        server.push(step(StepKind::Take, asks, 40 * i - 9, 40 * i + 30));
        server.push(step(StepKind::Give, answers, 40 * i + 31, 40 * i + 31));
        let edge = |at: i64| step(StepKind::Edge, Object::default(), at, at);
        threads.push((worker, vec![edge(40 * i), edge(40 * i + 30)], Vec::new()));
    }
    threads.extend([(TRAINER, own, Vec::new()), (FEEDER, server, Vec::new()), (READER, reader(1), Vec::new())]);
    let found = waits(threads);
    assert!(only(&found).ns(WaitKind::Data) <= 6 * MS, "{:?}", only(&found));
}

/// A thread of the reader responds to the trainer's requests, like the PyTorch thread that passes descriptors.
#[test]
fn what_is_delivered_on_request_is_no_work_of_the_trainers_own() {
    let (asks, answers) = (Object { id: 8, network: false }, Object { id: 9, network: false });
    let (mut own, mut server) = (Vec::new(), Vec::new());
    for i in 0..5 {
        own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i));
        own.push(step(StepKind::Give, asks, 40 * i, 40 * i));
        own.push(step(StepKind::Take, answers, 40 * i, 40 * i + 20));
        server.push(step(StepKind::Take, asks, 40 * i - 19, 40 * i + 20));
        server.push(step(StepKind::Give, answers, 40 * i + 20, 40 * i + 20));
    }
    let given = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i - 1, 40 * i - 1)).collect();
    let found = waits(vec![(TRAINER, own, Vec::new()), (READER, given, Vec::new()), (FEEDER, server, Vec::new())]);
    assert_eq!(only(&found).ns(WaitKind::OwnWork), 0);
    assert_eq!(only(&found).ns(WaitKind::Data), 100 * MS);
}

/// Three threads of a reader alternate on each item, a millisecond at a time.
#[test]
fn an_item_that_several_make_in_turn_is_explained_step_by_step() {
    let [second, third] = [4, 5].map(|tid| LaneId { proc: 1, tid });
    let (mut main, mut reads, mut computes) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..70 {
        main.push(woken(3 * i + 1, 3 * i + 3, third));
        reads.push(Step { storage: MS, ..woken(3 * i - 1, 3 * i + 1, READER) });
        computes.push(woken(3 * i, 3 * i + 2, second));
    }
    for i in 0..5 {
        main.push(step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30));
    }
    main.sort_by_key(|step| (step.end, step.start));
    let threads = [(TRAINER, trainer()), (READER, main), (second, reads), (third, computes)];
    let found = waits(threads.map(|(lane, steps)| (lane, steps, Vec::new())).into());
    let parts = only(&found).parts(WaitKind::Data);
    assert!(parts.get(Part::Unknown) < 10 * MS, "{parts:?}");
    assert!(parts.get(Part::Storage) > 30 * MS && parts.get(Part::OutsideCalls) > 60 * MS, "{parts:?}");
}

/// A loader, and a program that answers after 30 ms, to which the trainer sends each batch. The training ends with the
/// last batch.
#[test]
fn waits_for_readers_and_for_a_program_that_answers_are_not_merged() {
    let (device, asks, answers) =
        (LaneId { proc: 2, tid: STARTED_LATER }, Object { id: 8, ..PIPE }, Object { id: 9, ..PIPE });
    let (mut own, mut works, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..6 {
        let at = 40 * i;
        reads.push(step(StepKind::Give, PIPE, at + 4, at + 4));
        own.push(step(StepKind::Take, PIPE, at + 1, at + 5));
        own.push(step(StepKind::Give, asks, at + 5, at + 5));
        works.push(step(StepKind::Take, asks, at - 5, at + 5));
        works.push(step(StepKind::Give, answers, at + 35, at + 35));
        own.push(step(StepKind::Take, answers, at + 5, at + 35));
    }
    let found = waits(vec![(TRAINER, own, vec![]), (READER, reads, vec![]), (device, works, vec![])]);
    let found = only(&found);
    assert_eq!((found.ns(WaitKind::Data), found.ns(WaitKind::OwnWork)), (6 * 4 * MS, 5 * 30 * MS));
}

#[test]
fn a_lock_that_another_thread_holds_is_no_wait_for_data() {
    let holder = LaneId { proc: 0, tid: 9 };
    let mut own = Vec::new();
    for i in 0..5 {
        own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i + 5));
        own.push(Step { is_lock: true, ..woken(40 * i + 10, 40 * i + 30, holder) });
    }
    let reads = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5)).collect();
    let saves = |i: i64| Step { storage: 30 * MS, ..step(StepKind::Edge, Object::default(), 40 * i + 35, 40 * i + 35) };
    let threads = vec![(TRAINER, own, vec![]), (holder, (0..5).map(saves).collect(), vec![]), (READER, reads, vec![])];
    let found = waits(threads);
    let found = only(&found);
    assert_eq!((found.ns(WaitKind::Data), found.ns(WaitKind::Lock)), (5 * 5 * MS, 5 * 20 * MS));
    assert_eq!(found.parts(WaitKind::Lock).largest(), Part::Storage);
}

#[test]
fn room_in_an_output_queue_is_no_data() {
    let output = Object { id: 8, ..PIPE };
    let room = Object { id: 0x1000, network: false };
    let writer = LaneId { proc: 2, tid: STARTED_LATER };
    let (mut own, mut writes) = (Vec::new(), Vec::new());
    for i in 0..5 {
        own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i + 5));
        own.push(Step { shared: true, ..step(StepKind::Wait, room, 40 * i + 6, 40 * i + 30) });
        own.push(step(StepKind::Give, output, 40 * i + 30, 40 * i + 30));
        writes.push(step(StepKind::Post, room, 40 * i + 30, 40 * i + 30));
        writes.push(step(StepKind::Take, output, 40 * i + 30, 40 * i + 31));
    }
    let reads = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5)).collect();
    let found = waits(vec![(TRAINER, own, vec![]), (READER, reads, vec![]), (writer, writes, vec![])]);
    let found = only(&found);
    assert_eq!((found.ns(WaitKind::Data), found.ns(WaitKind::OwnWork)), (5 * 5 * MS, 5 * 24 * MS));
}

#[test]
fn a_full_pipe_to_a_program_is_a_wait_for_that_program() {
    let output = Object { id: 8, ..PIPE };
    let sink = LaneId { proc: 2, tid: STARTED_LATER };
    let (mut own, mut takes) = (Vec::new(), Vec::new());
    for i in 0..5 {
        own.push(step(StepKind::Take, PIPE, 40 * i, 40 * i + 5));
        own.push(step(StepKind::Give, output, 40 * i + 10, 40 * i + 35));
        takes.push(step(StepKind::Sleep, Object::default(), 40 * i + 5, 40 * i + 35));
        takes.push(step(StepKind::Take, output, 40 * i + 35, 40 * i + 36));
    }
    let reads = (0..5).map(|i| step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5)).collect();
    let found = waits(vec![(TRAINER, own, vec![]), (READER, reads, vec![]), (sink, takes, vec![])]);
    let found = only(&found);
    assert_eq!((found.ns(WaitKind::Data), found.parts(WaitKind::OwnWork).largest()), (5 * 5 * MS, Part::Sleep));
    assert_eq!(found.waits.iter().find(|wait| wait.kind == WaitKind::OwnWork).unwrap().maker, Some(sink));
    // The last one may be after the training.
    assert!(found.ns(WaitKind::OwnWork) >= 4 * 25 * MS);
}

#[test]
fn a_pool_that_prepares_the_data_set_is_not_training() {
    let (early, late) = (Object { id: 8, ..PIPE }, Object { id: 9, ..PIPE });
    let pool = LaneId { proc: 2, tid: STARTED_LATER };
    let (mut own, mut prepares, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..10 {
        own.push(step(StepKind::Take, early, 40 * i, 40 * i + 40));
        prepares.push(step(StepKind::Give, early, 40 * i + 40, 40 * i + 40));
    }
    for i in 10..20 {
        own.push(step(StepKind::Take, late, 40 * i, 40 * i + 10));
        reads.push(step(StepKind::Give, late, 40 * i + 10, 40 * i + 10));
    }
    let found = waits(vec![(TRAINER, own, vec![]), (READER, reads, vec![]), (pool, prepares, vec![])]);
    let found = only(&found);
    assert_eq!((found.from, found.ns(WaitKind::Data)), (400 * MS, 10 * 10 * MS));
}

#[test]
fn a_batch_that_never_came_is_waited_for() {
    let mut own = trainer();
    for i in 0..2 {
        own.push(Step { timed_out: true, ..step(StepKind::Poll, PIPE, 200 + 5000 * i, 5200 + 5000 * i) });
    }
    let found = waits(vec![(TRAINER, own, vec![]), (READER, reader(30), vec![])]);
    let found = only(&found);
    assert_eq!((found.ns(WaitKind::Data), found.parts(WaitKind::Data).get(Part::Unknown)), (10_150 * MS, 10_000 * MS));
}

#[test]
fn a_trace_without_evidence_explains_nothing() {
    let steps = (0..5).map(|i| step(StepKind::Take, Object::default(), 40 * i, 40 * i + 30)).collect();
    assert!(!waits(vec![(TRAINER, steps, Vec::new())]).is_known);
}

/// Threads of the trainer's process.
const BESIDE: LaneId = LaneId { proc: 0, tid: 10 };
const OTHER: LaneId = LaneId { proc: 0, tid: 11 };

#[test]
fn threads_that_meet_at_a_barrier_compute() {
    let rounds = || 0..6;
    let trainer: Vec<Step> = rounds()
        .flat_map(|i| [step(StepKind::Take, PIPE, 80 * i, 80 * i + 30), woken(80 * i + 40, 80 * i + 70, OTHER)])
        .collect();
    let give = |i: i64| Step { storage: 30 * MS, ..step(StepKind::Give, PIPE, 80 * i + 30, 80 * i + 30) };
    let last: Vec<Step> = rounds().map(|i| step(StepKind::Edge, Object::default(), 80 * i + 70, 80 * i + 70)).collect();
    let with = |beside: Vec<Step>| {
        let reader = (READER, rounds().map(give).collect(), vec![]);
        waits(vec![(TRAINER, trainer.clone(), vec![]), reader, (BESIDE, beside, vec![]), (OTHER, last.clone(), vec![])])
    };
    // The last barrier is a part of the last step.
    let found = with(rounds().map(|i| woken(80 * i + 50, 80 * i + 70, OTHER)).collect());
    assert_eq!((only(&found).ns(WaitKind::OwnWork), only(&found).ns(WaitKind::Data)), (180 * MS, 180 * MS));
    // A thread that releases the trainer alone may make batches from memory.
    let found = with(Vec::new());
    assert_eq!((only(&found).ns(WaitKind::OwnWork), only(&found).ns(WaitKind::Data)), (0, 360 * MS));
}

#[test]
fn a_batch_that_never_came_was_waited_for() {
    let mut trainer = trainer();
    // The read that a signal ended after two seconds.
    trainer.push(Step { amount: 0, ..step(StepKind::Take, PIPE, 200, 2200) });
    let found = waits(vec![(TRAINER, trainer, Vec::new()), (READER, reader(30), Vec::new())]);
    let last = only(&found).waits.last().unwrap();
    assert_eq!((last.kind, last.end - last.start, last.maker), (WaitKind::Data, 2000 * MS, Some(READER)));
    assert_eq!(last.parts.get(Part::Unknown), 2000 * MS);
    assert_eq!(only(&found).to, 2200 * MS);
    // A reader that received a request and never sent anything.
    let request = step(StepKind::Give, Object { id: 8, ..PIPE }, 0, 0);
    let look = |i: i64| Step { timed_out: true, ..step(StepKind::Poll, PIPE, 5000 * i, 5000 * i + 5000) };
    let trainer = [request].into_iter().chain((0..3).map(look)).collect();
    let reader = vec![step(StepKind::Take, Object { id: 8, ..PIPE }, 1, 1)];
    let found = waits(vec![(TRAINER, trainer, Vec::new()), (READER, reader, Vec::new())]);
    assert_eq!((only(&found).ns(WaitKind::Data), only(&found).ns(WaitKind::Unknown)), (15_000 * MS, 0));
}

#[test]
fn a_wait_in_which_the_program_ended_is_a_part_of_the_training() {
    let mut trainer = trainer();
    trainer.push(step(StepKind::Wait, Object { id: 0x2000, network: false }, 200, 5200));
    let found = waits(vec![(TRAINER, trainer.clone(), Vec::new()), (READER, reader(30), Vec::new())]);
    assert_eq!((only(&found).ns(WaitKind::Unknown), only(&found).to), (5000 * MS, 5200 * MS));
    // Another wait after the training.
    trainer.push(step(StepKind::Edge, Object::default(), 9000, 9000));
    let found = waits(vec![(TRAINER, trainer, Vec::new()), (READER, reader(30), Vec::new())]);
    assert_eq!((only(&found).ns(WaitKind::Unknown), only(&found).to), (0, 200 * MS));
}

#[test]
fn looks_between_ready_messages_are_not_one_wait() {
    let mut trainer = trainer();
    // Messages that had arrived, steps of 20 ms, and short looks.
    for i in 0..100 {
        trainer.push(step(StepKind::Take, PIPE, 200 + 20 * i, 200 + 20 * i));
        trainer
            .push(Step { end: (201 + 20 * i) * MS + 20_000, ..step(StepKind::Poll, PIPE, 201 + 20 * i, 201 + 20 * i) });
    }
    let mut gives = reader(30);
    gives.extend((0..100).map(|i| step(StepKind::Give, PIPE, 190 + 20 * i, 190 + 20 * i)));
    let found = waits(vec![(TRAINER, trainer, Vec::new()), (READER, gives, Vec::new())]);
    assert!(only(&found).waits.iter().all(|wait| wait.end - wait.start <= 30 * MS), "{:?}", only(&found).waits.last());
}

/// A program beside another one, as in a pipeline of a shell: neither started the other.
#[test]
fn output_of_a_program_beside_it_is_data_to_a_program_that_works_on_it() {
    let beside = LaneId { proc: 2, tid: STARTED_LATER };
    let takes = |steps: i64| (0..steps).map(|i| step(StepKind::Take, PIPE, 40 * i, 40 * i + 30)).collect::<Vec<_>>();
    let gives = |steps: i64| {
        let slept = |i: i64| step(StepKind::Sleep, Object::default(), 40 * i, 40 * i + 29);
        let given = |i: i64| step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30);
        (0..steps).flat_map(|i| [slept(i), given(i)]).collect::<Vec<_>>()
    };
    let found = |steps: i64| waits(vec![(READER, takes(steps), Vec::new()), (beside, gives(steps), Vec::new())]);
    let many = found(10);
    let [trainer] = &many.trainers[..] else { panic!("{:?}", many.trainers) };
    assert_eq!((trainer.lane, trainer.ns(WaitKind::Data), trainer.to - trainer.from), (READER, 300 * MS, 390 * MS));
    assert_eq!(trainer.parts(WaitKind::Data).largest(), Part::Sleep);
    assert!(found(3).trainers.is_empty(), "three messages show no loop");
}

/// Returns the waits of a program that requests ten messages of this size from a server outside the trace.
fn requests(bytes: i64, others: Vec<Step>) -> Waits {
    let remote = Object { id: 8, network: true };
    let one = |i: i64| {
        let asks = Step { amount: 100, ..step(StepKind::Give, remote, 40 * i, 40 * i) };
        let waits = Step { amount: 1, ..step(StepKind::Poll, remote, 40 * i, 40 * i + 25) };
        let takes = Step { amount: bytes, ..step(StepKind::Take, remote, 40 * i + 25, 40 * i + 30) };
        [asks, waits, takes]
    };
    let mut steps: Vec<Step> = (0..10).flat_map(one).chain(others).collect();
    steps.sort_by_key(|step| step.start);
    waits(vec![(TRAINER, steps, Vec::new())])
}

#[test]
fn responses_of_a_server_are_data_unless_they_are_smaller_than_the_requests() {
    let data = requests(5_000, Vec::new());
    assert_eq!(only(&data).ns(WaitKind::Data), 300 * MS);
    assert_eq!(only(&data).parts(WaitKind::Data).get(Part::Network), 300 * MS);
    let reports = requests(10, Vec::new());
    assert_eq!((only(&reports).ns(WaitKind::Data), only(&reports).ns(WaitKind::Peer)), (0, 300 * MS));
}

#[test]
fn a_server_that_waits_for_requests_does_not_train() {
    let accepts = step(StepKind::Accept, Object { id: 9, network: true }, 400, 410);
    assert!(requests(5_000, vec![accepts]).trainers.is_empty());
}

/// Returns the events of a trainer that looks for a file and sleeps 10 ms, three times in a row, and then works for 10 ms.
fn looks_for_files(lane: LaneId, hash: u64) -> TimelinePart {
    let mut part = TimelinePart::default();
    part.begin(lane, 0);
    for i in 0..8 {
        for at in [40 * i, 40 * i + 10, 40 * i + 20] {
            part.missed_file(1, hash);
            part.sleeps_for_file(|_| 77);
            part.step(Step { amount: 0, ..step(StepKind::Sleep, Object::default(), at, at + 10) });
        }
        assert!(part.awaits_file(hash) && !part.awaits_file(hash + 1));
        part.found_file();
    }
    part
}

#[test]
fn a_file_that_another_program_makes_is_a_message_of_that_program() {
    let maker = LaneId { proc: 3, tid: 4 };
    let mut makes = TimelinePart::default();
    makes.begin(maker, 0);
    for i in 0..8 {
        // It gets its name in the same directory while others get theirs elsewhere.
        makes.file_call(Interval { start: (40 * i + 1) * MS, end: (40 * i + 27) * MS }, (false, false));
        makes.step(step(StepKind::Edge, Object::default(), 40 * i + 27, 40 * i + 27));
        makes.made_file((40 * i + 28) * MS, FileMade::Renamed(77));
    }
    let mut judged = |made_in_time: bool| {
        let mut all = Timelines::default();
        all.take(looks_for_files(TRAINER, 5));
        if made_in_time {
            all.take(std::mem::take(&mut makes));
        }
        // A pipe shows that the trace has objects.
        let lane = LaneId { proc: 1, tid: 2 };
        let part = ThreadPart { steps: vec![step(StepKind::Give, PIPE, 0, 0)], ..ThreadPart::default() };
        all.threads.insert(lane, part);
        let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
        explained(all, &[process(1, None), process(2, Some(1)), process(3, Some(1)), process(4, None)])
    };
    let found = judged(true);
    let trainer = only(&found);
    assert_eq!((trainer.ns(WaitKind::Data), trainer.file_waits), (240 * MS, 8));
    assert_eq!(trainer.makers().into_keys().collect::<Vec<_>>(), [maker]);
    assert_eq!(trainer.parts(WaitKind::Data).largest(), Part::Storage);
    // No traced program made the files.
    let found = judged(false);
    assert_eq!(only(&found).parts(WaitKind::Data).get(Part::NoFile), 240 * MS);
}

/// Returns the waits of a thread that sleeps three times in a row before it opens a file, which another one names after that many
/// milliseconds of the 30 ms of sleep.
fn sleeps_before_opens(named_after: i64) -> Waits {
    let (mut sleeper, mut makes) = (TimelinePart::default(), TimelinePart::default());
    sleeper.begin(TRAINER, 0);
    makes.begin(LaneId { proc: 3, tid: 4 }, 0);
    for i in 0..8 {
        for at in [40 * i, 40 * i + 10, 40 * i + 20] {
            sleeper.step(Step { amount: 0, ..step(StepKind::Sleep, Object::default(), at, at + 10) });
        }
        assert!(sleeper.has_slept());
        sleeper.opened_file((40 * i + 31) * MS, 5, 77);
        assert!(!sleeper.has_slept());
        let named = 40 * i + named_after;
        makes.file_call(Interval { start: (named - 4) * MS, end: (named - 1) * MS }, (false, false));
        makes.step(step(StepKind::Edge, Object::default(), named - 1, named - 1));
        makes.made_file(named * MS, FileMade::Renamed(77));
    }
    let mut all = Timelines::default();
    [sleeper, makes].into_iter().for_each(|part| all.take(part));
    let lane = LaneId { proc: 1, tid: 2 };
    let part = ThreadPart { steps: vec![step(StepKind::Give, PIPE, 0, 0)], ..ThreadPart::default() };
    all.threads.insert(lane, part);
    let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
    explained(all, &[process(1, None), process(2, Some(1)), process(3, Some(1)), process(4, None)])
}

#[test]
fn sleeps_until_another_thread_names_the_file_that_is_opened_next_are_a_wait_for_it() {
    let found = sleeps_before_opens(28);
    let trainer = only(&found);
    assert_eq!(trainer.ns(WaitKind::Data), 240 * MS);
    assert_eq!(trainer.makers().into_keys().collect::<Vec<_>>(), [LaneId { proc: 3, tid: 4 }]);
    // A file that existed before the last sleep is not what the thread slept for.
    assert!(sleeps_before_opens(8).trainers.is_empty());
}

/// A shell copies files and renames them with programs; the trainer looks for each.
#[test]
fn a_shell_that_waits_for_programs_makes_what_they_make() {
    let program = |pid, ppid, name: &str| Process {
        pid,
        ppid: Some(ppid),
        program: Some(name.into()),
        command: Some(format!("{name} file")),
        ..Process::default()
    };
    let mut processes = vec![Process { program: Some("python3".into()), ..program(1, 0, "python3") }];
    processes[0].ppid = None;
    processes.extend([program(2, 1, "python3"), program(3, 1, "sh")]);
    let (mut all, mut shell) = (Timelines::default(), Vec::new());
    all.take(looks_for_files(TRAINER, 5));
    for i in 0..8 {
        let (copies, renames) = (10 + 2 * i as i32, 11 + 2 * i as i32);
        let lane = |pid: i32| LaneId { proc: pid as u32 - 7, tid: pid };
        processes.extend([program(copies, 3, "cp"), program(renames, 3, "mv")]);
        let mut copy = TimelinePart::default();
        copy.begin(lane(copies), (40 * i + 1) * MS);
        copy.file_call(Interval { start: (40 * i + 1) * MS, end: (40 * i + 24) * MS }, (false, false));
        copy.step(step(StepKind::Edge, Object::default(), 40 * i + 25, 40 * i + 25));
        let mut rename = TimelinePart::default();
        rename.begin(lane(renames), (40 * i + 26) * MS);
        rename.step(step(StepKind::Edge, Object::default(), 40 * i + 27, 40 * i + 27));
        rename.made_file((40 * i + 28) * MS, FileMade::Renamed(77));
        [copy, rename].into_iter().for_each(|part| all.take(part));
        shell.push(Step { amount: copies as i64, ..step(StepKind::Child, Object::default(), 40 * i + 1, 40 * i + 25) });
    }
    all.threads
        .insert(LaneId { proc: 2, tid: 3 }, ThreadPart { steps: shell, first: Some(0), ..ThreadPart::default() });
    let part = ThreadPart { steps: vec![step(StepKind::Give, PIPE, 0, 0)], ..ThreadPart::default() };
    all.threads.insert(LaneId { proc: 1, tid: 2 }, part);
    let found = explained(all, &processes);
    let parts = only(&found).parts(WaitKind::Data);
    assert_eq!(parts.largest(), Part::Storage, "{parts:?}");
    assert!(parts.get(Part::Child) < parts.sum() / 4, "{parts:?}");
}

/// Returns the waits for a reader that works for 300 ms on its first item and for 20 ms on each other one, with a CPU or with
/// storage, except that the fourth item takes `large` ms.
fn first_item(on_cpu: bool, large: i64) -> Waits {
    let asks = Object { id: 8, network: false };
    let (mut own, mut made, mut usage) = (vec![step(StepKind::Give, asks, 0, 0)], Vec::new(), Vec::new());
    let mut at = 0;
    for i in 0..8 {
        let works = [300, 20, 20, large, 20, 20, 20, 20][i];
        let storage = if on_cpu { 0 } else { works * MS };
        let from = if i == 0 { 0 } else { at + 10 };
        made.push(step(StepKind::Take, asks, at, at));
        at += works;
        made.push(Step { storage, ..step(StepKind::Give, PIPE, at, at) });
        let cpu_us = if on_cpu { works as u64 * 1_000 } else { 0 };
        let counters = Counters { cpu_us, run_delay_us: Some(0), ..Counters::default() };
        usage.push(Usage { ts: at * MS, counters });
        own.push(step(StepKind::Take, PIPE, from, at));
        own.push(step(StepKind::Give, asks, at, at));
    }
    waits(vec![(TRAINER, own, vec![]), (READER, made, usage)])
}

#[test]
fn a_reader_that_computes_more_for_its_first_item_only_prepares() {
    let start = |found: &Waits| only(found).parts(WaitKind::Data).get(Part::Start);
    assert_eq!(start(&first_item(true, 20)) / MS, 280);
    // A cold cache is not a start, nor is an item that is larger than others.
    assert_eq!(start(&first_item(false, 20)), 0);
    assert_eq!(start(&first_item(true, 200)), 0);
}

/// Returns the waits for a reader without tasks that works for 300 ms on its first item and for 20 ms on each other one.
fn first_item_without_task(storage: i64) -> Waits {
    let (mut own, mut made, mut at) = (Vec::new(), Vec::new(), 0);
    for i in 0..8 {
        let (from, works) = (at, if i == 0 { 300 } else { 20 });
        at += works;
        made.push(Step { storage: storage * works * MS, ..step(StepKind::Give, PIPE, at, at) });
        own.push(step(StepKind::Take, PIPE, from, at));
        at += 10;
    }
    waits(vec![(TRAINER, own, vec![]), (READER, made, vec![])])
}

#[test]
fn a_reader_without_tasks_starts_until_it_fetches_its_first_item() {
    let start = |found: &Waits| only(found).parts(WaitKind::Data).get(Part::Start) / MS;
    assert_eq!((start(&first_item_without_task(0)), start(&first_item_without_task(1))), (270, 0));
}

#[test]
fn an_object_at_which_two_threads_wake_each_other_is_a_lock() {
    let reader = LaneId { proc: 0, tid: 9 };
    let lock = |start: i64, end: i64, waker: LaneId, is_lock: bool| Step {
        object: Object { id: 0x2000, network: false },
        is_lock,
        ..woken(start, end, waker)
    };
    let waits_for_lock = |i: i64| lock(40 * i + 10, 40 * i + 30, reader, i % 2 == 0);
    let batches = (0..5).map(|i| step(StepKind::Take, PIPE, 40 * i + 38, 40 * i + 38));
    let mut steps: Vec<Step> = (0..5).map(waits_for_lock).chain(batches).collect();
    steps.sort_by_key(|step| step.start);
    let holds = (0..5).map(|i| lock(40 * i + 32, 40 * i + 33, TRAINER, false)).collect();
    let threads = vec![(TRAINER, steps, vec![]), (reader, holds, vec![]), (READER, self::reader(1), vec![])];
    let found = waits(threads);
    // The first one was before the training.
    assert_eq!(only(&found).ns(WaitKind::Lock), 80 * MS);
    assert_eq!(only(&found).ns(WaitKind::Data), 0);
}

/// Threads of a pool wait for tasks, and the first one that the trainer wakes wakes the next one.
#[test]
fn a_thread_that_passes_a_wake_on_holds_no_lock() {
    let pool = [LaneId { proc: 0, tid: 9 }, LaneId { proc: 0, tid: 10 }];
    let tasks = |start: i64, end: i64, waker: LaneId, is_lock: bool| Step {
        object: Object { id: 0x2000, network: false },
        is_lock,
        ..woken(start, end, waker)
    };
    let reads = |at: i64| Step { storage: 20 * MS, ..step(StepKind::Edge, Object::default(), at, at) };
    let (mut first, mut second, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..6 {
        let at = 60 * i;
        first.extend([tasks(at + 21, at + 60, TRAINER, false), reads(at + 80)]);
        second.extend([tasks(at + 22, at + 61, pool[0], true), reads(at + 81)]);
        own.push(woken(at + 61, at + 80, pool[0]));
        own.push(woken(at + 80, at + 81, pool[1]));
    }
    let found = waits(vec![(TRAINER, own, vec![]), (pool[0], first, vec![]), (pool[1], second, vec![])]);
    assert_eq!(only(&found).parts(WaitKind::Data).get(Part::Lock), 0, "{:?}", only(&found));
}

/// Returns a loader that requests two batches first, and another one through a thread of the trainer, `requested` ms after
/// each batch. Until then it sleeps for `slept` ms. Both sides look for messages with a timeout if `polls`. Another batch arrives
/// `early` ms before the loader looks for each one, unless that is 0.
fn loader(requested: i64, polls: bool, slept: i64, early: i64) -> Waits {
    let (feeder, pipe) =
        (LaneId { proc: 0, tid: 9 }, |id: u64| Object { id: messages::PIPE << 56 | id, network: false });
    let (data, asks) = (pipe(7), pipe(8));
    let look = |object: Object, start: i64, end: i64| Step { amount: 0, ..step(StepKind::Poll, object, start, end) };
    let mut feeds: Vec<Step> = (1..5).map(|at| step(StepKind::Give, asks, at, at)).collect();
    let (mut own, mut made) = (Vec::new(), Vec::new());
    for i in 0..8 {
        let (at, before) = (40 * i + 30, 40 * i + 5);
        let waited = if polls { at + 10 } else { at };
        if early > 0 {
            made.push(step(StepKind::Give, data, at - early, at - early));
            own.push(Step { amount: 4, ..step(StepKind::Take, data, at - early, at - early) });
            own.push(step(StepKind::Take, data, at - early, at - early));
        }
        if polls {
            own.push(look(data, at, at + 10));
            made.push(look(asks, before, at));
        }
        own.push(Step { amount: 4, ..step(StepKind::Take, data, waited, at + 10) });
        own.push(step(StepKind::Take, data, at + 10, at + 10));
        own.push(step(StepKind::Sleep, Object::default(), at + 11, at + 11 + slept));
        made.push(step(StepKind::Take, asks, if polls { at } else { before }, at));
        made.push(Step { storage: 10 * MS, ..step(StepKind::Give, data, at + 10, at + 10) });
        feeds.push(Step { woken: 0, ..woken(at - 20, at + 10 + requested, TRAINER) });
        let requested = step(StepKind::Give, asks, at + 10 + requested, at + 10 + requested);
        feeds.extend(if early > 0 { vec![requested, requested] } else { vec![requested] });
    }
    waits(vec![(TRAINER, own, vec![]), (feeder, feeds, vec![]), (READER, made, vec![])])
}

#[test]
fn a_batch_that_the_loader_still_unpickles_is_waited_for() {
    let found = loader(8, true, 0, 0);
    let (data, parts) = (only(&found).ns(WaitKind::Data), only(&found).parts(WaitKind::Data));
    assert_eq!((data, parts.get(Part::OutsideCalls)), (8 * 18 * MS, 8 * 8 * MS), "{parts:?}");
    // Other programs may do a step before they ask again.
    assert_eq!(only(&loader(8, false, 0, 0)).ns(WaitKind::Data), 8 * 10 * MS);
}

#[test]
fn a_batch_that_arrives_too_early_is_unpickled_before_the_awaited_one() {
    let found = loader(8, true, 0, 12);
    assert_eq!(only(&found).ns(WaitKind::Data), 8 * 30 * MS, "{:?}", only(&found));
}

#[test]
fn a_loader_that_sleeps_before_it_requests_a_batch_chooses_samples() {
    let found = loader(8, true, 6, 0);
    assert_eq!(only(&found).parts(WaitKind::Data).get(Part::Sampling), 8 * 6 * MS, "{:?}", only(&found));
}

/// A thread of the trainer's process collects the results of a pool, and wakes the trainer only if it has to wait.
#[test]
fn a_trainer_that_computes_while_another_thread_collects_results_waits_for_none() {
    let collector = LaneId { proc: 0, tid: 9 };
    let results = || (0..30).map(|i| step(StepKind::Take, PIPE, 10 * i, 10 * i + 9));
    let gives = (0..30).map(|i| step(StepKind::Give, PIPE, 10 * i + 9, 10 * i + 9));
    let edge = |at: i64| step(StepKind::Edge, Object::default(), at, at);
    let sleep = |i: i64| step(StepKind::Sleep, Object::default(), 10 * i, 10 * i + 8);
    let results = || results().map(|take| Step { end: take.end + MS - 1_000, ..take });
    let found = |trainer: Vec<Step>| {
        let reader = (READER, gives.clone().collect(), Vec::new());
        waits(vec![(TRAINER, trainer, Vec::new()), (collector, results().collect(), Vec::new()), reader])
    };
    let busy = found(vec![edge(0), edge(300)]);
    assert!(only(&busy).waits.is_empty() && only(&busy).finds_data_ready());
    // These sleeps may be looks for results.
    let asleep = found((0..30).map(sleep).chain([edge(300)]).collect());
    assert!(asleep.trainers.is_empty(), "{:?}", asleep.trainers);
}

/// Two processes that read files themselves, and exchange messages of one size after each step.
#[test]
fn a_process_that_does_the_same_as_its_parent_makes_no_batches() {
    const BACK: Object = Object { id: 8, network: false };
    let ranks = |bytes: i64| {
        let rank = |takes: Object, gives: Object, bytes: i64, waited: i64| {
            let exchange = |i: i64| {
                let at = 50 * i + 40 - waited;
                let send = Step { storage: 2 * MS, ..step(StepKind::Give, gives, at, at) };
                [send, Step { amount: bytes, ..step(StepKind::Take, takes, at, 50 * i + 40) }]
            };
            (0..20).flat_map(exchange).collect::<Vec<_>>()
        };
        let own = rank(PIPE, BACK, bytes, 20);
        waits(vec![(TRAINER, own, Vec::new()), (READER, rank(BACK, PIPE, 100, 0), Vec::new())])
    };
    let data = |waits: &Waits| waits.trainers.iter().map(|trainer| trainer.ns(WaitKind::Data)).sum::<i64>();
    assert_eq!(data(&ranks(100)), 0);
    // A request is smaller than its batch.
    assert!(data(&ranks(10_000)) >= 300 * MS);
}

/// Each process has a thread that reads its files. Ranks exchange gradients; a request and the name of a batch are shorter.
#[test]
fn processes_with_readers_of_their_own_that_exchange_messages_are_ranks() {
    const BACK: Object = Object { id: 8, network: false };
    let ranks = |bytes: i64| {
        let rank = |takes: Object, gives: Object, waited: i64| {
            let exchange = |i: i64| {
                let at = 50 * i + 40 - waited;
                let (send, receive) =
                    (step(StepKind::Give, gives, at, at), step(StepKind::Take, takes, at, 50 * i + 40));
                [Step { amount: bytes, ..send }, Step { amount: bytes, ..receive }]
            };
            (0..20).flat_map(exchange).collect::<Vec<_>>()
        };
        let reads =
            |i: i64| Step { storage: 2 * MS, ..step(StepKind::Edge, Object::default(), 50 * i + 9, 50 * i + 9) };
        let mut timelines = Timelines::default();
        let threads = [
            (TRAINER, rank(PIPE, BACK, 20)),
            (READER, rank(BACK, PIPE, 0)),
            (LaneId { tid: 9, ..TRAINER }, (0..20).map(reads).collect()),
            (FEEDER, (0..20).map(reads).collect()),
        ];
        for (lane, steps) in threads {
            let stored_ns = if lane.tid == lane.proc as i32 + 1 { 0 } else { 40 * MS };
            timelines.threads.insert(lane, ThreadPart { steps, stored_ns, first: Some(0), ..ThreadPart::default() });
        }
        let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
        explained(timelines, &[process(1, None), process(2, Some(1))])
    };
    let ns = |waits: &Waits, kind: WaitKind| waits.trainers.iter().map(|trainer| trainer.ns(kind)).sum::<i64>();
    let gradients = ranks(100_000);
    assert_eq!((gradients.trainers.len(), ns(&gradients, WaitKind::Data)), (2, 0));
    assert!(ns(&gradients, WaitKind::Peer) >= 300 * MS, "{:?}", gradients.trainers);
    let names = ranks(300);
    assert!(ns(&names, WaitKind::Data) >= 300 * MS, "{:?}", names.trainers);
}

/// The server answers each request for a batch at once. Another process has sent it the batch, or it makes the batch itself.
#[test]
fn a_server_that_passes_batches_on_does_no_work_of_the_trainers_own() {
    let [ask, filled] = [8, 9].map(|id| Object { id, network: false });
    let other = LaneId { proc: 2, tid: STARTED_LATER };
    let found = |passed_on: bool| {
        let large = |step: Step| Step { amount: 1_000_000, ..step };
        let asks = |i: i64| {
            [step(StepKind::Give, ask, 40 * i, 40 * i), large(step(StepKind::Take, PIPE, 40 * i, 40 * i + 30))]
        };
        let answers = |i: i64| {
            let taken = large(step(StepKind::Take, filled, 40 * i - 5, 40 * i - 5));
            let request = step(StepKind::Take, ask, 40 * i - 5, 40 * i);
            [taken, request, large(step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30))]
        };
        let steps = (1..11).flat_map(answers).filter(|step| passed_on || step.object.id != filled.id).collect();
        let fills = (1..11).map(|i| large(step(StepKind::Give, filled, 40 * i - 6, 40 * i - 6)));
        let fills = if passed_on { fills.collect() } else { vec![] };
        waits(vec![
            (TRAINER, (1..11).flat_map(asks).collect(), vec![]),
            (READER, steps, vec![]),
            (other, fills, vec![]),
        ])
    };
    assert_eq!(only(&found(true)).ns(WaitKind::OwnWork), 0);
    assert_eq!(only(&found(true)).ns(WaitKind::Data), 300 * MS);
    assert!(found(false).trainers.iter().all(|trainer| trainer.ns(WaitKind::Data) == 0));
}

/// The slow loader still sends descriptors of the batch before, on request, when the trainer waits for its next batch.
#[test]
fn the_batch_after_descriptors_is_no_part_of_them() {
    let [ask, socket, other] = [8, 9, 10].map(|id| Object { id, network: false });
    let (sharer, fast) = (LaneId { proc: 1, tid: 4 }, LaneId { proc: 2, tid: STARTED_LATER });
    let at = |kind, object, start: i64, us: i64| {
        let start = start * MS + 1_000 * us;
        Step { start, end: start + 50_000, ..step(kind, object, 0, 0) }
    };
    let both = |i: i64| {
        let awaited = Step { start: 40 * i * MS + 70_000, ..step(StepKind::Take, PIPE, 0, 40 * i + 30) };
        [
            at(StepKind::Give, ask, 40 * i, 0),
            at(StepKind::Take, socket, 40 * i, 20),
            awaited,
            at(StepKind::Take, other, 40 * i + 30, 10),
        ]
    };
    let responds = |i: i64| [at(StepKind::Take, ask, 40 * i, -30), at(StepKind::Give, socket, 40 * i, 40)];
    let ready = (0..8).map(|i| step(StepKind::Give, other, 40 * i + 5, 40 * i + 5));
    let made = (0..8).map(|i| Step { storage: 28 * MS, ..step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30) });
    let found = waits(vec![
        (TRAINER, (0..8).flat_map(both).collect(), Vec::new()),
        (FEEDER, made.collect(), Vec::new()),
        (sharer, (0..8).flat_map(responds).collect(), Vec::new()),
        (fast, ready.collect(), Vec::new()),
    ]);
    assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [FEEDER]);
    assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
}

/// One of two trainers waits for a batch with the lock of the queue, for which the other one waits.
#[test]
fn a_wait_for_the_lock_of_a_shared_queue_is_one_for_a_batch() {
    const LOCK: Object = Object { id: 9, network: false };
    let [decoder, one, other] = [1, 2, 3].map(|proc| LaneId { proc, tid: proc as i32 + 1 });
    // Each takes every second batch, and the lock before it; in the last 10 ms of 60 ms it trains.
    let trains = |from: i64| {
        let turn = move |i: i64| {
            let at = 60 * i + from;
            let wait = Step { shared: true, ..step(StepKind::Wait, LOCK, at - 20, at) };
            [wait, step(StepKind::Take, PIPE, at, at + 30), step(StepKind::Post, LOCK, at + 30, at + 30)]
        };
        (1..11).flat_map(turn).collect::<Vec<_>>()
    };
    let made = (1..22).map(|i| Step { storage: 29 * MS, ..step(StepKind::Give, PIPE, 30 * i + 30, 30 * i + 30) });
    let mut timelines = Timelines::default();
    for (lane, steps) in [(decoder, made.collect()), (one, trains(0)), (other, trains(30))] {
        let stored_ns = if lane == decoder { 600 * MS } else { 0 };
        timelines.threads.insert(lane, ThreadPart { steps, stored_ns, first: Some(0), ..ThreadPart::default() });
    }
    let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
    let processes = [process(1, None), process(2, Some(1)), process(3, Some(1)), process(4, Some(1))];
    let found = explained(timelines, &processes);
    assert_eq!(found.trainers.len(), 2, "{:?}", found.trainers);
    for trainer in &found.trainers {
        assert_eq!(trainer.ns(WaitKind::Peer), 0);
        assert!(trainer.ns(WaitKind::Data) >= 450 * MS, "{trainer:?}");
    }
}

/// The slow loader is asked first; the batch of the other one has been ready since long before.
#[test]
fn a_wait_for_the_slow_one_of_two_loaders_is_not_for_the_other() {
    const OTHER: Object = Object { id: 8, network: false };
    let fast = LaneId { proc: 2, tid: STARTED_LATER };
    let both = |i: i64| {
        let ready = Step { end: (40 * i + 30) * MS + 50_000, ..step(StepKind::Take, OTHER, 40 * i + 30, 0) };
        [step(StepKind::Take, PIPE, 40 * i, 40 * i + 30), ready]
    };
    let ready = (0..5).map(|i| step(StepKind::Give, OTHER, 40 * i + 5, 40 * i + 5));
    let threads = vec![
        (TRAINER, (0..5).flat_map(both).collect(), Vec::new()),
        (READER, reader(30), Vec::new()),
        (fast, ready.collect(), Vec::new()),
    ];
    let found = waits(threads);
    assert_eq!(only(&found).makers().into_keys().collect::<Vec<_>>(), [READER]);
    assert_eq!(only(&found).parts(WaitKind::Data).largest(), Part::Storage);
}

/// Two readers send through one pipe. The one that has a request calls nothing any more.
#[test]
fn a_reader_with_a_request_that_sends_nothing_hangs() {
    const REQUESTS: Object = Object { id: 8, network: false };
    let other = LaneId { proc: 2, tid: STARTED_LATER };
    let mut steps = trainer();
    steps.push(step(StepKind::Give, REQUESTS, 205, 205));
    steps.push(Step { timed_out: true, amount: 0, ..step(StepKind::Poll, PIPE, 210, 3_210) });
    let mut hangs = reader(30);
    hangs.push(step(StepKind::Take, REQUESTS, 206, 206));
    let waits_for_requests = step(StepKind::Give, PIPE, 190, 190);
    let threads = vec![(TRAINER, steps, vec![]), (READER, hangs, vec![]), (other, vec![waits_for_requests], vec![])];
    let found = waits(threads);
    let last = only(&found).waits.last().unwrap();
    assert_eq!((last.maker, last.parts.largest()), (Some(READER), Part::NeverSent));
}

/// After the message, the lock of the queue is released; then it is unpickled for at most 7 tenths of the time that it took to
/// read.
#[test]
fn unpickling_a_large_message_is_a_part_of_the_wait_for_it() {
    let lock = Object { id: 77, network: false };
    let message = |i: i64| {
        let at = 100 * i;
        let header = Step { amount: 4, ..step(StepKind::Take, PIPE, at, at + 10) };
        let body = Step { amount: 20_000_000, ..step(StepKind::Take, PIPE, at + 10, at + 30) };
        [header, body, step(StepKind::Post, lock, at + 30, at + 30), step(StepKind::Sleep, lock, at + 80, at + 99)]
    };
    let gives = (0..5).map(|i| Step { amount: 20_000_004, ..step(StepKind::Give, PIPE, 100 * i + 10, 100 * i + 30) });
    let threads = vec![
        (TRAINER, (0..5).flat_map(message).collect(), Vec::new()),
        (READER, gives.collect::<Vec<_>>(), Vec::new()),
    ];
    let mut timelines = Timelines::default();
    for (lane, steps, usage) in threads {
        timelines.threads.insert(lane, ThreadPart { steps, usage, first: Some(0), ..ThreadPart::default() });
    }
    let python = |pid, ppid| Process { pid, ppid, program: Some("python3".into()), ..Process::default() };
    let found = explained(timelines, &[python(1, None), python(2, Some(1))]);
    assert_eq!(only(&found).ns(WaitKind::Data), 5 * (30 + 14) * MS);
}

/// Returns a thread of the trainer's process.
fn beside(tid: i32) -> LaneId {
    LaneId { tid, ..TRAINER }
}

/// Returns a thread that wakes `next` every 40 ms, works on what another thread gave it, and reads or writes for the given times.
fn stage(of: Option<LaneId>, (stored, written): (i64, i64)) -> ThreadPart {
    let at = |i: i64| if of.is_some() { 40 * i + 30 } else { 40 * i + 25 };
    let waits = |i: i64| of.map(|waker| woken(40 * i, 40 * i + 26, waker));
    let given = |i: i64| Step { storage: stored * MS / 8, ..step(StepKind::Edge, Object::default(), at(i), at(i)) };
    let steps = (0..8).flat_map(|i| waits(i).into_iter().chain([given(i)])).collect();
    ThreadPart { steps, stored_ns: stored * MS, written_ns: written * MS, first: Some(0), ..ThreadPart::default() }
}

#[test]
fn a_thread_that_decodes_what_another_one_reads_supplies_data() {
    let is_fed = |written: i64| {
        let mut timelines = Timelines::default();
        let own = (0..8).map(|i| woken(40 * i, 40 * i + 31, beside(9))).collect();
        let own = ThreadPart { steps: own, stored_ns: written * MS, written_ns: written * MS, ..ThreadPart::default() };
        timelines.threads.insert(TRAINER, ThreadPart { first: Some(0), ..own });
        timelines.threads.insert(beside(9), stage(Some(beside(10)), (0, 0)));
        timelines.threads.insert(beside(10), stage(None, (160, 0)));
        let found = explained(timelines, &[Process { pid: 1, ..Process::default() }]);
        assert!(only(&found).waits.iter().any(|wait| wait.limiter == Some(beside(10))), "{:?}", found.trainers);
        only(&found).is_fed()
    };
    // A compressor writes what its threads made of its input.
    assert!(is_fed(0) && !is_fed(80));
}

#[test]
fn threads_that_each_read_one_item_are_waited_for_until_they_end() {
    let trains = |kind: StepKind| {
        let mut timelines = Timelines::default();
        let own = (0..8).map(|i| step(kind, Object::default(), 40 * i, 40 * i + 30)).collect();
        timelines.threads.insert(TRAINER, ThreadPart { steps: own, first: Some(0), ..ThreadPart::default() });
        for i in 0..8 {
            let end = Step { storage: 45 * MS, ..step(StepKind::Edge, Object::default(), 40 * i + 30, 40 * i + 30) };
            let first = Some((40 * i - 20) * MS);
            let part = ThreadPart { steps: vec![end], stored_ns: 45 * MS, first, ..ThreadPart::default() };
            timelines.threads.insert(beside(101 + i as i32), part);
        }
        explained(timelines, &[Process { pid: 1, ..Process::default() }])
    };
    let found = trains(StepKind::Join);
    assert_eq!((only(&found).ns(WaitKind::Data), only(&found).works), (240 * MS, 7));
    assert!(only(&found).is_fed());
    // Nobody knows what ends other waits without objects.
    assert!(!trains(StepKind::Wait).is_known);
}

/// Returns the training of a program whose reader sends a message through an object `pause` ms before its first batch.
fn announced(object: Object, pause: i64) -> (i64, i64) {
    let batch = |i: i64| 40 * i + 10 + pause;
    let mut own = vec![step(StepKind::Take, object, 0, 10)];
    own.extend((0..5).map(|i| step(StepKind::Take, PIPE, batch(i), batch(i) + 30)));
    let mut made = vec![step(StepKind::Give, object, 10, 10)];
    made.extend((0..5).map(|i| step(StepKind::Give, PIPE, batch(i) + 30, batch(i) + 30)));
    let found = waits(vec![(TRAINER, own, vec![]), (READER, made, vec![])]);
    (only(&found).from / MS, only(&found).to / MS)
}

#[test]
fn a_message_long_before_the_first_batch_is_not_the_start_of_the_training() {
    let ready = Object { id: 8, network: false };
    assert_eq!(announced(ready, 3_000), (3_010, 3_200));
    // A short pause, and a first batch with a long step after it.
    assert_eq!(announced(ready, 50).0, 0);
    assert_eq!(announced(PIPE, 3_000).0, 0);
}

#[test]
fn a_reader_whose_data_are_in_memory_by_then_is_still_given_room() {
    let reads = beside(9);
    let own: Vec<Step> = (0..5).map(|i| woken(40 * i, 40 * i + 30, reads)).collect();
    let read = |i: i64| Step { storage: 25 * MS, ..step(StepKind::Edge, Object::default(), 40 * i + 29, 40 * i + 29) };
    let mut other: Vec<Step> = (0..5).map(read).collect();
    other.extend((5..20).map(|i| woken(40 * i, 40 * i + 39, TRAINER)));
    let found = waits(vec![(TRAINER, own, vec![]), (reads, other, vec![])]);
    assert!(only(&found).to > 18 * 40 * MS, "{:?}", only(&found));
}

/// Returns readings of the kernel's counters at some times, in milliseconds, with the CPU time before each.
fn counted(times: &[i64], cpu: i64) -> Vec<Usage> {
    let counters = Counters { cpu_us: cpu as u64 * 1_000, run_delay_us: Some(0), ..Counters::default() };
    times.iter().map(|ts| Usage { ts: ts * MS, counters }).collect()
}

#[test]
fn a_program_that_is_ahead_of_the_trainer_passes_nothing_on() {
    // A pipe is full while the trainer computes for 60 ms.
    let trainer = (0..6).map(|i| step(StepKind::Take, PIPE, 90 * i, 90 * i + 30)).collect();
    let gives = (0..6).map(|i| step(StepKind::Give, PIPE, 90 * i + 30, 90 * i + 90)).collect();
    let usage = counted(&[90, 180, 270, 360, 450, 540], 30);
    let found = waits(vec![(TRAINER, trainer, Vec::new()), (READER, gives, usage)]);
    let parts = only(&found).parts(WaitKind::Data);
    assert_eq!(parts.largest(), Part::Cpu);
    assert!(parts.get(Part::HandOver) < parts.sum() / 10, "{parts:?}");
}

#[test]
fn a_program_that_cannot_send_sets_no_pace() {
    const INPUT: Object = Object { id: 8, network: false };
    let before = LaneId { proc: 2, tid: STARTED_LATER };
    let reader = |i: i64| {
        [step(StepKind::Take, INPUT, 40 * i, 40 * i + 2), step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30)]
    };
    let sends =
        |until: i64| -> Vec<Step> { (0..5).map(|i| step(StepKind::Give, INPUT, 40 * i + 1, 40 * i + until)).collect() };
    let usage = || counted(&[30, 70, 110, 150, 190], 28);
    let found = |until: i64| {
        let reader = (READER, (0..5).flat_map(reader).collect(), usage());
        let found = waits(vec![(TRAINER, trainer(), Vec::new()), reader, (before, sends(until), Vec::new())]);
        only(&found).parts(WaitKind::Data)
    };
    assert_eq!(found(39).largest(), Part::Cpu);
    // It sends at once, and works outside calls until then.
    assert_eq!(found(1).largest(), Part::OutsideCalls);
}

#[test]
fn a_thread_that_was_only_woken_before_its_first_item_makes_the_items() {
    let largest = |program: &str| {
        let mut timelines = Timelines::default();
        let mut sends = vec![woken(0, 5, READER)];
        sends.extend((0..5).map(|i| step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30)));
        let joins = vec![step(StepKind::Join, Object::default(), 1, 200)];
        let usage = counted(&[30, 70, 110, 150, 190], 25);
        for (lane, steps, usage) in
            [(TRAINER, trainer(), Vec::new()), (READER, joins, Vec::new()), (FEEDER, sends, usage)]
        {
            timelines.threads.insert(lane, ThreadPart { steps, usage, first: Some(0), ..ThreadPart::default() });
        }
        let reader = Process { pid: 2, ppid: Some(1), program: Some(program.into()), ..Process::default() };
        let found = explained(timelines, &[Process { pid: 1, ..Process::default() }, reader]);
        only(&found).parts(WaitKind::Data).largest()
    };
    assert_eq!((largest("java"), largest("python3")), (Part::Cpu, Part::HandOver));
}

#[test]
fn waits_cover_only_the_training_and_each_time_once() {
    let wait = |start, end, kind| {
        let (acts, parts) = (Vec::new(), Parts::of(Part::Sleep, end - start));
        Wait { start, end, kind, maker: None, limiter: None, depth: 0, acts, parts }
    };
    let (own, lock, data) = (WaitKind::OwnWork, WaitKind::Lock, WaitKind::Data);
    let mut waits = vec![wait(5, 9, own), wait(10, 30, own), wait(20, 40, lock), wait(35, 38, own), wait(50, 60, data)];
    waits.extend([wait(80, 200, own), wait(120, 150, own)]);
    let found = super::calls::within(waits, 10, 100);
    let spans: Vec<(i64, i64)> = found.iter().map(|wait| (wait.start, wait.end)).collect();
    assert_eq!(spans, [(10, 30), (30, 40), (50, 60), (80, 100)]);
    assert!(found.iter().all(|wait| wait.parts.sum() == wait.end - wait.start));
}

/// A thread of the trainer's process that takes batches from a reader.
const RELAY: LaneId = LaneId { proc: 0, tid: 3 };

/// Returns the waits if the relay receives a batch every 40 ms and waits for 25 ms of that until the first thread,
/// which works, takes one.
fn relayed() -> Waits {
    let room = Object { id: 0x1000, network: false };
    let first: Vec<Step> = (0..10).map(|i| step(StepKind::Post, room, 40 * i + 35, 40 * i + 35)).collect();
    let takes = |i: i64| [step(StepKind::Take, PIPE, 40 * i, 40 * i + 5), woken(40 * i + 10, 40 * i + 35, TRAINER)];
    let gives = |i: i64| Step { storage: 4 * MS, ..step(StepKind::Give, PIPE, 40 * i + 5, 40 * i + 5) };
    let relay: Vec<Step> = (0..10).flat_map(takes).collect();
    let reader: Vec<Step> = (0..10).map(gives).collect();
    waits(vec![(TRAINER, first, Vec::new()), (RELAY, relay, Vec::new()), (READER, reader, Vec::new())])
}

#[test]
fn a_thread_that_waits_until_the_first_thread_has_room_does_not_train() {
    let found = relayed();
    let trainer = only(&found);
    assert_eq!(trainer.ns(WaitKind::Data), 0, "{trainer:?}");
    assert!(trainer.readers.contains(&RELAY) && trainer.to - trainer.from >= 300 * MS, "{trainer:?}");
}

#[test]
fn the_causes_of_a_relays_waits_are_those_of_the_waits_for_it() {
    let wait = |start, end, part, maker| {
        let (acts, parts) = (Vec::new(), Parts::of(part, end - start));
        Wait { start, end, kind: WaitKind::Data, maker: Some(maker), limiter: None, depth: 0, acts, parts }
    };
    let relay = only(&relayed()).clone();
    let trainer = TrainerWaits { lane: TRAINER, waits: vec![wait(0, 100, Part::NotAsked, RELAY)], ..relay.clone() };
    let waits = vec![wait(0, 50, Part::Storage, READER), wait(50, 100, Part::Cpu, TRAINER)];
    let relay = TrainerWaits { lane: RELAY, waits, ..relay };
    let causes = with_waits_of(&relay, trainer).parts(WaitKind::Data);
    assert_eq!((causes.get(Part::Storage), causes.sum()), (100, 100), "{causes:?}");
}

/// Returns the training of a program that writes for 5 ms in its second step, and for 300 ms some time after its last batch.
fn saved_after(pause: i64) -> TrainerWaits {
    let mut timelines = Timelines::default();
    let put = |start: i64, end: i64| Interval { start: start * MS, end: end * MS };
    let puts = vec![put(72, 77), put(190 + pause, 490 + pause)];
    let own = ThreadPart { steps: trainer(), puts, first: Some(0), ..ThreadPart::default() };
    timelines.threads.insert(TRAINER, own);
    timelines.threads.insert(READER, ThreadPart { steps: reader(30), first: Some(0), ..ThreadPart::default() });
    let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
    only(&explained(timelines, &[process(1, None), process(2, Some(1))])).clone()
}

#[test]
fn a_save_directly_after_the_last_batch_is_a_part_of_the_last_step() {
    let found = saved_after(10);
    assert_eq!((found.last / MS, found.to / MS), (190, 500));
    assert_eq!(found.written, Some(Written { ns: 305 * MS, in_calls_ns: 305 * MS, after_last_ns: 300 * MS }));
    // Something else came between the training and this save.
    let found = saved_after(400);
    assert_eq!(found.to / MS, 190);
    assert_eq!(found.written, Some(Written { ns: 5 * MS, in_calls_ns: 5 * MS, after_last_ns: 0 }));
}

#[test]
fn a_wait_for_its_own_thread_in_the_last_step_does_not_end_the_loop() {
    let mut timelines = Timelines::default();
    let saver = beside(9);
    let steps = vec![step(StepKind::Take, PIPE, 0, 30), woken(45, 70, saver), woken(200, 230, saver)];
    timelines.threads.insert(TRAINER, ThreadPart { steps, first: Some(0), ..ThreadPart::default() });
    timelines.threads.insert(saver, ThreadPart { first: Some(0), ..ThreadPart::default() });
    let processes = [Process { pid: 1, ..Process::default() }];
    let family = Family::new(timelines, &processes);
    let thread = family.thread_of(TRAINER).unwrap();
    let wait = |kind| {
        let (acts, parts) = (Vec::new(), Parts::of(Part::Storage, 25 * MS));
        Wait { start: 45 * MS, end: 70 * MS, kind, maker: Some(saver), limiter: None, depth: 0, acts, parts }
    };
    let end = |step_max: i64, kind| {
        Trainer::new(&family, thread).last_step(30 * MS, step_max.saturating_mul(MS), &[wait(kind)]) / MS
    };
    assert_eq!([end(60, WaitKind::OwnWork), end(180, WaitKind::OwnWork)], [90, 200]);
    // No step was that long, no step is known, and a wait for the next batch.
    assert_eq!([end(30, WaitKind::OwnWork), end(i64::MAX, WaitKind::OwnWork), end(60, WaitKind::Data)], [45, 45, 45]);
}

/// Returns the waits of two siblings that each read their data in a thread, and send each other a message per step: the first
/// one has to wait for 50 ms until the other one takes its message, and gets `bytes` back.
fn siblings(bytes: i64) -> (i64, i64) {
    let (there, back) = (Object { id: 8, network: false }, Object { id: 9, network: false });
    let other = LaneId { proc: 2, tid: STARTED_LATER };
    let (own_reads, its_reads) = (LaneId { proc: 1, tid: 3 }, LaneId { proc: 2, tid: 5 });
    let of = |object, start, end, kind, amount| Step { amount, ..step(kind, object, start, end) };
    let own = |i: i64| {
        let at = 100 * i;
        let give = of(there, at + 20, at + 70, StepKind::Give, 100);
        [woken(at, at + 10, own_reads), give, of(back, at + 72, at + 75, StepKind::Take, bytes)]
    };
    let its = |i: i64| {
        let at = 100 * i;
        let take = of(there, at + 69, at + 70, StepKind::Take, 100);
        [woken(at, at + 10, its_reads), take, of(back, at + 75, at + 75, StepKind::Give, bytes)]
    };
    let reads =
        |i: i64| Step { storage: 9 * MS, ..step(StepKind::Edge, Object::default(), 100 * i + 10, 100 * i + 10) };
    let mut timelines = Timelines::default();
    let mut put = |lane: LaneId, steps: Vec<Step>| {
        let stored_ns = steps.iter().map(|step| step.storage).sum();
        timelines.threads.insert(lane, ThreadPart { steps, stored_ns, first: Some(0), ..ThreadPart::default() });
    };
    put(READER, (0..8).flat_map(own).collect());
    put(other, (0..8).flat_map(its).collect());
    put(own_reads, (0..8).map(reads).collect());
    put(its_reads, (0..8).map(reads).collect());
    let process = |pid, ppid| Process { pid, ppid, ..Process::default() };
    let found = explained(timelines, &[process(1, None), process(2, Some(1)), process(STARTED_LATER, Some(1))]);
    found.of(READER).map_or((0, 0), |found| (found.ns(WaitKind::Peer) / MS, found.ns(WaitKind::OwnWork) / MS))
}

#[test]
fn a_sibling_that_sends_as_much_as_it_takes_is_another_rank() {
    let (peer, own) = siblings(100);
    assert!(peer >= 7 * 50 && own == 0, "{peer} {own}");
    // One that gets much and sends little is supplied.
    assert!(siblings(1).0 < 50);
}

#[test]
fn a_thread_that_works_on_what_another_one_reads_makes_data() {
    let is_read = |stored: i64, written: i64, part: Part| {
        let mut timelines = Timelines::default();
        timelines.threads.insert(TRAINER, ThreadPart { first: Some(0), ..ThreadPart::default() });
        timelines.threads.insert(beside(9), stage(Some(beside(10)), (0, 0)));
        timelines.threads.insert(beside(10), stage(None, (stored, written)));
        let processes = [Process { pid: 1, ..Process::default() }];
        let family = Family::new(timelines, &processes);
        let thread = family.thread_of(TRAINER).unwrap();
        let (maker, limiter) = (Some(beside(9)), Some(beside(10)));
        let (acts, parts) = (Vec::new(), Parts::of(part, 30 * MS));
        let wait = Wait { start: 0, end: 30 * MS, kind: WaitKind::OwnWork, maker, limiter, depth: 1, acts, parts };
        Trainer::new(&family, thread).is_read_for(&wait)
    };
    assert!(is_read(160, 0, Part::Storage));
    // It computes, or writes a checkpoint.
    assert!(!is_read(160, 0, Part::Cpu) && !is_read(160, 160, Part::Storage));
}

#[test]
fn batches_that_another_thread_collects_keep_the_loop_going() {
    let computes = beside(9);
    let mut own: Vec<Step> = (0..3).map(|i| woken(12 * i, 12 * i + 10, computes)).collect();
    own.push(woken(40, 70, RELAY));
    own.extend((2..12).map(|i| step(StepKind::Sleep, Object::default(), 40 * i, 40 * i + 35)));
    let take = |i: i64| step(StepKind::Take, PIPE, 40 * i + 60, 40 * i + 69);
    let give = |i: i64| Step { storage: 8 * MS, ..step(StepKind::Give, PIPE, 40 * i + 69, 40 * i + 69) };
    let (relay, reader) = ((0..10).map(take).collect(), (0..10).map(give).collect());
    let found = waits(vec![
        (TRAINER, own, vec![]),
        (RELAY, relay, vec![]),
        (READER, reader, vec![]),
        (computes, (0..3).map(|i| woken(12 * i, 12 * i + 9, RELAY)).collect(), vec![]),
    ]);
    let found = only(&found);
    assert!(found.to > 400 * MS, "{found:?}");
}

/// Returns the waits of a program that runs uname, and whose threads then end one wait each, as those of a pool do.
fn after_uname(waits: i64) -> Waits {
    const OUTPUT: Object = Object { id: 8, network: false };
    let uname = LaneId { proc: 1, tid: STARTED_LATER };
    let mut own = vec![step(StepKind::Take, OUTPUT, 0, 10)];
    let mut timelines = Timelines::default();
    for i in 0..waits {
        let (pool, at) = (beside(10 + i as i32), 3_000 + 40 * i);
        own.push(woken(at, at + 30, pool));
        let read = Step { storage: 25 * MS, ..step(StepKind::Edge, Object::default(), at + 29, at + 29) };
        let part = ThreadPart { steps: vec![read], stored_ns: 25 * MS, first: Some(0), ..ThreadPart::default() };
        timelines.threads.insert(pool, part);
    }
    timelines.threads.insert(TRAINER, ThreadPart { steps: own, first: Some(0), ..ThreadPart::default() });
    let steps = vec![step(StepKind::Give, OUTPUT, 10, 10)];
    timelines.threads.insert(uname, ThreadPart { steps, first: Some(0), ..ThreadPart::default() });
    let process = |pid, ppid, program: &str| Process { pid, ppid, program: Some(program.into()), ..Process::default() };
    explained(timelines, &[process(1, None, "python3"), process(STARTED_LATER, Some(1), "uname")])
}

#[test]
fn a_program_that_is_run_once_does_not_begin_the_training() {
    let found = after_uname(8);
    let trainer = only(&found);
    assert_eq!((trainer.from / MS, trainer.works, trainer.ns(WaitKind::Data) / MS), (3_000, 7, 240));
    // Threads of a library that starts do as much.
    assert!(after_uname(3).trainers.is_empty());
}

#[test]
fn waits_of_a_reader_that_time_out_are_sleeps() {
    let object = Object { id: 0x3000, network: false };
    let paced = |timed_out: bool| {
        let waits = |i: i64| Step { timed_out, ..step(StepKind::TimedWait, object, 40 * i, 40 * i + 28) };
        let made = (0..5).flat_map(|i| [waits(i), step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30)]).collect();
        let found = waits_of_one(made);
        only(&found).parts(WaitKind::Data).largest()
    };
    assert_eq!((paced(true), paced(false)), (Part::Sleep, Part::Unknown));
}

/// Returns the waits of a trainer for a reader with these steps.
fn waits_of_one(reader: Vec<Step>) -> Waits {
    waits(vec![(TRAINER, trainer(), Vec::new()), (READER, reader, Vec::new())])
}

#[test]
fn threads_that_exchange_nothing_with_those_that_read_compute_the_steps() {
    let waited = |meets: bool| {
        let mut timelines = Timelines::default();
        let by = |i: i64| beside(if i % 2 == 0 { 9 } else { 11 });
        let own = (0..8).map(|i| woken(40 * i, 40 * i + 31, by(i))).collect();
        timelines.threads.insert(TRAINER, ThreadPart { steps: own, first: Some(0), ..ThreadPart::default() });
        // Two threads of a library pass work on to each other; another thread reads, and waits for room in a queue.
        timelines.threads.insert(beside(9), stage(Some(beside(10)), (0, 0)));
        timelines.threads.insert(beside(10), stage(None, (0, 0)));
        let waker = if meets { beside(10) } else { TRAINER };
        timelines.threads.insert(beside(11), stage(Some(waker), (160, 0)));
        let found = explained(timelines, &[Process { pid: 1, ..Process::default() }]);
        let trainer = only(&found);
        (trainer.ns(WaitKind::Data) / MS, trainer.ns(WaitKind::OwnWork) / MS)
    };
    assert_eq!((waited(false), waited(true)), ((124, 93), (248, 0)));
}

#[test]
fn a_program_that_a_reader_starts_and_that_reads_waits_for_storage() {
    let largest = |stored: i64| {
        let (mut timelines, mut reader) = (Timelines::default(), Vec::new());
        let mut processes = vec![Process { pid: 1, program: Some("python3".into()), ..Process::default() }];
        let own = (0..8).map(|i| woken(40 * i, 40 * i + 31, beside(9))).collect();
        for i in 0..8 {
            let (start, pid) = (40 * i + 2, 101 + i as i32);
            reader.push(Step { amount: pid as i64, ..step(StepKind::Child, Object::default(), start, start + 28) });
            let ends = Step { storage: stored * MS, ..step(StepKind::Edge, Object::default(), start + 27, start + 27) };
            let part = ThreadPart { steps: vec![ends], first: Some(start * MS), ..ThreadPart::default() };
            timelines.threads.insert(LaneId { proc: i as u32 + 1, tid: pid }, part);
            processes.push(Process { pid, ppid: Some(1), program: Some("cp".into()), ..Process::default() });
        }
        for (lane, steps) in [(TRAINER, own), (beside(9), reader)] {
            timelines.threads.insert(lane, ThreadPart { steps, first: Some(0), ..ThreadPart::default() });
        }
        only(&explained(timelines, &processes)).parts(WaitKind::Data).largest()
    };
    assert_eq!((largest(26), largest(0)), (Part::Storage, Part::Child));
}

#[test]
fn a_process_that_sleeps_while_readers_wait_for_it_is_no_reader() {
    let socket = Object { id: 9, network: false };
    let sleeps = |i: i64| step(StepKind::Sleep, Object::default(), 40 * i + 3, 40 * i + 28);
    let found = |by_reader: bool| {
        let asks = |i: i64| step(StepKind::Take, socket, 40 * i + 2, 40 * i + 29);
        let makes = |i: i64| {
            [if by_reader { sleeps(i) } else { asks(i) }, step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30)]
        };
        let serves = |i: i64| [sleeps(i), step(StepKind::Give, socket, 40 * i + 29, 40 * i + 29)];
        let server = LaneId { proc: 2, tid: STARTED_LATER };
        let steps = [(READER, (0..5).flat_map(makes).collect()), (server, (0..5).flat_map(serves).collect())];
        let threads = steps.map(|(lane, steps)| (lane, steps, Vec::new()));
        let found = waits([(TRAINER, trainer(), Vec::new())].into_iter().chain(threads).collect());
        let trainer = only(&found);
        (trainer.parts(WaitKind::Data).largest(), trainer.sleeper)
    };
    assert_eq!((found(false), found(true)), ((Part::Sleep, Some(2)), (Part::Sleep, None)));
}

#[test]
fn a_thread_that_serves_one_request_sets_the_pace_instead_of_the_one_that_accepts() {
    let socket = Object { id: 9, network: false };
    let mut threads = vec![(TRAINER, trainer(), Vec::new())];
    threads.push((READER, (0..5).map(|i| step(StepKind::Take, socket, 40 * i, 40 * i + 2)).collect(), Vec::new()));
    for i in 0..5 {
        let lane = LaneId { proc: 1, tid: STARTED_LATER + 1 + i as i32 };
        let sleeps = step(StepKind::Sleep, Object::default(), 40 * i + 2, 40 * i + 29);
        threads.push((lane, vec![sleeps, step(StepKind::Give, PIPE, 40 * i + 30, 40 * i + 30)], Vec::new()));
    }
    let found = waits(threads);
    let all = only(&found).waits.iter().fold(Parts::default(), |sum, wait| sum + wait.parts);
    assert_eq!(all.largest(), Part::Sleep);
}

#[test]
fn start_parameters_that_a_new_reader_does_not_read_yet_are_its_start() {
    let told = Object { id: 9, network: false };
    let fork = step(StepKind::Fork, Object::default(), 0, 1);
    let found = |blocked: bool| {
        let end = if blocked { 90 } else { 2 };
        let fork = Step { amount: 2, ..fork };
        let sent = Step { amount: 4_096, ..step(StepKind::Give, told, 1, end) };
        let taken = (0..5).map(|i| step(StepKind::Take, PIPE, 100 + 40 * i, 100 + 40 * i + 30));
        let made = (0..5).map(|i| step(StepKind::Give, PIPE, 130 + 40 * i, 130 + 40 * i));
        let reader = [step(StepKind::Take, told, 2, end + 1)].into_iter().chain(made).collect();
        let threads =
            vec![(TRAINER, [fork, sent].into_iter().chain(taken).collect(), vec![]), (READER, reader, vec![])];
        let found = waits(threads);
        only(&found)
            .waits
            .iter()
            .filter(|wait| wait.end <= 100 * MS)
            .map(|wait| wait.parts.get(Part::Start))
            .sum::<i64>()
    };
    assert!(found(true) >= 89 * MS, "{}", found(true));
    assert!(found(false) < 89 * MS, "{}", found(false));
}
