//! JSON with the semantics of Go's `encoding/json`.

mod parse;
mod write;

pub use parse::parse;
pub(crate) use parse::{mismatch, parse_partial};
pub(crate) use write::length;
pub use write::{JsonStyle, write, write_value};

#[cfg(test)]
mod tests;
