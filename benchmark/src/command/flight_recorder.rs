//! The work of `dlio trace --last` while the command runs, and its last lines.

use std::path::Path;
use std::time::Duration;

use crate::command::expiry::Expiry;
use crate::command::kept_steps::{Kept, KeptSteps};
use crate::system::terminal;

/// The threads of a flight recorder.
pub struct FlightRecorder {
    expiry: Option<Expiry>,
    kept_steps: Option<KeptSteps>,
}

impl FlightRecorder {
    pub fn begin(folder: &Path, last: Duration, umask: u32) -> FlightRecorder {
        FlightRecorder { expiry: Expiry::begin(folder, last), kept_steps: KeptSteps::begin(folder, last, umask) }
    }

    /// Stops the threads, and returns the copies of slow steps.
    pub fn finish(self) -> Vec<Kept> {
        self.expiry.into_iter().for_each(Expiry::finish);
        self.kept_steps.map(KeptSteps::finish).unwrap_or_default()
    }
}

/// Prints the places of the copies.
pub fn report_kept(all: &[Kept]) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    for Kept { folder, step } in all {
        let folder = folder.display();
        match step {
            Some(step) => terminal::warn(format_args!(
                "      kept: step {} took {:.2} s, {:.1} times the median: dlio-analyze {folder}",
                step.step,
                seconds(step.took_ns),
                step.factor(),
            )),
            None => terminal::warn(format_args!("      kept: the time before a signal: dlio-analyze {folder}")),
        }
    }
}
