//! What each section of the summary means, and which SQL over the tables gives the same figures.

use clap::ValueEnum;

/// A section of the summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Section {
    Allocation,
    Dataset,
    Time,
    Functions,
    Spans,
    Directories,
    Files,
    Processes,
    Ranks,
}

impl Section {
    const ALL: [Section; 9] = [
        Section::Allocation,
        Section::Dataset,
        Section::Time,
        Section::Functions,
        Section::Spans,
        Section::Directories,
        Section::Files,
        Section::Processes,
        Section::Ranks,
    ];

    fn meaning(self) -> &'static str {
        match self {
            Section::Allocation => {
                "Allocation: who took part. A process counts once, whatever number of programs it runs one after another by \
                 exec; where those are more, both are said. With a filter those count of which an event passes. A thread counts as one \
                 with I/O when it made a call on a file, as one with compute when it has a span of a compute category; it \
                 can be both. Lost events found no room in the tracer's memory and are missing from every figure; what \
                 filters left out while tracing is counted beside them."
            }
            Section::Dataset => {
                "Dataset: the files that calls named, pipes, sockets and terminals left out: what \
                 went through those is said besides. The extent reached is the sum of \
                 the largest position reached in each file, as far as positions are known. Bytes of an MPI-IO call count \
                 where no call beneath it moved bytes of that file in that process. At least: in summary mode the files \
                 that found no row of their own are counted together, and nobody knows how many they are."
            }
            Section::Time => {
                "Split of time: each figure is the length of a union of intervals over all processes and threads, exact to \
                 the nanosecond; two calls at the same time count once. Total: from the first event's start to the last \
                 event's end. I/O: calls that read, write, synchronise or ask about files; waiting on pipes, sockets and \
                 terminals is not I/O. Compute: spans whose category begins with compute, gpu or framework. Application I/O: \
                 spans whose category begins with data, reader, fetch, io or checkpoint. Unoverlapped I/O: I/O while \
                 nothing computed; unoverlapped compute: the reverse. Neither: no I/O and no compute anywhere."
            }
            Section::Functions => {
                "Metrics by function: one row a call. Times are of single calls; count, sum, smallest, mean and largest are \
                 exact; quantiles of time are exact up to two million events and with --exact, which reads the trace \
                 twice, and else off by 0.4 % at most. Sizes are bytes moved by calls that succeeded, and all \
                 their figures are exact; between two values quantiles are interpolated. Per second is bytes over time \
                 summed over calls."
            }
            Section::Spans => "Spans: what the program said of itself, by name and category.",
            Section::Directories => "By directory: files by the folder they lie in; time is summed over calls.",
            Section::Files => "By file: the files with the most time; time is summed over calls.",
            Section::Processes => {
                "By process: a row for each program that a process ran. Times are summed over calls and threads, so that they can exceed the run's length. killed: the \
                 process did not say how it ended."
            }
            Section::Ranks => "By rank: processes by the rank their launcher gave them.",
        }
    }

    pub fn sql(self) -> &'static str {
        match self {
            Section::Allocation => include_str!("../../sql/allocation.sql"),
            Section::Dataset => include_str!("../../sql/dataset.sql"),
            Section::Time => include_str!("../../sql/time.sql"),
            Section::Functions => include_str!("../../sql/functions.sql"),
            Section::Spans => include_str!("../../sql/spans.sql"),
            Section::Directories => include_str!("../../sql/directories.sql"),
            Section::Files => include_str!("../../sql/files.sql"),
            Section::Processes => include_str!("../../sql/processes.sql"),
            Section::Ranks => include_str!("../../sql/ranks.sql"),
        }
    }
}

/// Every section's meaning.
pub fn explanation() -> String {
    let paragraphs: Vec<_> = Section::ALL.iter().map(|section| section.meaning()).collect();
    paragraphs.join("\n\n") + "\n"
}
