//! Numbers of the report: [`quantiles`], and their formatting for readers ([`units`]); names without their numbers
//! ([`pattern`](mod@pattern)).

pub mod pattern;
pub mod quantiles;
pub mod units;
