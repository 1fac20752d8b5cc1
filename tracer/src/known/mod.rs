//! Tables of the objects that this process was seen using, by descriptor, address or hash.
//!
//! Reading order: [`number`] (the numbers that mean "none"), [`descriptors`], [`folders`], [`mappings`],
//! [`name_cache`], [`wakers`], [`semaphores`].

pub mod descriptors;
pub mod folders;
pub mod mappings;
pub(crate) mod name_cache;
pub mod number;
pub mod semaphores;
pub mod wakers;
