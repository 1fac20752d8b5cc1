//! The tracees: threads, and the processes that they belong to.

use std::collections::HashMap;
use std::fs;
use std::rc::Rc;

use super::calls::{Call, Event, Named};
use super::descriptors::Descriptors;
use super::image::{Encoder, Image, Settings};
use super::kernel;
use dlio_schemas::ops::{Layer, Op};
use dlio_schemas::record::{Record, word};

/// The state of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The library requested the attachment; its own calls until the exec are not recorded.
    BeforeExec,
    /// About to create the child that executes the program. Apart from that child, nothing of this thread is traced.
    Creating,
    /// The exec has failed; another directory of the search path may follow.
    ExecFailed,
    Recorded,
    /// To be detached at its next stop.
    Leaving,
}

pub struct Thread {
    pub pid: i32,
    pub phase: Phase,
    /// The call between its two stops.
    pub call: Option<Call>,
}

impl Thread {
    pub fn new(pid: i32, phase: Phase) -> Thread {
        Thread { pid, phase, call: None }
    }
}

pub struct Process {
    pub threads: usize,
    /// Boot time at which the process started.
    began_boot_ns: u64,
    descriptors: Descriptors,
    image: Option<Image>,
}

/// All tracees.
pub struct Tracees {
    settings: Rc<Settings>,
    encoder: Encoder,
    pub threads: HashMap<i32, Thread>,
    processes: HashMap<i32, Process>,
    /// Number of process images that were recorded.
    pub recorded: u64,
}

impl Tracees {
    pub fn new(settings: Settings) -> Tracees {
        Tracees {
            settings: Rc::new(settings),
            encoder: Encoder::default(),
            threads: HashMap::new(),
            processes: HashMap::new(),
            recorded: 0,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds a thread that the library has announced; its process has no record before it executes the program.
    pub fn add_announced(&mut self, thread: i32, pid: i32, phase: Phase) {
        self.threads.insert(thread, Thread::new(pid, phase));
    }

    /// Adds a thread or child that a tracee has created.
    pub fn add_created(&mut self, thread: i32, pid: i32, parent: i32) {
        self.threads.insert(thread, Thread::new(pid, Phase::Recorded));
        if let Some(process) = self.processes.get_mut(&pid) {
            process.threads += 1;
            return;
        }
        let descriptors = self.processes.get(&parent).map(|parent| parent.descriptors.clone()).unwrap_or_default();
        let began_boot_ns = kernel::clock_ns(libc::CLOCK_BOOTTIME);
        let image = Some(Image::new(&self.settings, pid, began_boot_ns));
        self.processes.insert(pid, Process { threads: 1, began_boot_ns, descriptors, image });
    }

    /// Starts the record of the program that a process has just executed.
    pub fn begin_image(&mut self, pid: i32) {
        let known = self.processes.remove(&pid).map(|process| process.began_boot_ns);
        let began_boot_ns = inherited_start(pid).or(known).unwrap_or_else(|| kernel::clock_ns(libc::CLOCK_BOOTTIME));
        let image = Some(Image::new(&self.settings, pid, began_boot_ns));
        self.processes.insert(pid, Process { threads: 1, began_boot_ns, descriptors: Descriptors::default(), image });
        self.threads.retain(|thread, state| state.pid != pid || *thread == pid);
        self.threads.insert(pid, Thread::new(pid, Phase::Recorded));
    }

    /// Writes the rest of a process image.
    pub fn end_image(&mut self, pid: i32, ending: &str) {
        let image = self.processes.get_mut(&pid).and_then(|process| process.image.take());
        if image.is_some_and(|image| image.finish(ending, &mut self.encoder)) {
            self.recorded += 1;
        }
    }

    /// Removes a process that is no longer traced.
    pub fn forget(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.threads.retain(|_, thread| thread.pid != pid);
    }

    /// Removes a thread that has ended. `ending` is that of its process, if the thread was the last one.
    pub fn remove_thread(&mut self, thread: i32, ending: &str) {
        let Some(pid) = self.threads.remove(&thread).map(|thread| thread.pid) else { return };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.threads = process.threads.saturating_sub(1);
        if process.threads == 0 {
            self.end_image(pid, ending);
            self.processes.remove(&pid);
        }
    }

    /// Notes the entry of a call.
    pub fn call_begins(&mut self, thread: i32, number: i64, arguments: [u64; 6]) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        let Some(process) = self.processes.get_mut(&state.pid) else { return };
        state.call = Call::begin((thread, state.pid), number, arguments, &mut process.descriptors);
    }

    /// Notes that a thread enters the exec that the library has announced.
    pub fn announced_exec(&mut self, thread: i32, number: i64, arguments: [u64; 6]) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        state.phase = Phase::BeforeExec;
        state.call = Call::begin((thread, state.pid), number, arguments, &mut Descriptors::default());
    }

