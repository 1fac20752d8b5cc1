//! The events in flight, in the order in which they were recorded, and the intervals between the completed events.

use super::device_clock::DeviceClock;
use super::driver::{Completion, Context, Event, Problem, Session};
use super::emit::{self, Interval, Kind};
use crate::kernel::sys;

/// Maximum number of pairs in flight. A loader that runs further ahead of the device does not make the device wait.
pub const PAIRS_MAX: usize = 64;
const MARKS_MAX: usize = 2 * PAIRS_MAX;
/// One additional event serves as the base.
const EVENTS_MAX: usize = MARKS_MAX + 1;

/// Maximum number of completed events that one call takes. After a long step, several events may have completed.
const TAKEN_MAX: usize = 8;

/// The driver returns times as `f32` milliseconds, whose resolution after one second is 60 ns. After this time, a later event
/// becomes the base.
const REBASE_NS: i64 = 1_000_000_000;

/// Maximum distance between the bounds of the clock's offset at which intervals are recorded.
const NARROW_NS: i64 = 50_000;
/// Duration of one attempt to see an event complete, and the time between two attempts: with wide and with narrow bounds.
const ATTEMPT_NS: i64 = 20_000;
const EVERY_NS: [i64; 2] = [100_000_000, 1_000_000_000];

/// An event in flight.
#[derive(Clone, Copy)]
struct Mark {
    event: Event,
    stream: usize,
    /// The earliest time at which it can have completed, on the host's clock.
    earliest: i64,
    steps: i64,
    is_return: bool,
    /// `next()` returned a batch, after which a step begins.
    has_batch: bool,
}

/// An event that has completed.
#[derive(Clone, Copy)]
struct Past {
    is_set: bool,
    position: i64,
    stream: usize,
    steps: i64,
}

const NO_MARK: Mark = Mark { event: Event::NONE, stream: 0, earliest: 0, steps: 0, is_return: false, has_batch: false };
const NO_PAST: Past = Past { is_set: false, position: 0, stream: 0, steps: 0 };

/// The pairs of one context; all zeros if there is none.
pub struct Pairs {
    context: Context,
    device: i64,
    /// A stream and its number.
    numbered: (usize, i64),
    free: [Event; EVENTS_MAX],
    free_count: usize,
    created: usize,
    marks: [Mark; MARKS_MAX],
    first: usize,
    count: usize,
    /// The event from which times are measured, and its position.
    base: Event,
    base_position: i64,
    clock: DeviceClock,
    attempted: i64,
    entered: Past,
    returned: Past,
    /// Intervals that wait for the clock's limits to become narrow.
    intervals: [Interval; PAIRS_MAX],
    waiting: usize,
}

fn now_ns() -> i64 {
    sys::clock_ns(libc::CLOCK_BOOTTIME) as i64
}

impl Pairs {
    pub const NEW: Pairs = Pairs {
        context: Context::NONE,
        device: 0,
        numbered: (0, 0),
        free: [Event::NONE; EVENTS_MAX],
        free_count: 0,
        created: 0,
        marks: [NO_MARK; MARKS_MAX],
        first: 0,
        count: 0,
        base: Event::NONE,
        base_position: 0,
        clock: DeviceClock::NEW,
        attempted: 0,
        entered: NO_PAST,
        returned: NO_PAST,
        intervals: [Interval::NONE; PAIRS_MAX],
        waiting: 0,
    };

    pub fn is_of(&self, context: &Context) -> bool {
        self.context == *context
    }

    /// Begins with a context that has no events yet.
    pub fn start(&mut self, session: &Session, context: Context, device: i64) {
        (self.context, self.device, self.numbered) = (context, device, (0, session.number_of(0)));
    }

    /// Records the intervals that are known, forgets all events and returns the number of pairs that were in flight. Events
    /// are not destroyed: their context may be gone, and otherwise they end with it.
    pub fn forget(&mut self) -> u64 {
        self.emit();
        let in_flight = (0..self.count).filter(|&at| !self.mark(at).is_return).count() + self.entered.is_set as usize;
        (self.context, self.free_count, self.created, self.count) = (Context::NONE, 0, 0, 0);
        (self.base, self.clock, self.attempted) = (Event::NONE, DeviceClock::NEW, 0);
        (self.entered, self.returned) = (NO_PAST, NO_PAST);
        in_flight as u64
    }

    /// Records the first event of a pair.
    pub fn enter(&mut self, session: &Session, stream: usize, steps: i64) -> Result<(), Problem> {
        if self.count + 2 > MARKS_MAX {
            return Err(Problem::Skipped);
        }
        self.put(session, Mark { stream, steps, ..NO_MARK })
    }

    /// Records the second event of a pair, unless the stream has changed.
    pub fn leave(&mut self, session: &Session, stream: usize, has_batch: bool) -> Result<(), Problem> {
        let (is_open, first_stream, steps) = match self.count {
            0 => (self.entered.is_set, self.entered.stream, self.entered.steps),
            count => {
                let last = self.mark(count - 1);
                (!last.is_return, last.stream, last.steps)
            }
        };
        // The first event is forgotten if the context has changed.
        if !is_open || first_stream != stream {
            return Err(Problem::Skipped);
        }
        self.put(session, Mark { stream, steps, is_return: true, has_batch, ..NO_MARK })?;
        self.resolve(session)
    }

