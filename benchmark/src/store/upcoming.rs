//! Objects that a thread will read, some of which are requested before their turn.

use super::cache::ask_ahead;
use super::session::with_client;
use crate::failure::Outcome;
use std::path::PathBuf;

/// The objects that this thread will come to, in their order, some of which are asked for before their turn.
pub struct Upcoming {
    objects: Box<dyn Iterator<Item = PathBuf>>,
    window: u64,
    looked_at: u64,
    come_to: u64,
}

impl Upcoming {
    /// As many as `window` are asked for before their turn.
    pub fn new(objects: impl Iterator<Item = PathBuf> + 'static, window: u64) -> Upcoming {
        Upcoming { objects: Box::new(objects), window, looked_at: 0, come_to: 0 }
    }

    /// The thread comes to the next object: asks for those that its window shows now.
    pub fn come_to_next(&mut self) -> Outcome<()> {
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
