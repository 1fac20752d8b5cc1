//! The test bench of the capture path: small real programs, each run untraced and traced, and checks of their traces.
//!
//! ```text
//! tests/programs/x.c ── directives ──> cases ── sandbox: untraced, native, auto ──> seen ── verdict
//! ```
//!
//! A program's first lines define the expected results ([`directives`]). It runs in a separate directory
//! ([`sandbox`]), its trace is read back through the native format and through Perfetto ([`seen`]), and the trace is
//! compared with the expected results ([`verdict`]). A new test is one small file. Nothing here inspects the tracer:
//! the bench knows the contracts in `dlio-schemas` and two built artefacts ([`artefacts`]).
//!
//! [`imports`] is for the checks of the sources themselves, and [`needs`] for the tests that use programs that may
//! not be installed.

pub mod artefacts;
pub mod compile;
pub mod directives;
pub mod imports;
pub mod needs;
pub mod sandbox;
pub mod seen;
pub mod verdict;

/// Returns the directory of this crate: the one whose tests run, and not another clone's that was built into the same
/// target directory.
pub fn home() -> std::path::PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is").into()
}
