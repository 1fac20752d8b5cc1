//! The command `dlio-analyze`: turns arguments into a scan, a report, queries and files.
//!
//! `arguments` is the parsed command line, `question` its meaning, and `answers` has one file per answer. Each answer
//! is checked, then given. `run` does all of this in 30 lines.
//!
//! ```text
//!   argv ──► arguments ─► question ──► check ─► give ─► output
//!                 │                      ▲       ▲
//!                 └─► answers requested ─┴───────┘
//!                                                │ opened, counted and reported once
//!                                          shared_trace
//! ```

mod arguments;
mod combinations;
mod completions;
mod run;

// The command line and its meaning.
mod explanations;
mod limits;
mod question;
mod run_argument;
mod runs;
mod selection;
pub mod size;
pub mod time_argument;
mod time_range;
mod time_window;

// The answers, and the code they share.
mod answers;
mod export_trace;
mod listing;
mod observe_run;
mod open_trace;
mod report;
mod report_page;
mod run_query;
mod shared_trace;
#[cfg(feature = "cluster")]
mod worker;
#[cfg(feature = "cluster")]
mod workers;
#[cfg(not(feature = "cluster"))]
#[path = "workers_disabled.rs"]
mod workers;
mod written_report;

// Other user interaction: progress, interrupts and errors.
mod interrupts;
mod outcome;
mod output_path;
mod progress;
mod refusals;
mod stdout;

pub use run::main;
