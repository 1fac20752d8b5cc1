//! The ranks of a run that somebody else started, however they talk: by an MPI where it is one that started them and
//! `libdlio_mpi.so` is installed, else by sockets of their own.

use crate::failure::{Failure, Outcome};
use crate::ranks::communicator::Communicator;
use crate::ranks::launcher::LaunchInfo;
use crate::ranks::mpi::{self, Library, Mpi};
use crate::ranks::socket_ranks::SocketRanks;
use crate::system::{locate, terminal};
use std::path::Path;
use std::time::Duration;

/// How ranks talk, as it was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Talk {
    Auto,
    Mpi,
    Sockets,
}

pub enum ExternalRanks {
    Sockets(SocketRanks),
    Mpi(Mpi),
}

impl ExternalRanks {
    /// Returns when all ranks have found each other. `shared` is a folder that those of other machines see too.
    pub fn meet(world: &LaunchInfo, shared: &Path, patience: Duration, talk: Talk) -> Outcome<ExternalRanks> {
        match library(world, talk)? {
            Some(library) => Mpi::join(world, library, patience).map(ExternalRanks::Mpi),
            None => SocketRanks::meet(world, shared, patience).map(ExternalRanks::Sockets),
        }
    }

    pub fn ranks(&mut self) -> &mut dyn Communicator {
        match self {
            ExternalRanks::Sockets(launched) => &mut launched.star,
            ExternalRanks::Mpi(mpi) => mpi,
        }
    }

    /// Ends this rank's part of the run.
    pub fn part(self, outcome: Outcome<i32>) -> Outcome<i32> {
        match self {
            ExternalRanks::Sockets(launched) => launched.part(outcome),
            ExternalRanks::Mpi(mpi) => mpi.part(outcome),
        }
    }

    /// By what they talk.
    pub fn name(&self) -> String {
        match self {
            ExternalRanks::Sockets(_) => "sockets".into(),
            ExternalRanks::Mpi(mpi) => mpi.name(),
        }
    }
}

/// The MPI to talk by, if there is one to be used. All ranks of a start come to the same.
fn library(world: &LaunchInfo, talk: Talk) -> Outcome<Option<Library>> {
    let refused = |what: String| Err(Failure::refused(what).remedy(mpi::SOCKETS));
    if talk == Talk::Sockets {
        return Ok(None);
    }
    if world.door.is_none() {
        return match talk {
            Talk::Mpi => refused(format!("{} did not start ranks of an MPI", world.launcher)),
            _ => Ok(None),
        };
    }
    let Some(path) = locate::mpi_library() else {
        return match talk {
            Talk::Mpi => refused(format!("cannot find {} next to this program", locate::MPI_LIBRARY)),
            _ => Ok(None),
        };
    };
    match mpi::library_for(world, &path) {
        Ok(library) => Ok(Some(library)),
        Err(why) if talk == Talk::Mpi => refused(why),
        Err(why) => {
            if world.rank == 0 {
                terminal::warn(format_args!("note: ranks communicate through sockets, not MPI: {why}"));
            }
            Ok(None)
        }
    }
}
