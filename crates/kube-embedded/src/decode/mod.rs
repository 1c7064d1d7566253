//! From the bytes of a request to an object of the right shape.
//!
//! In order: [`body`] picks the reader by media type ([`json`], [`yaml`], protobuf elsewhere), [`conform`]
//! holds the value against its type, [`normalise`] gives it the form in which it is stored and answered.
//! Everything here is pure, and nothing here trusts its input: depth, size and repetition are bounded.

pub mod body;
pub mod conform;
pub mod json;
pub mod normalise;
pub mod times;
pub mod yaml;

/// How deep lists and objects may nest. Kubernetes allows 10,000; walking a value is recursive here, in
/// threads of 2 MiB, and stored bytes are read back by a parser that stops at 128, of which the managed
/// fields of an object need a few more than the object itself. Real manifests stay below 60.
pub const MAX_DEPTH: usize = 100;

/// As many unknown or repeated fields are reported, as in Kubernetes.
pub const MOST_FINDINGS: usize = 100;

#[cfg(test)]
mod tests;
