//! `dlio top`: the current activity of traced programs.
//!
//! All data come from shared memory and files that the programs write anyway. Programs are never queried, so watching
//! costs them nothing.
//!
//! Reading order: [`folder`] (running processes), [`process`] (the activity of one, from [`counts`] and [`names`]),
//! [`watch`] (all of them), [`machine`] (host activity), [`snapshot`] (plain values), and the output: [`tables`],
//! [`text`], [`openmetrics`], [`listen`] (for Prometheus), and [`screen`] on a [`terminal`].

pub mod command;
pub mod counts;
pub mod folder;
pub mod listen;
pub mod machine;
pub mod names;
pub mod openmetrics;
pub mod process;
pub mod screen;
pub mod snapshot;
pub mod tables;
pub mod terminal;
pub mod text;
pub mod watch;
