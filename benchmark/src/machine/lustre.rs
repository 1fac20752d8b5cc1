//! Counters of the Lustre client, by mount.
//!
//! The client has a directory for each mount, named after its file system and a number: `scratch-ffff8803f05de800`. If
//! a file system is mounted twice, its counters cannot be assigned, and are left out.

use std::path::Path;

use crate::system::file_calls::{kernel_text, placed};

/// Parents of these directories: debugfs, which only root can read, in later versions.
const PARENTS: [&str; 2] = ["/sys/kernel/debug/lustre/llite", "/proc/fs/lustre/llite"];

/// Counters, the file and the line with each, and whether it is the sum of the line instead of the number of samples.
const LINES: [(&str, &str, &str, bool); 6] = [
    ("lustre_reads", "stats", "read_bytes", false),
    ("lustre_read_bytes", "stats", "read_bytes", true),
    ("lustre_writes", "stats", "write_bytes", false),
    ("lustre_write_bytes", "stats", "write_bytes", true),
    ("lustre_cache_hits", "read_ahead_stats", "hits", false),
    ("lustre_cache_misses", "read_ahead_stats", "misses", false),
];

/// Returns the counters of mounts, which are given as the name of the file system and the directory: counter, directory
/// and value. `root` is empty except in tests.
pub fn counters(root: &Path, mounts: &[(String, String)]) -> Vec<(&'static str, String, u64)> {
    let parents = PARENTS.iter().map(|parent| placed(root, parent));
    let clients: Vec<_> = parents.filter_map(|parent| parent.read_dir().ok()).flatten().flatten().collect();
    let mut counters = Vec::new();
    for (name, folder) in mounts {
        let is_its = |client: &&std::fs::DirEntry| {
            let client = client.file_name();
            client.to_string_lossy().rsplit_once('-').is_some_and(|(known, _)| known == name)
        };
        let is_mounted_once = mounts.iter().filter(|(other, _)| other == name).count() == 1;
        if let [client] = clients.iter().filter(is_its).collect::<Vec<_>>()[..]
            && is_mounted_once
        {
            let of = |(counter, value)| (counter, folder.clone(), value);
            counters.extend(of_client(&client.path()).into_iter().map(of));
        }
    }
    counters
}

fn of_client(client: &Path) -> Vec<(&'static str, u64)> {
    let texts = ["stats", "read_ahead_stats"].map(|file| (file, kernel_text(client.join(file)).unwrap_or_default()));
    let value = |(counter, file, name, is_sum): &(&'static str, &str, &str, bool)| {
        let (_, text) = texts.iter().find(|(of, _)| of == file)?;
        Some((*counter, value(text, name, *is_sum)?))
    };
    LINES.iter().filter_map(value).collect()
}

/// Parses `read_bytes  25 samples [bytes] 1048576 1048576 26214400`: number of samples, unit, minimum, maximum, sum.
fn value(text: &str, name: &str, is_sum: bool) -> Option<u64> {
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let line = { lines }.find(|line| line.split_whitespace().next() == Some(name))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    match (&words[..], is_sum) {
        ([_, count, "samples", ..], false) => count.parse().ok(),
        ([_, _, "samples", "[bytes]", _, _, sum, ..], true) => sum.parse().ok(),
        _ => None,
    }
}
