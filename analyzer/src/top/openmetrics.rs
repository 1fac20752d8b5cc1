//! The snapshot as OpenMetrics text, for Prometheus and similar scrapers.
//!
//! Everything except gauges counts from the start of each process, so that scrapers compute rates themselves. When a
//! process ends, its series end as well.

use std::fmt::Write;

use super::snapshot::{ProcessRow, Snapshot, Sum};

/// A metric family: name, type, unit, meaning.
struct Family(&'static str, &'static str, &'static str, &'static str);

pub fn print(snapshot: &Snapshot) -> String {
    let mut out = Out(String::new());
    out.head(&Family("dlio_processes", "gauge", "", "Running traced processes."));
    out.sample("dlio_processes", &[], snapshot.processes.len() as f64);
    out.per_process(snapshot, &Family("dlio_events", "counter", "", "Calls, spans, instants and counters."), |row| {
        Some(row.events as f64)
    });
    out.per_process(snapshot, &Family("dlio_lost_events", "counter", "", "Lost events."), |row| Some(row.lost as f64));
    for (family, of) in BY_OPERATION {
        out.per_operation(snapshot, family, *of);
    }
    for (family, of) in BY_ACTIVITY {
        out.per_process(snapshot, family, *of);
    }
    out.0 += "# EOF\n";
    out.0
}

type OfSum = fn(&Sum) -> f64;
type OfProcess = fn(&ProcessRow) -> Option<f64>;

const BY_OPERATION: &[(Family, OfSum)] = &[
    (Family("dlio_calls", "counter", "", "Calls by operation."), |sum| sum.calls as f64),
    (Family("dlio_failed_calls", "counter", "", "Calls that failed, by operation."), |sum| sum.failed as f64),
    (Family("dlio_read_bytes", "counter", "bytes", "Bytes read, by operation."), |sum| sum.bytes_read as f64),
    (Family("dlio_written_bytes", "counter", "bytes", "Bytes written, by operation."), |sum| sum.bytes_written as f64),
    (Family("dlio_call_seconds", "counter", "seconds", "Time in calls, over all threads, by operation."), |sum| {
        sum.call_s
    }),
];

const BY_ACTIVITY: &[(Family, OfProcess)] = &[
    (Family("dlio_waiting_seconds", "counter", "seconds", "Time in spans that wait for the next batch."), |row| {
        row.waiting_total_s
    }),
    (
        Family("dlio_gpu_waiting_seconds", "counter", "seconds", "Time in which a GPU waited for the next batch."),
        |row| row.gpu_waiting_total_s,
    ),
    (Family("dlio_computing_seconds", "counter", "seconds", "Time in spans that compute."), |row| {
        row.computing_total_s
    }),
    (Family("dlio_checkpoint_seconds", "counter", "seconds", "Time in spans of checkpoints."), |row| {
        row.checkpoint_total_s
    }),
    (
        Family(
            "dlio_sampled",
            "gauge",
            "",
            "1 if numbers by operation and file are a sample of the events, otherwise \
            0.",
        ),
        |row| Some(f64::from(!row.total_exact)),
    ),
];

struct Out(String);

impl Out {
    fn head(&mut self, Family(name, kind, unit, meaning): &Family) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {meaning}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().filter(|(_, value)| !value.is_empty()).map(label).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn per_process(&mut self, snapshot: &Snapshot, family: &Family, of: impl Fn(&ProcessRow) -> Option<f64>) {
        let rows: Vec<(&ProcessRow, f64)> = snapshot.processes.iter().filter_map(|row| Some((row, of(row)?))).collect();
        if rows.is_empty() {
            return;
        }
        self.head(family);
        for (row, value) in rows {
            self.sample(&sample_name(family), &labels(row, ""), value);
        }
    }

    fn per_operation(&mut self, snapshot: &Snapshot, family: &Family, of: impl Fn(&Sum) -> f64) {
        self.head(family);
        let moves = family.2 == "bytes";
        for row in &snapshot.processes {
            for (operation, sum) in row.operations.iter().filter(|(_, sum)| !moves || of(sum) > 0.0) {
                self.sample(&sample_name(family), &labels(row, operation), of(sum));
            }
        }
    }
}

fn sample_name(family: &Family) -> String {
    if family.1 == "counter" { format!("{}_total", family.0) } else { family.0.into() }
}

/// Returns labels that identify a series. Empty labels are omitted, which is equivalent.
fn labels(row: &ProcessRow, operation: &str) -> [(&'static str, String); 6] {
    [
        ("host", row.host.clone()),
        ("pid", row.pid.to_string()),
        ("rank", row.rank.map_or(String::new(), |rank| rank.to_string())),
        ("process", row.name.clone()),
        ("role", row.role.unwrap_or_default().into()),
        ("operation", operation.into()),
    ]
}

pub(super) fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_kind_stay_one_label() {
        let row = ProcessRow { name: "a\"b\\c\nd".into(), pid: 7, events: 3, ..ProcessRow::default() };
        let text = print(&Snapshot { processes: vec![row], ..Snapshot::default() });
        assert!(text.contains("dlio_events_total{pid=\"7\",process=\"a\\\"b\\\\c\\nd\"} 3\n"), "{text}");
        assert!(text.starts_with("# TYPE dlio_processes gauge\n") && text.ends_with("\n# EOF\n"));
    }
}
