//! The tables for queries: names and columns in SQL, Parquet, JSON and the documentation.

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// One of few strings.
    Name,
    Text,
    Int64,
    Int32,
    UInt8,
    Float64,
    /// Text to text.
    Map,
}

impl Type {
    /// Returns the name of the type in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Type::Name | Type::Text => "text",
            Type::Int64 => "bigint",
            Type::Int32 => "int",
            Type::UInt8 => "tinyint unsigned",
            Type::Float64 => "double",
            Type::Map => "map of text",
        }
    }
}

/// One table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub name: &'static str,
    pub meaning: &'static str,
    pub columns: &'static [Column],
}

const fn table(name: &'static str, meaning: &'static str, columns: &'static [Column]) -> Table {
    Table { name, meaning, columns }
}

/// All tables.
pub const TABLES: [Table; 9] = [
    table("events", "one row per call, span, instant or counter", EVENTS),
    table("files", "one row per distinct path", FILES),
    table(
        "processes",
        "one row per process image: an exec starts a new one with the same pid and start_ts; with --pid or --rank \
         only the selected ones",
        PROCESSES,
    ),
    table("hosts", "one row per host", HOSTS),
    table("waits", "one row per wait of a trainer, with its causes: they add up to ns", WAITS),
    table(
        "machine",
        "one row per changed value of a host counter, once a second, of all commands traced into the directory",
        MACHINE,
    ),
    table("jobs", "one row per job that a Darshan log describes", JOBS),
    table("counters", "one row per number of a Darshan log: counters are per module, rank and file", COUNTERS),
    table("summary", "one row per number of the report, as in --format csv", SUMMARY),
];

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub of: Type,
    pub nullable: bool,
    pub meaning: &'static str,
}

const fn column(name: &'static str, of: Type, nullable: bool, meaning: &'static str) -> Column {
    Column { name, of, nullable, meaning }
}

pub const EVENTS: &[Column] = &[
    column("ts", Type::Int64, false, "start, nanoseconds since the Unix epoch"),
    column("dur", Type::Int64, false, "nanoseconds"),
    column("name", Type::Name, false, "the call, or the name of a span"),
    column("cat", Type::Name, false, "the layer of a call, or the category of a span"),
    column("class", Type::Name, false, "read, write, metadata, sync, compute, wait or other"),
    column(
        "layer",
        Type::Name,
        false,
        "posix, stdio, mpiio, process, wait, object, net, hdf5 or mpi for a call; app for the program's own spans",
    ),
    column("host", Type::Name, true, "name of the host"),
    column("pid", Type::Int32, false, "process id; see proc for a key"),
    column("tid", Type::Int32, false, "thread id"),
    column("rank", Type::Int32, true, "rank in a parallel run"),
    column("proc", Type::Int32, false, "key into processes"),
    column("file", Type::Name, true, "path, or <pipe 123>, <tcp 127.0.0.1:5000 127.0.0.1:80>, <terminal>, ..."),
    column("file_id", Type::Int32, true, "key into files"),
    column("fd", Type::Int32, true, "descriptor"),
    column("pos", Type::Int64, true, "byte position in the file; null if unknown"),
    column("requested", Type::Int64, true, "requested bytes"),
    column("bytes", Type::Int64, true, "bytes moved"),
    column("ret", Type::Int64, true, "result; -1 if the call failed"),
    column("errno", Type::Int32, true, "error number of a failed call"),
    column("depth", Type::UInt8, false, "spans of the same thread that are open when the event starts, at most 255"),
    column("epoch", Type::Int32, true, "if a span has one"),
    column("step", Type::Int32, true, "if a span has one"),
    column("args", Type::Map, true, "flags, modes and metadata"),
];

