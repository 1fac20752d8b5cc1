//! Selects a workload, and refuses impossible combinations of values.
//!
//! ```text
//! presets   the workloads that are compiled in; composes one with its overrides
//! rules     combinations that no run can honor
//! ```

pub mod presets;
pub mod rules;
