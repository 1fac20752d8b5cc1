//! The file of a host's counters, `STEM.machine`: text lines whose fields are separated by tabs.
//!
//! ```text
//! dlio-machine 1
//! fact     KEY  VALUE                         of the host: host, boot_id, cores, ...
//! mount    FOLDER  KEY=VALUE ...              a possible location of data
//! counter  NUMBER  NAME  SCOPE                before its first value
//! at       BOOT_NS  UNIX_NS                   the time of the values below it
//! NUMBER   VALUE                              only of counters that have changed
//! end                                         the command has ended
//! ```
//!
//! A line is accepted once it is complete: a writer that is killed loses at most its last one. Lines of another kind
//! are ignored. In texts a tab, a line feed and a backslash are written `\t`, `\n` and `\\`.

use std::collections::HashMap;
use std::fmt::Write;

use super::counters::{COUNTERS, place};

/// The first line, without its line feed.
pub const HEAD: &str = "dlio-machine 1";

/// The start of the file in every version.
pub const MAGIC: &[u8] = b"dlio-machine ";

/// The extension of the file's name.
pub const ENDING: &str = "machine";

/// One value of a counter, the counter's index in [`COUNTERS`], and its scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    pub counter: usize,
    pub scope: String,
    pub value: u64,
}

/// A writer of the lines of a file.
#[derive(Default)]
pub struct Writer {
    /// Numbers and last values of the counters that were written.
    known: HashMap<(usize, String), (u32, u64)>,
}

/// More counters of different scopes than a host can reasonably have.
const SERIES_MAX: u32 = 512;

impl Writer {
    /// Returns the first lines: facts about the host.
    pub fn head(facts: &[(&str, String)], mounts: &[(String, Vec<(&str, String)>)]) -> String {
        let mut out = format!("{HEAD}\n");
        for (key, value) in facts {
            out += &Writer::fact(key, value);
        }
        for (folder, about) in mounts {
            let _ = write!(out, "mount\t{}", escaped(folder));
            for (key, value) in about {
                let _ = write!(out, "\t{key}={}", escaped(value));
            }
            out.push('\n');
        }
        out
    }

    /// Returns the line of a fact about the host, which may follow samples.
    pub fn fact(key: &str, value: &str) -> String {
        format!("fact\t{key}\t{}\n", escaped(value))
    }

    /// Returns the lines of one sample.
    pub fn sample(&mut self, boot_ns: u64, unix_ns: u64, readings: &[Reading]) -> String {
        let (mut counters, mut values) = (String::new(), format!("at\t{boot_ns}\t{unix_ns}\n"));
        for reading in readings {
            let next = self.known.len() as u32;
            let key = (reading.counter, reading.scope.clone());
            let number = match self.known.get_mut(&key) {
                Some((_, last)) if *last == reading.value => continue,
                Some((number, last)) => {
                    *last = reading.value;
                    *number
                }
                None if next == SERIES_MAX => continue,
                None => {
                    let name = COUNTERS[reading.counter].name;
                    let _ = writeln!(counters, "counter\t{next}\t{name}\t{}", escaped(&reading.scope));
                    self.known.insert(key, (next, reading.value));
                    next
                }
            };
            let _ = writeln!(values, "{number}\t{}", reading.value);
        }
        counters + &values
    }
}

/// The last line.
pub const END: &str = "end\n";

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn unescaped(text: &str) -> String {
    let (mut out, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            (letter, false) => out.push(letter),
        }
    }
    out
}

/// A counter of one scope, and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Its index in [`COUNTERS`].
    pub counter: usize,
    pub scope: String,
    /// The time, as an index in [`Samples::moments`], and the value from then on.
    pub values: Vec<(usize, u64)>,
}

impl Series {
    /// Returns the growth over all samples. `None` if there are fewer than two, or if the counter went backwards
    /// because it was reset.
    pub fn growth(&self) -> Option<u64> {
        let (first, last) = (self.values.first()?, self.values.last()?);
        last.1.checked_sub(first.1)
    }
}

/// A point in time on both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleTime {
    pub boot_ns: u64,
    pub unix_ns: u64,
}

/// A mount and its properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    pub folder: String,
    pub about: Vec<(String, String)>,
}

impl Mount {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.about.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// The contents of a file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Samples {
    pub facts: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
    pub moments: Vec<SampleTime>,
    pub series: Vec<Series>,
    /// `true` if the command ended during the recording.
    pub has_ended: bool,
}

