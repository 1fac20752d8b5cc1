//! The processes of a run, and how they wait for each other.
//!
//! ```text
//! communicator     what every kind of ranks can do; one rank alone
//! status           what each rank is doing, in shared memory
//! socket           a connection between two ranks, and its messages
//! shared_barrier   a barrier in shared memory
//! star             ranks around rank 0, each with a socket to it
//! liveness         which ranks of this host are alive
//! child_ranks      ranks that this program forks
//! launcher         what a launcher's environment says: which rank, of how many
//! socket_ranks     ranks that a launcher started, connected by sockets
//! mpi              ranks that a launcher started, connected by its MPI
//! external_ranks   chooses between the two
//! agreement        what all ranks decide together
//! ```

pub mod agreement;
pub mod child_ranks;
pub mod communicator;
pub mod external_ranks;
pub mod launcher;
pub mod liveness;
pub mod mpi;
pub mod shared_barrier;
pub mod socket;
pub mod socket_ranks;
pub mod star;
pub mod status;
