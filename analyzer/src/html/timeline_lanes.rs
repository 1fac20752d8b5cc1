//! Activity over time, as lanes on one time axis, for one run or two.

use serde_json::Value;

use super::figures::Kind;
use super::plot::lanes::Lane;
use super::values::{exact, list, number, numbers, text};

/// Returns all lanes of a report's timeline that are not empty.
pub fn lanes(report: &Value) -> Vec<Lane> {
    let mut lanes = gpu_lanes(report);
    lanes.extend(host_side_lanes(report));
    lanes
}

/// Returns a lane per GPU, and one of its communication if there is any.
pub fn gpu_lanes(report: &Value) -> Vec<Lane> {
    let Some(column) = number(report, "timeline.column_ns").filter(|column| *column > 0.0) else { return Vec::new() };
    let (gpus, trainers) = (list(report, "timeline.gpus"), list(report, "training").len());
    let mut lanes = Vec::new();
    for gpu in gpus {
        let number = exact(gpu, "device").map_or("GPU".into(), |device| format!("GPU {device}"));
        let name = match (exact(gpu, "rank"), text(gpu, "trainer")) {
            (Some(rank), _) => format!("rank {rank}, {number}"),
            (None, Some(trainer)) if trainers > 1 => {
                format!("{trainer} ({}), {number}", exact(gpu, "pid").unwrap_or(0))
            }
            _ => number,
        };
        let shares = |field: &str| -> Vec<f64> {
            numbers(gpu, field).unwrap_or_default().into_iter().map(|ns| (ns / column).min(1.0)).collect()
        };
        let lane = |what: &str, class: &'static str, values: Vec<f64>| Lane {
            name: format!("{name} {what}"),
            class,
            kind: Kind::Share,
            values,
            full: Some(1.0),
        };
        // The lane of a GPU that was never busy says so.
        lanes.push(lane("busy", "compute", shares("busy_ns")));
        let communication = shares("collective_ns");
        if communication.iter().any(|share| *share > 0.0) {
            lanes.push(lane("communication", "checkpoint", communication));
        }
    }
    lanes
}

/// Returns the lanes of processes and hosts: shares of time, rates and means, whose columns can be merged, and quantiles of
/// times, whose columns cannot.
pub fn host_side_lanes(report: &Value) -> Vec<Lane> {
    let Some(column) = number(report, "timeline.column_ns").filter(|column| *column > 0.0) else { return Vec::new() };
    let trainers = list(report, "training").len().max(1) as f64;
    let mut lanes = Vec::new();
    let mut add = |name: &str, class: &'static str, field: &str, kind: Kind, divisor: f64, full: Option<f64>| {
        let Some(values) = numbers(report, &format!("timeline.{field}")) else { return };
        let cut = |value: f64| full.map_or(value, |full| value.min(full));
        let values: Vec<f64> = values.into_iter().map(|value| cut(value / divisor)).collect();
        if values.iter().any(|value| *value > 0.0) {
            lanes.push(Lane { name: name.into(), class, kind, values, full });
        }
    };
    let second = column / 1e9;
    add("computing", "compute", "compute_ns", Kind::Share, column, Some(1.0));
    add("waiting for data", "wait", "waited_ns", Kind::Share, column * trainers, Some(1.0));
    add("checkpoints", "checkpoint", "checkpoint_ns", Kind::Share, column * trainers, Some(1.0));
    add("read", "read", "bytes_read", Kind::Rate, second, None);
    add("written", "written", "bytes_written", Kind::Rate, second, None);
    add("calls in flight", "busy", "io_ns", Kind::Plain, column, None);
    add("per call, median", "read", "latency_p50_ns", Kind::Time, 1.0, None);
    add("per call, 99 %", "written", "latency_p99_ns", Kind::Time, 1.0, None);
    add("calls per second", "calls", "calls", Kind::Plain, second, None);
    let hosts = list(report, "timeline.hosts");
    hosts.iter().for_each(|host| lanes.extend(host_lanes(host, hosts.len() > 1, column)));
    lanes
}

/// Returns the lanes of a host's counters, which include other programs, that are not empty.
fn host_lanes(host: &Value, is_named: bool, column: f64) -> Vec<Lane> {
    let mut lanes = Vec::new();
    let name = text(host, "host").filter(|_| is_named).map_or_else(String::new, |name| format!("{name}: "));
    let mut add = |counter: &str, class: &'static str, of: &Value, field: &str, kind: Kind, divisor: f64| {
        // Nothing is drawn where the counter is unknown.
        let values: Vec<f64> = list(of, field).iter().map(|value| value.as_f64().unwrap_or(0.0) / divisor).collect();
        let full = (kind == Kind::Share).then_some(1.0);
        let values: Vec<f64> = values.into_iter().map(|value| value.min(full.unwrap_or(f64::MAX))).collect();
        if values.iter().any(|value| *value > 0.0) {
            lanes.push(Lane { name: format!("{name}{counter}"), class, kind, values, full });
        }
    };
    let second = column / 1e9;
    if let Some(cores) = number(host, "cores").filter(|cores| *cores > 0.0) {
        add("CPUs busy", "busy", host, "cpu_busy_ns", Kind::Share, column * cores);
    }
    add("CPUs throttled", "wait", host, "throttled_ns", Kind::Plain, column);
    add("refaults per second", "calls", host, "refaults", Kind::Plain, second);
    for device in list(host, "devices") {
        let device_name = text(device, "device").unwrap_or("device");
        add(&format!("{device_name} busy"), "busy", device, "busy_ns", Kind::Share, column);
        add(&format!("{device_name} read"), "read", device, "read_bytes", Kind::Rate, second);
        add(&format!("{device_name} written"), "written", device, "write_bytes", Kind::Rate, second);
    }
    lanes
}

