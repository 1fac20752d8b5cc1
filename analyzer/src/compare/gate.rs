//! Limits for a comparison: `wait.share > 5%`, `io.exposed_s > +10%`, `checkpoint.p50_s > +0.5`.

use serde::Serialize;

use super::metrics::{Named, Unit};
use super::{Claim, MetricChange, Sides};
use crate::amount::{self, Amount};

/// The value of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// Limits the metric itself, on the side after.
    Value(f64),
    /// Limits the relative change.
    Relative(f64),
    /// Limits the change in the metric's unit.
    Change(f64),
}

/// A limit, with the text that was given on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub typed: String,
    metric: Named,
    /// `true` if values above the limit exceed it, `false` if values below it do.
    above: bool,
    bound: Bound,
}

/// The outcome of a limit.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Kept,
    Exceeded,
    /// The runs do not suffice to decide.
    Undecided,
}

#[derive(Serialize, Clone, Debug)]
pub struct LimitOutcome {
    pub limit: String,
    pub verdict: Verdict,
    pub why: String,
}

impl Limit {
    /// Parses a limit for clap.
    pub fn parse(typed: &str) -> Result<Limit, String> {
        const FORM: &str = "a limit is METRIC > VALUE or METRIC < VALUE, like 'wait.share > 5%' or 'io.s > +10%'";
        let at = typed.find(['<', '>']).ok_or(FORM)?;
        let (metric, rest) = typed.split_at(at);
        let value = rest[1..].trim_start_matches('=').trim();
        let metric = Named::parse(metric.trim())?;
        let is_change = value.starts_with(['+', '-']);
        let bound = match value.strip_suffix('%') {
            Some(percent) if is_change => Bound::Relative(number(percent)? / 100.0),
            Some(percent) if metric.unit() == Unit::Share => Bound::Value(number(percent)? / 100.0),
            Some(_) => return Err(format!("this metric has no limit in %; write a change as +{value}")),
            None if is_change => Bound::Change(figure(value, metric.unit())?),
            None => Bound::Value(figure(value, metric.unit())?),
        };
        Ok(Limit { typed: typed.into(), metric, above: rest.starts_with('>'), bound })
    }

    /// Returns `true` if the limit needs two sides.
    pub fn needs_two_sides(&self) -> bool {
        !matches!(self.bound, Bound::Value(_))
    }

    /// Returns the outcome of this limit. A metric that was already judged together with others keeps that claim.
    pub fn outcome(&self, sides: &Sides, judged: &[MetricChange]) -> LimitOutcome {
        let name = self.metric.name();
        let known = judged.iter().find(|change| change.metric == name);
        let change = known.cloned().unwrap_or_else(|| sides.judged_alone(&self.metric));
        let (verdict, why) = self.verdict(&change);
        LimitOutcome { limit: self.typed.clone(), verdict, why }
    }

    fn verdict(&self, change: &MetricChange) -> (Verdict, String) {
        let shown = |value: f64| change.unit.shown(value);
        let Some(after) = change.after else {
            return (Verdict::Undecided, format!("{} is unknown for the new run", change.metric));
        };
        let bound = match self.bound {
            Bound::Value(bound) => {
                return (self.judged(after, bound), format!("{} is {}", change.metric, shown(after)));
            }
            Bound::Relative(bound) => bound,
            Bound::Change(bound) => bound,
        };
        let Some(before) = change.before else {
            return (Verdict::Undecided, format!("{} is unknown for the baseline", change.metric));
        };
        let (estimate, interval) = match self.bound {
            Bound::Relative(_) if before == 0.0 && after == 0.0 => (0.0, Some((0.0, 0.0))),
            Bound::Relative(_) if before == 0.0 => (f64::INFINITY, None),
            Bound::Relative(_) => (change.change.unwrap_or(after / before - 1.0), change.low.zip(change.high)),
            _ => (after - before, change.low.zip(change.high)),
        };
        let why = match (self.bound, interval) {
            (Bound::Relative(_), Some((low, high))) if low != high => format!(
                "{} changed from {} to {}: {:+.1} % ({:+.1} to {:+.1} %)",
                change.metric,
                shown(before),
                shown(after),
                estimate * 100.0,
                low * 100.0,
                high * 100.0
            ),
            _ => format!("{} changed from {} to {}", change.metric, shown(before), shown(after)),
        };
        if self.judged(estimate, bound) == Verdict::Kept {
            return (Verdict::Kept, why);
        }
        // The value exceeds the limit, but noise may explain it. The U test can decide with four runs per side, an
        // interval with six.
        let beyond = |(low, high): (f64, f64)| if self.above { low > 0.0 } else { high < 0.0 };
        let claim = if self.above { Claim::More } else { Claim::Fewer };
        match interval {
            _ if change.exact => (Verdict::Exceeded, why),
            Some(interval) if beyond(interval) => (Verdict::Exceeded, why),
            None if change.claim == claim => (Verdict::Exceeded, why + &of_test(change)),
            Some(_) => (Verdict::Undecided, why + ", which may be noise"),
            None if change.p.is_some() => (Verdict::Undecided, why + ", which may be noise" + &of_test(change)),
            None => (
                Verdict::Undecided,
                why + "; these runs do not show whether that is noise: compare four runs per \
                side",
            ),
        }
    }

