//! Processors and memory of the host, in the format of the output files.

use crate::system::file_calls::kernel_text;
use crate::system::host;
use serde_json::{Map, Value};

/// A host that ranks ran on.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    pub name: String,
    pub memory_gibibytes: f64,
    pub processors: u64,
}

impl Host {
    pub fn own() -> Host {
        Host { name: host::host_name(), memory_gibibytes: memory_gibibytes(), processors: all_processors() }
    }

    /// Returns the host as text for other ranks.
    pub fn to_text(&self) -> String {
        format!("{} {} {}", self.memory_gibibytes, self.processors, self.name)
    }

    /// Returns the hosts of all ranks, each once, in the order of their first ranks.
    pub fn all(texts: &[Vec<u8>]) -> Vec<Host> {
        let mut hosts: Vec<Host> = Vec::new();
        for host in texts.iter().filter_map(|text| Host::of(std::str::from_utf8(text).ok()?)) {
            if hosts.iter().all(|known| known.name != host.name) {
                hosts.push(host);
            }
        }
        hosts
    }

    fn of(text: &str) -> Option<Host> {
        let (memory, rest) = text.split_once(' ')?;
        let (processors, name) = rest.split_once(' ')?;
        Some(Host { name: name.into(), memory_gibibytes: memory.parse().ok()?, processors: processors.parse().ok()? })
    }
}

pub fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Returns the number of processors that this process may run on, regardless of any time quota.
pub fn processors_allowed() -> Option<u64> {
    let text = kernel_text("/proc/self/status").ok()?;
    let mask = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    Some(mask.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| u64::from(digit.count_ones())).sum())
}

/// Returns the number of online processors. Does not query processor frequencies, unlike /proc/cpuinfo: on a large host
/// that takes longer than a short command.
pub fn processors_online() -> Option<u64> {
    count_of_list(kernel_text("/sys/devices/system/cpu/online").ok()?.trim())
}

/// Returns the number of processors in a list, `0-3,8`.
fn count_of_list(list: &str) -> Option<u64> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
    };
    list.split(',').map(count).try_fold(0u64, |sum, count| sum.checked_add(count?))
}

/// Returns the processors of the whole host, regardless of how many this process may use, as in DLIO's files.
pub fn all_processors() -> u64 {
    let text = kernel_text("/proc/cpuinfo").unwrap_or_default();
    let count = text.lines().filter(|line| line.starts_with("processor")).count() as u64;
    if count > 0 { count } else { processors() }
}

/// Returns /proc/meminfo as key and value: "MemTotal": "24684412 kB", ...
pub fn memory() -> Map<String, Value> {
    fields("/proc/meminfo")
}

/// Returns the first processor of /proc/cpuinfo, without its number.
pub fn processor() -> Map<String, Value> {
    let mut fields = fields("/proc/cpuinfo");
    fields.shift_remove("processor");
    fields
}

fn fields(path: &str) -> Map<String, Value> {
    let text = kernel_text(path).unwrap_or_default();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim().into(), value.trim().into())).collect()
}

pub fn memory_gibibytes() -> f64 {
    let total = memory().get("MemTotal").and_then(|text| text.as_str()?.split(' ').next()?.parse::<f64>().ok());
    total.unwrap_or(0.0) / 1024.0 / 1024.0
}

pub fn host_name() -> String {
    kernel_text("/proc/sys/kernel/hostname").map_or_else(|_| "localhost".into(), |name| name.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, count) in
            [("0", Some(1)), ("0-3,8", Some(5)), ("0-127", Some(128)), ("", None), ("3-1", None), ("a", None)]
        {
            assert_eq!(count_of_list(list), count, "{list}");
        }
        assert!(processors_online() >= processors_allowed());
    }

    #[test]
    fn machines_of_many_ranks_are_listed_once() {
        let (own, other) = (Host::own(), Host { name: "other host".into(), ..Host::own() });
        let texts: Vec<Vec<u8>> = [&own, &other, &own].map(|host| host.to_text().into_bytes()).into();
        assert_eq!(Host::all(&texts), [own, other]);
    }
}
