//! Reads samples with the calls of a profile, regardless of the format of the files.
//!
//! Each read goes to new memory, as in programs that pass on the data they read: the cost of a read includes the first
//! access to its pages.

use crate::config::profile::{Amount, At, Call, Distribution, Profile, Repeat};
use crate::data_set::formats::Reader;
use crate::failure::{Failure, Outcome};
use crate::files::input::open_regular;
use crate::system::random::{mixed, word};
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A read: how much it requests, and the pause before it.
type Each<'a> = (&'a Amount, Option<&'a Distribution>);

pub struct Replay {
    profile: Profile,
    /// In each file.
    samples: u64,
    open: Option<Open>,
    last: Vec<u8>,
    moved: u64,
    /// Draws so far.
    drawn: u64,
    seed: u64,
    /// How late the last pause ended, which is subtracted from the next.
    late: Duration,
}

struct Open {
    file: File,
    path: PathBuf,
    length: u64,
    /// Where the last read ended.
    at: u64,
}

impl Replay {
    pub fn new(profile: Profile, samples: u64, worker: u64) -> Replay {
        let seed = mixed(&[worker, 91]);
        Replay {
            profile,
            samples: samples.max(1),
            open: None,
            last: Vec::new(),
            moved: 0,
            drawn: 0,
            seed,
            late: Duration::ZERO,
        }
    }

    /// Returns a number in [0, 1).
    fn share(&mut self) -> f64 {
        self.drawn += 1;
        (word(self.seed, self.drawn) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn perform(&mut self, calls: &[Call], sample: u64) -> Outcome<()> {
        calls.iter().try_for_each(|call| match call {
            Call::Stat => self.stat(),
            Call::Seek => self.seek(),
            Call::Read { at, bytes, repeat, think } => self.reads(*at, (bytes, think.as_ref()), *repeat, sample),
        })
    }

    fn stat(&mut self) -> Outcome<()> {
        let Some(open) = &self.open else { return Ok(()) };
        open.file.metadata().map(drop).map_err(|error| Failure::io("read", &open.path, error))
    }

    fn seek(&mut self) -> Outcome<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let sought = open.file.seek(SeekFrom::Start(open.at));
        sought.map(drop).map_err(|error| Failure::io("read", &open.path, error))
    }

    fn reads(&mut self, at: At, each: Each, repeat: Repeat, sample: u64) -> Outcome<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let part = |sample: u64| (u128::from(open.length) * u128::from(sample) / u128::from(self.samples)) as u64;
        let end = part(sample + 1);
        match at {
            At::Next => {}
            At::Place => open.at = part(sample),
            At::Start(from) => open.at = from.min(open.length),
            At::End(before) => open.at = open.length.saturating_sub(before),
        }
        match repeat {
            Repeat::Times(times) => (0..times).try_for_each(|_| self.read(each).map(drop)),
            // At the end of the file the whole sample has been read.
            Repeat::Sample => {
                while self.open.as_ref().is_some_and(|open| open.at < end) && self.read(each)? > 0 {}
                Ok(())
            }
        }
    }

    /// Pauses for the requested time on average: a sleep ends late.
    fn pause(&mut self, asked: Duration) {
        let begun = Instant::now();
        std::thread::sleep(asked.saturating_sub(self.late));
        self.late = (self.late + begun.elapsed()).saturating_sub(asked);
    }

    /// Reads once; returns the bytes read.
    fn read(&mut self, (bytes, think): Each) -> Outcome<u64> {
        if let Some(pauses) = think {
            let asked = Duration::from_nanos(pauses.at(self.share()));
            self.pause(asked);
        }
        let drawn = if let Amount::Drawn(sizes) = bytes { sizes.at(self.share()) } else { 0 };
        let Some(open) = &mut self.open else { return Ok(0) };
        let asked = match bytes {
            Amount::Exactly(bytes) => *bytes,
            Amount::Rest => open.length.saturating_sub(open.at),
            Amount::Drawn(_) => drawn,
        };
        let mut memory = vec![0; asked as usize];
        let moved = loop {
            match open.file.read_at(&mut memory, open.at) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| Failure::io("read", &open.path, error))?,
            }
        };
        memory.truncate(moved);
        open.at += moved as u64;
        self.moved += moved as u64;
        self.last = memory;
        Ok(moved as u64)
    }
}

