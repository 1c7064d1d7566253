//! Semantic versions and constraints, with the semantics of Go's Masterminds/semver library, which charts, template functions and
//! Helm itself use.
//!
//! Helm 3.17 uses version 3.3.0 of that library and Helm 4.3 uses 3.5.0. They differ in error messages, limits, and the treatment of
//! pre-releases, so every operation takes a [`Profile`](crate::profile::Profile).

mod check;
mod constraints;
mod version;

pub use constraints::Constraints;
pub use version::Version;
