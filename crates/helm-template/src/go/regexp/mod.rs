//! Go's regular expressions, carried out by the crates of `regex`.
//!
//! Both descend from RE2: linear time, leftmost-first. They differ in what they write (`translate` rewrites an
//! expression and words its errors as Go does), in what an empty match is worth and how a replacement names groups
//! ([`Expression`]), and in bytes that are no character, which to Go are U+FFFD each ([`Subject`]).

mod alphabet;
mod class;
mod expression;
mod names;
mod subject;
mod tokens;
mod translate;
mod weight;

pub use alphabet::Alphabet;
pub use expression::{Expression, Toll, quote_meta};
pub use subject::Subject;
