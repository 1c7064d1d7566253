//! Go's text/template language: text in, text out.
//!
//! Modules in reading order: what templates work on ([`value`]), how a text becomes a tree ([`parse`]), how a tree
//! becomes a text ([`exec`]), and what both know of Go itself ([`go`]: literals, `fmt`).
//!
//! The crate knows no file system, no network, no clock and no randomness. What a chart's author can see is as in
//! Go: results, the order of things, and the words of errors.

pub mod exec;
pub mod go;
pub mod parse;
pub mod value;
