//! Ticks of axes.

/// The approximate number of ticks.
const TICKS: f64 = 6.0;

/// Returns round numbers from zero to `most`.
pub fn ticks(most: f64) -> Vec<f64> {
    if most <= 0.0 || !most.is_finite() {
        return vec![0.0];
    }
    let rough = most / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    (0..).map(|at| at as f64 * step).take_while(|tick| *tick <= most * 1.0001).collect()
}

/// Returns the powers of ten in a range, or every second or third if there are many.
pub fn powers(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log10().ceil() as i32, most.log10().floor() as i32);
    let step = ((last - first) / 8 + 1).max(1) as usize;
    (first..=last).step_by(step).map(|power| 10f64.powi(power)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(11.8), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0), [0.0]);
        assert_eq!(powers(5.0, 2000.0), [10.0, 100.0, 1000.0]);
    }
}
