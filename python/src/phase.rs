//! What a thread is doing, as far as spans of one kind must not count the same work twice: a module's forward within
//! another's, a batch fetched while another is made.
//!
//! A phase is a bit; which bit means what is the business of the one who hands them out (`dliotrace/torch.py`). A thread is
//! in a phase while a span of it runs ([`crate::span`]), or from [`hold`] on. A forked child's only thread goes on in the
//! phases of the one that forked.

use std::cell::Cell;

use pyo3::prelude::*;

/// A set of phases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Phase(u8);

thread_local! {
    static NOW: Cell<u8> = const { Cell::new(0) };
}

impl Phase {
    pub const NONE: Phase = Phase(0);

    pub fn of(bits: u8) -> Phase {
        Phase(bits)
    }

    /// True if this thread is in any of them.
    #[inline(always)]
    pub fn is_now(self) -> bool {
        NOW.get() & self.0 != 0
    }
}

/// Enters phases; gives those from before, for [`leave`].
#[inline(always)]
pub fn enter(phase: Phase) -> Phase {
    let before = NOW.get();
    NOW.set(before | phase.0);
    Phase(before)
}

#[inline(always)]
pub fn leave(before: Phase) {
    NOW.set(before.0);
}

/// True if this thread is in any of these phases.
#[pyfunction]
#[pyo3(signature = (phases, /))]
pub fn busy(phases: u8) -> bool {
    Phase(phases).is_now()
}

/// Puts this thread into these phases for as long as it lives.
#[pyfunction]
#[pyo3(signature = (phases, /))]
pub fn hold(phases: u8) {
    enter(Phase(phases));
}
