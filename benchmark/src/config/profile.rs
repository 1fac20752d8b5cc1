//! `reader.profile`: the calls that read samples, for programs whose reads no format's reader reproduces.
//!
//! ```yaml
//! profile:
//!   opening:                                    # for each file that is opened
//!     - {call: stat}
//!     - {call: read, at: 0, bytes: 4096}
//!   sample:                                     # for each sample
//!     - {call: read, at: place, bytes: 65536}   # at the sample's offset: samples are equal parts of a file
//!     - {call: read, bytes: rest}               # from the end of the last read to the end of the file
//! ```
//!
//! A read starts at an offset from the start of the file, from its end (negative), at the sample's `place`, or where
//! the last read ended (`next`). It requests a number of bytes, the `rest` of the file, or a number drawn from a list
//! of sizes at evenly spaced shares. `repeat` is a number of repetitions, or repeats until the end of the `sample`.
//! `think` is a pause before each read, in seconds or drawn from a list of pauses.
//!
//! Not here: the reading itself (`loader::replay`).

use crate::failure::{Failure, Outcome};
use crate::keys::value::Value;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    pub opening: Vec<Call>,
    pub sample: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Stat,
    Seek,
    Read { at: At, bytes: Amount, repeat: Repeat, think: Option<Distribution> },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum At {
    Next,
    Place,
    Start(u64),
    /// This many bytes before the end.
    End(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    Exactly(u64),
    Rest,
    Drawn(Distribution),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Repeat {
    Times(u64),
    /// Until the whole sample has been read.
    Sample,
}

/// A distribution at evenly spaced shares, from minimum to maximum: bytes, or nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution(Vec<u64>);

/// The maximum size of a read, because memory is allocated for it.
const READ_MAX: u64 = 1 << 32;

impl Distribution {
    pub fn new(mut values: Vec<u64>) -> Distribution {
        values.sort_unstable();
        Distribution(values)
    }

    /// Returns the value below which this share of all values is.
    pub fn at(&self, share: f64) -> u64 {
        let Some(last) = self.0.len().checked_sub(1) else { return 0 };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let (low, high) = (self.0[place.floor() as usize] as f64, self.0[place.ceil() as usize] as f64);
        (low + (high - low) * place.fract()).round() as u64
    }
}

impl Profile {
    /// Returns `None` if the workload has no profile.
    pub fn read(value: &Value) -> Outcome<Option<Profile>> {
        if value.entries().is_empty() {
            return match value {
                Value::Null | Value::Map(_) => Ok(None),
                _ => Err(wrong("expected `opening` and `sample`, each a list of calls")),
            };
        }
        if let Some((key, _)) = value.entries().iter().find(|(key, _)| key != "opening" && key != "sample") {
            return Err(wrong(&format!("unknown key `{key}`; expected `opening` or `sample`")));
        }
        let calls = |key: &str| match value.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::List(items)) => items.iter().map(call).collect(),
            Some(_) => Err(wrong(&format!("{key}: expected a list of calls"))),
        };
        let profile = Profile { opening: calls("opening")?, sample: calls("sample")? };
        match profile.sample.iter().any(|call| matches!(call, Call::Read { .. })) {
            true => Ok(Some(profile)),
            false => Err(wrong("`sample` has no read; add a call such as {call: read, bytes: rest}")),
        }
    }
}

fn wrong(why: &str) -> Failure {
    Failure::refused(format!("workload.reader.profile: {why}"))
        .remedy("`dlio workloads explain reader.profile` shows one")
}

fn call(value: &Value) -> Outcome<Call> {
    const PARTS: [&str; 5] = ["call", "at", "bytes", "repeat", "think"];
    if let Some((key, _)) = value.entries().iter().find(|(key, _)| !PARTS.contains(&key.as_str())) {
        return Err(wrong(&format!("unknown key `{key}` of a call; expected {}", PARTS.join(", "))));
    }
    match value.get("call") {
        Some(Value::Text(name)) if name == "stat" => Ok(Call::Stat),
        Some(Value::Text(name)) if name == "seek" => Ok(Call::Seek),
        Some(Value::Text(name)) if name == "read" => Ok(Call::Read {
            at: at(value.get("at"))?,
            bytes: amount(value.get("bytes"))?,
            repeat: repeat(value.get("repeat"))?,
            think: value.get("think").map(think).transpose()?,
        }),
        _ => Err(wrong("expected the call read, stat or seek")),
    }
}

fn at(value: Option<&Value>) -> Outcome<At> {
    match value {
        None => Ok(At::Next),
        Some(Value::Text(word)) if word == "next" => Ok(At::Next),
        Some(Value::Text(word)) if word == "place" => Ok(At::Place),
        Some(Value::Int(from)) if *from >= 0 => Ok(At::Start(*from as u64)),
        Some(Value::Int(before)) => Ok(At::End(before.unsigned_abs())),
        Some(other) => Err(wrong(&format!("at={}: expected next, place, or a number of bytes", other.inline()))),
    }
}

