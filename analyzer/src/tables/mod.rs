//! The same events as tables for SQL and Parquet.
//!
//! [`columns`] turns batches of events into Arrow's; [`events`] is the table that DataFusion reads them through, block by
//! block and only the columns and blocks a query needs, and [`in_place`] where the trace is such tables already; [`leaf`] is
//! what plans have of it, and [`portion`] what part of it somebody reads; [`facts`] makes the small tables (files, processes,
//! hosts) from what was counted; [`query`] runs SQL, [`cancel`] ends it, and [`bounded`] keeps functions within the memory they
//! may take. [`export`] writes all of it as Parquet: each thread a [`part`], whose columns of few values are [`keys`].

pub mod bounded;
pub mod cancel;
pub mod columns;
pub mod events;
pub mod export;
pub mod facts;
pub mod in_place;
pub mod keys;
pub mod leaf;
pub mod output;
pub mod part;
pub mod portion;
pub mod query;
