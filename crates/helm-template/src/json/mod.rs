//! JSON as Go's `encoding/json` reads and writes it.

mod parse;
mod write;

pub use parse::parse;
pub(crate) use parse::{mismatch, parse_partly};
pub(crate) use write::length;
pub use write::{Style, write, write_value};

#[cfg(test)]
mod tests;
