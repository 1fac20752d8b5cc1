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
pub const TABLES: [Table; 6] = [
    table("events", "one row a call, span, instant or counter", EVENTS),
    table("files", "one row a distinct path", FILES),
    table(
        "processes",
        "one row a process image: an exec begins a new one of the same pid and start_ts; with --pid or --rank those asked for",
        PROCESSES,
    ),
    table("hosts", "one row a machine", HOSTS),
    table("waits", "one row a wait of a trainer, with its causes: they add up to ns", WAITS),
    table(
        "machine",
        "one row a value of a counter of a machine that had changed, once a second, of all commands traced into the folder",
        MACHINE,
    ),
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
    column("name", Type::Name, false, "the call, or a span's name"),
    column("cat", Type::Name, false, "the layer of a call, or a span's category"),
    column("class", Type::Name, false, "read, write, metadata, sync, compute, wait or other"),
    column(
        "layer",
        Type::Name,
        false,
        "posix, stdio, mpiio, process, wait, object or net for a call; app for what the program says itself",
    ),
    column("host", Type::Name, true, "name of the machine"),
    column("pid", Type::Int32, false, "process id; see proc for a key"),
    column("tid", Type::Int32, false, "thread id"),
    column("rank", Type::Int32, true, "rank in a parallel run"),
    column("proc", Type::Int32, false, "key into processes"),
    column("file", Type::Name, true, "path, or <pipe 123>, <tcp 127.0.0.1:5000 127.0.0.1:80>, <terminal>, ..."),
    column("file_id", Type::Int32, true, "key into files"),
    column("fd", Type::Int32, true, "descriptor"),
    column("pos", Type::Int64, true, "byte position in the file; unknown where it cannot be known"),
    column("requested", Type::Int64, true, "bytes asked for"),
    column("bytes", Type::Int64, true, "bytes moved"),
    column("ret", Type::Int64, true, "result; -1 where the call failed"),
    column("errno", Type::Int32, true, "error number of a call that failed"),
    column("depth", Type::UInt8, false, "spans of the same thread that are open when the event begins, at most 255"),
    column("epoch", Type::Int32, true, "where a span carries it"),
    column("step", Type::Int32, true, "where a span carries it"),
    column("args", Type::Map, true, "flags, modes and metadata"),
];

pub const FILES: &[Column] = &[
    column("file_id", Type::Int32, false, "key"),
    column("path", Type::Text, false, "as used at open"),
    column("directory", Type::Text, true, "the folder it lies in"),
    column("opens", Type::Int64, false, "times opened"),
    column("first_ts", Type::Int64, true, "first use, nanoseconds since the Unix epoch"),
    column("last_ts", Type::Int64, true, "end of the last use"),
    column("bytes_read", Type::Int64, false, "bytes read"),
    column("bytes_written", Type::Int64, false, "bytes written"),
    column("size", Type::Int64, true, "largest position reached by bytes that were moved, or size that was set"),
    column("events", Type::Int64, false, "calls on it"),
    column("time_ns", Type::Int64, false, "summed time of the calls on it"),
    column("processes", Type::Int64, false, "process images that used it"),
];

pub const PROCESSES: &[Column] = &[
    column("proc", Type::Int32, false, "key"),
    column("host", Type::Text, true, "name of the machine"),
    column("pid", Type::Int32, false, "process id"),
    column("ppid", Type::Int32, true, "process id of the parent"),
    column("rank", Type::Int32, true, "rank in a parallel run"),
    column("job", Type::Text, true, "the batch system's number of the run"),
    column("program", Type::Text, true, "name of the program"),
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
        "bytes read; those that an MPI-IO call and one beneath it moved count once",
    ),
    column("bytes_written", Type::Int64, false, "bytes written, likewise"),
    column("lost", Type::Int64, false, "events that found no room"),
    column("aggregated", Type::Int64, false, "of these, calls of which only the number was written down"),
    column("filtered", Type::Int64, false, "calls left out by filters"),
    column("names_lost", Type::Int64, false, "names that found no room: their events have none"),
    column("misused_spans", Type::Int64, false, "spans closed on another thread, and not recorded"),
    column("tracer_ns", Type::Int64, true, "CPU time the tracer itself took"),
    column("source", Type::Text, false, "the file it was read from"),
];

