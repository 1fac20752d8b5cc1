//! The environment variables of a traced program: one list, printed by `dlio trace --help-env`.

use crate::text::words::edits;

/// An environment variable.
pub struct Variable {
    pub name: &'static str,
    /// The accepted values, as shown in help.
    pub values: &'static str,
    pub default: &'static str,
    pub meaning: &'static str,
}

/// All of our names begin with this; an unknown name is a typing error that deserves a message.
pub const PREFIX: &str = "DLIO_TRACE";

pub const SWITCH: &str = "DLIO_TRACE";
pub const DIR: &str = "DLIO_TRACE_DIR";
pub const FORMAT: &str = "DLIO_TRACE_FORMAT";
pub const CONVERT: &str = "DLIO_TRACE_CONVERT";
/// The start of [`CONVERT`] if another program converts the trace; its name follows a colon.
pub const CONVERT_LATER: &str = "later";
pub const MODE: &str = "DLIO_TRACE_MODE";
pub const MAX_MB: &str = "DLIO_TRACE_MAX_MB";
pub const LAST: &str = "DLIO_TRACE_LAST";
pub const INCLUDE: &str = "DLIO_TRACE_INCLUDE";
pub const EXCLUDE: &str = "DLIO_TRACE_EXCLUDE";
pub const ALL: &str = "DLIO_TRACE_ALL";
pub const LAYERS: &str = "DLIO_TRACE_LAYERS";
pub const MIN_US: &str = "DLIO_TRACE_MIN_US";
pub const SPOOL: &str = "DLIO_TRACE_SPOOL";
pub const UMASK: &str = "DLIO_TRACE_UMASK";
pub const INLINE: &str = "DLIO_TRACE_INLINE";
pub const LABEL: &str = "DLIO_TRACE_LABEL";
pub const MACHINE: &str = "DLIO_TRACE_MACHINE";
pub const BORN: &str = "DLIO_TRACE_BORN";
pub const PTRACE: &str = "DLIO_TRACE_PTRACE";

/// Roots in which the tracer looks for a directory for rings, in this order, if the trace directory is on a network
/// file system; and the directory's name, before the user id.
pub const SPOOL_ROOTS: [&std::ffi::CStr; 2] = [c"/dev/shm", c"/tmp"];
pub const SPOOL_NAME: &str = "dlio-spool-";