pub const FILES: &[Column] = &[
    column("file_id", Type::Int32, false, "key"),
    column("path", Type::Text, false, "as passed to open"),
    column("directory", Type::Text, true, "its directory"),
    column("opens", Type::Int64, false, "times opened"),
    column("first_ts", Type::Int64, true, "first use, nanoseconds since the Unix epoch"),
    column("last_ts", Type::Int64, true, "end of the last use"),
    column("bytes_read", Type::Int64, false, "bytes read"),
    column("bytes_written", Type::Int64, false, "bytes written"),
    column("size", Type::Int64, true, "largest position reached by moved bytes, or size that was set"),
    column("events", Type::Int64, false, "calls on it that read, write, sync or access metadata"),
    column("time_ns", Type::Int64, false, "summed time of these calls"),
    column("processes", Type::Int64, false, "process images that used it"),
];

pub const PROCESSES: &[Column] = &[
    column("proc", Type::Int32, false, "key"),
    column("host", Type::Text, true, "name of the host"),
    column("pid", Type::Int32, false, "process id"),
    column("ppid", Type::Int32, true, "process id of the parent"),
    column("parent", Type::Int32, true, "key of the image that started it; null if that was not traced"),
    column("rank", Type::Int32, true, "rank in a parallel run"),
    column("job", Type::Text, true, "the batch system's job id"),
    column("program", Type::Text, true, "name of the program"),
    column("name", Type::Text, false, "its script or module, or its number among workers, as in the report"),
    column("role", Type::Text, true, "trainer or reader; null for others"),
    column("command", Type::Text, true, "command line"),
    column("cwd", Type::Text, true, "working directory at the start"),
    column("start_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("end_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("ended", Type::Text, false, "exit N, exec, killed, running or cut"),
    column("threads", Type::Int64, false, "threads with events"),
    column("events", Type::Int64, false, "events recorded"),
    column(
        "bytes_read",
        Type::Int64,
        false,
        "bytes read; bytes of an MPI-IO call and of the calls beneath it count once",
    ),
    column("bytes_written", Type::Int64, false, "bytes written, likewise"),
    column("lost", Type::Int64, false, "events that did not fit"),
    column("aggregated", Type::Int64, false, "of these, calls that were only counted"),
    column("filtered", Type::Int64, false, "calls left out by filters"),
    column("names_lost", Type::Int64, false, "names that did not fit: their events have no name"),
    column("misused_spans", Type::Int64, false, "spans closed on another thread, not recorded"),
    column("tracer_ns", Type::Int64, true, "CPU time of the tracer itself"),
    column("source", Type::Text, false, "the file it was read from"),
];

pub const HOSTS: &[Column] = &[
    column("host", Type::Text, false, "name"),
    column("boot_id", Type::Text, true, "boot of the host"),
    column("cores", Type::Int32, true, "processors"),
    column("memory", Type::Int64, true, "bytes"),
    column("kernel", Type::Text, true, "release of the kernel"),
    column(
        "processes",
        Type::Int64,
        false,
        "process images traced on it; with a filter only images with events, and hosts without any are left out",
    ),
    column("clock_offset_ns", Type::Int64, false, "Unix time minus boot time"),
    column("clock_spread_ns", Type::Int64, false, "steps of the clock while processes ran"),
];

pub const MACHINE: &[Column] = &[
    column("ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("host", Type::Text, false, "name of the host"),
    column(
        "scope",
        Type::Text,
        true,
        "owner of the counter: a control group, device, network interface or mount; null for the host",
    ),
    column("counter", Type::Text, false, "its name, listed in SUMMARY.md"),
    column("value", Type::Int64, false, "the value; for a growing counter since the host was booted"),
    column("unit", Type::Text, false, "ns, bytes or count"),
    column("grows", Type::Int32, false, "1: the difference of two values is a rate; 0: a level"),
];

pub const JOBS: &[Column] = &[
    column("job_id", Type::Int64, false, "as numbered by the batch system; without one, a process id"),
    column("uid", Type::Int64, false, "user id"),
    column("program", Type::Text, false, "file name of the program"),
    column("command", Type::Text, false, "command line"),
    column("processes", Type::Int64, false, "number of processes"),
    column("start_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("end_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("bytes_read", Type::Int64, false, "bytes read"),
    column("bytes_written", Type::Int64, false, "bytes written"),
    column("io_ns", Type::Int64, false, "time in file calls, summed over processes"),
    column("mounts", Type::Text, false, "mount points and their types: /home (nfs), /scratch (lustre)"),
    column("modules", Type::Text, false, "the modules of the log"),
    column("version", Type::Text, false, "version of the log's format"),
    column("library", Type::Text, true, "version of Darshan that wrote the log"),
    column("source", Type::Text, false, "the log"),
];

pub const COUNTERS: &[Column] = &[
    column("source", Type::Text, false, "the log"),
    column("module", Type::Text, false, "POSIX, STDIO, MPI-IO, H5F, H5D, LUSTRE, HEATMAP, ..."),
    column("rank", Type::Int32, true, "null for the sum of all ranks that share a file"),
    column("path", Type::Text, false, "the file, data set or object"),
    column("counter", Type::Text, false, "its name in Darshan: POSIX_OPENS"),
    column("value", Type::Int64, true, "the exact value; null for times"),
    column("number", Type::Float64, false, "the value as a number; times are in seconds"),
];

pub const SUMMARY: &[Column] = &[
    column("section", Type::Text, false, "a section of the report; --explain describes it"),
    column("row", Type::Text, false, "the file, process, call or similar that a row of the section is about"),
    column("figure", Type::Text, false, "the field: SUMMARY.md lists those of each section"),
    column("value", Type::Text, false, "its value; empty if unknown"),
    column("number", Type::Float64, true, "the value as a number; null for texts"),
];

pub const WAITS: &[Column] = &[
    column("proc", Type::Int32, false, "key into processes, of the trainer"),
    column("pid", Type::Int32, false, "process id of the trainer"),
    column("tid", Type::Int32, false, "training thread"),
    column("rank", Type::Int32, true, "rank of the trainer in a parallel run"),
    column("start_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("end_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("ns", Type::Int64, false, "length in nanoseconds: the sum of the causes"),
    column("kind", Type::Text, false, "data (a batch), own-work, lock, peer or unknown"),
    column("maker_proc", Type::Int32, true, "key into processes, of the thread that made the awaited message"),
    column("maker_tid", Type::Int32, true, "that thread; null if unknown"),
    column("limiter_proc", Type::Int32, true, "key into processes, of the thread that set the pace"),
    column("limiter_tid", Type::Int32, true, "that thread; null if unknown"),
    column("relays", Type::Int32, false, "threads between maker and trainer that only forwarded it"),
    column("storage_ns", Type::Int64, false, "calls on stored files"),
    column("page_faults_ns", Type::Int64, false, "pages of mapped files that were read from storage"),
    column("network_ns", Type::Int64, false, "calls on network sockets, and name look-ups"),
    column("cpu_ns", Type::Int64, false, "CPU time of the thread that made the batch"),
    column("file_calls_ns", Type::Int64, false, "CPU time in file calls"),
    column("no_cpu_ns", Type::Int64, false, "ready to run, but no CPU was free"),
    column("gil_ns", Type::Int64, false, "Python's interpreter lock"),
    column("lock_ns", Type::Int64, false, "a lock that another thread or process held"),
    column("sleep_ns", Type::Int64, false, "sleeping readers"),
    column("child_ns", Type::Int64, false, "a program that a reader started and waited for"),
    column("hand_over_ns", Type::Int64, false, "serializing, pipes, shared memory, passing descriptors"),
    column("sampling_ns", Type::Int64, false, "the thread that takes batches chose samples"),
    column("start_ns", Type::Int64, false, "until readers had started"),
    column("dead_reader_ns", Type::Int64, false, "the readers that would have made the batch had ended"),
    column("never_sent_ns", Type::Int64, false, "the reader that had to make the batch made no further call"),
    column("missing_file_ns", Type::Int64, false, "a file did not exist yet, and the trace does not show who made it"),
    column("not_asked_ns", Type::Int64, false, "readers were idle until the trainer requested a batch"),
    column("outside_calls_ns", Type::Int64, false, "between calls, if the trace has no CPU times"),
    column("gpu_ns", Type::Int64, false, "a reader waited for work of a GPU"),
    column("gpu_busy_ns", Type::Int64, false, "the GPU computed during the wait, which therefore cost nothing"),
    column("unknown_ns", Type::Int64, false, "the trace does not show what ended the wait"),
];
