//! The verbs of `dlio`, one file each.
//!
//! ```text
//! workloads         `dlio workloads`
//! completions       `dlio completions`
//! manual            `dlio man`
//! ranks             `dlio bench ranks`
//! report            `dlio bench report`
//! check             `dlio check mlperf`
//! size              `dlio bench size`
//! sweep             `dlio bench --sweep`
//! compare_layouts   `dlio bench --compare-layouts`
//! foreign_options   hints for options of other programs
//! output_places     checks that outputs can be written
//! analyzer          runs `dlio-analyze` on a trace
//! trace             `dlio trace`
//! trace_gpu         its options for programs that use a GPU
//! static_programs   `dlio trace --ptrace-static`
//! expiry            events of ended processes in `dlio trace --last`
//! kept_steps        events of slow steps in `dlio trace --last`
//! flight_recorder   both of them
//! trace_tasks       several `dlio trace` of one job
//! bench_traced      `dlio bench --trace`
//! ```

pub mod analyzer;
pub mod bench_traced;
pub mod check;
pub mod compare_layouts;
pub mod completions;
mod expiry;
mod flight_recorder;
pub mod foreign_options;
mod kept_steps;
pub mod manual;
mod output_places;
pub mod ranks;
pub mod report;
pub mod size;
mod static_programs;
pub mod sweep;
pub mod trace;
mod trace_gpu;
mod trace_tasks;
pub mod workloads;
