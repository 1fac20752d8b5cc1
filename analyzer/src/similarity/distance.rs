//! How far two distributions lie apart: Wasserstein's distance, which is how far values have to be moved on average to make
//! the one of the other.
//!
//! It is divided by the sum of both means. That is the most it can be for values that are not negative, and is reached where
//! all of one are zero: the result lies between 0 and 1, whatever the unit.

/// Of values in ascending order with their counts. Where only one has any, they have nothing in common.
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

/// The area between both quantile functions: goes through shares of each from 0 to 1 together.
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
    fn it_lies_between_nothing_and_all() {
        assert_eq!(normalised(&[(7.0, 3)], &[(7.0, 1)]), 0.0);
        assert_eq!(normalised(&[(0.0, 3)], &[(7.0, 1)]), 1.0);
        assert_eq!(normalised(&[], &[(7.0, 1)]), 1.0);
        assert_eq!(normalised(&[], &[]), 0.0);
        assert_eq!(normalised(&[(1.0, 1)], &[(3.0, 1)]), 0.5);
    }
}
