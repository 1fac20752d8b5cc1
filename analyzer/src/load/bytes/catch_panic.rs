//! Runs library code that panics on damaged input: a panic is reported as damage of the trace.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use arrow::error::ArrowError;

thread_local! {
    /// `true` if this thread is within [`guarded`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs work that may panic; returns the panic as an error and prints no other message about it.
pub fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, ArrowError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                say(panic)
            }
        }));
    });
    let was_guarded = IS_GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_GUARDED.set(was_guarded);
    done.map_err(|_| ArrowError::ParquetError("a damaged page".into()))
}
