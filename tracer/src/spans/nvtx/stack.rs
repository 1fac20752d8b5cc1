//! The ranges that a thread has pushed and not popped, in two pages of memory that end with the thread.
//!
//! All domains share a stack. A domain pops its own last range, which may be below a range of another domain.

use crate::spans::app::OpenSpan;
use crate::thread::local;
use crate::trace::header_page;

/// Deeper ranges are counted as lost.
const DEEPEST: usize = 128;

#[derive(Clone, Copy)]
struct Entry {
    span: OpenSpan,
    domain: u32,
    level: i32,
}

/// The stack of a thread; all zeros if it is empty.
#[repr(C)]
pub struct Stack {
    count: usize,
    /// Number of ranges above the deepest that has an entry.
    beyond: u32,
    entries: [Entry; DEEPEST],
}

const _: () = assert!(size_of::<Stack>() <= local::RANGES_SIZE);

/// Returns this thread's stack; `None` if it has never pushed a range.
pub fn own() -> Option<&'static mut Stack> {
    // SAFETY: the memory is this thread's own and zeroed at first; callers use the stack during one call.
    unsafe { local::ranges().cast::<Stack>().as_mut() }
}

/// Returns this thread's stack; `None` if there is no memory for it.
pub fn own_or_new() -> Option<&'static mut Stack> {
    // SAFETY: as above.
    unsafe { local::ranges_or_new().cast::<Stack>().as_mut() }
}

impl Stack {
    /// Adds a range. Returns the number of ranges of its domain below it.
    pub fn push(&mut self, domain: u32, span: OpenSpan) -> i32 {
        let below = self.entries[..self.count].iter().rev().find(|entry| entry.domain == domain);
        let level = below.map_or(0, |entry| entry.level + 1);
        if self.count == DEEPEST {
            self.beyond += 1;
            header_page::count_lost(1);
            return level + self.beyond as i32 - 1;
        }
        // A signal handler that interrupts this pushes and pops above the new entry.
        self.count += 1;
        self.entries[self.count - 1] = Entry { span, domain, level };
        level
    }

    /// Removes the last range of a domain. Returns the number of ranges of the domain below it, and its span.
    pub fn pop(&mut self, domain: u32) -> Option<(i32, OpenSpan)> {
        if self.beyond > 0 {
            self.beyond -= 1;
            return Some((DEEPEST as i32 + self.beyond as i32, OpenSpan::NONE));
        }
        let place = self.entries[..self.count].iter().rposition(|entry| entry.domain == domain)?;
        let Entry { span, level, .. } = self.entries[place];
        self.entries.copy_within(place + 1..self.count, place);
        self.count -= 1;
        Some((level, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Stack {
        Stack { count: 0, beyond: 0, entries: [Entry { span: OpenSpan::NONE, domain: 0, level: 0 }; DEEPEST] }
    }

    fn steps(steps: i64) -> OpenSpan {
        let mut span = OpenSpan::NONE;
        span.steps = steps;
        span
    }

    #[test]
    fn domains_pop_their_own_ranges() {
        let mut stack = empty();
        assert_eq!([(0, 1), (7, 2), (0, 3)].map(|(domain, at)| stack.push(domain, steps(at))), [0, 0, 1]);
        let popped = [7, 7, 0, 0, 0].map(|domain| stack.pop(domain).map(|(level, span)| (level, span.steps)));
        assert_eq!(popped, [Some((0, 2)), None, Some((1, 3)), Some((0, 1)), None]);
    }

    #[test]
    fn ranges_beyond_the_deepest_stay_balanced() {
        let mut stack = empty();
        (0..300).for_each(|at| assert_eq!(stack.push(0, steps(at)), at as i32));
        for at in (0..300).rev() {
            let (level, span) = stack.pop(0).unwrap();
            assert_eq!(level, at);
            assert!(at >= DEEPEST as i32 || span.steps == at as i64);
        }
        assert!(stack.pop(0).is_none());
    }
}
