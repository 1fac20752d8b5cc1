//! The events as tables for SQL and Parquet.
//!
//! [`columns`] turns batches of events into Arrow's. [`events`] is the table from which DataFusion reads them, only the
//! columns and blocks that a query needs; [`parquet_scan`] is that table for traces that are Parquet already. [`leaf`]
//! is its operator in plans, and [`split`] the part of a trace that one worker reads. [`small_tables`] creates the
//! small tables (files, processes, hosts, waits, summary) from counts. [`query`] runs SQL, [`unix_times`] converts its
//! times, and [`cancel`] cancels it; [`bounded`] limits the memory of functions, and [`compact_views`] frees strings
//! that are no longer used. [`export`] writes everything as Parquet: one [`parquet_file`] per thread, whose columns of
//! few values are [`keys`].

pub mod bounded;
pub mod cancel;
pub mod columns;
pub mod compact_views;
pub mod events;
pub mod export;
pub mod keys;
pub mod leaf;
pub mod output;
pub mod parquet_file;
pub mod parquet_scan;
pub mod query;
pub mod small_tables;
pub mod split;
pub mod unix_times;
