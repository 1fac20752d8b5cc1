//! Files that contain files, as far as the formats need them, and reading a long one in order.

pub(super) mod tar;
pub(super) mod window;
pub mod zip;
