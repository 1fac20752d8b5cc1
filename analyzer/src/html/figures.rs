//! Determines the kind of a number from its field name, and formats it.

use serde_json::Value;

use crate::summary::figures::quantiles::percentile;
use crate::summary::figures::units::{bytes, grouped, moment, signed, time};

/// The kind of value in a field. The script of the page has the same list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Count,
    /// A number that serves as a name, without a thousands separator.
    Number,
    Time,
    /// The change of a time.
    Change,
    Moment,
    Bytes,
    /// Bytes per second.
    Rate,
    Share,
    /// Any other number.
    Plain,
    Truth,
}

/// Fields whose numbers are names.
const NUMBERS: [&str; 10] = ["pid", "ppid", "tid", "rank", "proc", "parent", "epoch", "step", "errno", "line"];

impl Kind {
    /// Returns the kind of a field's values, from its path and the values.
    pub fn of(path: &str, values: &[&Value]) -> Kind {
        let is = |test: fn(&Value) -> bool| values.iter().any(|value| test(value));
        if is(|value| value.is_string() || value.is_array() || value.is_object()) {
            return Kind::Text;
        }
        if is(Value::is_boolean) {
            return Kind::Truth;
        }
        let mut parts = path.split('.');
        let last = path.rsplit('.').next().unwrap_or(path);
        if last == "change_ns" {
            return Kind::Change;
        }
        if parts.clone().any(|part| part.ends_with("_ns")) {
            return Kind::Time;
        }
        let is_size = |part: &str| {
            part == "size" || part.starts_with("bytes") || part.ends_with("bytes") || part.ends_with("_size")
        };
        match last {
            _ if last.ends_with("_ts") => Kind::Moment,
            _ if last.ends_with("_per_s") => Kind::Rate,
            _ if last.ends_with("share") => Kind::Share,
            _ if NUMBERS.contains(&last) => Kind::Number,
            "elsewhere_read" | "elsewhere_written" | "memory" => Kind::Bytes,
            _ if parts.any(is_size) => Kind::Bytes,
            _ if is(Value::is_f64) => Kind::Plain,
            _ => Kind::Count,
        }
    }