pub const VARIABLES: &[Variable] = &[
    Variable {
        name: SWITCH,
        values: "0|1",
        default: "1",
        meaning: "0 turns tracing off; the library then only forwards calls.",
    },
    Variable {
        name: DIR,
        values: "DIR",
        default: "dlio-trace",
        meaning: "Trace directory, created when the first event is recorded. A relative path starts at the directory \
            in which the program starts.",
    },
    Variable {
        name: FORMAT,
        values: "auto|native|perfetto|chrome",
        default: "auto",
        meaning: "Format of a process's trace: auto writes a .pftrace for at most a million events, and keeps the .dlt for more.",
    },
    Variable {
        name: CONVERT,
        values: "exit|later",
        default: "exit",
        meaning: "When a trace is converted into that format. `dlio trace` sets this to later and converts when the \
            command has exited: processes exit sooner, and short-lived ones share files.",
    },
    Variable {
        name: MODE,
        values: "full|summary",
        default: "full",
        meaning: "summary keeps counts, sums and distributions by file and function in constant memory, but no events: \
            for runs that last days.",
    },
    Variable {
        name: MAX_MB,
        values: "MEGABYTES",
        default: "",
        meaning: "Record events until a process's .dlt has this size, then only count them, as with summary. A trace \
            whose .pftrace would be larger remains a .dlt.",
    },
    Variable {
        name: LAST,
        values: "DURATION",
        default: "",
        meaning: "Keep only the events of this last period, such as 10m, 30s or 2h, in a .dlt, and counts of all events: \
            a process that runs for days writes a trace of limited size. Not with DLIO_TRACE_MODE=summary or \
            DLIO_TRACE_MAX_MB.",
    },
    Variable {
        name: INCLUDE,
        values: "GLOB[:GLOB...]",
        default: "",
        meaning: "Record only these files. `*`, `?` and `[a-z]` match within a directory, `**` across directories, \
            `{a,b}` matches either, and a directory matches all files under it. A relative pattern starts at the \
            directory in which the program starts. Patterns match the absolute form of the path that the program \
            uses, with or without links.",
    },
    Variable {
        name: EXCLUDE,
        values: "GLOB[:GLOB...]",
        default: "",
        meaning: "Skip these files in addition to those skipped by default. Patterns are the same as in \
            DLIO_TRACE_INCLUDE.",
    },
    Variable {
        name: ALL,
        values: "0|1",
        default: "0",
        meaning: "1 records what is skipped by default: /proc, /sys, /dev, shared libraries, files of interpreters \
            and packages, and waits shorter than 10 microseconds.",
    },
    Variable {
        name: LAYERS,
        values: "posix,stdio,process,app,wait,object,net,hdf5,mpi",
        default: "all",
        meaning: "Record only these layers. wait: calls that block without moving data, such as poll, waitpid, \
            pthread_cond_wait, sleep. object: requests to object stores. net: messages through sockets and related \
            calls, such as recv, send, connect, getaddrinfo, socketpair, eventfd. hdf5: calls of the HDF5 library. mpi: calls of MPI-IO and collective calls of MPI.",
    },
    Variable {
        name: MIN_US,
        values: "MICROSECONDS",
        default: "0",
        meaning: "Record only calls that take at least this long.",
    },
    Variable {
        name: SPOOL,
        values: "DIR",
        default: "the trace directory, or a local one if that is on a network file system",
        meaning: "Directory for the memory-mapped rings while a process runs.",
    },
    Variable {
        name: UMASK,
        values: "OCTAL",
        default: "077",
        meaning: "Permissions removed from files and directories of the trace: 022 lets everyone read them, 027 the \
            group.",
    },
    Variable {
        name: INLINE,
        values: "0|1",
        default: "0",
        meaning: "1 patches open, close, read, write and lseek in the C library itself. This also records calls \
            through its internal pointers, calls of libraries that bypass the tracer, and calls inside streams. It also \
            patches instructions by which programs enter the kernel for io_uring rings.",
    },
    Variable { name: LABEL, values: "TEXT", default: "", meaning: "A name for this run, stored with each process." },
    Variable {
        name: MACHINE,
        values: "FACTS",
        default: "",
        meaning: "Information about the host, passed by each program to the programs it starts. Do not set it.",
    },
    Variable {
        name: BORN,
        values: "PID:NS:NS",
        default: "",
        meaning: "Start time of a process, passed by each program to the one it executes. Do not set it.",
    },
    Variable {
        name: PTRACE,
        values: "NAME",
        default: "",
        meaning: "The socket of `dlio trace --ptrace-static`, which records static programs. Do not set it.",
    },
];

/// Returns the known name closest to a mistyped one.
pub fn suggestion(name: &str) -> Option<&'static str> {
    let close = |variable: &&Variable| edits(name, variable.name);
    VARIABLES.iter().min_by_key(close).filter(|variable| close(variable) <= 3).map(|variable| variable.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typo_suggests_the_right_name() {
        assert_eq!(suggestion("DLIO_TRACE_FORMATS"), Some(FORMAT));
        assert_eq!(suggestion("DLIO_TRACE_DRI"), Some(DIR));
        assert_eq!(suggestion("DLIO_TRACE_SOMETHING_ELSE"), None);
    }

    #[test]
    fn every_variable_carries_the_prefix() {
        assert!(VARIABLES.iter().all(|variable| variable.name.starts_with(PREFIX)));
    }
}
