//! Three kinds of random numbers: a counter-based stream for everything of dlio's own, a permutation without a table
//! for shuffles of any length, and NumPy's legacy generator for the one case in which its exact numbers matter (file
//! sizes).

/// Returns a 64-bit word per index, without state: any part of a stream can be computed independently, in any order.
///
/// wyrand's fold: a 128-bit product whose halves are xored. One multiplication per word makes generating content as
/// fast as writing it.
#[inline(always)]
pub fn word(seed: u64, index: u64) -> u64 {
    let x = seed.wrapping_add(index.wrapping_mul(0xa076_1d64_78bd_642f));
    let product = u128::from(x) * u128::from(x ^ 0xe703_7ed1_a0b4_28db);
    (product >> 64) as u64 ^ product as u64
}

/// Mixes parts into a seed so that adjacent files, epochs and ranks share nothing.
pub fn mixed(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |seed, part| word(seed ^ part.rotate_left(32), part.wrapping_add(1)))
}

/// Draws for durations: uniform, normal, and distributions built on them.
#[derive(Debug, Clone)]
pub struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws { seed, drawn: 0 }
    }

    /// Returns a number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.drawn += 1;
        (word(self.seed, self.drawn) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Marsaglia and Tsang's method; shapes below one are raised by one and scaled back.
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.uniform().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.uniform()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    /// Counts arrivals for small means; above fifty, the difference from the normal curve is smaller than any
    /// measurable sleep.
    pub fn poisson(&mut self, mean: f64) -> f64 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0);
        }
        let (floor, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
        while product > floor {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }
}

/// A shuffle of `0..length` that is computed, not stored: four Feistel rounds over the next even power of two, walked
/// until the result falls inside. A million files need no list.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    length: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    pub fn new(length: u64, seed: u64) -> Permutation {
        let bits = 64 - length.saturating_sub(1).leading_zeros();
        Permutation { length, half_bits: bits.div_ceil(2).max(1), seed }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.length);
        let mut value = self.rounds(index);
        while value >= self.length {
            value = self.rounds(value);
        }
        value
    }

    fn rounds(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..4 {
            let mixed = word(self.seed ^ (round << 56), right) >> 17;
            (left, right) = (right, (left ^ mixed) & mask);
        }
        left << self.half_bits | right
    }
}

/// `numpy.random.RandomState(seed).normal`: MT19937 and the polar method, number for number.
pub struct NumpyLegacy {
    state: [u32; 624],
    next: usize,
    /// The polar method produces two at a time; NumPy returns the second one next.
    kept: Option<f64>,
}

impl NumpyLegacy {
    pub fn new(seed: u32) -> NumpyLegacy {
        let mut state = [0u32; 624];
        state[0] = seed;
        for i in 1..624 {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(i as u32);
        }
        NumpyLegacy { state, next: 624, kept: None }
    }

    fn refill(&mut self) {
        for i in 0..624 {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7fff_ffff);
            let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + 397) % 624] ^ (y >> 1) ^ odd;
        }
        self.next = 0;
    }

    fn word(&mut self) -> u32 {
        if self.next == 624 {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn double(&mut self) -> f64 {
        let (high, low) = (self.word() >> 5, self.word() >> 6);
        (f64::from(high) * 67_108_864.0 + f64::from(low)) / 9_007_199_254_740_992.0
    }

    fn gauss(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let x1 = 2.0 * self.double() - 1.0;
            let x2 = 2.0 * self.double() - 1.0;
            let r2 = x1 * x1 + x2 * x2;
            if r2 < 1.0 && r2 != 0.0 {
                let f = (-2.0 * r2.ln() / r2).sqrt();
                self.kept = Some(f * x1);
                return f * x2;
            }
        }
    }

    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        mean + deviation * self.gauss()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_every_index_once() {
        for length in [1u64, 2, 3, 16, 17, 1000, 4097] {
            let permutation = Permutation::new(length, 42);
            let mut seen: Vec<u64> = (0..length).map(|i| permutation.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..length), "{length}");
        }
    }

    #[test]
    fn another_seed_is_another_order() {
        let order = |seed| (0..100).map(|i| Permutation::new(100, seed).at(i)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
        assert_ne!(order(1), (0..100).collect::<Vec<_>>());
        assert_eq!(order(1), order(1));
    }

    #[test]
    fn draws_have_the_requested_mean_and_spread() {
        let mut draws = Draws::new(7);
        let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
        let normal: Vec<f64> = (0..20_000).map(|_| draws.normal()).collect();
        let gamma: Vec<f64> = (0..20_000).map(|_| draws.gamma(2.5)).collect();
        let poisson: Vec<f64> = (0..20_000).map(|_| draws.poisson(4.0)).collect();
        assert!(mean(&normal).abs() < 0.03);
        assert!((mean(&gamma) - 2.5).abs() < 0.06);
        assert!((mean(&poisson) - 4.0).abs() < 0.06);
    }
}
