//! Runs on ranks that are processes of this host, or that a launcher started.

use super::rank::Rank;
use super::request::Request;
use super::run::Run;
use crate::failure::{Failure, Kind, Outcome};
use crate::ranks::agreement;
use crate::ranks::child_ranks::ChildRanks;
use crate::ranks::communicator::{Communicator, Single};
use crate::results::run_folder::RunFolder;
use crate::system::{processes, terminal};
use std::path::PathBuf;

impl Run {
    /// Runs on all ranks, as processes of this host.
    pub fn start(&mut self, request: &Request) -> Outcome<()> {
        let (folder, foreign) = self.open(request, false)?;
        let rank = Rank { run: self, request, folder, foreign };
        if request.ranks <= 1 {
            return rank.work(&mut Single);
        }
        let started = ChildRanks::spawn(request.ranks, request.barrier_timeout, &|local| code_of(&rank.work(local)));
        let mut local =
            started.map_err(|error| Failure::new(Kind::System, format!("cannot start the ranks: {error}")))?;
        let outcome = rank.work(local.communicator());
        local.join(outcome)
    }

    /// Runs as one of the ranks that a launcher started.
    pub fn start_as(&mut self, request: &Request, communicator: &mut dyn Communicator) -> Outcome<()> {
        let first = communicator.rank() == 0;
        let opened = if first { Some(self.open(request, true)) } else { None };
        let own = opened.map(|opened| {
            opened.map(|(folder, [train, valid])| {
                format!("{}{}{}", u8::from(train), u8::from(valid), folder.path.display())
            })
        });
        processes::note_interrupts();
        let text = agreement::broadcast(communicator, own)?;
        let foreign = [0, 1].map(|split| text.as_bytes().get(split) == Some(&b'1'));
        self.folder = PathBuf::from(text.get(2..).unwrap_or_default());
        let folder = RunFolder { path: self.folder.clone() };
        if !first {
            // Another host may have a separate directory there.
            folder.make()?;
        }
        Rank { run: self, request, folder, foreign }.work(communicator)
    }
}

/// In a child no other code prints the failure.
fn code_of(outcome: &Outcome<()>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            // No message: rank 0 has reported it.
            if failure.kind != Kind::Interrupted && !failure.what.is_empty() {
                terminal::warn(format_args!("dlio: {failure}"));
            }
            failure.exit_code()
        }
    }
}
