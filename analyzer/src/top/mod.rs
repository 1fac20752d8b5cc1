//! `dlio top`: traced programs at this moment.
//!
//! Everything is read from shared memory and files that the programs write anyway. Nothing is asked of them, so watching
//! costs them nothing.
//!
//! Reading order: [`folder`] (who runs), [`process`] (what one did, from [`counts`] and [`names`]), [`watch`] (all of them),
//! [`machine`] (what machines do), [`snapshot`] (as plain values), and what shows it: [`tables`], [`text`], [`openmetrics`],
//! [`screen`] on a [`terminal`].

pub mod command;
pub mod counts;
pub mod folder;
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
