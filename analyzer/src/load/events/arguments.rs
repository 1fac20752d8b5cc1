//! The column `args` of native events: an operation's two numbers under readable keys, according to its row.

use dlio_schemas::evidence::{Child, ChildEnd, Counters, Waker};
use dlio_schemas::ops::{Arg as Meaning, OpInfo};

use crate::batch::Value;

/// The key of the file that bytes came from.
pub const SOURCE: &str = "source";

/// Returns key and value of one of the two numbers, if it has no separate column.
fn argument(meaning: Meaning, number: i64, path: impl Fn(u32) -> u32) -> Option<(&'static str, Value)> {
    Some(match meaning {
        Meaning::Flags => ("flags", Value::Hex(number)),
        Meaning::Mode => ("mode", Value::Octal(number)),
        Meaning::Whence => ("whence", Value::Int(number)),
        Meaning::Offset => ("offset", Value::Int(number)),
        Meaning::Path => ("target", Value::Text(path(number as u32))),
        Meaning::Source => (SOURCE, Value::Text(path(number as u32))),
        Meaning::Fd => ("other_fd", Value::Int(number)),
        Meaning::Command => ("command", Value::Int(number)),
        Meaning::Count => ("count", Value::Int(number)),
        Meaning::Value => ("value", Value::Float(f64::from_bits(number as u64))),
        // Traces from before waits recorded it have none.
        Meaning::Object if number == 0 => return None,
        Meaning::Object => ("object", Value::Hex(number)),
        // Several numbers in one: see `waker` and `child`.
        Meaning::Waker | Meaning::Child | Meaning::None | Meaning::Position | Meaning::Size | Meaning::Steps => {
            return None;
        }
    })
}

/// Returns all arguments of an event. `path` turns a name id of the process into the number of a text.
pub fn arguments(
    info: &OpInfo,
    known: bool,
    a: i64,
    b: i64,
    path: impl Fn(u32) -> u32,
) -> impl Iterator<Item = (&'static str, Value)> {
    let first = if known { argument(info.a, a, &path) } else { None };
    // If both are counts, each has a different key.
    let second = argument(info.b, b, &path).map(|(key, value)| match (info.a, info.b) {
        (Meaning::Count, Meaning::Count) => ("second", value),
        _ => (key, value),
    });
    // Only opening with O_CREAT has a valid mode, and the tracer then marks it as known.
    let waker = (info.b == Meaning::Waker).then(|| waker(b));
    let child = (known && info.a == Meaning::Child).then(|| child(a));
    let packed = waker.into_iter().flatten().chain(child.into_iter().flatten()).flatten();
    [first, second].into_iter().flatten().chain(packed)
}

/// Returns the thread that ended a wait, if one was seen.
fn waker(packed: i64) -> [Option<(&'static str, Value)>; 3] {
    let Waker { tid, woken_us, flags } = Waker::unpack(packed);
    let all = [("waker", tid as i64), ("woken_us", woken_us as i64), ("waker_flags", flags as i64)];
    all.map(|(key, number)| (number != 0).then_some((key, Value::Int(number))))
}

/// The child that was waited for and how it ended, where that is known.
fn child(packed: i64) -> [Option<(&'static str, Value)>; 2] {
    let Child { pid, ended } = Child::unpack(packed);
    let ended = ended.map(|ended| match ended {
        ChildEnd::Exit(status) => ("exit_status", Value::Int(status as i64)),
        ChildEnd::Signal(signal) => ("signal", Value::Int(signal as i64)),
    });
    [(pid != 0).then_some(("child", Value::Int(pid as i64))), ended]
}

/// Returns the counters of a thread, which belong to the following event.
pub fn counters(counters: &Counters) -> impl Iterator<Item = (&'static str, Value)> + use<> {
    let all = [
        ("cpu_us", Some(counters.cpu_us)),
        ("major_faults", Some(counters.major_faults)),
        ("minor_faults", Some(counters.minor_faults)),
        ("run_delay_us", counters.run_delay_us),
        ("voluntary", Some(counters.voluntary)),
        ("involuntary", Some(counters.involuntary)),
    ];
    all.into_iter().filter_map(|(key, number)| Some((key, Value::Int(number? as i64))))
}

#[cfg(test)]
mod tests {
    use dlio_schemas::ops::Op;

    use super::*;

    #[test]
    fn numbers_without_a_column_become_arguments() {
        let of = |op: Op, known| -> Vec<_> { arguments(op.info().unwrap(), known, 0o644, 2, |id| id).collect() };
        assert_eq!(of(Op::OPEN, true), [("mode", Value::Octal(0o644)), ("flags", Value::Hex(2))]);
        assert_eq!(of(Op::OPEN, false), [("flags", Value::Hex(2))]);
        assert_eq!(of(Op::RENAME, true), [("target", Value::Text(0o644))]);
        assert_eq!(of(Op::PREAD, true), []);
        let waker = Waker { tid: 7, woken_us: 0, flags: 1 }.pack();
        let of_wait: Vec<_> = arguments(Op::SEM_WAIT.info().unwrap(), true, 16, waker, |id| id).collect();
        assert_eq!(of_wait, [("object", Value::Hex(16)), ("waker", Value::Int(7)), ("waker_flags", Value::Int(1))]);
        let child = Child { pid: 42, ended: Some(ChildEnd::Signal(9)) }.pack();
        let of_child: Vec<_> = arguments(Op::WAITPID.info().unwrap(), true, child, 1, |id| id).collect();
        assert_eq!(of_child, [("flags", Value::Hex(1)), ("child", Value::Int(42)), ("signal", Value::Int(9))]);
        assert_eq!(of(Op::CLOSE_RANGE, true), [("count", Value::Int(0o644)), ("second", Value::Int(2))]);
    }
}
