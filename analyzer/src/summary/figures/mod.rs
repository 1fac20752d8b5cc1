//! Numbers of the report: [`quantiles`], and [`units`] in which people read them.

pub mod quantiles;
pub mod units;