fn amount(value: Option<&Value>) -> Outcome<Amount> {
    let size = |value: &Value| match value {
        Value::Int(bytes) if (0..=READ_MAX as i64).contains(bytes) => Ok(*bytes as u64),
        other => Err(wrong(&format!("bytes={}: expected the size of a read", other.inline()))),
    };
    match value {
        Some(Value::Text(word)) if word == "rest" => Ok(Amount::Rest),
        Some(Value::List(sizes)) if !sizes.is_empty() => {
            Ok(Amount::Drawn(Distribution::new(sizes.iter().map(size).collect::<Outcome<_>>()?)))
        }
        Some(one) => size(one).map(Amount::Exactly),
        None => Err(wrong("a read needs bytes: a number, rest, or a list of sizes")),
    }
}

fn repeat(value: Option<&Value>) -> Outcome<Repeat> {
    match value {
        None => Ok(Repeat::Times(1)),
        Some(Value::Int(times)) if *times > 0 => Ok(Repeat::Times(*times as u64)),
        Some(Value::Text(word)) if word == "sample" => Ok(Repeat::Sample),
        Some(other) => Err(wrong(&format!("repeat={}: expected a number, or sample", other.inline()))),
    }
}

/// Longer pauses must be typing errors.
const THINK_MAX: f64 = 3600.0;

fn think(value: &Value) -> Outcome<Distribution> {
    let pause = |value: &Value| {
        let seconds = match value {
            Value::Int(seconds) => Some(*seconds as f64),
            Value::Float(seconds) => Some(*seconds),
            _ => None,
        };
        let seconds = seconds.filter(|seconds| (0.0..=THINK_MAX).contains(seconds));
        seconds
            .map(|seconds| (seconds * 1e9) as u64)
            .ok_or_else(|| wrong(&format!("think={}: expected a pause in seconds", value.inline())))
    };
    match value {
        Value::List(pauses) if !pauses.is_empty() => {
            Ok(Distribution::new(pauses.iter().map(pause).collect::<Outcome<_>>()?))
        }
        one => Ok(Distribution::new(vec![pause(one)?])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::parse_yaml;

    fn profile(text: &str) -> Outcome<Option<Profile>> {
        Profile::read(&parse_yaml("t", text).unwrap())
    }

    #[test]
    fn calls_are_read_as_they_are_written() {
        let text = "{opening: [{call: stat}, {call: read, at: -22, bytes: 22}], \
                     sample: [{call: read, at: place, bytes: [9, 5, 1]}, {call: read, bytes: rest}, \
                              {call: read, at: 0, bytes: 4, repeat: sample, think: [0.002, 1e-6]}]}";
        let found = profile(text).unwrap().unwrap();
        let read = |at, bytes, repeat| Call::Read { at, bytes, repeat, think: None };
        let think = Some(Distribution(vec![1000, 2_000_000]));
        assert_eq!(found.opening, [Call::Stat, read(At::End(22), Amount::Exactly(22), Repeat::Times(1))]);
        assert_eq!(
            found.sample,
            [
                read(At::Place, Amount::Drawn(Distribution(vec![1, 5, 9])), Repeat::Times(1)),
                read(At::Next, Amount::Rest, Repeat::Times(1)),
                Call::Read { at: At::Start(0), bytes: Amount::Exactly(4), repeat: Repeat::Sample, think },
            ]
        );
        assert_eq!(profile("{}").unwrap(), None);
    }

    #[test]
    fn rejects_impossible_calls_with_alternatives() {
        for (text, said) in [
            ("{samples: []}", "expected `opening` or `sample`"),
            ("{sample: []}", "has no read"),
            ("{sample: [{call: write}]}", "read, stat or seek"),
            ("{sample: [{call: read}]}", "needs bytes"),
            ("{sample: [{call: read, bytes: -1}]}", "expected the size"),
            ("{sample: [{call: read, bytes: 1, at: end}]}", "expected next, place"),
            ("{sample: [{call: read, bytes: 1, repeat: 0}]}", "repeat"),
            ("{sample: [{call: read, byte: 1}]}", "unknown key `byte`"),
            ("{sample: [{call: read, bytes: 1, think: -1}]}", "expected a pause"),
            ("{sample: [{call: read, bytes: 1, think: []}]}", "expected a pause"),
            ("7", "a list of calls"),
        ] {
            let failure = profile(text).unwrap_err();
            assert!(failure.to_string().contains(said), "{text}: {failure}");
        }
    }

    #[test]
    fn sizes_between_two_are_interpolated() {
        let sizes = Distribution::new(vec![30, 10, 20]);
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|share| sizes.at(share)), [10, 15, 20, 30]);
        assert_eq!(Distribution::new(vec![7]).at(0.3), 7);
    }
}
