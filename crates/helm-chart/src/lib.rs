//! Helm charts as data: what they are made of, how they are read and written, and the values they are given.
//!
//! Nothing here touches a file system or a network: charts come and go as bytes.

pub mod chart;
pub mod dependencies;
pub mod metadata;
pub mod schema;
pub mod set;
pub mod values;

pub use chart::{Chart, File};
pub use metadata::{Dependency, Lock, Maintainer, Metadata};
