//! The test bench of the capture path: small real programs, each run untraced and traced, and what their traces must hold.
//!
//! ```text
//! tests/programs/x.c ── directives ──> cases ── sandbox: untraced, native, auto ──> seen ── verdict
//! ```
//!
//! A program's first lines say what is expected of it ([`directives`]); it runs in a folder of its own ([`sandbox`]); what
//! it left is read back through the native format and through Perfetto ([`seen`]); and both are held against each other
//! ([`verdict`]). Adding a test is adding one small file. Nothing here looks into the tracer: the bench knows the
//! contracts in `dlio-schemas` and two built artefacts ([`artefacts`]).
//!
//! [`imports`] serves the checks of the sources themselves, and [`needs`] the tests that use what may not be installed.

pub mod artefacts;
pub mod compile;
pub mod directives;
pub mod imports;
pub mod needs;
pub mod sandbox;
pub mod seen;
pub mod verdict;

/// Folder of this crate: the one whose tests run, and not another clone's that was built into the same target folder.
pub fn home() -> std::path::PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is").into()
}
