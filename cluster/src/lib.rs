//! Work on several machines.
