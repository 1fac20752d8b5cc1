//! Work of a library that ends its thread over damaged input: of a trace that is damage like any other, and said like it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use arrow::error::ArrowError;

thread_local! {
    /// True if this thread is within [`guarded`].
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Does work that may end the thread; then it is an error, and nothing else is said of it.
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
