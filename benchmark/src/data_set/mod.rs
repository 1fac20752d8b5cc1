//! A data set: its files, their content and their format.
//!
//! ```text
//! layout          names and sizes, computed
//! listing         names and sizes of files that exist already
//! content         the bytes of samples
//! formats         one file per format
//! fingerprint     how existing files were made
//! missing_files   which files do not exist
//! generate        writes them
//! page_cache      which part is in memory
//! ```

pub mod content;
pub mod fingerprint;
pub mod formats;
pub mod generate;
pub mod layout;
pub mod listing;
pub mod missing_files;
pub mod page_cache;
