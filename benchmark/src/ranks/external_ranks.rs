//! Ranks that a launcher started. They communicate through MPI if an MPI started them and `libdlio_mpi.so` is
//! installed, and through sockets otherwise.

use crate::failure::{Failure, Outcome};
use crate::ranks::communicator::Communicator;
use crate::ranks::launcher::LaunchInfo;
use crate::ranks::mpi::{self, Library, Mpi};
use crate::ranks::socket_ranks::SocketRanks;
use crate::system::{locate, terminal};
use std::path::Path;
use std::time::Duration;

/// How ranks communicate, as given on the command line.
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
    /// Returns when all ranks are connected. `shared` is a directory that ranks on other hosts see too.
    pub fn connect(world: &LaunchInfo, shared: &Path, patience: Duration, talk: Talk) -> Outcome<ExternalRanks> {
        match library(world, talk)? {
            Some(library) => Mpi::join(world, library, patience).map(ExternalRanks::Mpi),
            None => SocketRanks::connect(world, shared, patience).map(ExternalRanks::Sockets),
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

    /// Returns the name of the transport.
    pub fn name(&self) -> String {
        match self {
            ExternalRanks::Sockets(_) => "sockets".into(),
            ExternalRanks::Mpi(mpi) => mpi.name(),
        }
    }
}

/// Returns the MPI to use, if there is one. All ranks of a launch reach the same decision.
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
