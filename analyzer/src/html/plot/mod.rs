//! Plots, one kind per file. Each is readable without the script, describes its content in words, and takes its colors
//! from the page's style.

pub mod boxes;
pub mod heat;
pub mod lanes;
pub mod pieces;
pub mod scale;
pub mod sizes;
pub mod stack;
pub mod strip;
pub mod tree;
