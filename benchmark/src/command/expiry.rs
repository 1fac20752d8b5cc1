//! The thread of `dlio trace --last` that drops the events of processes that ended long ago.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use dlio_tracer::expired::Expired;

/// Drops events on a thread until it is finished.
pub struct Expiry {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Expiry {
    /// Starts the thread; `None` if that is impossible, and then these events remain.
    pub fn begin(folder: &Path, last: Duration) -> Option<Expiry> {
        let mut expired = Expired::new(folder, last);
        let (stop, stopped) = channel();
        let thread = move || {
            while stopped.recv_timeout(last / 2) == Err(RecvTimeoutError::Timeout) {
                expired.drop_events();
            }
        };
        let thread = Builder::new().name("dlio-expiry".into()).spawn(thread).ok()?;
        Some(Expiry { stop, thread })
    }

    /// Stops the thread.
    pub fn finish(self) {
        // Fails if the thread has already ended.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}
