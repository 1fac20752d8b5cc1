//! Traces in JSON: Chrome's trace events and DFTracer's lines.
//!
//! Reading order: [`json_scanner`] (one object, in place), [`shapes`] (objects that differ in a few values), [`calls`] and
//! [`columns`] (the meaning of names and keys), [`templates`] (the meaning of a shape), [`hashes`] (DFTracer's names),
//! [`events`] (from objects to events).

pub mod calls;
pub mod columns;
pub mod events;
pub mod hashes;
pub mod json_scanner;
pub mod shapes;
pub mod templates;
