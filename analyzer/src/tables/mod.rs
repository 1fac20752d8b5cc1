//! The same events as tables for SQL and Parquet.
//!
//! [`columns`] turns batches of events into Arrow's. [`events`] is the table that DataFusion reads them through, block by
//! block and only the columns and blocks a query needs; [`parquet_scan`] is that table where the trace is Parquet already.
//! [`leaf`] is its operator in plans, and [`split`] the part of a trace that one worker reads. [`small_tables`] makes the
//! small tables (files, processes, hosts, waits) from what was counted. [`query`] runs SQL, [`cancel`] ends it, and [`bounded`]
//! keeps functions within the memory they may take. [`export`] writes all of it as Parquet: one [`parquet_file`] per thread,
//! whose columns of few values are [`keys`].

pub mod bounded;
pub mod cancel;
pub mod columns;
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
