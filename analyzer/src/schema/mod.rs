//! The tables that people query: [`tables`] lists their names, columns and meanings, [`arrow_schema`] turns them into schemas
//! of Arrow.

pub mod arrow_schema;
pub mod tables;
