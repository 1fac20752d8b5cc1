//! Statistics of two samples: rank tests for whole runs, block bootstrap for steps.

/// Consecutive values of a run, each covering some number of steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    pub sum: f64,
    pub weight: f64,
}

/// An estimate and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// The statistic of steps that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Their mean: the total cost, long steps included.
    Mean,
    /// The mean of the faster half: the undisturbed cost, because other activity of the host only makes steps longer.
    Faster,
}

/// The number of samples that [`bootstrap`] draws.
const DRAWS: usize = 2000;

/// A fixed seed, so that the same runs give the same interval.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the relative change from one run to another, by a circular block bootstrap. Adjacent values stay together,
/// because a delay of one step also delays the next.
///
/// `block` is a number of values. `None` if there are no values to draw from.
pub fn bootstrap(before: &[Weighted], after: &[Weighted], block: usize, location: Location) -> Option<Interval> {
    let estimate = location.of(after)? / location.of(before).filter(|before| *before > 0.0)? - 1.0;
    let mut random = SplitMix(SEED);
    let orders = [before, after].map(ascending);
    let mut times = Vec::new();
    let mut of_draw = |values: &[Weighted], order: &[usize]| {
        random.draw(values.len(), block, &mut times);
        location.of_drawn(values, order, &times).unwrap_or(0.0)
    };
    let mut changes: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let (after, before) = (of_draw(after, &orders[1]), of_draw(before, &orders[0]));
            (before > 0.0).then_some(after / before - 1.0)
        })
        .collect();
    changes.sort_by(f64::total_cmp);
    let at = |share: f64| changes.get((share * changes.len() as f64) as usize).copied();
    Some(Interval { estimate, low: at(0.025)?, high: at(0.975)? })
}

/// Returns the length over which adjacent values may depend on each other: at least two rounds of the readers and the
/// square root of the number of values, but short enough for four blocks.
pub fn block(values: usize, readers: usize) -> usize {
    (2 * readers).max(values.isqrt()).clamp(1, (values / 4).max(1))
}

impl Location {
    /// Computes the statistic of single steps.
    pub fn of(self, values: &[Weighted]) -> Option<f64> {
        self.of_drawn(values, &ascending(values), &vec![1; values.len()])
    }

    /// Computes the statistic of values that were each drawn `times` times; `order` sorts them by size.
    fn of_drawn(self, values: &[Weighted], order: &[usize], times: &[u32]) -> Option<f64> {
        let sum = |of: fn(&Weighted) -> f64| -> f64 {
            values.iter().zip(times).map(|(value, times)| of(value) * f64::from(*times)).sum()
        };
        let weight = sum(|value| value.weight);
        if weight <= 0.0 {
            return None;
        }
        match self {
            Location::Mean => Some(sum(|value| value.sum) / weight),
            Location::Faster => Some(faster(order.iter().map(|&at| (values[at], f64::from(times[at]))), weight)),
        }
    }
}

/// Returns the indices of the values in ascending order.
fn ascending(values: &[Weighted]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).filter(|&at| values[at].weight > 0.0).collect();
    let each = |at: usize| values[at].sum / values[at].weight;
    order.sort_by(|&a, &b| each(a).total_cmp(&each(b)));
    order
}

/// Returns the mean of the first half of ascending values.
fn faster(ascending: impl Iterator<Item = (Weighted, f64)>, weight: f64) -> f64 {
    let half = weight / 2.0;
    let mut at = 0.0;
    let within = ascending.map(|(value, times)| {
        let begin = at;
        at += value.weight * times;
        value.sum / value.weight * (at.min(half) - begin).max(0.0)
    });
    within.sum::<f64>() / half
}

/// SplitMix64 by Steele, Lea and Flood: one word of state, good enough to draw blocks.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((self.next() as u128 * bound as u128) >> 64) as usize
    }

    /// Counts how often each value is drawn, when as many values as there are get drawn in blocks that wrap around.
    fn draw(&mut self, values: usize, block: usize, times: &mut Vec<u32>) {
        times.clear();
        times.resize(values, 0);
        let mut drawn = 0;
        while drawn < values {
            let start = self.below(values);
            let length = block.clamp(1, values - drawn);
            (start..start + length).for_each(|at| times[at % values] += 1);
            drawn += length;
        }
    }
}

/// The largest number of runs per side for which the U test is exact.
const EXACT_MAX: usize = 20;

/// Returns the probability that two samples of one distribution differ in rank at least this much (Mann-Whitney U test,
/// two-sided).
pub fn u_test(before: &[f64], after: &[f64]) -> f64 {
    let ranks = doubled_ranks(before, after);
    if before.is_empty() || after.is_empty() {
        return 1.0;
    }
    let sum: usize = ranks[..before.len()].iter().sum();
    match before.len().max(after.len()) <= EXACT_MAX {
        true => exact(&ranks, before.len(), sum),
        false => approximate(&ranks, before.len(), sum),
    }
}

