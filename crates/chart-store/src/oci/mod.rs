//! Charts in registries, by the OCI distribution protocol: as much of it as fetching a chart needs.

mod challenge;
mod manifest;
mod reference;
mod registry;

pub use manifest::Layer;
pub use reference::{BadReference, Reference};
pub use registry::{Registry, RegistryError};
