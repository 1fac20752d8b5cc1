//! Numbers of the report: [`quantiles`], and their formatting for readers ([`units`]).

pub mod quantiles;
pub mod units;
