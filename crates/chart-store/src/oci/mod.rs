//! Charts in OCI registries: the part of the distribution protocol that fetching charts needs.

mod challenge;
mod manifest;
mod reference;
mod registry;

pub use manifest::Layer;
pub use reference::{BadReference, Reference};
pub use registry::{Registry, RegistryError};