    /// Stamps the start of a call: the last step before it runs.
    pub fn call_runs(&mut self, thread: i32) {
        if let Some(call) = self.threads.get_mut(&thread).and_then(|state| state.call.as_mut()) {
            call.started = kernel::clock_ns(libc::CLOCK_MONOTONIC);
        }
    }

    /// Records a call that returned `result` at the time `now`.
    pub fn call_ends(&mut self, thread: i32, result: i64, now: u64) {
        let Some(state) = self.threads.get_mut(&thread) else { return };
        let Some(call) = state.call.take() else { return };
        if state.phase == Phase::BeforeExec && result < 0 {
            state.phase = Phase::ExecFailed;
        }
        let Some(process) = self.processes.get_mut(&state.pid) else { return };
        if is_restarted(result) {
            return;
        }
        let started = call.started;
        let event = call.end((thread, state.pid), result, &mut process.descriptors);
        let Some(image) = process.image.as_mut() else { return };
        if let Some(record) = record_of(event, (started, now), image, &self.settings) {
            image.record(thread, record, &mut self.encoder);
        }
    }

    /// Records an event without a call that returns: an exec, an exit.
    pub fn note(&mut self, thread: i32, op: Op, path: Option<&[u8]>, result: i64) {
        let Some(pid) = self.threads.get(&thread).map(|state| state.pid) else { return };
        let Some(image) = self.processes.get_mut(&pid).and_then(|process| process.image.as_mut()) else { return };
        let now = kernel::clock_ns(libc::CLOCK_MONOTONIC);
        let file = path.map_or(0, |path| image.name(&path.into()));
        let record = Record { word: word(op, 0, false, 1), start: now, file, fd: -1, a: 0, b: 0, ret: result };
        image.record(thread, record, &mut self.encoder);
    }
}

/// Returns `true` for results inside the kernel that a program never sees: a signal interrupted the call, which then
/// starts again or fails with EINTR.
fn is_restarted(result: i64) -> bool {
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    RESTARTS.contains(&result)
}

/// Returns the record of an event; `None` if the filter excludes its file, and for the creation of a thread.
fn record_of(event: Event, (started, ended): (u64, u64), image: &mut Image, settings: &Settings) -> Option<Record> {
    let info = event.op.info()?;
    const THREAD: i64 = libc::CLONE_THREAD as i64;
    if event.op == Op::CLONE && event.b & THREAD != 0 {
        return None;
    }
    let is_file = info.layer != Layer::Process;
    let number = |named: &Named, image: &mut Image| match named {
        Named::Nothing => Some(0),
        Named::File(text) if is_file && text.starts_with(b"/") && settings.filter.leaves_out(text) => None,
        Named::File(text) => Some(image.name(text)),
    };
    let Some(file) = number(&event.file, image) else {
        image.count_filtered();
        return None;
    };
    let (mut a, mut is_known) = (event.a, event.is_known);
    if info.a.is_name() {
        let second = number(&event.second, image).filter(|number| *number != 0);
        (a, is_known) = (second.unwrap_or(0) as i64, second.is_some());
    }
    let duration = ended.saturating_sub(started).max(1);
    Some(Record {
        word: word(event.op, 0, is_known, duration),
        start: started,
        file,
        fd: event.fd,
        a,
        b: event.b,
        ret: event.result,
    })
}

/// Returns the start of a process that the library has passed to the program in its environment, `PID:BEGAN:NOW`.
fn inherited_start(pid: i32) -> Option<u64> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = [dlio_schemas::env::BORN.as_bytes(), b"="].concat();
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(&prefix[..]))?;
    let mut numbers = std::str::from_utf8(value).ok()?.split(':').map(|text| text.parse::<u64>().ok());
    let (owner, began) = (numbers.next()??, numbers.next()??);
    (owner == pid as u64).then_some(began)
}
