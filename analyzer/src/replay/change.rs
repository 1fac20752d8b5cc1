//! Changes to a pipeline: how they are parsed and described.

use std::fmt;

use super::pipeline::{Order, Pipeline};

/// One change, or several changes made together. Factors are speedups: 2 means twice as fast.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The text from which the change was parsed.
    pub name: String,
    pub storage: f64,
    pub latency: f64,
    pub bandwidth: f64,
    pub decode: f64,
    pub compute: f64,
    pub workers: Option<usize>,
    pub prefetch: Option<usize>,
    pub any_order: bool,
    pub persistent: bool,
    pub no_handover: bool,
    pub cores: Option<f64>,
    pub no_quota: bool,
    /// The things for which a speedup of 1 was given, so that they do not change.
    pub unchanged: Vec<&'static str>,
}

impl Default for Change {
    fn default() -> Change {
        Change {
            name: String::new(),
            storage: 1.0,
            latency: 1.0,
            bandwidth: 1.0,
            decode: 1.0,
            compute: 1.0,
            workers: None,
            prefetch: None,
            any_order: false,
            persistent: false,
            no_handover: false,
            cores: None,
            no_quota: false,
            unchanged: Vec::new(),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The keys and their allowed values, for completions and errors.
pub const KEYS: &[(&str, &str)] = &[
    ("storage", "a speedup of storage, such as 2, 1.5 or inf"),
    ("latency", "a speedup of the part of storage calls that does not grow with their size, such as 2 or inf"),
    ("bandwidth", "a speedup of the part of storage calls that grows with their size, such as 2 or inf"),
    ("workers", "a number of readers from 1 to 4096"),
    ("prefetch", "a number of batches requested per reader, from 1 to 4096"),
    ("order", "any (take batches as they become ready)"),
    ("persistent", "1 (keep readers between passes)"),
    ("decode", "a speedup of the readers' CPU work, such as 2 or inf"),
    ("handover", "0 (passing batches to the trainer takes no time)"),
    ("compute", "a speedup of the training steps, such as 2 or inf"),
    ("cores", "a number of CPUs, 1 or more"),
    ("quota", "none (remove the CPU quota)"),
];

/// The keys whose values are speedups, and what they speed up.
const SPEEDS: [(&str, &str); 5] = [
    ("storage", "storage"),
    ("latency", "storage latency"),
    ("bandwidth", "storage bandwidth"),
    ("decode", "decoding"),
    ("compute", "training steps"),
];

/// Maximum number of readers and requests to replay.
const MOST: usize = 4096;

impl Change {
    /// Parses `KEY=VALUE,KEY=VALUE`. An error lists the allowed keys or values.
    pub fn parse(text: &str) -> Result<Change, String> {
        // The error of the command line repeats the whole text. If it contains several changes, name the wrong one.
        let named = |part: &str, why: String| if part == text.trim() { why } else { format!("`{part}`: {why}") };
        let mut change = Change { name: text.trim().to_string(), ..Change::default() };
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let Some((key, value)) = part.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
                return Err(named(part, format!("expected KEY=VALUE, where KEY is one of {}", keys())));
            };
            if seen.contains(&key) {
                return Err(format!("`{key}` is given twice"));
            }
            seen.push(key);
            change.set(key, value).map_err(|why| named(part, why))?;
        }
        Ok(change)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let allowed = KEYS.iter().find(|(name, _)| *name == key).map(|(_, allowed)| *allowed);
        let Some(allowed) = allowed else {
            let near = KEYS.iter().map(|(name, _)| *name).find(|name| name.starts_with(key) || key.starts_with(name));
            let hint = near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
            return Err(format!("unknown key{hint}; the keys are {}", keys()));
        };
        let wrong = || format!("expected {allowed}");
        let factor = || {
            let factor = if value == "inf" { Some(f64::INFINITY) } else { value.parse::<f64>().ok() };
            factor.filter(|factor| *factor > 0.0).ok_or_else(wrong)
        };
        let count = || value.parse::<usize>().ok().filter(|count| (1..=MOST).contains(count)).ok_or_else(wrong);
        let only = |expected: &[&str]| if expected.contains(&value) { Ok(true) } else { Err(wrong()) };
        match key {
            "storage" => self.storage = factor()?,
            "latency" => self.latency = factor()?,
            "bandwidth" => self.bandwidth = factor()?,
            "decode" => self.decode = factor()?,
            "compute" => self.compute = factor()?,
            "workers" => self.workers = Some(count()?),
            "prefetch" => self.prefetch = Some(count()?),
            "order" => self.any_order = only(&["any"])?,
            "persistent" => self.persistent = only(&["1", "true", "yes"])?,
            "handover" => self.no_handover = only(&["0"])?,
            "cores" => self.cores = Some(factor()?).filter(|cores| *cores >= 1.0).ok_or_else(wrong).map(Some)?,
            _ => self.no_quota = only(&["none"])?,
        }
        let speeds = [self.storage, self.latency, self.bandwidth, self.decode, self.compute];
        let same = SPEEDS.iter().zip(speeds).find(|((name, _), speed)| *name == key && *speed == 1.0);
        self.unchanged.extend(same.map(|((_, what), _)| *what));
        Ok(())
    }

    /// Returns `true` if the change affects CPU work. Its prediction requires the readers' CPU times and CPU limits.
    pub fn needs_cpu(&self) -> bool {
        self.decode != 1.0 || self.cores.is_some() || self.no_quota
    }

    /// Returns `true` if the change affects storage.
    pub fn needs_storage(&self) -> bool {
        self.storage != 1.0 || self.latency != 1.0 || self.bandwidth != 1.0
    }

    /// Returns the PyTorch arguments that make the change; empty for changes outside the code.
    pub fn code(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.workers.map(|workers| format!("num_workers={workers}")));
        parts.extend(self.prefetch.map(|prefetch| format!("prefetch_factor={prefetch}")));
        parts.extend(self.any_order.then(|| "in_order=False".to_string()));
        parts.extend(self.persistent.then(|| "persistent_workers=True".to_string()));
        parts.join(", ")
    }

