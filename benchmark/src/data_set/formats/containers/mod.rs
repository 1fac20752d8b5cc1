//! Files that contain files, as far as the formats need them, and sequential reading of long files.
//!
//! ```text
//! zip      zip files
//! tar      tar files
//! window   the part of a long file that is in memory, read front to back
//! ```

pub(super) mod tar;
pub(super) mod window;
pub mod zip;
