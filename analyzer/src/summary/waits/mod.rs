//! Waits: the thread that ended each wait of a trainer, and the cause of the wait.
//!
//! ```text
//! trainers     trainers, their waits, and the causes
//! pipeline     the pipeline behind the waits, for replay
//! passes       how each batch was made, by pass over a loader
//! loaders      readers that belong together, and the order of their requests
//! messages     requests and batches between trainer and readers
//! explain      from a wait back to the work that set the pace
//! family       relations between all threads
//! polls        threads that look for messages between sleeps
//! awaited_files  threads that look for files between sleeps, and those that make files
//! file_waits   waits for files as messages of the threads that made them
//! twins        processes that do the same work and exchange messages, such as ranks made by fork
//! locks        objects that are locks: of files, in shared memory, and Python's interpreter lock
//! service_children  names of child processes that are not readers
//! first_threads  sleeps and page faults of first threads
//! thread       one thread's time, divided
//! recent_calls last file calls of a thread, for spans
//! timeline     activity of each thread, collected while a trace is read
//! parts        the causes of a wait, as exact sums
//! ```

pub mod awaited_files;
pub mod explain;
pub mod family;
mod file_waits;
pub mod first_threads;
pub mod loaders;
mod locks;
pub mod messages;
pub mod parts;
pub mod passes;
pub mod pipeline;
pub mod polls;
mod recent_calls;
pub mod service_children;
pub mod thread;
pub mod timeline;
pub mod trainers;
mod twins;