    fn judged(&self, value: f64, bound: f64) -> Verdict {
        let exceeded = if self.above { value > bound } else { value < bound };
        if exceeded { Verdict::Exceeded } else { Verdict::Kept }
    }
}

/// Describes the result of the U test, if it ran.
fn of_test(change: &MetricChange) -> String {
    change.p.map_or_else(String::new, |p| format!(" (U test, p = {p:.digits$})", digits = if p < 0.01 { 4 } else { 2 }))
}

fn number(text: &str) -> Result<f64, String> {
    figure(text, Unit::Count)
}

/// Parses a value. Times without a unit are in seconds, sizes without one in bytes.
fn figure(text: &str, unit: Unit) -> Result<f64, String> {
    let units = match unit {
        Unit::Seconds => amount::TIMES,
        Unit::Bytes | Unit::Rate => amount::SIZES,
        Unit::Share | Unit::Count => amount::NONE,
    };
    let amount = Amount::parse(text, units).ok_or_else(|| format!("{text:?} after < or > is not a number"))?;
    Ok(match (unit, amount.scale) {
        (Unit::Seconds, Some(_)) => amount.in_base() / 1e9,
        _ => amount.in_base(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: f64, after: f64, interval: Option<(f64, f64)>) -> MetricChange {
        MetricChange {
            metric: "io.s".into(),
            unit: Unit::Seconds,
            exact: false,
            before: Some(before),
            after: Some(after),
            change: Some(after / before - 1.0),
            low: interval.map(|interval| interval.0),
            high: interval.map(|interval| interval.1),
            p: None,
            claim: Claim::Undecided,
        }
    }

    fn verdict(typed: &str, change: &MetricChange) -> Verdict {
        Limit::parse(typed).unwrap().verdict(change).0
    }

    #[test]
    fn limits_are_values_shares_and_changes() {
        let bound = |typed: &str| Limit::parse(typed).map(|limit| (limit.above, limit.bound));
        assert_eq!(bound("wait.share > 5%"), Ok((true, Bound::Value(0.05))));
        assert_eq!(bound("io.exposed_s>+10%"), Ok((true, Bound::Relative(0.1))));
        assert_eq!(bound("checkpoint.p50_s > +0.5"), Ok((true, Bound::Change(0.5))));
        assert_eq!(bound("wall_s >= 90ms"), Ok((true, Bound::Value(0.09))));
        assert_eq!(bound("read.bytes < 2MiB"), Ok((false, Bound::Value(2_097_152.0))));
        assert_eq!(bound("function.read.count < -5%"), Ok((false, Bound::Relative(-0.05))));
    }

    #[test]
    fn what_is_no_limit_says_why() {
        let wrong = |typed: &str| Limit::parse(typed).unwrap_err();
        assert!(wrong("nosuch > 1").contains("unknown metric \"nosuch\". --explain"), "{}", wrong("nosuch > 1"));
        assert!(wrong("wal_s > 1").contains("did you mean wall_s?"), "{}", wrong("wal_s > 1"));
        assert!(wrong("wall_s").contains("METRIC > VALUE"));
        assert!(wrong("wall_s > 5%").contains("+5%"));
        assert!(wrong("wall_s > much").contains("not a number"));
        assert!(wrong("function.read.color > 1").contains("p50_s"));
    }

    #[test]
    fn a_limit_is_exceeded_only_beyond_noise() {
        assert_eq!(verdict("io.s > +10%", &change(1.0, 1.05, None)), Verdict::Kept);
        assert_eq!(verdict("io.s > +10%", &change(1.0, 1.2, None)), Verdict::Undecided);
        assert_eq!(verdict("io.s > +10%", &change(1.0, 1.2, Some((-0.1, 0.4)))), Verdict::Undecided);
        assert_eq!(verdict("io.s > +10%", &change(1.0, 1.2, Some((0.1, 0.3)))), Verdict::Exceeded);
        assert_eq!(verdict("io.s > 1.1", &change(1.0, 1.2, None)), Verdict::Exceeded);
        assert_eq!(verdict("io.s < -10%", &change(1.0, 0.5, Some((-0.6, -0.4)))), Verdict::Exceeded);
        assert_eq!(verdict("io.s > +0.1", &change(1.0, 1.2, Some((0.1, 0.3)))), Verdict::Exceeded);
    }

    #[test]
    fn what_the_u_test_claims_needs_no_interval() {
        let tested = |claim| MetricChange { p: Some(0.0079), claim, ..change(1.0, 1.2, None) };
        assert_eq!(verdict("io.s > +10%", &tested(Claim::More)), Verdict::Exceeded);
        assert_eq!(verdict("io.s > +30%", &tested(Claim::More)), Verdict::Kept);
        let (noise, why) = Limit::parse("io.s > +10%").unwrap().verdict(&tested(Claim::Noise));
        assert!(noise == Verdict::Undecided && why.ends_with(", which may be noise (U test, p = 0.0079)"), "{why}");
    }

    #[test]
    fn a_figure_that_is_not_known_decides_nothing() {
        let unknown = MetricChange { after: None, ..change(1.0, 1.0, None) };
        assert_eq!(verdict("io.s > 1", &unknown), Verdict::Undecided);
        let new = MetricChange { before: None, ..change(1.0, 1.0, None) };
        assert_eq!([verdict("io.s > +1%", &new), verdict("io.s > 2", &new)], [Verdict::Undecided, Verdict::Kept]);
    }
}