pub const HOSTS: &[Column] = &[
    column("host", Type::Text, false, "name"),
    column("boot_id", Type::Text, true, "which boot of it"),
    column("cores", Type::Int32, true, "processors"),
    column("memory", Type::Int64, true, "bytes"),
    column("kernel", Type::Text, true, "release of the kernel"),
    column(
        "processes",
        Type::Int64,
        false,
        "process images traced on it; with a filter those with events, and machines without are left out",
    ),
    column("clock_offset_ns", Type::Int64, false, "Unix time minus boot time"),
    column("clock_spread_ns", Type::Int64, false, "steps of the wall clock while processes ran"),
];

pub const MACHINE: &[Column] = &[
    column("ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("host", Type::Text, false, "name of the machine"),
    column(
        "scope",
        Type::Text,
        true,
        "whose it is: a control group, device, network interface or mount; null is the machine",
    ),
    column("counter", Type::Text, false, "its name, listed in SUMMARY.md"),
    column("value", Type::Int64, false, "the value; of a counter that grows, since the machine was booted"),
    column("unit", Type::Text, false, "ns, bytes or count"),
    column("grows", Type::Int32, false, "1: two values make a rate; 0: a level"),
];

pub const WAITS: &[Column] = &[
    column("proc", Type::Int32, false, "key into processes, of the trainer"),
    column("pid", Type::Int32, false, "process id of the trainer"),
    column("tid", Type::Int32, false, "thread that trains"),
    column("rank", Type::Int32, true, "rank of the trainer in a parallel run"),
    column("start_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("end_ts", Type::Int64, false, "nanoseconds since the Unix epoch"),
    column("ns", Type::Int64, false, "length in nanoseconds: the sum of the causes"),
    column("kind", Type::Text, false, "data (a batch), own-work, peer or unknown"),
    column("maker_proc", Type::Int32, true, "key into processes, of the thread that made what was waited for"),
    column("maker_tid", Type::Int32, true, "that thread; null where nobody was seen"),
    column("limiter_proc", Type::Int32, true, "key into processes, of the thread that set the pace"),
    column("limiter_tid", Type::Int32, true, "that thread; null where nobody was seen"),
    column("relays", Type::Int32, false, "threads between maker and trainer that only passed it on"),
    column("storage_ns", Type::Int64, false, "calls on stored files"),
    column("page_faults_ns", Type::Int64, false, "pages of mapped files that were read from storage"),
    column("network_ns", Type::Int64, false, "calls on network sockets, and name look-ups"),
    column("cpu_ns", Type::Int64, false, "CPU time of whoever made the batch"),
    column("no_cpu_ns", Type::Int64, false, "ready to run, and no CPU was free"),
    column("gil_ns", Type::Int64, false, "Python's interpreter lock"),
    column("lock_ns", Type::Int64, false, "a lock that another thread or process held"),
    column("sleep_ns", Type::Int64, false, "sleeping readers"),
    column("child_ns", Type::Int64, false, "a program that a reader started and waited for"),
    column("hand_over_ns", Type::Int64, false, "serializing, pipes, shared memory, passing descriptors"),
    column("start_ns", Type::Int64, false, "until readers had started"),
    column("dead_reader_ns", Type::Int64, false, "the readers that would have made the batch had ended"),
    column("not_asked_ns", Type::Int64, false, "readers were idle until the trainer asked them"),
    column("outside_calls_ns", Type::Int64, false, "between calls, where the trace has no CPU times"),
    column("unknown_ns", Type::Int64, false, "nobody was seen to end the wait"),
];
