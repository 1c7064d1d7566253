//! Helm charts as data: reading, writing, dependencies, values, schemas and lint rules.
//!
//! Nothing here touches a file system or a network: charts are passed as bytes.

pub mod archive;
pub mod chart;
pub mod dependencies;
pub mod ignore;
pub mod index;
pub mod lint;
pub mod load;
pub mod lock;
pub mod metadata;
mod path;
pub mod provenance;
pub mod schema;
pub mod set;
mod timestamp;
mod typed;
pub mod values;

pub use chart::{Chart, File};
pub use load::{LoadError, Loader};
pub use metadata::{Dependency, Lock, Maintainer, Metadata};
