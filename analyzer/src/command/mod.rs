//! The command `dlio-analyze`: what was typed becomes a scan, a report, queries, files.
//!
//! `arguments` is what was typed, `question` what it means, and `answers` has a file for each answer: it is checked, then
//! given. `run` is all of it in thirty lines.
//!
//! ```text
//!   typed ─► arguments ─► question ──► check ─► give ─► output
//!                 │                      ▲       ▲
//!                 └─► answers requested ─┴───────┘
//!                                                │ opened, counted and reported once
//!                                          shared_trace
//! ```

mod arguments;
mod completions;
mod run;

// What was typed, and what it means.
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

// The answers, and what they share.
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

// What the user sees beside them.
mod interrupts;
mod outcome;
mod output_path;
mod progress;
mod refusals;
mod stdout;

pub use run::main;
