//! What kinds there are and what their objects look like.
//!
//! [`types`] is the one model of an object's shape, for built-in kinds (read from a generated table) and
//! for custom resources (built from their CRD). [`resources`] says what is served under which name, and
//! [`builtin`] fills both from the generated tables. [`protobuf`] reads objects by the same types.

pub mod builtin;
pub mod protobuf;
pub mod resources;
mod table;
pub mod types;
mod wire;
