//! Objects that a thread will read, some of them requested ahead.

use super::cache::ask_ahead;
use super::session::with_client;
use crate::failure::Outcome;
use std::path::PathBuf;

/// The objects that this thread will read, in order, some of them requested ahead of their use.
pub struct Upcoming {
    objects: Box<dyn Iterator<Item = PathBuf>>,
    window: u64,
    looked_at: u64,
    come_to: u64,
}

impl Upcoming {
    /// Creates the list; up to `window` objects are requested ahead.
    pub fn new(objects: impl Iterator<Item = PathBuf> + 'static, window: u64) -> Upcoming {
        Upcoming { objects: Box::new(objects), window, looked_at: 0, come_to: 0 }
    }

    /// Advances to the next object, and requests those that are now within the window.
    pub fn advance(&mut self) -> Outcome<()> {
        if self.come_to == 0 {
            with_client(|client| {
                client.forget_ahead();
                Ok(())
            })?;
        }
        self.come_to += 1;
        while self.looked_at < self.come_to + self.window {
            let Some(path) = self.objects.next() else { break };
            self.looked_at += 1;
            if !ask_ahead(&path)? {
                break;
            }
        }
        Ok(())
    }
}