/// Returns twice the rank of each value, so that ties have integer ranks; in input order, first sample first.
fn doubled_ranks(before: &[f64], after: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = before.iter().chain(after).copied().collect();
    let rank = |value: &f64| {
        let smaller = all.iter().filter(|other| *other < value).count();
        let equal = all.iter().filter(|other| *other == value).count();
        2 * smaller + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Computes the exact probability: the share of all choices of the first sample whose rank sum is at least as far from
/// the middle.
fn exact(ranks: &[usize], chosen: usize, sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[k][s] is the number of choices of k ranks with the sum s.
    let mut ways = vec![vec![0.0_f64; total + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=chosen).rev() {
            for s in (rank..=total).rev() {
                ways[k][s] += ways[k - 1][s - rank];
            }
        }
    }
    let middle = total as f64 * chosen as f64 / ranks.len() as f64;
    let far = (sum as f64 - middle).abs();
    let all: f64 = ways[chosen].iter().sum();
    let as_far = ways[chosen].iter().enumerate().filter(|(s, _)| (*s as f64 - middle).abs() >= far - 1e-9);
    as_far.map(|(_, ways)| ways).sum::<f64>() / all
}

/// Computes the probability by the normal distribution, with ties and a continuity correction.
fn approximate(ranks: &[usize], chosen: usize, sum: usize) -> f64 {
    let (n1, n) = (chosen as f64, ranks.len() as f64);
    let n2 = n - n1;
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|tie| (tie.len() as f64).powi(3) - tie.len() as f64).sum();
    let variance = n1 * n2 / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((sum as f64 / 2.0 - n1 * (n + 1.0) / 2.0).abs() - 0.5).max(0.0);
    2.0 * above(distance / variance.sqrt())
}

/// Returns the upper tail of the normal distribution at `z`, by Abramowitz and Stegun 26.2.17, with an error of at most
/// 7.5e-8.
fn above(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let polynomial = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

/// Returns the median of the ratios of every run after to every run before, minus one, with the interval that matches
/// the U test. If the samples are too small for an interval, it is the whole range of the ratios.
pub fn median_of_ratios(before: &[f64], after: &[f64]) -> Option<Interval> {
    let mut ratios: Vec<f64> = after.iter().flat_map(|b| before.iter().map(move |a| b / a - 1.0)).collect();
    ratios.retain(|ratio| ratio.is_finite());
    ratios.sort_by(f64::total_cmp);
    let last = ratios.len().checked_sub(1)?;
    let estimate = (ratios[last / 2] + ratios[last.div_ceil(2)]) / 2.0;
    let cut = critical(before.len(), after.len()).min(last / 2);
    Some(Interval { estimate, low: ratios[cut], high: ratios[last - cut] })
}

/// Returns how many of the smallest ratios are outside the interval: the largest number that U stays below in one of 40
/// cases.
fn critical(n1: usize, n2: usize) -> usize {
    let (n1, n2) = (n1.min(EXACT_MAX), n2.min(EXACT_MAX));
    let mut ways = vec![vec![0.0_f64; n1 * n2 + 1]; n1 + 1];
    ways[0][0] = 1.0;
    // If the k-th chosen value is at position p of n1 + n2, it exceeds p - k + 1 values of the other sample.
    for place in 0..n1 + n2 {
        for k in (1..=n1.min(place + 1)).rev() {
            let passed = place + 1 - k;
            for u in (passed..=n1 * n2).rev() {
                ways[k][u] += ways[k - 1][u - passed];
            }
        }
    }
    let all: f64 = ways[n1].iter().sum();
    let mut below = 0.0;
    let within = ways[n1].iter().take_while(|ways| {
        below += **ways / all;
        below <= 0.025
    });
    within.count()
}

/// Marks the probabilities that are small enough that at most one in 20 marked ones is false (Benjamini-Hochberg).
pub fn discoveries(probabilities: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let limit = |rank: usize| 0.05 * (rank + 1) as f64 / probabilities.len() as f64;
    let last = order.iter().enumerate().rposition(|(rank, &i)| probabilities[i] <= limit(rank));
    let mut found = vec![false; probabilities.len()];
    order.iter().take(last.map_or(0, |last| last + 1)).for_each(|&i| found[i] = true);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn exact_probabilities_are_those_of_tables() {
        // 2 of the 70 ways to choose 4 of 8 are this far apart.
        assert!(close(u_test(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]), 2.0 / 70.0));
        assert!(close(u_test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 0.1));
        // scipy.stats.mannwhitneyu(..., method="exact")
        assert!(close(u_test(&[1.1, 3.2, 5.3, 7.4, 9.5], &[2.0, 4.0, 6.0, 8.0, 10.0]), 0.690_476_190_476));
        assert!(close(u_test(&[1.0; 5], &[1.0; 5]), 1.0));
    }

    #[test]
    fn large_samples_are_judged_by_the_normal_distribution() {
        let before: Vec<f64> = (0..30).map(f64::from).collect();
        let after: Vec<f64> = (0..30).map(|i| f64::from(i) + 7.5).collect();
        // scipy.stats.mannwhitneyu(..., method="asymptotic", use_continuity=True)
        assert!(close(u_test(&before, &after), 0.003_670_893_392), "{}", u_test(&before, &after));
        assert!(u_test(&before, &before) > 0.99);
    }

    #[test]
    fn intervals_of_ratios_leave_out_what_tables_say() {
        // Critical values of U at 5 %, two-sided. An interval excludes one more than the largest significant U.
        assert_eq!(
            [critical(4, 4), critical(5, 5), critical(6, 6), critical(8, 8), critical(10, 10)],
            [1, 3, 6, 14, 24]
        );
        assert_eq!(critical(3, 3), 0);
        let interval = median_of_ratios(&[10.0, 10.0, 10.0], &[11.0, 12.0, 11.0]).unwrap();
        assert!(close(interval.estimate, 0.1) && close(interval.low, 0.1) && close(interval.high, 0.2));
        assert_eq!(median_of_ratios(&[], &[1.0]), None);
    }

    /// Returns the steps of a run, with some noise and, if `stalls`, occasional stalls.
    fn stepped(random: &mut SplitMix, mean: f64, stalls: bool) -> Vec<Weighted> {
        let mut part = || random.below(1000) as f64 / 1000.0;
        (0..200)
            .map(|_| {
                let stall = if stalls && part() < 0.03 { 20.0 * part() } else { 0.0 };
                Weighted { sum: mean * (1.0 + 0.2 * (part() - 0.5) + stall), weight: 1.0 }
            })
            .collect()
    }

    #[test]
    fn a_bootstrap_holds_the_truth_in_19_of_20_cases() {
        let mut random = SplitMix(7);
        for location in [Location::Mean, Location::Faster] {
            let mut pair = |_| {
                let (before, after) = (stepped(&mut random, 10.0, false), stepped(&mut random, 11.0, false));
                bootstrap(&before, &after, 8, location).unwrap()
            };
            let pairs: Vec<Interval> = (0..100).map(&mut pair).collect();
            let holding = pairs.iter().filter(|pair| pair.low < 0.1 && pair.high > 0.1).count();
            assert!((88..=100).contains(&holding), "{location:?}: {holding}");
            assert!(pairs.iter().all(|pair| pair.low > 0.05 && pair.high < 0.15), "{location:?}");
            assert_eq!(bootstrap(&[], &stepped(&mut random, 1.0, false), 8, location), None);
        }
    }

    #[test]
    fn stalls_blur_the_mean_and_not_the_faster_half() {
        let mut random = SplitMix(11);
        let mut found = |after: f64| {
            let mut pair = |_| {
                let (before, after) = (stepped(&mut random, 10.0, true), stepped(&mut random, after, true));
                let of = |location| bootstrap(&before, &after, block(200, 0), location).unwrap();
                [of(Location::Mean), of(Location::Faster)]
                    .map(|interval| interval.low > 0.02 && interval.estimate > 0.05)
            };
            let pairs: Vec<[bool; 2]> = (0..20).map(&mut pair).collect();
            [0, 1].map(|location| pairs.iter().filter(|pair| pair[location]).count())
        };
        let (slower, same) = (found(11.0), found(10.0));
        assert!(slower[1] == 20 && slower[0] < 15, "{slower:?}");
        assert!(same[0] + same[1] <= 1, "{same:?}");
    }

    #[test]
    fn the_faster_half_is_counted_by_steps() {
        let value = |sum: f64, weight: f64| Weighted { sum, weight };
        assert_eq!(Location::Faster.of(&[1000.0, 2.0, 4.0, 1.0].map(|sum| value(sum, 1.0))), Some(1.5));
        // The first value covers two steps of 7: the faster half is the step of 5 and one step of 7.
        assert_eq!(Location::Faster.of(&[value(14.0, 2.0), value(5.0, 1.0), value(90.0, 1.0)]), Some(6.0));
        assert_eq!((Location::Faster.of(&[]), Location::Mean.of(&[value(9.0, 3.0)])), (None, Some(3.0)));
        assert_eq!((block(400, 2), block(400, 16), block(10, 16), block(1, 0)), (20, 32, 2, 1));
    }

    #[test]
    fn of_many_probabilities_few_are_found_by_chance() {
        assert_eq!(discoveries(&[0.01, 0.04, 0.03, 0.5]), [true, false, false, false]);
        assert_eq!(discoveries(&[0.012, 0.02, 0.03, 0.5]), [true, true, true, false]);
        assert_eq!(discoveries(&[]), [false; 0]);
    }
}
