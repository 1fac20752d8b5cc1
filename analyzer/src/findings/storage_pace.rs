//! The rate at which the job itself used a device while training waited for storage.
//!
//! A mean over the run hides a limit that only some reads reach, such as those before the files are in the page cache. The
//! counters of a device include other programs, and the bytes of calls include the page cache. The kernel counts the bytes that
//! storage moved for each process, but only once, at its end. These bytes are therefore spread over the time with file calls.

use super::devices::DataMount;
use crate::summary::report::host_course::DeviceCourse;
use crate::summary::report::timeline::Timeline;

/// Reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Read,
    Write,
}

/// Columns of the timeline count if training waits, or file calls are in progress, for this share of them.
const HALF: i64 = 2;

/// Returns the bytes per second that storage moved for the job while training waited and file calls were in progress: the least
/// of several upper bounds. `None` if neither the job's own bytes nor those of the device are known. `by_calls` is `false` if
/// training waited for page faults, which no call shows.
pub fn pace(line: &Timeline, data: &DataMount, direction: Direction, by_calls: bool) -> Option<f64> {
    let device = data.device()?;
    let (own, of_device) = match direction {
        Direction::Read => (data.machine.storage_read, device.read_bytes),
        Direction::Write => (data.machine.storage_written, device.write_bytes),
    };
    let waits = waiting(line);
    if waits.is_empty() {
        let rate = |bytes: u64| bytes as f64 * 1e9 / data.sampled.ns.max(1) as f64;
        return least(own.map(rate), of_device.map(rate));
    }
    let is_busy = |at: &&usize| line.busy_ns.get(**at).is_some_and(|ns| *ns as i64 * HALF >= line.column_ns);
    let busy: Vec<usize> = waits.iter().filter(|at| !by_calls || is_busy(at)).copied().collect();
    let seconds = busy.len() as f64 * line.column_ns as f64 / 1e9;
    let all: u64 = line.busy_ns.iter().sum();
    let part = match by_calls {
        true => sum(&line.busy_ns, &busy) as f64 / all.max(1) as f64,
        false => 1.0,
    };
    // The device moved these bytes in the time with file calls.
    let sampled = course(line, data).and_then(|course| match direction {
        Direction::Read => course.read_bytes.as_ref(),
        Direction::Write => course.write_bytes.as_ref(),
    });
    let of_device =
        sampled.and_then(|bytes| waits.iter().map(|at| bytes.get(*at).copied().flatten()).sum::<Option<u64>>());
    let moved = least(own.map(|bytes| bytes as f64 * part), of_device.map(|bytes| bytes as f64));
    moved.filter(|_| seconds > 0.0).map(|bytes| bytes / seconds)
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::min)
}

/// Returns the columns in which training waited.
fn waiting(line: &Timeline) -> Vec<usize> {
    let waited = line.waited_ns.as_deref().unwrap_or_default();
    (0..waited.len()).filter(|at| waited[*at] as i64 * HALF >= line.column_ns && line.column_ns > 0).collect()
}

fn sum(column: &[u64], at: &[usize]) -> u64 {
    at.iter().filter_map(|at| column.get(*at)).sum()
}

fn course<'a>(line: &'a Timeline, data: &DataMount) -> Option<&'a DeviceCourse> {
    let host = line.hosts.iter().find(|host| host.host == data.machine.host)?;
    host.devices.iter().find(|device| Some(&device.device) == data.mount.device.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::report::host_course::HostCourse;
    use crate::summary::report::machine::MachineUse;
    use crate::summary::report::sampled::{DeviceUse, MountUse, Sampled};

    const SECOND: u64 = 1_000_000_000;

    /// Ten seconds: training waits in the first two, for reads that take all the time; later reads take half of the time.
    fn slow_start(read_by_device: u64) -> Timeline {
        let mut busy = vec![SECOND; 2];
        busy.extend([SECOND / 4; 8]);
        let mut waited = vec![SECOND; 2];
        waited.extend([0; 8]);
        let course = DeviceCourse {
            device: "vda".into(),
            read_bytes: Some(vec![Some(read_by_device); 10]),
            ..DeviceCourse::default()
        };
        let host = HostCourse { devices: vec![course], ..HostCourse::default() };
        Timeline {
            column_ns: SECOND as i64,
            busy_ns: busy,
            waited_ns: Some(waited),
            hosts: vec![host],
            ..Timeline::default()
        }
    }

    fn read_at(line: &Timeline, own: Option<u64>, by_calls: bool) -> Option<f64> {
        let machine = MachineUse { storage_read: own, ..MachineUse::default() };
        let device = DeviceUse { device: "vda".into(), read_bytes: Some(1000), ..DeviceUse::default() };
        let sampled = Sampled { ns: 10 * SECOND, devices: vec![device], ..Sampled::default() };
        let mount = MountUse { device: Some("vda".into()), ..MountUse::default() };
        let data = DataMount { machine: &machine, sampled: &sampled, mount: &mount };
        pace(line, &data, Direction::Read, by_calls)
    }

    #[test]
    fn only_the_time_of_the_waits_counts() {
        // Half of the time with file calls is in the waits.
        assert_eq!(read_at(&slow_start(1000), Some(80), true), Some(20.0));
        assert_eq!(read_at(&slow_start(15), Some(80), true), Some(15.0), "the device did not move more");
        assert_eq!(read_at(&slow_start(30), None, true), Some(30.0));
        assert_eq!(read_at(&slow_start(1000), Some(80), false), Some(40.0), "no call shows when faults moved them");
    }

    #[test]
    fn without_waits_the_whole_run_counts() {
        let idle = Timeline::default();
        assert_eq!(read_at(&idle, None, true), Some(100.0));
        assert_eq!(read_at(&idle, Some(500), true), Some(50.0), "other programs read the rest");
    }
}
