//! JSON as Go's `encoding/json` reads and writes it.

mod parse;
mod write;

pub use parse::{parse, parse_list, parse_map};
pub(crate) use write::length;
pub use write::{Style, write, write_value};

#[cfg(test)]
mod tests;
