//! TOML as Helm reads and writes it, which is as Go's `github.com/BurntSushi/toml` does.
//!
//! Helm 3 knows TOML 1.0 and Helm 4 knows 1.1; they also write floats differently.

mod key;
mod number;
mod parse;
mod text;
mod write;

pub use parse::parse;
pub use write::write;

#[cfg(test)]
mod tests;
