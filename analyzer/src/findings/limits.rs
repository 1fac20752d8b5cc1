//! All limits of the rules, in one table, and overrides from a file.
//!
//! FINDINGS.md lists them; a test checks that both are equal.

use std::collections::BTreeMap;

use crate::summary::report::findings::Unit;

/// A limit of a rule.
pub struct Limit {
    pub rule: &'static str,
    pub key: &'static str,
    pub value: f64,
    pub unit: Unit,
    /// The quantity that is compared with it.
    pub what: &'static str,
}

const fn limit(rule: &'static str, key: &'static str, value: f64, unit: Unit, what: &'static str) -> Limit {
    Limit { rule, key, value, unit, what }
}

/// Limits of every rule: the minimum cost of a finding, and the minimum cost for each severity.
pub const ALL: &str = "all";

use Unit::{Bytes, Count, Ns, Ratio, Share, Yes};

/// All limits.
pub const LIMITS: &[Limit] = &[
    limit(ALL, "worth", 0.01, Share, "possible savings, as a share of the run time"),
    limit(ALL, "warning", 0.05, Share, "a finding that can save this share is a warning"),
    limit(ALL, "critical", 0.20, Share, "a finding that can save this share is critical"),
    limit(ALL, "short", 10_000_000.0, Ns, "a finding that can save less than this is a note"),
    limit(ALL, "calls", 100.0, Count, "calls that the rule checks"),
    limit("input-bound", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("compute-bound", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("compute-bound", "exposed", 0.05, Share, "I/O without compute, as a share of the run time"),
    limit("launch-bound", "idle", 0.10, Share, "GPU without work while training does not wait, as a share of training"),
    limit(
        "sync-every-step",
        "idle",
        0.05,
        Share,
        "GPU without work while training does not wait, as a share of training",
    ),
    limit("pageable-copies", "part", 0.01, Share, "copies of memory that is not pinned, as a share of training"),
    limit("loader-capacity", "wait", 0.05, Share, "wait for readers that had started, as a share of training"),
    limit("loader-capacity", "shortage", 0.05, Share, "missing part of the batches that training could use"),
    limit("loader-cpu-bound", "wait", 0.05, Share, "wait for readers that had started, as a share of training"),
    limit("loader-cpu-bound", "io-duty", 0.30, Share, "readers' I/O, as a share of their busy time"),
    limit(
        "loader-cpu-bound",
        "cpu",
        0.50,
        Share,
        "CPU time, no free CPU and the interpreter's lock, as a share of \
        the wait",
    ),
    limit("loader-cpu-bound", "locked", 0.50, Share, "readers waiting for file locks, as a share of their lifetime"),
    limit("loader-jitter", "wait", 0.05, Share, "wait for readers that had started, as a share of training"),
    limit("loader-jitter", "rest", 0.05, Share, "wait that a shortage of readers does not explain"),
    limit("loader-jitter", "turn", 0.50, Share, "wait for one reader's turn, as a share of all waiting"),
    limit("hand-over", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("hand-over", "part", 0.25, Share, "batches in transfer, as a share of the wait"),
    limit("page-faults", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("page-faults", "part", 0.25, Share, "page faults served by storage, as a share of the wait"),
    limit("network-wait", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("network-wait", "part", 0.25, Share, "messages from the network, as a share of the wait"),
    limit("reader-programs", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("reader-programs", "part", 0.25, Share, "programs started by readers, as a share of the wait"),
    limit("reader-sleep", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("reader-sleep", "part", 0.25, Share, "sleeping readers, as a share of the wait"),
    limit("slow-worker", "wait", 0.05, Share, "wait for readers that had started, as a share of training"),
    limit("slow-worker", "turn", 0.50, Share, "wait for one reader's turn, as a share of all waiting"),
    limit("slow-worker", "load", 0.50, Share, "the busiest reader's share of all readers' work during the wait"),
    limit(
        "slow-worker",
        "work",
        0.50,
        Share,
        "work, and not sleep, locks or the network, as a share of the wait for the busiest reader",
    ),
    limit("slow-worker", "busy", 1.5, Ratio, "the busiest reader's work relative to the median of the other readers"),
    limit("storage-saturated", "wait", 0.05, Share, "wait for readers that had started, as a share of training"),
    limit("storage-saturated", "io-duty", 0.70, Share, "readers' I/O, as a share of their busy time"),
    limit("storage-saturated", "slope", 0.30, Ratio, "exponent of the growth of bytes per second with calls in flight"),
    limit("storage-saturated", "of-best", 0.90, Share, "bytes per second during waits, as a share of the best rate"),
    limit("storage-latency-bound", "wait", 0.05, Share, "wait for readers that had started, as a share of training"),
    limit("storage-latency-bound", "io-duty", 0.70, Share, "readers' I/O, as a share of their busy time"),
    limit(
        "storage-latency-bound",
        "slope",
        0.70,
        Ratio,
        "exponent of the growth of bytes per second with calls in flight",
    ),
    limit(
        "storage-latency-bound",
        "latency",
        1_000_000.0,
        Ns,
        "median duration of a read, in the size class that \
        takes most time",
    ),
    limit("storage-latency-bound", "rate", 20_000_000.0, Bytes, "bytes per second of such a read"),
    limit("storage-latency-bound", "in-flight", 8.0, Ratio, "file calls in flight at once"),
    limit("io-limit", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("io-limit", "storage", 0.25, Share, "storage, as a share of the wait"),
    limit("io-limit", "used", 0.70, Share, "rate of reads or writes while training waits, as a share of the limit"),
    limit("device-saturated", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("device-saturated", "storage", 0.25, Share, "storage, as a share of the wait"),
    limit("device-saturated", "busy", 0.80, Share, "time in which the device had requests in flight"),
    limit("slow-but-idle-device", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("slow-but-idle-device", "storage", 0.25, Share, "storage, as a share of the wait"),
    limit(
        "slow-but-idle-device",
        "busy",
        0.40,
        Share,
        "time in which the device had requests in flight, relative to the wait for storage",
    ),
    limit("readahead", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("readahead", "storage", 0.25, Share, "storage, as a share of the wait"),
    limit("readahead", "read-ahead", 131_072.0, Bytes, "read-ahead of the device"),
    limit("readahead", "request", 65_536.0, Bytes, "bytes per read of the device"),
    limit("readahead", "in-order", 0.80, Share, "bytes read in order or by larger calls, as a share of bytes read"),
    limit("readahead", "from-storage", 0.50, Share, "bytes read by storage, as a share of bytes read"),
    limit("readahead", "faults", 100.0, Count, "page faults that storage served"),
    limit("readahead", "unused", 3.0, Ratio, "bytes read by storage, relative to those that can have been used"),
    limit("readahead", "per-fault", 1.5, Ratio, "bytes read by storage per page fault, relative to the read-ahead"),
    limit("nfs-server", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("nfs-server", "storage", 0.25, Share, "storage, as a share of the wait"),
    limit("nfs-server", "round-trip", 0.50, Share, "round trip to the server, as a share of request time"),
    limit("nfs-client-queue", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("nfs-client-queue", "storage", 0.25, Share, "storage, as a share of the wait"),
    limit("nfs-client-queue", "queue", 0.50, Share, "queueing in the client, as a share of request time"),
    limit("swap", "in", 67_108_864.0, Bytes, "bytes swapped in"),
    limit("too-many-readers", "per-core", 2.0, Ratio, "readers per CPU"),
    limit("too-many-readers", "cpu-use", 0.5, Share, "CPU time of readers, as a share of their CPUs"),
    limit("no-overlap", "own-bytes", 0.50, Share, "bytes read by the trainer's own thread"),
    limit("no-overlap", "overlap", 0.10, Share, "I/O during compute"),
    limit("workers-restart", "restarts", 1.0, Count, "times that all readers had ended before new ones started"),
    limit(
        "workers-restart",
        "gaps",
        0.05,
        Share,
        "time without readers, or waiting for them to restart, as a share of training",
    ),
    limit(
        "slow-start",
        "share",
        0.20,
        Share,
        "time before training, excluding the generation of data, as a share of the run time",
    ),
    limit("slow-start", "time", 1_200_000_000_000.0, Ns, "time before training, excluding the generation of data"),
    limit("cpu-quota", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("cpu-quota", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, as a share of the wait"),
    limit("cpu-quota", "cause", 1.0, Yes, "caused by a used-up quota"),
    limit("cpu-quota", "used-up", 0.25, Share, "periods in which a quota was used up"),
    limit("cpu-affinity", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("cpu-affinity", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, as a share of the wait"),
    limit("cpu-affinity", "cause", 1.0, Yes, "caused by an affinity to fewer CPUs than the host has"),
    limit("too-many-threads", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("too-many-threads", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, as a share of the wait"),
    limit("too-many-threads", "cause", 1.0, Yes, "caused by threads of the readers"),
    limit("noisy-neighbor", "wait", 0.05, Share, "wait for batches, as a share of training"),
    limit("noisy-neighbor", "no-cpu", 0.25, Share, "readers ready to run without a free CPU, as a share of the wait"),
    limit("noisy-neighbor", "cause", 1.0, Yes, "caused by processes outside the trace"),
    limit("would-fit", "again", 0.50, Share, "bytes read again, as a share of all bytes read"),
    limit("would-fit", "slower", 2.0, Ratio, "time of reads relative to copying memory"),
    limit("would-fit", "fits", 0.60, Share, "distinct bytes read, relative to memory"),
    limit("would-fit", "from-storage", 1.2, Ratio, "bytes read from storage, relative to distinct bytes"),
    limit("cache-thrash", "again", 0.50, Share, "bytes read again, as a share of all bytes read"),
    limit("cache-thrash", "from-storage", 1.5, Ratio, "bytes read from storage, relative to distinct bytes"),
    limit("cache-thrash", "limit", 0.50, Share, "distinct bytes read, relative to the memory limit"),
    limit("cache-thrash", "memory", 0.60, Share, "distinct bytes read, relative to memory"),
    limit("cache-resident", "again", 0.50, Share, "bytes read again, as a share of all bytes read"),
    limit("cache-resident", "slower", 2.0, Ratio, "time of reads relative to copying memory"),
    limit("small-reads", "a-file", 2.0, Ratio, "reads of less than 64 KiB per file read"),
    limit("small-reads", "time", 0.50, Share, "time in reads of less than 64 KiB, as a share of all reads"),
    limit("small-reads", "fixed", 0.50, Share, "fixed cost per call, as a share of the time in these reads"),
    limit("small-writes", "a-file", 2.0, Ratio, "writes of less than 64 KiB per file written"),
    limit("small-writes", "time", 0.50, Share, "time in writes of less than 64 KiB, as a share of all writes"),
    limit("small-writes", "fixed", 0.50, Share, "fixed cost per call, as a share of the time in these writes"),
    limit("small-objects", "size", 1_048_576.0, Bytes, "bytes per GET"),
    limit("small-objects", "time", 0.50, Share, "time in GETs, as a share of all file calls"),
    limit("small-objects", "fixed", 0.50, Share, "fixed cost per call, as a share of the time in these GETs"),
    limit("store-throttled", "requests", 1.0, Count, "requests answered with 503 or 429"),
    limit("store-throttled", "share", 0.01, Share, "these requests, as a share of all requests"),
    limit("store-retries", "requests", 1.0, Count, "failed requests"),
    limit("store-retries", "share", 0.01, Share, "failed requests, as a share of all requests"),
    limit("tiny-stdio", "share", 0.10, Share, "bytes moved by the C library"),
    limit("tiny-stdio", "size", 8193.0, Bytes, "bytes per call of the C library"),
    limit("random-in-file", "calls", 1000.0, Count, "reads that go backward"),
    limit("random-in-file", "share", 0.20, Share, "reads that go backward, as a share of reads with a known position"),
    limit("backward-seeks", "share", 0.10, Share, "reads that go backward, as a share of reads with a known position"),
    limit("unaligned", "off", 0.10, Share, "writes that begin or end inside a block of 4 KiB"),
    limit("unaligned", "apart", 0.10, Share, "writes that do not continue the previous one"),
    limit(
        "shared-block-writes",
        "writes",
        100.0,
        Count,
        "writes to blocks that another rank writes to at the same time",
    ),
    limit("read-amplification", "ratio", 3.0, Ratio, "bytes that HDF5 reads, relative to requested bytes"),
    limit("independent-requests", "bytes", 65_536.0, Bytes, "bytes per independent request"),
    limit("independent-requests", "ranks", 2.0, Count, "ranks whose parts of the file are interleaved"),
    limit("redundant-reads", "ratio", 1.5, Ratio, "bytes read in an epoch, relative to distinct bytes"),
    limit("hot-file", "time", 0.50, Share, "time in calls on one file"),
    limit("hot-file", "read", 0.50, Share, "bytes read from it, as a share of the bytes moved"),
    limit("hot-file", "slope", 2.0, Ratio, "that file's share of the time, relative to its share of the calls"),
    limit("metadata-bound", "share", 0.30, Share, "time in metadata calls, as a share of all file calls"),
    limit("stat-storm", "ratio", 3.0, Ratio, "stat and similar calls per open"),
    limit("reopen-storm", "opens", 10.0, Ratio, "opens of a file per process and epoch"),
    limit("data-set-per-sample", "ratio", 0.5, Ratio, "data sets opened per request to read one"),
    limit("data-set-per-sample", "time", 0.20, Share, "time to open data sets, as a share of the time in HDF5"),
    limit("open-serial", "share", 0.30, Share, "time in open, stat and close, as a share of all file calls"),
    limit("open-serial", "in-flight", 1.5, Ratio, "file calls in flight at once"),
    limit("failed-lookups", "calls", 1000.0, Count, "calls for missing files"),
    limit("failed-lookups", "share", 0.50, Share, "calls for missing files, as a share of all open and stat calls"),
    limit("listing", "entries", 10_000.0, Count, "calls per process on a directory that several ranks list"),
    limit("opened-never-read", "share", 0.10, Share, "opens of files that are never read or written"),
    limit("temp-on-shared", "files", 1000.0, Count, "files deleted"),
    limit("temp-on-shared", "share", 0.50, Share, "files deleted, relative to files written"),
    limit("seek-noise", "ratio", 1.0, Ratio, "seeks per read or write"),
    limit(
        "lock-wait",
        "share",
        0.01,
        Share,
        "time in calls for locks, or in waits for them, as a share of the run time",
    ),
    limit("fsync-share", "calls", 2.0, Count, "calls to fsync and similar functions"),
    limit("fsync-share", "share", 0.30, Share, "time in fsync and similar functions, as a share of writes and syncs"),
    limit(
        "checkpoint-stalls",
        "share",
        0.05,
        Share,
        "time in checkpoints while nothing computed, as a share of training",
    ),
    limit("checkpoint-one-rank", "ranks", 2.0, Count, "ranks"),
    limit("checkpoint-one-rank", "share", 0.80, Share, "bytes written by one rank"),
    limit("checkpoint-one-rank", "saved", 1.0, Ns, "time in checkpoints while nothing computed"),
    limit("straggler-rank", "trainers", 2.0, Count, "trainers"),
    limit("straggler-rank", "ratio", 1.25, Ratio, "the longest wait relative to the median of the other ranks"),
    limit("byte-imbalance", "ranks", 2.0, Count, "ranks"),
    limit("byte-imbalance", "ratio", 1.3, Ratio, "most bytes read relative to the mean over ranks"),
    limit("mmap-unseen", "maps", 1.0, Count, "mappings of files"),
    limit("mmap-unseen", "share", 0.10, Share, "mappings of files, relative to all opens"),
    limit("mmap-unseen", "read", 65_536.0, Bytes, "bytes read by calls per mapping"),
    limit("uring-unseen", "processes", 1.0, Count, "processes with requests through an io_uring that were not seen"),
    limit(
        "shm-small",
        "failures",
        1.0,
        Count,
        "failed calls on shared memory for batches, and processes ended by SIGBUS",
    ),
    limit("process-killed", "processes", 1.0, Count, "processes that a signal ended"),
    limit("failing-io", "calls", 1.0, Count, "calls that failed with an error of the system or storage"),
    limit("trust", "lost", 1.0, Count, "events lost"),
    limit("trust", "cut", 1.0, Count, "truncated or damaged files"),
    limit("trust", "late", 1.0, Count, "events out of order"),
    limit("trust", "clock", 1_000_000.0, Ns, "step of a host's clock"),
];

/// The limits in effect.
#[derive(Clone, Debug)]
pub struct Limits {
    values: BTreeMap<(&'static str, &'static str), f64>,
    /// Rules to ignore.
    pub ignored: Vec<String>,
}

impl Default for Limits {
    fn default() -> Limits {
        let values = LIMITS.iter().map(|limit| ((limit.rule, limit.key), limit.value)).collect();
        Limits { values, ignored: Vec::new() }
    }
}

impl Limits {
    /// Returns a limit and its value in effect.
    pub fn find(&self, rule: &str, key: &str) -> Option<(&'static Limit, f64)> {
        let limit = LIMITS.iter().find(|limit| (limit.rule, limit.key) == (rule, key))?;
        Some((limit, self.values[&(limit.rule, limit.key)]))
    }

    pub fn of_all(&self, key: &str) -> f64 {
        self.find(ALL, key).map_or(0.0, |(_, value)| value)
    }

    /// Applies the lines of a file: `id.key = number`, or `[id]` followed by `key = number`, which is also TOML. Text
    /// after `#` is a comment.
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
            format!("{line:?} is not a threshold: expected rule.threshold = number, such as input-bound.wait = 0.2")
        })?;
        let name = if table.is_empty() { name.trim().to_string() } else { format!("{table}.{}", name.trim()) };
        let value: f64 = value.trim().parse().map_err(|_| format!("{:?} is not a number", value.trim()))?;
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{value} is not a valid threshold"));
        }
        let known = LIMITS.iter().find(|limit| format!("{}.{}", limit.rule, limit.key) == name);
        let Some(known) = known else { return Err(unknown(&name)) };
        self.values.insert((known.rule, known.key), value);
        Ok(())
    }
}

/// Returns an error with suggestions.
fn unknown(name: &str) -> String {
    let rule = name.split('.').next().unwrap_or_default();
    let of_rule: Vec<_> = LIMITS.iter().filter(|limit| limit.rule == rule).map(|limit| limit.key).collect();
    match of_rule.is_empty() {
        true => format!("no rule has the threshold {name}; FINDINGS.md and --findings list them"),
        false => format!("unknown threshold {name}: {rule} has {}", of_rule.join(", ")),
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
                .starts_with("line 2: unknown threshold input-bound.wiat: input-bound has wait")
        );
        assert!(refusal("nothing.wait = 1").contains("no rule has the threshold nothing.wait"));
        assert!(refusal("input-bound.wait = much").contains("\"much\" is not a number"));
        assert!(refusal("input-bound.wait = -1").contains("is not a valid threshold"));
        assert!(refusal("input-bound").contains("expected rule.threshold = number"));
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
