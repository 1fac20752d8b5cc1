//! Standard output that notices when its reader has closed the pipe.

use std::fs::File;
use std::io::{self, IoSlice, Write};

use dlio_schemas::visible::Visible;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::error::ArrowError;

use super::refusals::failure::Failure;
use crate::atomic_file::system_error;

static PIPE_CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output that records a closed pipe.
pub struct WatchedStdout(pub Visible<File>);

impl Write for WatchedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(note_closed)
    }

    fn write_vectored(&mut self, slices: &[IoSlice]) -> io::Result<usize> {
        self.0.write_vectored(slices).inspect_err(note_closed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(note_closed)
    }
}

fn note_closed(error: &io::Error) {
    PIPE_CLOSED.fetch_or(error.kind() == io::ErrorKind::BrokenPipe, Ordering::Relaxed);
}

/// Returns the failure for rows that could not be written.
pub fn unwritten(error: ArrowError) -> Failure {
    Failure::Write(match error {
        ArrowError::IoError(_, error) => error,
        // Writers of some formats keep only the message of an error, not its kind.
        _ if PIPE_CLOSED.load(Ordering::Relaxed) => io::ErrorKind::BrokenPipe.into(),
        other => system_error(&other.to_string()).unwrap_or_else(|| io::Error::other(other.to_string())),
    })
}
