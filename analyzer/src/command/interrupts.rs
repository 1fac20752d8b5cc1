//! Ctrl-C in the shell: it ends the query that runs, and not the shell.

use std::future::pending;
use std::io::IsTerminal;

use tokio::sync::watch;

/// Every Ctrl-C since [`forget`](Interrupts::forget).
///
/// None is lost between two looks: a line is sent off, the terminal gives signals again, and the query has hardly begun when
/// the first may come.
pub struct Interrupts(Option<watch::Receiver<()>>);

impl Interrupts {
    /// Of a command that does not listen: Ctrl-C ends it.
    pub fn ignored() -> Interrupts {
        Interrupts(None)
    }

    /// Of the terminal, if there is one to type at.
    pub fn heard() -> std::io::Result<Interrupts> {
        if !std::io::stdin().is_terminal() {
            return Ok(Interrupts::ignored());
        }
        let (typed, heard) = watch::channel(());
        ctrlc::set_handler(move || typed.send_replace(())).map_err(std::io::Error::other)?;
        Ok(Interrupts(Some(heard)))
    }

    /// Forgets earlier interrupts: they meant something else.
    pub fn forget(&mut self) {
        if let Some(heard) = &mut self.0 {
            heard.mark_unchanged();
        }
    }

    /// Returns at the next one, or at once if there was one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            // The handler, and with it the other end, stays for as long as the process lives.
            Some(heard) => heard.changed().await.expect("a handler that stays"),
            None => pending().await,
        }
    }
}
