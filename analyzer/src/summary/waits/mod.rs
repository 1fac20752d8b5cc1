//! Waits: who ended each wait of a trainer, and what it was for.
//!
//! ```text
//! trainers     who trains, its waits, and what each is for
//! pipeline     the pipeline behind them, for replay
//! passes       productions of batches, by pass over a loader
//! messages     requests and batches between trainer and readers
//! explain      from a wait back to the work that set the pace
//! family       all threads side by side: who gives what to whom
//! thread       one thread's time, divided
//! timeline     what is gathered of each thread while a trace is read
//! parts        the causes of a wait, as exact sums
//! ```

pub mod explain;
pub mod family;
pub mod messages;
pub mod parts;
pub mod passes;
pub mod pipeline;
pub mod thread;
pub mod timeline;
pub mod trainers;
