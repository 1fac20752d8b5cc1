//! Jobs that logs describe: who ran what, and when; and the numbers that were counted for their files.

/// One job, or one execution in it, as its log describes it.
#[derive(Debug)]
pub struct JobLog {
    pub path: String,
    /// The version of the format, and of the program that wrote it if known.
    pub version: String,
    pub library: Option<String>,
    /// As numbered by a batch system, or a process id.
    pub id: i64,
    pub uid: i64,
    pub command: String,
    /// The number of its processes.
    pub processes: i64,
    pub start_ts: i64,
    pub end_ts: i64,
    /// File system type and mount point.
    pub mounts: Vec<(String, String)>,
    pub metadata: Vec<(String, String)>,
    /// The names of its modules, in the order of the log.
    pub modules: Vec<&'static str>,
    /// Its processes in the catalog.
    pub procs: Vec<u32>,
}

/// One number that a log has for a file.
#[derive(Clone, Copy, Debug)]
pub struct Counter<'a> {
    pub module: &'static str,
    /// `None` for the sum of all ranks.
    pub rank: Option<i64>,
    /// The file, data set or object, as a number of the catalog.
    pub file: u32,
    pub name: &'a str,
    pub value: CounterValue,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterValue {
    Int(i64),
    Float(f64),
}