    /// Takes back the first event of a pair that has no second one. Returns `true` if there was one.
    pub fn take_back(&mut self) -> bool {
        let in_flight = self.count > 0 && !self.mark(self.count - 1).is_return;
        if in_flight {
            self.count -= 1;
            self.give_back(self.mark(self.count).event);
        }
        self.cut();
        in_flight || std::mem::replace(&mut self.entered, NO_PAST).is_set
    }

    /// Notes that the end of the current step is unknown.
    pub fn cut(&mut self) {
        match self.count {
            0 => self.returned = NO_PAST,
            count => self.marks[(self.first + count - 1) % MARKS_MAX].has_batch = false,
        }
    }

    fn mark(&self, at: usize) -> &Mark {
        &self.marks[(self.first + at) % MARKS_MAX]
    }

    fn give_back(&mut self, event: Event) {
        self.free[self.free_count] = event;
        self.free_count += 1;
    }

    fn put(&mut self, session: &Session, mark: Mark) -> Result<(), Problem> {
        let event = match self.free_count {
            0 if self.created == EVENTS_MAX => return Err(Problem::Skipped),
            0 => {
                self.created += 1;
                session.create_event()?
            }
            count => {
                self.free_count = count - 1;
                self.free[count - 1]
            }
        };
        let earliest = now_ns();
        session.record(event, mark.stream)?;
        self.marks[(self.first + self.count) % MARKS_MAX] = Mark { event, earliest, ..mark };
        self.count += 1;
        if self.count == 1 && self.is_clock_due(earliest) {
            self.attempt(session, earliest)?;
        }
        Ok(())
    }

    fn is_clock_due(&self, now: i64) -> bool {
        let is_narrow = self.clock.width() <= NARROW_NS;
        self.attempted == 0 || now - self.attempted >= EVERY_NS[is_narrow as usize]
    }

    /// Queries the only event in flight for a moment: if the device has nothing else to do, the event completes now, and its
    /// time is known exactly.
    fn attempt(&mut self, session: &Session, start: i64) -> Result<(), Problem> {
        self.attempted = start;
        while self.count > 0 && now_ns() - start < ATTEMPT_NS {
            self.resolve(session)?;
        }
        Ok(())
    }

    /// Takes the events that have completed, up to a number that bounds the duration of the call.
    pub fn resolve(&mut self, session: &Session) -> Result<(), Problem> {
        for _ in 0..TAKEN_MAX {
            if self.count == 0 || !self.resolve_first(session)? {
                break;
            }
        }
        Ok(())
    }

    /// Takes all events that have completed.
    pub fn resolve_all(&mut self, session: &Session) -> Result<(), Problem> {
        while self.count > 0 && self.resolve_first(session)? {}
        Ok(())
    }

    /// Takes the first event in flight if it has completed.
    fn resolve_first(&mut self, session: &Session) -> Result<bool, Problem> {
        let (mark, asked) = (*self.mark(0), now_ns());
        if session.query(mark.event)? == Completion::Pending {
            self.marks[self.first].earliest = asked;
            return Ok(false);
        }
        let latest = now_ns();
        let position = self.position(session, mark.event)?;
        self.clock.add(position, mark.earliest, latest);
        (self.first, self.count) = ((self.first + 1) % MARKS_MAX, self.count - 1);
        if self.base != mark.event {
            self.give_back(mark.event);
        }
        self.complete(session, &mark, position);
        Ok(true)
    }

    /// Returns the position of a completed event on the device's clock.
    fn position(&mut self, session: &Session, event: Event) -> Result<i64, Problem> {
        if self.base == Event::NONE {
            (self.base, self.base_position) = (event, 0);
            return Ok(0);
        }
        let elapsed = session.elapsed_ns(self.base, event)?;
        let position = self.base_position + elapsed;
        if elapsed > REBASE_NS {
            self.give_back(self.base);
            (self.base, self.base_position) = (event, position);
        }
        Ok(position)
    }

    /// Handles an event that has completed: the end of an interval, and the start of the next one.
    fn complete(&mut self, session: &Session, mark: &Mark, position: i64) {
        let past = Past { is_set: true, position, stream: mark.stream, steps: mark.steps };
        let (kind, start) = match mark.is_return {
            true => (Kind::DataWait, std::mem::replace(&mut self.entered, NO_PAST)),
            false => (Kind::Step, std::mem::replace(&mut self.returned, NO_PAST)),
        };
        match mark.is_return {
            true if mark.has_batch => self.returned = past,
            true => {}
            false => self.entered = past,
        }
        if start.is_set && start.stream == mark.stream && position >= start.position {
            let stream = self.number_of(session, mark.stream);
            let interval = Interval { kind, start: start.position, end: position, steps: start.steps, stream };
            self.intervals[self.waiting] = interval;
            self.waiting += 1;
        }
        if self.waiting == PAIRS_MAX || self.waiting > 0 && self.clock.width() <= NARROW_NS {
            self.emit();
        }
    }

    fn number_of(&mut self, session: &Session, stream: usize) -> i64 {
        if self.numbered.0 != stream {
            self.numbered = (stream, session.number_of(stream));
        }
        self.numbered.1
    }

    fn emit(&mut self) {
        emit::intervals(&self.intervals[..self.waiting], &self.clock, self.device);
        self.waiting = 0;
    }
}
