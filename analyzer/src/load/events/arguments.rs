//! The column `args` of native events: an operation's two numbers under readable keys, according to its row.

use dlio_schemas::evidence::{Child, ChildEnd, Counters, Waker};
use dlio_schemas::ops::{Arg as Meaning, OpInfo};

use crate::argument_key::ArgumentKey as Key;
use crate::batch::Value;

/// The key of the file that bytes came from.
pub const SOURCE: &str = Key::Source.name();

/// Returns key and value of one of the two numbers, if it has no separate column.
fn argument(meaning: Meaning, number: i64, path: impl Fn(u32) -> u32) -> Option<(Key, Value)> {
    Some(match meaning {
        Meaning::Flags => (Key::Flags, Value::Hex(number)),
        Meaning::Mode => (Key::Mode, Value::Octal(number)),
        Meaning::Whence => (Key::Whence, Value::Int(number)),
        Meaning::Offset => (Key::Offset, Value::Int(number)),
        Meaning::Path => (Key::Target, Value::Text(path(number as u32))),
        Meaning::Source => (Key::Source, Value::Text(path(number as u32))),
        Meaning::Fd => (Key::OtherFd, Value::Int(number)),
        Meaning::Command => (Key::Command, Value::Int(number)),
        Meaning::Count => (Key::Count, Value::Int(number)),
        Meaning::Value => (Key::Value, Value::Float(f64::from_bits(number as u64))),
        // Traces from before waits recorded it have none.
        Meaning::Object if number == 0 => return None,
        Meaning::Object => (Key::Object, Value::Hex(number)),
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
) -> impl Iterator<Item = (Key, Value)> {
    let first = if known { argument(info.a, a, &path) } else { None };
    // If both are counts, each has a different key.
    let second = argument(info.b, b, &path).map(|(key, value)| match (info.a, info.b) {
        (Meaning::Count, Meaning::Count) => (Key::Second, value),
        _ => (key, value),
    });
    // Only opening with O_CREAT has a valid mode, and the tracer then marks it as known.
    let waker = (info.b == Meaning::Waker).then(|| waker(b));
    let child = (known && info.a == Meaning::Child).then(|| child(a));
    let packed = waker.into_iter().flatten().chain(child.into_iter().flatten()).flatten();
    [first, second].into_iter().flatten().chain(packed)
}

/// Returns the thread that ended a wait, if one was seen.
fn waker(packed: i64) -> [Option<(Key, Value)>; 3] {
    let Waker { tid, woken_us, flags } = Waker::unpack(packed);
    let all = [(Key::Waker, tid as i64), (Key::WokenUs, woken_us as i64), (Key::WakerFlags, flags as i64)];
    all.map(|(key, number)| (number != 0).then_some((key, Value::Int(number))))
}

/// The child that was waited for and how it ended, where that is known.
fn child(packed: i64) -> [Option<(Key, Value)>; 2] {
    let Child { pid, ended } = Child::unpack(packed);
    let ended = ended.map(|ended| match ended {
        ChildEnd::Exit(status) => (Key::ExitStatus, Value::Int(status as i64)),
        ChildEnd::Signal(signal) => (Key::Signal, Value::Int(signal as i64)),
    });
    [(pid != 0).then_some((Key::Child, Value::Int(pid as i64))), ended]
}

/// Returns the counters of a thread, which belong to the following event.
pub fn counters(counters: &Counters) -> impl Iterator<Item = (Key, Value)> + use<> {
    let all = [
        (Key::CpuUs, Some(counters.cpu_us)),
        (Key::MajorFaults, Some(counters.major_faults)),
        (Key::MinorFaults, Some(counters.minor_faults)),
        (Key::RunDelayUs, counters.run_delay_us),
        (Key::Voluntary, Some(counters.voluntary)),
        (Key::Involuntary, Some(counters.involuntary)),
    ];
    all.into_iter().filter_map(|(key, number)| Some((key, Value::Int(number? as i64))))
}

#[cfg(test)]
mod tests {
    use dlio_schemas::ops::Op;

    use super::*;

    #[test]
    fn numbers_without_a_column_become_arguments() {
        let all = |op: Op, known, a, b| -> Vec<_> {
            let arguments = arguments(op.info().unwrap(), known, a, b, |id| id);
            arguments.map(|(key, value)| (key.name(), value)).collect()
        };
        let of = |op, known| all(op, known, 0o644, 2);
        assert_eq!(of(Op::OPEN, true), [("mode", Value::Octal(0o644)), ("flags", Value::Hex(2))]);
        assert_eq!(of(Op::OPEN, false), [("flags", Value::Hex(2))]);
        assert_eq!(of(Op::RENAME, true), [("target", Value::Text(0o644))]);
        assert_eq!(of(Op::PREAD, true), []);
        let waker = Waker { tid: 7, woken_us: 0, flags: 1 }.pack();
        let of_wait = all(Op::SEM_WAIT, true, 16, waker);
        assert_eq!(of_wait, [("object", Value::Hex(16)), ("waker", Value::Int(7)), ("waker_flags", Value::Int(1))]);
        let child = Child { pid: 42, ended: Some(ChildEnd::Signal(9)) }.pack();
        let of_child = all(Op::WAITPID, true, child, 1);
        assert_eq!(of_child, [("flags", Value::Hex(1)), ("child", Value::Int(42)), ("signal", Value::Int(9))]);
        assert_eq!(of(Op::CLOSE_RANGE, true), [("count", Value::Int(0o644)), ("second", Value::Int(2))]);
    }
}
