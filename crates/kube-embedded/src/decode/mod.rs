//! Decoding: from the bytes of a request to a valid object.
//!
//! Steps: [`body`] selects the parser by media type ([`json`], [`yaml`], protobuf in `crate::schema`), [`conform`]
//! checks the value against its type, [`normalise`] converts it to the stored form.
//! Pure: no I/O, no clock. Input is hostile: depth, size and repetition are bounded.

pub mod body;
pub mod conform;
pub mod json;
pub mod normalise;
pub mod times;
pub mod yaml;

/// Maximum nesting of lists and objects. Kubernetes allows 10,000. Traversal of values is recursive here, in
/// threads of 2 MiB, and stored bytes are read back by a parser with a limit of 128, of which the managed
/// fields of an object need a few more than the object itself. Real manifests stay below 60.
pub const MAX_DEPTH: usize = 100;

/// Maximum number of reported unknown or duplicate fields, as in Kubernetes.
pub const MAX_FINDINGS: usize = 100;

#[cfg(test)]
mod tests;
