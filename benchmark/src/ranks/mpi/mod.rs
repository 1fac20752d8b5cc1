//! MPI ranks, through `libdlio_mpi.so`.
//!
//! ```text
//! table     the functions of that library; it is compiled into both
//! library   the library, loaded
//! member    this process as a rank: collectives, barriers, shared reads
//! ```

mod library;
mod member;
mod table;

pub use library::Library;
pub use member::{Mpi, SOCKETS, is_joined, is_offered, library_for, read_together};
