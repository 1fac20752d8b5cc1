//! Metrics of a run that can be compared and limited by name.

use dlio_schemas::words::nearest;
use serde::{Serialize, Serializer};

use super::run::{Function, PerStep, Run};
use super::statistics::Location;
use crate::summary::figures::units::{bytes, grouped, time};
use crate::summary::report::layout::hung;

/// The unit of a metric, for output and for limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Seconds,
    Bytes,
    /// Bytes per second.
    Rate,
    Share,
    Count,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Bytes => "bytes",
            Unit::Rate => "bytes/s",
            Unit::Share => "share",
            Unit::Count => "count",
        }
    }

    pub fn shown(self, value: f64) -> String {
        match self {
            Unit::Seconds => time(value * 1e9),
            Unit::Bytes => bytes(value),
            Unit::Rate => format!("{}/s", bytes(value)),
            Unit::Share => format!("{:.1} %", value * 100.0),
            // The median of two runs may be a fraction.
            Unit::Count if value.fract() != 0.0 => format!("{}.{:.0}", grouped(value as u64), value.fract() * 10.0),
            Unit::Count => grouped(value as u64),
        }
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A metric of a run; a run may lack its value.
pub struct Metric {
    pub name: &'static str,
    pub meaning: &'static str,
    pub unit: Unit,
    /// `true` if noise cannot change it, so any change is real. How often a program polls depends on timing.
    pub exact: bool,
    /// For a metric per step: the quantity, and whether it is a mean over all steps or over the faster half.
    pub step: Option<(PerStep, Location)>,
    pub of: fn(&Run) -> Option<f64>,
}

const fn timed(name: &'static str, meaning: &'static str, of: fn(&Run) -> Option<f64>) -> Metric {
    Metric { name, meaning, unit: Unit::Seconds, exact: false, step: None, of }
}

const fn share(name: &'static str, meaning: &'static str, of: fn(&Run) -> Option<f64>) -> Metric {
    Metric { name, meaning, unit: Unit::Share, exact: false, step: None, of }
}

const fn counted(name: &'static str, meaning: &'static str, unit: Unit, of: fn(&Run) -> Option<f64>) -> Metric {
    Metric { name, meaning, unit, exact: true, step: None, of }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// All metrics, in output order.
pub const METRICS: &[Metric] = &[
    timed("wall_s", "first event's start to last event's end", |run| Some(seconds(run.time.total_ns))),
    timed("startup_s", "time before training, of the trainer where it took longest", |run| {
        run.training.iter().filter_map(|trainer| trainer.startup_ns).map(seconds).reduce(f64::max)
    }),
    timed("trained_s", "from first to last step, summed over trainers", |run| {
        run.trainers(|trainer| Some(trainer.trained_ns)).map(seconds)
    }),
    timed("wait.s", "trainers' waits for batches, summed over trainers", |run| {
        run.trainers(|trainer| trainer.waited_ns).map(seconds)
    }),
    share("wait.share", "wait.s as a share of trained_s", |run| run.training_share(|trainer| trainer.waited_ns)),
    share("gpu.busy_share", "time with kernels or copies on a GPU, as a share of trained_s", |run| {
        run.gpu_share(|device| device.by_kernels.then_some(device.busy_ns))
    }),
    share("gpu.idle_share", "time without work on any GPU of a trainer, as a share of trained_s", |run| {
        run.gpu_share(|device| Some(device.idle_ns))
    }),
    share(
        "gpu.stall_share",
        "the part of gpu.idle_share in which the trainer waited for data (the exposed stall)",
        |run| run.gpu_share(|device| Some(device.idle_data_ns)),
    ),
    Metric {
        step: Some((PerStep::Length, Location::Mean)),
        ..timed("step.mean_s", "mean step", |run| Some(run.step(PerStep::Length, Location::Mean)? / 1e9))
    },
    Metric {
        step: Some((PerStep::Length, Location::Faster)),
        ..timed("step.typical_s", "mean of the faster half of steps: their undisturbed duration", |run| {
            Some(run.step(PerStep::Length, Location::Faster)? / 1e9)
        })
    },
    Metric {
        step: Some((PerStep::Wait, Location::Mean)),
        ..timed("step.wait_s", "mean wait for the batch of a step", |run| {
            Some(run.step(PerStep::Wait, Location::Mean)? / 1e9)
        })
    },
    timed("step.p50_s", "median step, of the trainer where it is longest", |run| {
        run.steps.iter().map(|steps| steps.median_ns / 1e9).reduce(f64::max)
    }),
    timed("compute.s", "time in which something computed", |run| run.time.compute_ns.map(seconds)),
    timed("io.s", "time in which I/O on files was active", |run| run.time.io_ns.map(seconds)),
    timed("io.exposed_s", "io.s while nothing computed", |run| run.time.unoverlapped_io_ns.map(seconds)),
    timed("checkpoint.s", "trainers' time in checkpoint spans, summed over trainers", |run| {
        run.trainers(|trainer| trainer.checkpoint_ns).map(seconds)
    }),
    timed("checkpoint.p50_s", "median checkpoint span", |run| {
        let spans = run.spans.iter().filter(|span| span.cat.to_ascii_lowercase().starts_with("checkpoint"));
        spans.max_by_key(|span| span.time_ns).map(|span| span.duration_ns.median / 1e9)
    }),
    counted("read.bytes", "read from files", Unit::Bytes, |run| Some(run.dataset.bytes_read as f64)),
    counted("written.bytes", "written to files", Unit::Bytes, |run| Some(run.dataset.bytes_written as f64)),
    counted("steps", "of all trainers", Unit::Count, |run| {
        let steps: u64 = run.steps.iter().map(|trainer| trainer.sum.steps).sum();
        (steps > 0).then_some(steps as f64)
    }),
    counted("files", "files used", Unit::Count, |run| Some(run.dataset.files as f64)),
    Metric {
        exact: false,
        ..counted("calls", "recorded calls, including waits and calls on pipes", Unit::Count, |run| {
            Some(run.calls().map(|function| function.count).sum::<u64>() as f64)
        })
    },
    counted("calls.files", "of them, file calls", Unit::Count, |run| {
        Some(run.on_files()?.map(|function| function.count).sum::<u64>() as f64)
    }),
    counted("failed", "of these, failed calls", Unit::Count, |run| {
        Some(run.on_files()?.map(|function| function.failed).sum::<u64>() as f64)
    }),
    counted("processes", "programs that ran", Unit::Count, |run| Some(run.allocation.processes as f64)),
    counted("lost", "lost events", Unit::Count, |run| Some(run.allocation.lost as f64)),
];

/// A metric of one function (`function.NAME.FIELD`) or span (`span.NAME.FIELD`).
struct Field {
    name: &'static str,
    unit: Unit,
    exact: bool,
    of: fn(&Function) -> f64,
}

const fn field(name: &'static str, unit: Unit, exact: bool, of: fn(&Function) -> f64) -> Field {
    Field { name, unit, exact, of }
}

const FIELDS: &[Field] = &[
    field("count", Unit::Count, true, |function| function.count as f64),
    field("failed", Unit::Count, true, |function| function.failed as f64),
    field("bytes", Unit::Bytes, true, |function| function.bytes.unwrap_or(0) as f64),
    field("s", Unit::Seconds, false, |function| function.time_ns as f64 / 1e9),
    field("mean_s", Unit::Seconds, false, |function| function.duration_ns.mean / 1e9),
    field("p50_s", Unit::Seconds, false, |function| function.duration_ns.median / 1e9),
    field("p99_s", Unit::Seconds, false, |function| function.duration_ns.p99 / 1e9),
    field("max_s", Unit::Seconds, false, |function| function.duration_ns.max / 1e9),
];

/// A metric selected by name.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// An index into [`METRICS`].
    Known(usize),
    /// A metric of one function or span; `field` is an index into [`FIELDS`].
    Single { span: bool, name: String, field: usize },
}

impl Named {
    /// Parses the name of a metric, or returns an error message.
    pub fn parse(typed: &str) -> Result<Named, String> {
        if let Some(known) = METRICS.iter().position(|metric| metric.name == typed) {
            return Ok(Named::Known(known));
        }
        let (what, rest) = typed.split_once('.').unwrap_or((typed, ""));
        if let (true, Some((name, field))) = (["function", "span"].contains(&what), rest.rsplit_once('.')) {
            let place = FIELDS.iter().position(|known| known.name == field);
            let fields = || FIELDS.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
            let field = place.ok_or_else(|| format!("{what} has no {field:?}, but {}", fields()))?;
            return Ok(Named::Single { span: what == "span", name: name.into(), field });
        }
        let meant = nearest(typed, METRICS.iter().map(|metric| metric.name));
        let meant = meant.map_or(".".into(), |meant| format!("; did you mean {meant}?"));
        Err(format!("unknown metric {typed:?}{meant} --explain lists all metrics"))
    }

    pub fn name(&self) -> String {
        match self {
            Named::Known(known) => METRICS[*known].name.into(),
            Named::Single { span, name, field } => {
                format!("{}.{name}.{}", if *span { "span" } else { "function" }, FIELDS[*field].name)
            }
        }
    }

    pub fn unit(&self) -> Unit {
        match self {
            Named::Known(known) => METRICS[*known].unit,
            Named::Single { field, .. } => FIELDS[*field].unit,
        }
    }

    /// Returns `true` if noise cannot change the metric in any of these runs.
    pub fn is_exact<'a>(&self, mut runs: impl Iterator<Item = &'a Run>) -> bool {
        match self {
            Named::Known(known) => METRICS[*known].exact,
            Named::Single { span, name, field } => {
                let is_on_files = |run: &Run| run.on_files().is_some_and(|mut rows| rows.any(|row| row.name == *name));
                FIELDS[*field].exact && (*span || runs.all(is_on_files))
            }
        }
    }

    /// Returns the quantity per step that the metric measures, if it measures one.
    pub fn per_step(&self) -> Option<(PerStep, Location)> {
        match self {
            Named::Known(known) => METRICS[*known].step,
            Named::Single { .. } => None,
        }
    }

    pub fn of(&self, run: &Run) -> Option<f64> {
        match self {
            Named::Known(known) => (METRICS[*known].of)(run),
            Named::Single { span, name, field } => {
                let mut rows: Box<dyn Iterator<Item = &Function>> =
                    if *span { Box::new(run.spans.iter()) } else { Box::new(run.calls()) };
                rows.find(|row| row.name == *name).map(|row| (FIELDS[*field].of)(row))
            }
        }
    }
}

/// Lists the metrics for `--explain`.
pub fn listing(width: usize) -> String {
    let longest = METRICS.iter().map(|metric| metric.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for metric in METRICS {
        hung(&format!("  {:<longest$}  ", metric.name), metric.meaning, (longest + 4, width), &mut out);
    }
    let fields: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
    let others = format!("function.NAME.FIELD and span.NAME.FIELD, where FIELD is one of {}", fields.join(", "));
    hung("  ", &others, (4, width), &mut out);
    out
}
