//! Handles Ctrl-C in the shell: it ends the running query, not the shell.

use std::future::pending;
use std::io::IsTerminal;

use tokio::sync::watch;

/// Receives every Ctrl-C since [`forget`](Interrupts::forget).
///
/// An interrupt is never lost between two calls: it may arrive after the line was submitted and the terminal generates
/// signals again, but before the query has started.
pub struct Interrupts(Option<watch::Receiver<()>>);

impl Interrupts {
    /// Returns interrupts for a command that does not handle them: Ctrl-C ends it.
    pub fn ignored() -> Interrupts {
        Interrupts(None)
    }

    /// Returns the interrupts of the terminal, if standard input is one.
    pub fn heard() -> std::io::Result<Interrupts> {
        if !std::io::stdin().is_terminal() {
            return Ok(Interrupts::ignored());
        }
        let (typed, heard) = watch::channel(());
        ctrlc::set_handler(move || typed.send_replace(())).map_err(std::io::Error::other)?;
        Ok(Interrupts(Some(heard)))
    }

    /// Forgets earlier interrupts, which were not meant for the next query.
    pub fn forget(&mut self) {
        if let Some(heard) = &mut self.0 {
            heard.mark_unchanged();
        }
    }

    /// Returns at the next interrupt, or immediately if there already was one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            // The handler, and with it the sender, exists until the process ends.
            Some(heard) => heard.changed().await.expect("a handler that stays"),
            None => pending().await,
        }
    }
}
