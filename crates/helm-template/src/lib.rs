//! Go's text/template language with the functions of Helm: text in, text out.
//!
//! Modules in reading order: what templates work on ([`value`]), how a text becomes a tree ([`parse`]), how a tree
//! becomes a text ([`exec`]), what both know of Go itself ([`go`]: literals, `fmt`); the functions that charts call
//! ([`functions`]), the formats they read and write ([`data`], [`yaml`], [`json`], [`toml`]), versions ([`semver`]),
//! what is taken from outside ([`outside`]), and what all of it
//! may use up ([`budget`]).
//!
//! The crate knows no file system, no network, no clock and no randomness. What a chart's author can see is as in
//! Go and Helm: results, the order of things, and the words of errors.

pub mod budget;
pub mod data;
pub mod exec;
pub mod functions;
pub mod go;
pub mod json;
mod nesting;
pub mod outside;
pub mod parse;
pub mod profile;
pub mod semver;
mod stack;
pub mod toml;
pub mod value;
pub mod yaml;

pub use nesting::Unwritable;
