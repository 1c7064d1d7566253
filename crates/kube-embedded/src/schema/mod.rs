//! Types and resources.
//!
//! [`types`] models the shape of objects, for built-in kinds (from a generated table) and for custom resources (from
//! their CRD). [`resources`] describes the served resources and their names, and [`builtin`] fills both from the
//! generated tables. [`protobuf`] decodes objects by the same types.

pub mod builtin;
pub mod protobuf;
pub mod resources;
mod table;
pub mod types;
mod wire;