/// The columns of one run: start of the first column and column width, in any unit.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub begin: f64,
    pub width: f64,
}

/// Resamples values into `count` columns of another width that start at zero. A column is the mean of the values it
/// covers, or nothing after the end of the run.
pub fn gathered(values: &[f64], own: Columns, width: f64, count: usize) -> Vec<f64> {
    let mut wide = vec![0.0; count];
    for (at, value) in values.iter().enumerate() {
        let (from, to) = (own.begin + at as f64 * own.width, own.begin + (at + 1) as f64 * own.width);
        let last = (to / width).ceil().max(0.0) as usize;
        for (column, sum) in wide.iter_mut().enumerate().take(last).skip((from / width).max(0.0) as usize) {
            let within = to.min((column + 1) as f64 * width) - from.max(column as f64 * width);
            *sum += value * within.max(0.0) / width;
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn host_counters_share_the_axis_of_calls() {
        let host = |name: &str| {
            json!({
                "host": name, "cores": 2, "cpu_busy_ns": [null, 1e9, 4e9], "throttled_ns": null, "refaults": [0, 0, 0],
                "devices": [{"device": "vda", "read_bytes": [0, 5e6, 0], "write_bytes": [0, 0, 0], "busy_ns": [0, 5e8, 0]}],
            })
        };
        let of =
            |hosts: Vec<Value>| lanes(&json!({"timeline": {"column_ns": 1e9, "calls": [1, 2, 3], "hosts": hosts}}));
        let lanes = of(vec![host("a")]);
        let named: Vec<(&str, &[f64])> = lanes.iter().map(|lane| (lane.name.as_str(), &lane.values[..])).collect();
        // Lanes of zeros are left out, and a share is at most one.
        let expected: [(&str, &[f64]); 4] = [
            ("calls per second", &[1.0, 2.0, 3.0]),
            ("CPUs busy", &[0.0, 0.5, 1.0]),
            ("vda busy", &[0.0, 0.5, 0.0]),
            ("vda read", &[0.0, 5e6, 0.0]),
        ];
        assert_eq!(named, expected);
        assert_eq!(of(vec![host("a"), host("b")]).last().unwrap().name, "b: vda read");
    }

    #[test]
    fn gpus_are_above_everything_else() {
        let gpu = |rank: Value, device: i32, busy: [f64; 3]| json!({"rank": rank, "trainer": "t.py", "pid": 7, "device": device, "busy_ns": busy, "collective_ns": [0, 0, 5e8]});
        let report = json!({
            "training": [{}],
            "timeline": {"column_ns": 1e9, "calls": [1, 2, 3], "gpus": [
                gpu(Value::Null, 0, [5e8, 1e9, 0.0]), gpu(json!(3), 1, [0.0; 3]),
            ]},
        });
        let lanes = lanes(&report);
        let named: Vec<(&str, &[f64])> = lanes.iter().map(|lane| (lane.name.as_str(), &lane.values[..])).collect();
        let expected: [(&str, &[f64]); 5] = [
            ("GPU 0 busy", &[0.5, 1.0, 0.0]),
            ("GPU 0 communication", &[0.0, 0.0, 0.5]),
            ("rank 3, GPU 1 busy", &[0.0, 0.0, 0.0]),
            ("rank 3, GPU 1 communication", &[0.0, 0.0, 0.5]),
            ("calls per second", &[1.0, 2.0, 3.0]),
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn columns_are_gathered_by_how_much_of_them_lies_in_which() {
        let own = Columns { begin: -1.0, width: 2.0 };
        // The new columns cover -1 to 1, 1 to 3, and 3 to 5.
        assert_eq!(gathered(&[4.0, 8.0, 2.0], own, 4.0, 3), [(4.0 + 16.0 + 2.0) / 4.0, 2.0 / 4.0, 0.0]);
        assert_eq!(gathered(&[], own, 4.0, 2), [0.0, 0.0]);
        let same = Columns { begin: 0.0, width: 4.0 };
        assert_eq!(gathered(&[3.0, 5.0], same, 4.0, 2), [3.0, 5.0]);
    }
}
