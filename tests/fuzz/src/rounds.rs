//! Damaged samples for entry points, without a fuzzer: each round follows from a seed, so that a failure can be
//! reproduced.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `DLIO_FUZZ_SEED` | seed of all rounds | 1 |
//! | `DLIO_FUZZ_ROUNDS` | rounds of each entry | set by the test |

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A parser of arbitrary bytes, by its name.
pub type Entry = (&'static str, fn(&[u8]));

/// Numbers that follow from a seed: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Numbers at which arithmetic fails, in binary.
const LIMITS: [u64; 10] = [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

/// These limits, and separators between values, as text.
const WORDS: [&str; 22] = [
    "0",
    "-1",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e400",
    "NaN",
    ".",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "\n",
    "\u{ff}",
    "null",
    "<unfinished ...>",
];

/// Damages a sample in one to eight places.
pub fn damaged(samples: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = samples[random.below(samples.len())].clone();
    for _ in 0..=random.below(8) {
        damage(&mut bytes, samples, random);
    }
    bytes
}

fn damage(bytes: &mut Vec<u8>, samples: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(64)).min(bytes.len());
    match random.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let piece = bytes[at..end].to_vec();
            bytes.splice(at..at, piece);
        }
        5 => {
            let number = LIMITS[random.below(LIMITS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        6 => drop(bytes.splice(at..at, random.pick(&WORDS).bytes())),
        7 => {
            // A number in the text becomes one at a limit.
            let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return };
            let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            bytes.splice(start..start + length, random.pick(&WORDS[..8]).bytes());
        }
        _ => {
            let other = &samples[random.below(samples.len())];
            let from = random.below(other.len() + 1);
            let to = (from + random.below(256)).min(other.len());
            bytes.splice(at..end, other[from..to].iter().copied());
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty())?.parse().ok()
}

/// Runs each entry on its samples, whole and damaged. An input that causes a panic is kept, and reported with its
/// round.
pub fn run(entries: &[Entry], samples: impl Fn(&str) -> Vec<Vec<u8>>, rounds: u64) {
    let seed = variable("DLIO_FUZZ_SEED").unwrap_or(1);
    let rounds = variable("DLIO_FUZZ_ROUNDS").unwrap_or(rounds);
    for (name, entry) in entries {
        let samples = samples(name);
        println!("{name}: {} samples, {rounds} rounds of seed {seed}", samples.len());
        samples.iter().for_each(|sample| entry(sample));
        for round in 0..rounds {
            let input = damaged(&samples, &mut Random(seed ^ round << 32));
            if catch_unwind(AssertUnwindSafe(|| entry(&input))).is_err() {
                let kept = std::env::temp_dir().join(format!("dlio-fuzz-{name}-{seed}-{round}"));
                let _ = std::fs::write(&kept, &input);
                panic!("{name} panics in round {round} of DLIO_FUZZ_SEED={seed}, with the bytes in {}", kept.display());
            }
        }
    }
}