    /// Describes the change in words.
    pub fn words(&self, pipeline: &Pipeline) -> String {
        let mut parts: Vec<String> = Vec::new();
        let faster = |factor: f64, what: &str| match factor {
            1.0 => None,
            f if f.is_infinite() => Some(format!("{what} takes no time")),
            f if f < 1.0 => Some(format!("{what} {}x slower", trim(1.0 / f))),
            f => Some(format!("{what} {}x faster", trim(f))),
        };
        let speeds = [self.storage, self.latency, self.bandwidth, self.decode, self.compute];
        parts.extend(SPEEDS.iter().zip(speeds).filter_map(|((_, what), speed)| faster(speed, what)));
        parts.extend(self.unchanged.iter().map(|what| format!("{what} as now")));
        let readers = |number: usize| if number == 1 { "1 reader".into() } else { format!("{number} readers") };
        let instead = |was: usize, is: usize| if was == is { ", as now".into() } else { format!(" instead of {was}") };
        parts.extend(self.workers.map(|is| format!("{}{}", readers(is), instead(pipeline.readers(), is))));
        parts.extend(self.prefetch.map(|is| format!("prefetch {is}{}", instead(pipeline.prefetch(), is))));
        parts.extend(self.any_order.then(|| "batches in any order".to_string()));
        parts.extend(self.persistent.then(|| "persistent readers".to_string()));
        parts.extend(self.no_handover.then(|| "no transfer time".to_string()));
        parts.extend(self.cores.map(|cores| format!("{} CPUs", trim(cores))));
        parts.extend(self.no_quota.then(|| "no CPU quota".to_string()));
        parts.join(", ")
    }

    /// Returns the order of batches with the change.
    pub fn order(&self, pipeline: &Pipeline) -> Order {
        if self.any_order { Order::Any } else { pipeline.order }
    }
}

fn keys() -> String {
    KEYS.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ")
}

fn trim(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_parsed_and_combined() {
        let change = Change::parse("workers=4, prefetch=8,storage=inf").unwrap();
        assert_eq!((change.workers, change.prefetch, change.storage), (Some(4), Some(8), f64::INFINITY));
        assert_eq!(change.code(), "num_workers=4, prefetch_factor=8");
    }

    #[test]
    fn every_change_has_words() {
        let pipeline = Pipeline::default();
        for (key, value) in KEYS.iter().zip(["1", "1", "1", "1", "1", "any", "1", "1", "0", "1", "1", "none"]) {
            let change = Change::parse(&format!("{}={value}", key.0)).unwrap();
            assert!(!change.words(&pipeline).is_empty(), "{change}");
        }
        let words = Change::parse("storage=1,decode=2").unwrap().words(&pipeline);
        assert_eq!(words, "decoding 2x faster, storage as now");
    }

    #[test]
    fn errors_about_wrong_changes_name_what_is_allowed() {
        for (text, part) in [
            ("workers=0", "from 1 to 4096"),
            ("workers=2.5", "from 1 to 4096"),
            ("storage=-1", "expected a speedup"),
            ("storage=nan", "expected a speedup"),
            ("order=maybe", "expected any"),
            ("worker=4", "did you mean `workers`"),
            ("speed=2", "the keys are storage"),
            ("workers=4,speed=2", "`speed=2`: unknown key"),
            ("faster", "expected KEY=VALUE"),
            ("workers=2,workers=4", "given twice"),
            ("cores=0.5", "1 or more"),
            ("", "expected KEY=VALUE"),
        ] {
            let error = Change::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(text.is_empty() || !error.contains(text), "the command line repeats it: {error}");
        }
    }
}