    /// Returns the name that the script uses.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Count => "count",
            Kind::Number => "number",
            Kind::Time => "time",
            Kind::Change => "change",
            Kind::Moment => "moment",
            Kind::Bytes => "bytes",
            Kind::Rate => "rate",
            Kind::Share => "share",
            Kind::Plain => "plain",
            Kind::Truth => "truth",
        }
    }

    /// Formats a number.
    pub fn number(self, value: f64) -> String {
        match self {
            Kind::Time => time(value),
            Kind::Change => signed(value as i64),
            Kind::Bytes => bytes(value),
            Kind::Rate => format!("{}/s", bytes(value)),
            Kind::Share => percent(value),
            Kind::Moment => moment(value as i64),
            Kind::Count if value >= 0.0 && value.fract() == 0.0 => grouped(value as u64),
            Kind::Plain if value >= 100.0 => grouped(value.round_ties_even() as u64),
            Kind::Plain => trimmed(format!("{value:.2}")),
            _ => value.to_string(),
        }
    }

    /// Formats a value; an unknown value is a dash.
    pub fn show(self, value: &Value) -> String {
        match value {
            Value::Null => "–".into(),
            Value::Bool(true) => "yes".into(),
            Value::Bool(false) => "no".into(),
            Value::String(text) => text.clone(),
            Value::Number(number) if self == Kind::Moment => moment(number.as_i64().unwrap_or(0)),
            Value::Number(number) if self == Kind::Number || self == Kind::Text => number.to_string(),
            Value::Number(number) => self.number(number.as_f64().unwrap_or(0.0)),
            Value::Array(values) => list(values),
            Value::Object(fields) => {
                let fields =
                    fields.iter().map(|(name, value)| format!("{name} {}", Kind::of(name, &[value]).show(value)));
                fields.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// The number of list elements that one cell shows.
const LISTED: usize = 6;

fn list(values: &[Value]) -> String {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    if !values.iter().all(is_plain) || values.len() > 4 * LISTED {
        return grouped(values.len() as u64);
    }
    let shown: Vec<_> = values.iter().take(LISTED).map(|value| Kind::of("", &[value]).show(value)).collect();
    let more = if values.len() > LISTED { format!(" and {} more", values.len() - LISTED) } else { String::new() };
    shown.join(", ") + &more
}

/// Formats a share of 1 as a percentage.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        percent if percent > 0.0 && percent < 0.1 => "<0.1 %".into(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

fn trimmed(number: String) -> String {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.').into() } else { number }
}

/// Labels for fields whose names are abbreviated or unclear.
const WORDS: [(&str, &str); 53] = [
    ("late", "events out of order"),
    ("late_ns", "I/O time that may be missing because of that"),
    ("at_least", "more files than counted"),
    ("opens_unused", "opens without reading or writing"),
    ("asked_ns", "time in metadata calls"),
    ("within", "steps of tracer overhead"),
    ("sum", "all steps"),
    ("pid", "process id"),
    ("tid", "thread id"),
    ("pids", "processes"),
    ("processes", "programs"),
    ("cat", "category"),
    ("errno", "error number"),
    ("torch", "PyTorch"),
    ("startup_ns", "start-up"),
    ("waited_ns", "waited for batches"),
    ("wait_start_ns", "during the wait: starting"),
    ("wait_io_ns", "during the wait: in I/O"),
    ("wait_elsewhere_ns", "during the wait: other work"),
    ("held_ns", "lost to waits of any rank"),
    ("communicated_ns", "communication"),
    ("wait_alive_ns", "during the wait: alive"),
    ("wait_idle_ns", "during the wait: idle"),
    ("io_ns", "time in I/O"),
    ("idle_ns", "time idle"),
    ("app_io_ns", "application: I/O"),
    ("unoverlapped_app_io_ns", "application: I/O alone"),
    ("unoverlapped_app_compute_ns", "application: compute alone"),
    ("unoverlapped_io_ns", "I/O alone"),
    ("unoverlapped_compute_ns", "compute alone"),
    ("other_ns", "anything else"),
    ("both_ns", "I/O during compute"),
    ("compute_only_ns", "compute alone"),
    ("io_only_ns", "I/O alone"),
    ("neither_ns", "neither"),
    ("io_threads", "threads with I/O"),
    ("compute_threads", "threads with compute"),
    ("names_lost", "names that did not fit"),
    ("misused_spans", "spans closed on other threads"),
    ("elsewhere_read", "read from pipes, sockets, terminals"),
    ("elsewhere_written", "written to pipes, sockets, terminals"),
    ("bytes_reached", "extent reached"),
    ("bytes_reread", "bytes read again"),
    ("files_shared", "files of several programs"),
    ("off_start", "position not a multiple of 4 KiB"),
    ("off_size", "size not a multiple of 4 KiB"),
    ("off_both", "both"),
    ("clock_spread_ns", "step of the clock"),
    ("events_max", "events possibly lost"),
    ("first_ts", "first event"),
    ("last_ts", "last event"),
    ("common_writes", "conflicting writes"),
    ("common_ns", "time of conflicting writes"),
];

/// Returns the heading for a field: words, without the unit.
pub fn label(path: &str) -> String {
    let known = |part: &str| WORDS.iter().find(|(name, _)| *name == part).map(|(_, words)| words.to_string());
    let in_words = |part: &str| {
        let part = part.strip_suffix("_ns").or_else(|| part.strip_suffix("_ts")).unwrap_or(part);
        part.trim_end_matches('_').replace('_', " ")
    };
    let part = |part: &str| known(part).or_else(|| percentile(part)).unwrap_or_else(|| in_words(part));
    path.split('.').map(part).collect::<Vec<_>>().join(": ")
}

/// Capitalizes the first letter.
pub fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |letter| letter.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_tell_the_kind_of_a_figure() {
        let of = |path: &str, value: Value| Kind::of(path, &[&value]);
        assert_eq!(of("duration_ns.median", json!(1.5)), Kind::Time);
        assert_eq!(of("size.p99", json!(4096.0)), Kind::Bytes);
        assert_eq!((of("bytes_read", json!(1)), of("memory", json!(1))), (Kind::Bytes, Kind::Bytes));
        assert_eq!(of("start_ts", json!(1)), Kind::Moment);
        assert_eq!((of("pid", json!(1)), of("count", json!(1))), (Kind::Number, Kind::Count));
        assert_eq!((of("bytes", json!("x")), of("remark", json!(true))), (Kind::Text, Kind::Truth));
    }

    #[test]
    fn values_are_shown_with_their_units() {
        assert_eq!(Kind::Time.show(&json!(1500)), "1.50 us");
        assert_eq!(Kind::Share.show(&json!(0.256)), "26 %");
        assert_eq!(Kind::of("change_ns", &[&json!(1)]).show(&json!(-1500)), "-1.50 us");
        assert_eq!((Kind::Count.show(&json!(1234)), Kind::Number.show(&json!(1234))), ("1,234".into(), "1234".into()));
        assert_eq!((Kind::Count.show(&Value::Null), Kind::Plain.show(&json!(1.50))), ("–".into(), "1.5".into()));
        assert_eq!(Kind::Text.show(&json!(["a", "b"])), "a, b");
        assert_eq!(
            (label("duration_ns.median"), label("bytes_read")),
            ("duration: median".into(), "bytes read".into())
        );
        assert_eq!(
            (label("duration_ns.p75"), label("wait_io_ns")),
            ("duration: 75 %".into(), "during the wait: in I/O".into())
        );
    }
}
