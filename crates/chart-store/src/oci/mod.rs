//! Charts in OCI registries: the part of the distribution protocol that fetching charts needs.

mod challenge;
mod manifest;
mod reference;
mod registry;

pub use manifest::ChartLayer;
pub use reference::{OciReference, ParseReferenceError};
pub use registry::{RegistryClient, RegistryError};