impl Reader for Replay {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        let failed = |error| Failure::io("open", path, error);
        let (file, length) = open_regular(path, 0).map_err(failed)?;
        self.open = Some(Open { file, path: path.to_path_buf(), length, at: 0 });
        let calls = std::mem::take(&mut self.profile.opening);
        let done = self.perform(&calls, 0);
        self.profile.opening = calls;
        done
    }

    fn sample(&mut self, index: u64) -> Outcome<()> {
        let calls = std::mem::take(&mut self.profile.sample);
        let done = self.perform(&calls, index);
        self.profile.sample = calls;
        done
    }

    fn bytes(&self) -> &[u8] {
        &self.last
    }

    fn content(&self, _: u64) -> Vec<u8> {
        self.last.clone()
    }

    fn take_moved(&mut self) -> u64 {
        std::mem::take(&mut self.moved)
    }

    fn close(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::value::parse_yaml;

    fn replay(text: &str, samples: u64) -> Replay {
        Replay::new(Profile::read(&parse_yaml("t", text).unwrap()).unwrap().unwrap(), samples, 1)
    }

    /// Returns the final bytes of each sample of a file of 100 bytes, and the number of bytes read for it.
    fn read(text: &str, samples: u64) -> Vec<(Vec<u8>, u64)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, (0..100).collect::<Vec<u8>>()).unwrap();
        let mut replay = replay(text, samples);
        replay.open(&path).unwrap();
        let sample = |index| {
            replay.sample(index).unwrap();
            (replay.bytes().to_vec(), replay.take_moved())
        };
        (0..samples).map(sample).collect()
    }

    #[test]
    fn a_sample_is_an_equal_part_of_its_file() {
        let found = read("{sample: [{call: read, at: place, bytes: 3}]}", 4);
        assert_eq!(found, [0, 25, 50, 75].map(|at| (vec![at, at + 1, at + 2], 3)));
    }

    #[test]
    fn stream_is_read_until_the_sample_is_complete() {
        let found = read("{sample: [{call: read, bytes: 40, repeat: sample}]}", 4);
        // Forty bytes contain the first sample, eighty the second and the third, and the last needs the remainder.
        let moved: Vec<u64> = found.iter().map(|(_, moved)| *moved).collect();
        assert_eq!(moved, [40, 40, 0, 20]);
    }

    #[test]
    fn ends_and_rests_are_those_of_the_file() {
        let text = "{opening: [{call: stat}, {call: read, at: -5, bytes: 4}], \
                     sample: [{call: seek}, {call: read, bytes: 9}, {call: read, at: 90, bytes: rest}]}";
        assert_eq!(read(text, 1), [((90..100).collect(), 4 + 1 + 10)]);
    }

    #[test]
    fn pauses_take_their_time() {
        let begun = Instant::now();
        let found = read("{sample: [{call: read, bytes: 10, repeat: sample, think: [0.001, 0.003]}]}", 1);
        assert_eq!(found[0].1, 100);
        assert!(begun.elapsed() >= Duration::from_millis(10), "ten pauses of a millisecond and more");
    }

    #[test]
    fn drawn_sizes_stay_within_the_distribution() {
        let found = read("{sample: [{call: read, at: 0, bytes: [10, 20]}]}", 50);
        assert!(found.iter().all(|(_, moved)| (10..=20).contains(moved)));
        assert!(found.iter().any(|(_, moved)| *moved != found[0].1));
    }
}
