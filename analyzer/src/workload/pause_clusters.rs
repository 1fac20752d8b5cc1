//! The rhythm of a job without spans: short pauses between samples, long ones between batches.

/// Two clusters of pauses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PauseClusters {
    pub short_ns: f64,
    pub long_ns: f64,
    /// Standard deviation of the long ones, without a few outliers that are not steps.
    pub spread_ns: f64,
    /// The number of pauses per long one.
    pub every: f64,
}

/// Long pauses are at least this many times as long as short ones.
const APART: f64 = 4.0;

/// The minimum number of pauses for a rhythm.
const PAUSES_MIN: u64 = 4;

/// The number of rounds in which pauses are assigned to the nearer cluster.
const ROUNDS: usize = 32;

/// The ratio of the standard deviation to the median absolute deviation, for a normal distribution.
const OF_MIDDLE: f64 = 1.4826;

/// Separates two clusters of pauses by their logarithms. `None` if there is only one. `begun` are units that no pause
/// precedes: each is the first of a batch.
pub fn find_clusters(pauses: &[(f64, u64)], begun: u64) -> Option<PauseClusters> {
    let all: u64 = pauses.iter().map(|(_, count)| count).sum::<u64>() + begun;
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
    let batches = longs + begun;
    if all < PAUSES_MIN || longs < 2 || long_ns < APART * short_ns.max(1.0) {
        return None;
    }
    // One pause of a second among steps of ten milliseconds is a start or an evaluation, and would dominate their
    // variance.
    let deviations: Vec<_> = long.iter().map(|(ns, count)| ((ns - long_ns).abs(), *count)).collect();
    let spread_ns = OF_MIDDLE * middle(&deviations)?;
    Some(PauseClusters { short_ns, long_ns, spread_ns, every: all as f64 / batches as f64 })
}

/// Returns the median of values with counts.
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
        let found = find_clusters(&pauses, 0).unwrap();
        assert_eq!((found.long_ns, found.every), (5e7, 4.0));
        assert!(found.short_ns < 3e4);
    }

    #[test]
    fn equal_pauses_give_no_clusters() {
        let pauses: Vec<(f64, u64)> = (0..40).map(|i| (1e6 + i as f64 * 1e4, 1)).collect();
        assert_eq!(find_clusters(&pauses, 0), None);
        assert_eq!(find_clusters(&[], 0), None);
        assert_eq!(find_clusters(&[(5.0, 100)], 0), None);
    }

    #[test]
    fn outlier_pause_does_not_widen_the_spread() {
        // Ten batches of six: the first has no pause before it, one follows after a second.
        let pause = |i: u64| match (i, i % 6) {
            (30, _) => 1e9,
            (_, 0) => 1e7 + (i % 5) as f64 * 1e4,
            _ => 2e4,
        };
        let pauses: Vec<(f64, u64)> = (1..60).map(|i| (pause(i), 1)).collect();
        let found = find_clusters(&pauses, 1).unwrap();
        assert_eq!(found.every, 6.0);
        assert!(found.spread_ns < 0.01 * found.long_ns, "{found:?}");
    }

    #[test]
    fn steps_of_a_distribution_keep_their_deviation() {
        // Evenly from 8 to 12 ms: 1.15 ms standard deviation.
        let pause = |i: u64| if i.is_multiple_of(2) { 8e6 + 1e5 * (i / 2) as f64 } else { 2e4 };
        let pauses: Vec<(f64, u64)> = (0..82).map(|i| (pause(i), 1)).collect();
        let found = find_clusters(&pauses, 0).unwrap();
        assert!((1.0e6..1.6e6).contains(&found.spread_ns), "{found:?}");
    }
}
