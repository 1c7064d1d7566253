//! Semantic versions and constraints as Masterminds' library reads them, which charts, functions and Helm itself ask.
//!
//! Helm 3.17 has its release 3.3.0 and Helm 4.3 its 3.5.0: they differ in the words of errors, in limits, and in when
//! a pre-release is looked at. So everything here is read under a [`Profile`](crate::profile::Profile).

mod check;
mod constraints;
mod version;

pub use constraints::Constraints;
pub use version::Version;
