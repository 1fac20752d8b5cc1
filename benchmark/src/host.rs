//! What the machine is: processors and memory, as the output files tell them.

use serde_json::{Map, Value};
use std::fs;

pub fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// /proc/meminfo as it stands: "MemTotal": "24684412 kB", ...
pub fn memory() -> Map<String, Value> {
    fields("/proc/meminfo")
}

/// The first processor of /proc/cpuinfo.
pub fn processor() -> Map<String, Value> {
    fields("/proc/cpuinfo")
}

fn fields(path: &str) -> Map<String, Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().take_while(|line| !line.trim().is_empty());
    lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim().into(), value.trim().into())).collect()
}

pub fn memory_gibibytes() -> f64 {
    let total = memory().get("MemTotal").and_then(|text| text.as_str()?.split(' ').next()?.parse::<f64>().ok());
    total.unwrap_or(0.0) / 1024.0 / 1024.0
}
