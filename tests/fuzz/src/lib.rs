//! Entry points for every handwritten parser: no input may make one panic.
//!
//! Each file here has the entries of one crate, `NAME: fn(&[u8])`. Each is a fuzz target of its name, and the
//! ordinary tests of that crate run all of them for a bounded number of rounds ([`rounds`]).
#![forbid(unsafe_code)]

#[cfg(feature = "analyzer")]
pub mod analyzer;
#[cfg(feature = "benchmark")]
pub mod benchmark;
pub mod rounds;
pub mod schemas;
