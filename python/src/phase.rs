//! The activity of a thread, so that spans of one kind do not count work twice: a module's forward within another's,
//! a batch fetched while another is being made.
//!
//! A phase is a bit whose meaning is defined by the caller (`dliotrace/torch.py`). A thread is in a phase while a
//! span of it is open ([`crate::span`]), or after [`hold`]. A forked child's only thread keeps the phases of the
//! thread that forked.

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

    /// Returns `true` if this thread is in any of them.
    #[inline(always)]
    pub fn is_now(self) -> bool {
        NOW.get() & self.0 != 0
    }
}

/// Enters phases; returns the previous ones, for [`leave`].
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

/// Returns `true` if this thread is in any of these phases.
#[pyfunction]
#[pyo3(signature = (phases, /))]
pub fn busy(phases: u8) -> bool {
    Phase(phases).is_now()
}

/// Puts this thread into these phases for the rest of its life.
#[pyfunction]
#[pyo3(signature = (phases, /))]
pub fn hold(phases: u8) {
    enter(Phase(phases));
}
