//! The distance of two distributions: Wasserstein's, the average amount by which values must change to turn one
//! distribution into the other.
//!
//! It is divided by the sum of both means. That is its maximum for values that are not negative, reached if all values
//! of one distribution are zero: the result is between 0 and 1, for any unit.

/// Returns the distance of values in ascending order with their counts. If only one has values, they have nothing in
/// common.
pub fn normalised(a: &[(f64, u64)], b: &[(f64, u64)]) -> f64 {
    match (mean(a), mean(b)) {
        (None, None) => 0.0,
        (Some(x), Some(y)) if x + y > 0.0 => wasserstein(a, b) / (x + y),
        (Some(_), Some(_)) => 0.0,
        _ => 1.0,
    }
}

fn mean(values: &[(f64, u64)]) -> Option<f64> {
    let count: u64 = values.iter().map(|(_, count)| count).sum();
    let sum: f64 = values.iter().map(|(value, count)| value * *count as f64).sum();
    (count > 0).then(|| sum / count as f64)
}

/// Returns the area between both quantile functions, by walking through the shares of both from 0 to 1 together.
fn wasserstein(a: &[(f64, u64)], b: &[(f64, u64)]) -> f64 {
    let shares = |values: &[(f64, u64)]| -> Vec<(f64, f64)> {
        let all = values.iter().map(|(_, count)| count).sum::<u64>() as f64;
        let mut seen = 0;
        let end = |(value, count): &(f64, u64)| {
            seen += count;
            (*value, seen as f64 / all)
        };
        values.iter().map(end).collect()
    };
    let (a, b) = (shares(a), shares(b));
    let (mut i, mut j, mut at, mut area) = (0, 0, 0.0, 0.0);
    while i < a.len() && j < b.len() {
        let until = a[i].1.min(b[j].1);
        area += (a[i].0 - b[j].0).abs() * (until - at);
        at = until;
        i += usize::from(a[i].1 <= until);
        j += usize::from(b[j].1 <= until);
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_area_between_the_quantiles() {
        assert_eq!(wasserstein(&[(1.0, 5)], &[(4.0, 2)]), 3.0);
        assert_eq!(wasserstein(&[(0.0, 1), (10.0, 1)], &[(0.0, 3), (10.0, 1)]), 2.5);
        assert_eq!(wasserstein(&[(1.0, 2), (2.0, 2)], &[(1.0, 1), (2.0, 1)]), 0.0);
    }

    #[test]
    fn distance_is_between_zero_and_one() {
        assert_eq!(normalised(&[(7.0, 3)], &[(7.0, 1)]), 0.0);
        assert_eq!(normalised(&[(0.0, 3)], &[(7.0, 1)]), 1.0);
        assert_eq!(normalised(&[], &[(7.0, 1)]), 1.0);
        assert_eq!(normalised(&[], &[]), 0.0);
        assert_eq!(normalised(&[(1.0, 1)], &[(3.0, 1)]), 0.5);
    }
}
