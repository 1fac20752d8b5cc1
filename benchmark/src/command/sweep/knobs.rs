//! The keys of a sweep, their values, and all combinations.

use crate::failure::{Failure, Outcome};

/// A key and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Knob {
    pub key: String,
    pub values: Vec<String>,
}

impl Knob {
    /// Parses `KEY=a,b,c`, or `KEY=64K..8M`, which doubles.
    pub fn parse(typed: &str) -> Outcome<Knob> {
        let wrong = |why: &str| {
            Failure::refused(format!("--sweep {typed}: {why}"))
                .remedy("--sweep reader.read_threads=1,2,4 or --sweep reader.transfer_size=64K..8M")
        };
        let (key, values) = typed.split_once('=').ok_or_else(|| wrong("expected KEY=VALUES"))?;
        let key = key.trim_start_matches('+').trim_start_matches("workload.").to_string();
        let values = match values.split_once("..") {
            Some((from, to)) => {
                doubled(from, to).ok_or_else(|| wrong("FROM..TO needs two sizes, the smaller one first"))?
            }
            None => values.split(',').map(|value| sized(value.trim())).collect(),
        };
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong("expected a key and values"));
        }
        Ok(Knob { key, values })
    }
}

/// Returns `64K` in bytes, and anything else unchanged.
fn sized(value: &str) -> String {
    size(value).map_or_else(|| value.to_string(), |bytes| bytes.to_string())
}

fn size(value: &str) -> Option<u64> {
    let split = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(split);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_shl(shift)
}

fn doubled(from: &str, to: &str) -> Option<Vec<String>> {
    let (from, to) = (size(from).filter(|from| *from > 0)?, size(to)?);
    let values = std::iter::successors(Some(from), |value| value.checked_mul(2)).take_while(|value| *value <= to);
    let values: Vec<String> = values.map(|value| value.to_string()).collect();
    (!values.is_empty()).then_some(values)
}

/// Returns every combination of values; the last knob varies fastest.
pub(super) fn settings(knobs: &[Knob]) -> Vec<Vec<String>> {
    knobs.iter().fold(vec![Vec::new()], |settings, knob| {
        let with = |setting: &Vec<String>, value: &String| [setting.clone(), vec![value.clone()]].concat();
        settings.iter().flat_map(|setting| knob.values.iter().map(move |value| with(setting, value))).collect()
    })
}

pub(super) fn named(knobs: &[Knob], setting: &[String]) -> String {
    knobs.iter().zip(setting).map(|(knob, value)| format!("{}={value}", knob.key)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed_or_doubled() {
        let values = |typed: &str| Knob::parse(typed).map(|knob| knob.values.join(" "));
        assert_eq!(values("reader.read_threads=1,2,4").unwrap(), "1 2 4");
        assert_eq!(values("++workload.reader.transfer_size=64K..256K").unwrap(), "65536 131072 262144");
        assert_eq!(values("dataset.compression=none,gzip").unwrap(), "none gzip");
        for wrong in ["reader.read_threads", "reader.read_threads=", "x=8M..64K", "x=a..b", "=1"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_all_combinations() {
        let knobs = [Knob::parse("a=1,2").unwrap(), Knob::parse("b=x,y").unwrap()];
        assert_eq!(settings(&knobs), [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]);
    }
}
