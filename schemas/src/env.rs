//! The environment variables of a traced program: one list, printed by `dlio trace --help-env`.

/// One variable.
pub struct Variable {
    pub name: &'static str,
    /// What it takes, as shown in help.
    pub values: &'static str,
    pub default: &'static str,
    pub meaning: &'static str,
}

/// All names of ours begin with this; one that is not in the list is a typing error worth a sentence.
pub const PREFIX: &str = "DLIO_TRACE";

pub const SWITCH: &str = "DLIO_TRACE";
pub const DIR: &str = "DLIO_TRACE_DIR";
pub const FORMAT: &str = "DLIO_TRACE_FORMAT";
pub const MODE: &str = "DLIO_TRACE_MODE";
pub const MAX_MB: &str = "DLIO_TRACE_MAX_MB";
pub const INCLUDE: &str = "DLIO_TRACE_INCLUDE";
pub const EXCLUDE: &str = "DLIO_TRACE_EXCLUDE";
pub const ALL: &str = "DLIO_TRACE_ALL";
pub const LAYERS: &str = "DLIO_TRACE_LAYERS";
pub const MIN_US: &str = "DLIO_TRACE_MIN_US";
pub const SPOOL: &str = "DLIO_TRACE_SPOOL";
pub const INLINE: &str = "DLIO_TRACE_INLINE";
pub const LABEL: &str = "DLIO_TRACE_LABEL";

pub const VARIABLES: &[Variable] = &[
    Variable {
        name: SWITCH,
        values: "0|1",
        default: "1",
        meaning: "0 switches tracing off; the library then only passes calls on.",
    },
    Variable {
        name: DIR,
        values: "DIR",
        default: "dlio-trace",
        meaning: "Folder for the trace, made when the first event is recorded. A relative one is resolved where the program starts.",
    },
    Variable {
        name: FORMAT,
        values: "auto|native|perfetto|chrome",
        default: "auto",
        meaning: "What a process leaves when it ends: auto writes a .pftrace up to a million events and keeps the .dlt above.",
    },
    Variable {
        name: MODE,
        values: "full|summary",
        default: "full",
        meaning: "summary keeps counts, sums and distributions by file and function in constant memory, and no events: for runs of days.",
    },
    Variable {
        name: MAX_MB,
        values: "MEGABYTES",
        default: "",
        meaning: "Record events until a process's .dlt has this size, from then on count them as summary does. A trace whose .pftrace would be larger stays a .dlt.",
    },
    Variable {
        name: INCLUDE,
        values: "GLOB[:GLOB...]",
        default: "",
        meaning: "Record only these files. `**` crosses folders; a relative pattern is resolved where the program starts.",
    },
    Variable {
        name: EXCLUDE,
        values: "GLOB[:GLOB...]",
        default: "",
        meaning: "Leave these files out, on top of what is left out anyway.",
    },
    Variable {
        name: ALL,
        values: "0|1",
        default: "0",
        meaning: "1 records what is left out by default: /proc, /sys, /dev, shared libraries, interpreter and package files.",
    },
    Variable { name: LAYERS, values: "posix,stdio,process,app", default: "all", meaning: "Record only these layers." },
    Variable {
        name: MIN_US,
        values: "MICROSECONDS",
        default: "0",
        meaning: "Record only calls that took at least this long.",
    },
    Variable {
        name: SPOOL,
        values: "DIR",
        default: "the trace folder, or a local one where that is on a network file system",
        meaning: "Folder for the memory-mapped rings while a process runs.",
    },
    Variable {
        name: INLINE,
        values: "0|1",
        default: "0",
        meaning: "1 patches open, close, read, write and lseek in the C library itself: calls through its own pointers and from libraries that look past us are seen, and what a stream does inside.",
    },
    Variable { name: LABEL, values: "TEXT", default: "", meaning: "A name for this run, kept with each process." },
];

/// The known name closest to a mistyped one.
pub fn suggestion(name: &str) -> Option<&'static str> {
    let close = |variable: &&Variable| edits(name.as_bytes(), variable.name.as_bytes());
    VARIABLES.iter().min_by_key(close).filter(|variable| close(variable) <= 3).map(|variable| variable.name)
}

/// Edit distance, in place: names are shorter than the row.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row = [0usize; 64];
    let b = &b[..b.len().min(row.len() - 1)];
    (0..=b.len()).for_each(|i| row[i] = i);
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + (x != y) as usize;
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name() {
        assert_eq!(suggestion("DLIO_TRACE_FORMATS"), Some(FORMAT));
        assert_eq!(suggestion("DLIO_TRACE_DRI"), Some(DIR));
        assert_eq!(suggestion("DLIO_TRACE_SOMETHING_ELSE"), None);
    }

    #[test]
    fn every_variable_carries_the_prefix() {
        assert!(VARIABLES.iter().all(|variable| variable.name.starts_with(PREFIX)));
    }
}
