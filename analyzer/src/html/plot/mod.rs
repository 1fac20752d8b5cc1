//! Pictures, a kind in each file. Each is legible without its script, says in words what it shows, and takes its colours from
//! the page's style.

pub mod boxes;
pub mod heat;
pub mod lanes;
pub mod pieces;
pub mod scale;
pub mod sizes;
pub mod stack;
pub mod strip;
pub mod tree;
