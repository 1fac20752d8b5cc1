//! Serves the activity to Prometheus: gauges by program, measured between two scrapes.
//!
//! The series are bounded: processes of one program are added up, and a job with more programs than [`PROGRAMS_MAX`] is
//! refused, because each label value is a series that a server keeps for weeks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::openmetrics::escaped;
use super::snapshot::{ProcessRow, Snapshot};
use super::watch::Watch;
use crate::viewer::request::{Method, PATIENCE, read_request};

/// The largest number of programs.
const PROGRAMS_MAX: usize = 64;

/// Scrapes that follow sooner get the previous numbers.
const SOONEST: Duration = Duration::from_secs(1);

/// Parses a port, or an address and a port. Without an address, only programs on this host can connect.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = "expected a port, or an address and a port: 9411, 0.0.0.0:9411, [::]:9411";
    match text.parse::<u16>() {
        Ok(0) => Err("port 0 has no fixed number to scrape; pass a port from 1 to 65535".into()),
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().map_err(|_| wrong.into()),
    }
}

/// Answers requests until the program is stopped.
pub fn serve(address: SocketAddr, mut watch: Watch) -> io::Result<()> {
    let failed = |error| {
        io::Error::other(format!(
            "cannot listen on {address}: {error}; stop the program that uses it, or pass another port"
        ))
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    notice!("dlio-top: http://{address}/metrics for {}; Ctrl-C stops it", watch.dir().display());
    let mut latest = Latest { text: look(&mut watch), taken: Instant::now() };
    for stream in listener.incoming().flatten() {
        // A client that disconnects, or sends nothing, does not affect other clients.
        let _ = answer(stream, &mut watch, &mut latest);
    }
    Ok(())
}

/// The numbers of the last scrape, or why there are none.
struct Latest {
    text: Result<String, String>,
    taken: Instant,
}

fn answer(mut stream: TcpStream, watch: &mut Watch, latest: &mut Latest) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body) = match read_request(&mut stream)? {
        Some(request) if request.path == "/metrics" && request.method == Method::Get => {
            if latest.taken.elapsed() >= SOONEST {
                *latest = Latest { text: look(watch), taken: Instant::now() };
            }
            match &latest.text {
                Ok(text) => ("200 OK", text.clone()),
                Err(why) => ("503 Service Unavailable", format!("{why}\n")),
            }
        }
        Some(_) => ("404 Not Found", "the metrics are at /metrics\n".into()),
        None => ("400 Bad Request", String::new()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn look(watch: &mut Watch) -> Result<String, String> {
    match watch.look() {
        Ok(snapshot) => print(&snapshot),
        // No program has traced into it yet.
        Err(error) if error.kind() == ErrorKind::NotFound => print(&Snapshot::default()),
        Err(error) => Err(format!("cannot read {}: {error}", watch.dir().display())),
    }
}

/// The processes of one program, and the length of the interval in seconds.
struct Program<'a> {
    processes: Vec<&'a ProcessRow>,
    seconds: f64,
}

impl Program<'_> {
    fn sum(&self, of: impl Fn(&ProcessRow) -> f64) -> f64 {
        self.processes.iter().map(|row| of(row)).sum()
    }

    /// Returns a number per second; `None` before the second snapshot.
    fn rate(&self, of: impl Fn(&ProcessRow) -> u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum(|row| of(row) as f64) / self.seconds)
    }

    /// Returns the mean share of the interval, over the processes for which it is known; `None` without any.
    fn share(&self, of: impl Fn(&ProcessRow) -> Option<f64>) -> Option<f64> {
        let known: Vec<f64> = self.processes.iter().filter_map(|row| of(row)).collect();
        let is_known = self.seconds > 0.0 && !known.is_empty();
        is_known.then(|| (known.iter().sum::<f64>() / known.len() as f64 / self.seconds).min(1.0))
    }
}

/// Name, meaning, and value for one program; `None` if it is unknown.
type Gauge = (&'static str, &'static str, fn(&Program) -> Option<f64>);

const GAUGES: [Gauge; 12] = [
    ("dlio_program_processes", "Running traced processes.", |program| Some(program.processes.len() as f64)),
    ("dlio_program_threads", "Threads that have recorded events.", |program| {
        Some(program.sum(|row| row.threads as f64))
    }),
    (
        "dlio_data_wait_ratio",
        "Share of the time in spans that wait for the next batch, mean of the trainers.",
        |program| program.share(|row| row.waiting_s),
    ),
    (
        "dlio_gpu_data_wait_ratio",
        "Share of the time in which a GPU waited for the next batch, mean of the trainers.",
        |program| program.share(|row| row.gpu_waiting_s),
    ),
    ("dlio_compute_ratio", "Share of the time in compute spans, mean of the trainers.", |program| {
        program.share(|row| row.computing_s)
    }),
    ("dlio_checkpoint_ratio", "Share of the time in checkpoint spans, mean of the trainers.", |program| {
        program.share(|row| row.checkpoint_s)
    }),
    ("dlio_read_bytes_per_second", "Bytes read from files.", |program| program.rate(|row| row.sum.bytes_read)),
    ("dlio_written_bytes_per_second", "Bytes written to files.", |program| program.rate(|row| row.sum.bytes_written)),
    ("dlio_file_calls_per_second", "File calls.", |program| program.rate(|row| row.sum.calls)),
    ("dlio_failed_file_calls_per_second", "File calls that failed.", |program| program.rate(|row| row.sum.failed)),
    ("dlio_threads_in_file_calls", "Mean number of threads that are in a call on a file.", |program| {
        (program.seconds > 0.0).then(|| program.sum(|row| row.sum.call_s) / program.seconds)
    }),
    ("dlio_lost_events", "Events of running processes that could not be recorded.", |program| {
        Some(program.sum(|row| row.lost as f64))
    }),
];

