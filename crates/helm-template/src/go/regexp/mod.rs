//! Go's `regexp`, executed by the `regex` crates.
//!
//! Both engines descend from RE2: linear time, leftmost-first. They differ in syntax (`translate` rewrites expressions and reproduces
//! Go's error messages), in empty matches and group references in replacements ([`Expression`]), and in invalid UTF-8, where Go
//! reads each byte as U+FFFD ([`Subject`]).

mod alphabet;
mod class;
mod cost;
mod expression;
mod names;
mod subject;
mod tokens;
mod translate;

pub use alphabet::Alphabet;
pub use expression::{ChargeFn, Expression, quote_meta};
pub use subject::Subject;
