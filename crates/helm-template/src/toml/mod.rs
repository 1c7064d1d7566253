//! TOML with the semantics of Go's `github.com/BurntSushi/toml`, which Helm uses.
//!
//! Helm 3 supports TOML 1.0 and Helm 4 supports 1.1; they also format floats differently.

mod key;
mod number;
mod parse;
mod text;
mod write;

pub use parse::parse;
pub use write::write;

#[cfg(test)]
mod tests;
