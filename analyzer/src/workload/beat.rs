//! The rhythm of a job that says nothing of itself: short pauses between samples, long ones between batches.

/// Pauses of two kinds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Beat {
    pub short_ns: f64,
    pub long_ns: f64,
    /// Standard deviation of the long ones.
    pub spread_ns: f64,
    /// How many pauses there are to each long one.
    pub every: f64,
}

/// Long pauses are at least so many times as long as short ones.
const APART: f64 = 4.0;

/// Fewer pauses are no rhythm.
const PAUSES_MIN: u64 = 4;

/// Rounds in which pauses choose the kind they are nearer to.
const ROUNDS: usize = 32;

/// Tells two kinds of pauses apart, by their logarithms. `None` where there is but one.
pub fn beat(pauses: &[(f64, u64)]) -> Option<Beat> {
    let all: u64 = pauses.iter().map(|(_, count)| count).sum();
    let log = |ns: f64| ns.max(1.0).ln();
    let low = pauses.iter().map(|(ns, _)| log(*ns)).reduce(f64::min)?;
    let high = pauses.iter().map(|(ns, _)| log(*ns)).reduce(f64::max)?;
    let (mut low, mut high) = (low, high);
    let is_long = |ns: f64, low: f64, high: f64| log(ns) - low > high - log(ns);
    for _ in 0..ROUNDS {
        let mean = |long: bool| {
            let its = || pauses.iter().filter(|(ns, _)| is_long(*ns, low, high) == long);
            let count: u64 = its().map(|(_, count)| count).sum();
            (count > 0).then(|| its().map(|(ns, count)| log(*ns) * *count as f64).sum::<f64>() / count as f64)
        };
        (low, high) = (mean(false)?, mean(true)?);
    }
    let (short, long): (Vec<_>, Vec<_>) = pauses.iter().copied().partition(|(ns, _)| !is_long(*ns, low, high));
    let (short_ns, long_ns) = (middle(&short)?, middle(&long)?);
    let longs: u64 = long.iter().map(|(_, count)| count).sum();
    if all < PAUSES_MIN || longs < 2 || long_ns < APART * short_ns.max(1.0) {
        return None;
    }
    let square = |(ns, count): &(f64, u64)| (ns - long_ns).powi(2) * *count as f64;
    let spread_ns = (long.iter().map(square).sum::<f64>() / longs as f64).sqrt();
    Some(Beat { short_ns, long_ns, spread_ns, every: all as f64 / longs as f64 })
}

/// The median of values with counts.
pub fn middle(values: &[(f64, u64)]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: u64 = values.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let half = |(_, count): &&(f64, u64)| {
        seen += count;
        2 * seen >= all
    };
    values.iter().find(half).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_and_batches_have_pauses_of_their_own() {
        let pauses: Vec<(f64, u64)> =
            (0..40).map(|i| (if i % 4 == 3 { 5e7 } else { 2e4 + i as f64 * 100.0 }, 1)).collect();
        let found = beat(&pauses).unwrap();
        assert_eq!((found.long_ns, found.every), (5e7, 4.0));
        assert!(found.short_ns < 3e4);
    }

    #[test]
    fn pauses_of_one_kind_are_no_batches() {
        let pauses: Vec<(f64, u64)> = (0..40).map(|i| (1e6 + i as f64 * 1e4, 1)).collect();
        assert_eq!(beat(&pauses), None);
        assert_eq!(beat(&[]), None);
        assert_eq!(beat(&[(5.0, 100)]), None);
    }
}
