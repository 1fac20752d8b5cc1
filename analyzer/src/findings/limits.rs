//! The limits of all rules, in one table, and how a file changes them.
//!
//! FINDINGS.md lists them; a test keeps both equal.

use std::collections::BTreeMap;

use crate::summary::report::findings::Unit;

/// One limit.
pub struct Limit {
    pub rule: &'static str,
    pub key: &'static str,
    pub value: f64,
    pub unit: Unit,
    /// The quantity that is measured against it.
    pub what: &'static str,
}

const fn limit(rule: &'static str, key: &'static str, value: f64, unit: Unit, what: &'static str) -> Limit {
    Limit { rule, key, value, unit, what }
}

/// Limits of every rule: what a finding has to cost, and from when on it is more than a note.
pub const ALL: &str = "all";

use Unit::{Bytes, Count, Ns, Ratio, Share};

/// Every limit there is.
pub const LIMITS: &[Limit] = &[
    limit(ALL, "worth", 0.01, Share, "what can be won, of the wall clock"),
    limit(ALL, "warning", 0.05, Share, "a finding worth this much is a warning"),
    limit(ALL, "critical", 0.20, Share, "a finding worth this much is critical"),
    limit(ALL, "short", 10_000_000.0, Ns, "a finding worth less than this is a note"),
    limit(ALL, "calls", 100.0, Count, "calls"),
    limit("input-bound", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("compute-bound", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("compute-bound", "exposed", 0.05, Share, "I/O without compute beside it, of the wall clock"),
    limit("loader-capacity", "wait", 0.05, Share, "waited for batches of readers that had started, of the training"),
    limit("loader-capacity", "shortage", 0.05, Share, "batches that readers deliver less than training would take"),
    limit("loader-cpu-bound", "wait", 0.05, Share, "waited for batches of readers that had started, of the training"),
    limit("loader-cpu-bound", "io-duty", 0.30, Share, "readers in I/O, of their busy time"),
    limit("loader-cpu-bound", "cpu", 0.50, Share, "CPU time, no free CPU and the interpreter's lock, of the wait"),
    limit("loader-cpu-bound", "locked", 0.50, Share, "readers waiting for locks on files, of their lives"),
    limit("loader-jitter", "wait", 0.05, Share, "waited for batches of readers that had started, of the training"),
    limit("loader-jitter", "rest", 0.05, Share, "waited beyond what a shortage of readers explains"),
    limit("loader-jitter", "turn", 0.50, Share, "waited for one reader's turn, of all waiting"),
    limit("hand-over", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("hand-over", "part", 0.25, Share, "batches on their way, of the wait"),
    limit("page-faults", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("page-faults", "part", 0.25, Share, "page faults that storage answers, of the wait"),
    limit("network-wait", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("network-wait", "part", 0.25, Share, "messages from the network, of the wait"),
    limit("reader-sleep", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("reader-sleep", "part", 0.25, Share, "readers that sleep, of the wait"),
    limit("slow-worker", "wait", 0.05, Share, "waited for batches of readers that had started, of the training"),
    limit("slow-worker", "turn", 0.50, Share, "waited for one reader's turn, of all waiting"),
    limit("slow-worker", "load", 0.50, Share, "the busiest reader, of what all were busy with while training waited"),
    limit("slow-worker", "busy", 1.5, Ratio, "the busiest reader against the median of the others"),
    limit("storage-saturated", "wait", 0.05, Share, "waited for batches of readers that had started, of the training"),
    limit("storage-saturated", "io-duty", 0.70, Share, "readers in I/O, of their busy time"),
    limit("storage-saturated", "slope", 0.30, Ratio, "power with which bytes a second grow with calls in flight"),
    limit("storage-saturated", "of-best", 0.90, Share, "bytes a second while training waits, of the best"),
    limit(
        "storage-latency-bound",
        "wait",
        0.05,
        Share,
        "waited for batches of readers that had started, of the training",
    ),
    limit("storage-latency-bound", "io-duty", 0.70, Share, "readers in I/O, of their busy time"),
    limit("storage-latency-bound", "slope", 0.70, Ratio, "power with which bytes a second grow with calls in flight"),
    limit("storage-latency-bound", "latency", 1_000_000.0, Ns, "the median read, of the size that takes most time"),
    limit("storage-latency-bound", "rate", 20_000_000.0, Bytes, "bytes a second of such a read"),
    limit("storage-latency-bound", "in-flight", 8.0, Ratio, "calls on files in flight at once"),
    limit("device-saturated", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("device-saturated", "storage", 0.25, Share, "storage, of the wait"),
    limit("device-saturated", "busy", 0.80, Share, "the device had a request, of the time"),
    limit("slow-but-idle-device", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("slow-but-idle-device", "storage", 0.25, Share, "storage, of the wait"),
    limit("slow-but-idle-device", "busy", 0.40, Share, "the device had a request, of the wait for storage"),
    limit("nfs-server", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("nfs-server", "storage", 0.25, Share, "storage, of the wait"),
    limit("nfs-server", "round-trip", 0.50, Share, "the way to the server and back, of the time of requests"),
    limit("nfs-client-queue", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("nfs-client-queue", "storage", 0.25, Share, "storage, of the wait"),
    limit("nfs-client-queue", "queue", 0.50, Share, "waiting in the client, of the time of requests"),
    limit("swap", "in", 67_108_864.0, Bytes, "came back from swap"),
    limit("too-many-readers", "per-core", 2.0, Ratio, "readers a processor"),
    limit("no-overlap", "own-bytes", 0.50, Share, "bytes read by the trainer's own thread"),
    limit("no-overlap", "overlap", 0.10, Share, "I/O with compute beside it"),
    limit("workers-restart", "restarts", 1.0, Count, "times that all readers had ended when others began"),
    limit(
        "workers-restart",
        "gaps",
        0.05,
        Share,
        "time without readers, or of waiting for them to start again, of the training",
    ),
    limit("slow-start", "share", 0.20, Share, "time before training began, without generating data, of the wall clock"),
    limit("slow-start", "time", 1_200_000_000_000.0, Ns, "time before training began, without generating data"),
    limit("cpu-quota", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("cpu-quota", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, of the wait"),
    limit("cpu-quota", "cause", 1.0, Count, "a quota that was used up, as the reason"),
    limit("cpu-quota", "used-up", 0.25, Share, "periods in which a quota was used up"),
    limit("cpu-affinity", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("cpu-affinity", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, of the wait"),
    limit("cpu-affinity", "cause", 1.0, Count, "fewer CPUs than the machine has, as the reason"),
    limit("too-many-threads", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("too-many-threads", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, of the wait"),
    limit("too-many-threads", "cause", 1.0, Count, "threads of the readers, as the reason"),
    limit("noisy-neighbor", "wait", 0.05, Share, "waited for batches, of the training"),
    limit("noisy-neighbor", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, of the wait"),
    limit("noisy-neighbor", "cause", 1.0, Count, "something outside the trace, as the reason"),
    limit("would-fit", "again", 0.50, Share, "bytes read again, of all read"),
    limit("would-fit", "slower", 2.0, Ratio, "time of reading against that of copying memory"),
    limit("would-fit", "fits", 0.60, Share, "different bytes read, of memory"),
    limit("would-fit", "from-storage", 1.2, Ratio, "bytes that storage read against different bytes"),
    limit("cache-thrash", "again", 0.50, Share, "bytes read again, of all read"),
    limit("cache-thrash", "from-storage", 1.5, Ratio, "bytes that storage read against different bytes"),
    limit("cache-thrash", "limit", 0.50, Share, "different bytes read, of the limit of memory"),
    limit("cache-thrash", "memory", 0.60, Share, "different bytes read, of memory"),
    limit("cache-resident", "again", 0.50, Share, "bytes read again, of all read"),
    limit("cache-resident", "slower", 2.0, Ratio, "time of reading against that of copying memory"),
    limit("small-reads", "a-file", 2.0, Ratio, "reads of less than 64 KiB for each file that is read"),
    limit("small-reads", "time", 0.50, Share, "time in reads of less than 64 KiB, of all reads"),
    limit("small-reads", "fixed", 0.50, Share, "of that time, what their bytes do not explain"),
    limit("small-writes", "a-file", 2.0, Ratio, "writes of less than 64 KiB for each file that is written"),
    limit("small-writes", "time", 0.50, Share, "time in writes of less than 64 KiB, of all writes"),
    limit("small-writes", "fixed", 0.50, Share, "of that time, what their bytes do not explain"),
    limit("small-objects", "size", 1_048_576.0, Bytes, "bytes of a GET"),
    limit("small-objects", "time", 0.50, Share, "time in GETs, of all in calls on files"),
    limit("small-objects", "fixed", 0.50, Share, "of that time, what their bytes do not explain"),
    limit("store-throttled", "requests", 1.0, Count, "requests answered with 503 or 429"),
    limit("store-throttled", "share", 0.01, Share, "of all requests"),
    limit("store-retries", "requests", 1.0, Count, "requests that came to nothing"),
    limit("store-retries", "share", 0.01, Share, "of all requests"),
    limit("tiny-stdio", "share", 0.10, Share, "bytes moved by the C library"),
    limit("tiny-stdio", "size", 8193.0, Bytes, "bytes a call of the C library"),
    limit("random-in-file", "calls", 1000.0, Count, "reads that go back"),
    limit("random-in-file", "share", 0.20, Share, "reads that go back, of those whose place is known"),
    limit("backward-seeks", "share", 0.10, Share, "reads that go back, of those whose place is known"),
    limit("unaligned", "off", 0.10, Share, "writes that begin or end within a block of 4 KiB"),
    limit("unaligned", "apart", 0.10, Share, "writes that do not go on where the one before ended"),
    limit(
        "shared-block-writes",
        "writes",
        100.0,
        Count,
        "writes to blocks that another rank writes to at the same time",
    ),
    limit("redundant-reads", "ratio", 1.5, Ratio, "bytes read in an epoch against different bytes"),
    limit("hot-file", "time", 0.50, Share, "time in calls on one file"),
    limit("hot-file", "read", 0.50, Share, "bytes read from it, of those moved"),
    limit("hot-file", "slope", 2.0, Ratio, "its part of the time against its part of the calls"),
    limit("metadata-bound", "share", 0.30, Share, "time in calls that ask about files, of all on files"),
    limit("stat-storm", "ratio", 3.0, Ratio, "calls like stat for each open"),
    limit("reopen-storm", "opens", 10.0, Ratio, "opens of a file by each process in each epoch"),
    limit("open-serial", "share", 0.30, Share, "time in opening, asking and closing, of all on files"),
    limit("open-serial", "in-flight", 1.5, Ratio, "calls on files in flight at once"),
    limit("failed-lookups", "calls", 1000.0, Count, "calls that found no file"),
    limit("failed-lookups", "share", 0.50, Share, "calls that found no file, of all opening and asking"),
    limit("listing", "entries", 10_000.0, Count, "calls of each process on a folder that several ranks list"),
    limit("opened-never-read", "share", 0.10, Share, "opens of files of which no byte is moved"),
    limit("temp-on-shared", "files", 1000.0, Count, "files deleted"),
    limit("temp-on-shared", "share", 0.50, Share, "files deleted, of as many as are written"),
    limit("seek-noise", "ratio", 1.0, Ratio, "seeks for each read or write"),
    limit("lock-wait", "share", 0.01, Share, "time in flock, lockf and fcntl, of the wall clock"),
    limit("fsync-share", "calls", 2.0, Count, "calls of fsync and its kin"),
    limit("fsync-share", "share", 0.30, Share, "time in fsync and its kin, of writing and synchronising"),
    limit("checkpoint-stalls", "share", 0.05, Share, "saving with nothing computed, of the steps"),
    limit("checkpoint-one-rank", "ranks", 2.0, Count, "ranks"),
    limit("checkpoint-one-rank", "share", 0.80, Share, "bytes written by one rank"),
    limit("checkpoint-one-rank", "saved", 1.0, Ns, "saving with nothing computed"),
    limit("straggler-rank", "trainers", 2.0, Count, "trainers"),
    limit("straggler-rank", "ratio", 1.25, Ratio, "the longest wait against the median over ranks"),
    limit("byte-imbalance", "ranks", 2.0, Count, "ranks"),
    limit("byte-imbalance", "ratio", 1.3, Ratio, "most bytes read against the mean over ranks"),
    limit("mmap-unseen", "maps", 1.0, Count, "mappings of files"),
    limit("mmap-unseen", "share", 0.10, Share, "mappings of files, of all that are opened"),
    limit("mmap-unseen", "read", 65_536.0, Bytes, "bytes read by calls for each mapping"),
    limit("uring-unseen", "processes", 1.0, Count, "processes that have a ring of io_uring"),
    limit("process-killed", "processes", 1.0, Count, "processes that a signal ended"),
    limit("failing-io", "calls", 1.0, Count, "calls that failed and could not have been answered"),
    limit("trust", "lost", 1.0, Count, "events lost"),
    limit("trust", "cut", 1.0, Count, "files cut or damaged"),
    limit("trust", "late", 1.0, Count, "events out of order"),
    limit("trust", "clock", 1_000_000.0, Ns, "step of a host's clock"),
];

/// The limits as they are to be used.
#[derive(Clone, Debug)]
pub struct Limits {
    values: BTreeMap<(&'static str, &'static str), f64>,
    /// Rules that are not asked for.
    pub ignored: Vec<String>,
}

impl Default for Limits {
    fn default() -> Limits {
        let values = LIMITS.iter().map(|limit| ((limit.rule, limit.key), limit.value)).collect();
        Limits { values, ignored: Vec::new() }
    }
}

impl Limits {
    /// A limit with the value it has here.
    pub fn find(&self, rule: &str, key: &str) -> Option<(&'static Limit, f64)> {
        let limit = LIMITS.iter().find(|limit| (limit.rule, limit.key) == (rule, key))?;
        Some((limit, self.values[&(limit.rule, limit.key)]))
    }

    pub fn of_all(&self, key: &str) -> f64 {
        self.find(ALL, key).map_or(0.0, |(_, value)| value)
    }

    /// Takes the lines of a file: `id.key = number`, or `[id]` and below it `key = number`, which is TOML too. What stands
    /// behind `#` is not read.
    pub fn amend(&mut self, text: &str) -> Result<(), String> {
        let mut table = String::new();
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = name.trim().into();
            } else if !line.is_empty() {
                self.amend_one(&table, line).map_err(|why| format!("line {number}: {why}"))?;
            }
        }
        Ok(())
    }

    fn amend_one(&mut self, table: &str, line: &str) -> Result<(), String> {
        let (name, value) = line.split_once('=').ok_or_else(|| {
            format!("{line:?} is no limit; a line is rule.limit = number, as in input-bound.wait = 0.2")
        })?;
        let name = if table.is_empty() { name.trim().to_string() } else { format!("{table}.{}", name.trim()) };
        let value: f64 = value.trim().parse().map_err(|_| format!("{:?} is no number", value.trim()))?;
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{value} is no limit"));
        }
        let known = LIMITS.iter().find(|limit| format!("{}.{}", limit.rule, limit.key) == name);
        let Some(known) = known else { return Err(unknown(&name)) };
        self.values.insert((known.rule, known.key), value);
        Ok(())
    }
}

/// Says what may have been meant.
fn unknown(name: &str) -> String {
    let rule = name.split('.').next().unwrap_or_default();
    let of_rule: Vec<_> = LIMITS.iter().filter(|limit| limit.rule == rule).map(|limit| limit.key).collect();
    match of_rule.is_empty() {
        true => format!("no rule has the limit {name}; FINDINGS.md and --findings list them"),
        false => format!("there is no limit {name}; {rule} has {}", of_rule.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_limits_by_lines_or_tables() {
        let mut limits = Limits::default();
        limits.amend("# mine\ninput-bound.wait = 0.1\n[trust]\nlost = 50 # few\n").unwrap();
        let value = |rule: &str, key: &str| limits.find(rule, key).unwrap().1;
        assert_eq!((value("input-bound", "wait"), value("trust", "lost"), value("trust", "cut")), (0.1, 50.0, 1.0));
    }

    #[test]
    fn what_is_no_limit_is_refused_with_its_line() {
        let refusal = |text: &str| Limits::default().amend(text).unwrap_err();
        assert!(
            refusal("\ninput-bound.wiat = 1")
                .starts_with("line 2: there is no limit input-bound.wiat; input-bound has wait")
        );
        assert!(refusal("nothing.wait = 1").contains("no rule has the limit nothing.wait"));
        assert!(refusal("input-bound.wait = much").contains("\"much\" is no number"));
        assert!(refusal("input-bound.wait = -1").contains("is no limit"));
        assert!(refusal("input-bound").contains("a line is rule.limit = number"));
    }

    #[test]
    fn findings_md_lists_every_limit_as_it_is() {
        let written = include_str!("../../FINDINGS.md");
        for limit in LIMITS {
            let row = format!("| `{}.{}` | {} | {} |", limit.rule, limit.key, limit.value, limit.what);
            assert!(written.lines().any(|line| line == row), "FINDINGS.md lacks the row\n{row}");
        }
    }
}
