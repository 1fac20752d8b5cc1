//! How files are accessed: [`access`] by each thread, [`blocks`] by several processes at once.

pub mod access;
pub mod blocks;
