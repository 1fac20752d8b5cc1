//! Files that contain files, as far as the formats need them, and reading a long one in order.
//!
//! ```text
//! zip      zip files
//! tar      tar files
//! window   the part of a long file that is in memory, read front to back
//! ```

pub(super) mod tar;
pub(super) mod window;
pub mod zip;