/// Prints the gauges in the text format 0.0.4; returns why they are refused.
fn print(snapshot: &Snapshot) -> Result<String, String> {
    let mut programs: BTreeMap<&str, Program> = BTreeMap::new();
    for row in &snapshot.processes {
        let fresh = || Program { processes: Vec::new(), seconds: snapshot.interval_s };
        programs.entry(&row.name).or_insert_with(fresh).processes.push(row);
    }
    if programs.len() > PROGRAMS_MAX {
        return Err(format!(
            "{} programs trace into {}, and each would be a series of every metric: at most {PROGRAMS_MAX} are \
             exported; trace each job into a directory of its own",
            programs.len(),
            snapshot.folder
        ));
    }
    let mut out = String::new();
    let head = |out: &mut String, name: &str, meaning: &str| {
        let _ = writeln!(out, "# HELP {name} {meaning}\n# TYPE {name} gauge");
    };
    head(&mut out, "dlio_processes", "Running traced processes.");
    let _ = writeln!(out, "dlio_processes {}", snapshot.processes.len());
    for (name, meaning, value) in GAUGES {
        let known: Vec<_> = programs.iter().filter_map(|(program, of)| Some((program, value(of)?))).collect();
        if !known.is_empty() {
            head(&mut out, name, meaning);
        }
        for (program, value) in known {
            let _ = writeln!(out, "{name}{{program=\"{}\"}} {value}", escaped(program));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::Sum;
    use super::*;

    fn row(name: &str, waiting_s: Option<f64>, bytes_read: u64) -> ProcessRow {
        ProcessRow { name: name.into(), waiting_s, sum: Sum { bytes_read, ..Sum::default() }, ..ProcessRow::default() }
    }

    #[test]
    fn processes_of_a_program_are_one_series() {
        let processes = vec![row("train.py", Some(1.0), 0), row("train.py", Some(0.0), 0), row("worker 0", None, 500)];
        let snapshot = Snapshot { processes, interval_s: 2.0, ..Snapshot::default() };
        let text = print(&snapshot).unwrap();
        for line in [
            "dlio_processes 3",
            "dlio_program_processes{program=\"train.py\"} 2",
            "dlio_data_wait_ratio{program=\"train.py\"} 0.25",
            "dlio_read_bytes_per_second{program=\"worker 0\"} 250",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("dlio_data_wait_ratio{program=\"worker 0\"}"), "unknown, and not zero");
        let first = print(&Snapshot { interval_s: 0.0, ..snapshot }).unwrap();
        assert!(!first.contains("per_second") && first.contains("dlio_lost_events"), "{first}");
    }

    #[test]
    fn too_many_programs_are_refused() {
        let processes = |number: usize| (0..number).map(|at| row(&format!("job {at}"), None, 0)).collect();
        let of = |number| print(&Snapshot { processes: processes(number), ..Snapshot::default() });
        assert!(of(PROGRAMS_MAX).is_ok());
        assert!(of(PROGRAMS_MAX + 1).unwrap_err().contains("65 programs"));
    }

    #[test]
    fn addresses_are_on_this_host_unless_one_is_given() {
        let parsed = |text| parse_address(text).map(|address| address.to_string());
        assert_eq!(parsed("9411"), Ok("127.0.0.1:9411".into()));
        assert_eq!(parsed("0.0.0.0:9411"), Ok("0.0.0.0:9411".into()));
        assert!(["0", "70000", "host:1", ":9411", ""].iter().all(|text| parse_address(text).is_err()));
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_exist() {
        let dashboard: serde_json::Value =
            serde_json::from_str(include_str!("../../../examples/grafana.json")).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let known = |word: &str| word == "dlio_processes" || GAUGES.iter().any(|(name, ..)| *name == word);
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        for query in targets.map(|target| target["expr"].as_str().unwrap()) {
            let mut words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let word = words.find(|word| word.starts_with("dlio_")).unwrap();
            assert!(known(word), "{query}");
        }
        assert!(panels.len() >= 6);
    }
}
