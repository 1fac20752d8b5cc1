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

/// Roots in which the tracer looks for a directory for rings, in this order, if the trace directory is on a network
/// file system; and the directory's name, before the user id.
pub const SPOOL_ROOTS: [&std::ffi::CStr; 2] = [c"/dev/shm", c"/tmp"];
pub const SPOOL_NAME: &str = "dlio-spool-";

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
        name: CONVERT,
        values: "exit|later",
        default: "exit",
        meaning: "When a process brings its trace into that form. `dlio trace` sets later, and does it when the command has ended: processes end sooner, and those that did little share files.",
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
        meaning: "Record only these files. `*`, `?` and `[a-z]` stay within a folder, `**` crosses folders, `{a,b}` is one of these, and a folder has all that lies below it. A relative pattern counts from where the program starts. Names are those that a program uses, made absolute, through links or not.",
    },
    Variable {
        name: EXCLUDE,
        values: "GLOB[:GLOB...]",
        default: "",
        meaning: "Leave these files out, on top of what is left out anyway. A pattern is as for DLIO_TRACE_INCLUDE.",
    },
    Variable {
        name: ALL,
        values: "0|1",
        default: "0",
        meaning: "1 records what is left out by default: /proc, /sys, /dev, shared libraries, interpreter and package files, and waits of less than 10 microseconds.",
    },
    Variable {
        name: LAYERS,
        values: "posix,stdio,process,app,wait,object,net",
        default: "all",
        meaning: "Record only these layers. wait are calls that wait for others and move nothing: poll, waitpid, pthread_cond_wait, sleep; object are requests to object stores; net are messages through sockets and what is made for them: recv, send, connect, getaddrinfo, socketpair, eventfd.",
    },
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
        name: UMASK,
        values: "OCTAL",
        default: "077",
        meaning: "Rights that others do not get on files and folders of the trace: 022 lets all read them, 027 those of the group.",
    },
    Variable {
        name: INLINE,
        values: "0|1",
        default: "0",
        meaning: "1 patches open, close, read, write and lseek in the C library itself: calls through its own pointers and from libraries that look past us are seen, and what a stream does inside.",
    },
    Variable { name: LABEL, values: "TEXT", default: "", meaning: "A name for this run, kept with each process." },
    Variable {
        name: MACHINE,
        values: "FACTS",
        default: "",
        meaning: "What the tracer has found out about the machine, left by each program to those it starts. Not to be set by hand.",
    },
    Variable {
        name: BORN,
        values: "PID:NS:NS",
        default: "",
        meaning: "When a process began, left by each program to the one it becomes by exec. Not to be set by hand.",
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
