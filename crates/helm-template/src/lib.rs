//! Go's `text/template` engine with Helm's template functions.
//!
//! Modules:
//! - [`value`]: values that templates work on.
//! - [`parse`]: from text to syntax tree.
//! - [`exec`]: execution of the tree.
//! - [`go`]: what both take from Go itself (literals, `fmt`).
//! - [`functions`]: functions that charts call.
//! - [`data`], [`yaml`], [`json`], [`toml`]: the formats that those functions read and write.
//! - [`semver`]: versions and constraints.
//! - [`env`]: clock, randomness, cryptography, `lookup` and DNS as traits.
//! - [`budget`]: limits on time and memory.
//! - [`profile`]: differences between Helm 3 and Helm 4.
//!
//! Invariants:
//! - The crate has no file system, network, clock or randomness of its own.
//! - Results, ordering and error messages that a chart author can observe match Go and Helm.

pub mod budget;
pub mod data;
pub mod env;
pub mod exec;
pub mod functions;
pub mod go;
pub mod json;
mod nesting;
pub mod parse;
pub mod profile;
pub mod semver;
mod stack;
pub mod toml;
pub mod value;
pub mod yaml;

pub use nesting::EncodeError;
