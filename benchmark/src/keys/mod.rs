//! The syntax of overrides, and the keys of workload files.
//!
//! ```text
//! value           the tree that a YAML file or an override describes
//! table           every key: type, default, meaning
//! interpolation   `${...}` in a value
//! grammar         Hydra's overrides
//! ```
//!
//! Not here: what follows from the values (`config`).

pub mod grammar;
pub mod interpolation;
pub mod table;
pub mod value;

pub use table::{
    KEYS, Key, Kind, NOTHING, complaint, find, implied, is_section, none_of, of_checkpoint_size, present_name,
    present_name_of_value, suggestion,
};