impl Samples {
    /// Reads a file. `None` if it is not a file of this format, or has a later version.
    pub fn parse(bytes: &[u8]) -> Option<Samples> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        if lines.next()? != HEAD {
            return None;
        }
        let mut samples = Samples::default();
        let mut numbers: HashMap<u32, usize> = HashMap::new();
        for line in lines {
            samples.take(line, &mut numbers);
        }
        Some(samples)
    }

    fn take(&mut self, line: &str, numbers: &mut HashMap<u32, usize>) {
        let parts: Vec<&str> = line.split('\t').collect();
        match parts[..] {
            ["fact", key, value] => self.facts.push((key.into(), unescaped(value))),
            ["mount", folder, ref about @ ..] => {
                let pair = |text: &&str| text.split_once('=').map(|(key, value)| (key.into(), unescaped(value)));
                self.mounts.push(Mount { folder: unescaped(folder), about: about.iter().filter_map(pair).collect() });
            }
            ["counter", number, name, scope] => {
                if let (Ok(number), Some(counter)) = (number.parse(), place(name)) {
                    numbers.insert(number, self.series.len());
                    self.series.push(Series { counter, scope: unescaped(scope), values: Vec::new() });
                }
            }
            ["at", boot, unix] => {
                // Values below an invalid time must not be attributed to the previous time.
                let moment = boot.parse().ok().zip(unix.parse().ok());
                self.moments.extend(moment.map(|(boot_ns, unix_ns)| SampleTime { boot_ns, unix_ns }));
            }
            ["end"] => self.has_ended = true,
            [number, value] => {
                let series = number.parse().ok().and_then(|number: u32| numbers.get(&number).copied());
                if let (Some(series), Ok(value), Some(moment)) =
                    (series, value.parse(), self.moments.len().checked_sub(1))
                {
                    self.series[series].values.push((moment, value));
                }
            }
            _ => {}
        }
    }

    pub fn fact(&self, key: &str) -> Option<&str> {
        self.facts.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Returns the series of a counter, one per scope.
    pub fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Series> {
        let wanted = place(name);
        self.series.iter().filter(move |series| Some(series.counter) == wanted)
    }

    /// Returns the time between the first and the last sample.
    pub fn elapsed_ns(&self) -> u64 {
        let (first, last) = (self.moments.first(), self.moments.last());
        first.zip(last).map_or(0, |(first, last)| last.boot_ns.saturating_sub(first.boot_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str, scope: &str, value: u64) -> Reading {
        Reading { counter: place(name).unwrap(), scope: scope.into(), value }
    }

    fn example() -> String {
        let mut writer = Writer::default();
        let facts = [("host", "node\t7".to_string())];
        let mounts = [("/da\nta".to_string(), vec![("type", "ext4".to_string()), ("options", "rw,a=b".into())])];
        let mut text = Writer::head(&facts, &mounts);
        text += &writer.sample(10, 1010, &[reading("cpu_busy_ns", "", 5), reading("device_reads", "sd\\a", 7)]);
        text += &writer.sample(20, 1020, &[reading("cpu_busy_ns", "", 9), reading("device_reads", "sd\\a", 7)]);
        text + END
    }

    #[test]
    fn samples_round_trip() {
        let samples = Samples::parse(example().as_bytes()).unwrap();
        assert_eq!((samples.fact("host"), samples.has_ended), (Some("node\t7"), true));
        assert_eq!((samples.mounts[0].folder.as_str(), samples.mounts[0].get("options")), ("/da\nta", Some("rw,a=b")));
        assert_eq!(samples.moments[1], SampleTime { boot_ns: 20, unix_ns: 1020 });
        let busy = samples.of("cpu_busy_ns").next().unwrap();
        assert_eq!((busy.values.as_slice(), busy.growth()), (&[(0, 5), (1, 9)][..], Some(4)));
        let reads = samples.of("device_reads").next().unwrap();
        assert_eq!((reads.scope.as_str(), reads.values.as_slice()), ("sd\\a", &[(0, 7)][..]));
        assert_eq!(samples.elapsed_ns(), 10);
    }

    #[test]
    fn truncated_samples_lose_at_most_a_line() {
        let text = example();
        let whole = Samples::parse(text.as_bytes()).unwrap();
        for cut in HEAD.len() + 1..text.len() {
            let part = Samples::parse(&text.as_bytes()[..cut]).unwrap();
            assert!(part.moments.iter().all(|moment| whole.moments.contains(moment)));
            let values = |samples: &Samples| samples.series.iter().map(|series| series.values.len()).sum::<usize>();
            assert!(values(&part) <= values(&whole) && !part.has_ended);
            for series in &part.series {
                let same = whole.series.iter().find(|whole| whole.scope == series.scope).unwrap();
                assert!(same.values.starts_with(&series.values), "cut at {cut}");
            }
        }
    }

    #[test]
    fn invalid_lines_are_skipped() {
        assert_eq!(Samples::parse(b"dlio-machine 2\n"), None);
        let text = "dlio-machine 1\n0\t5\ncounter\tx\tcpu_busy_ns\t\ncounter\t1\tnone\t\nat\t1\n1\t2\n\n\t\nat\t5\t6\n7\t8\nfact\n";
        let samples = Samples::parse(text.as_bytes()).unwrap();
        assert_eq!((samples.series.len(), samples.moments.len(), samples.facts.len()), (0, 1, 0));
    }
}
