//! Charts by digest, from archives, repositories and registries.
//!
//! Modules in reading order: what bytes are called ([`digest`]), where a chart is and what comes of it ([`source`]), why it
//! could not be had ([`failure`]); how much may be done at once ([`work`]); what is remembered, and for how long (`memory`); repositories and their indexes
//! ([`repository`]), registries ([`oci`]), and what fetches from both ([`fetcher`]); whose budgets are used ([`accounts`]); packages in the cluster ([`packages`]); who
//! is let into a repository ([`credentials`]); and all of it together for the server ([`charts`]).
//!
//! Always true: what is returned has the digest that is said, and was loaded as a chart under limits; where somebody else said a
//! digest before, it is that one. The command line uses what needs no cluster.

pub mod accounts;
pub mod charts;
pub mod credentials;
pub mod digest;
pub mod failure;
pub mod fetcher;
mod memory;
pub mod oci;
pub mod packages;
pub mod repository;
pub mod source;
pub mod work;

pub use accounts::Accounts;
pub use charts::{Charts, Reader};
pub use digest::Digest;
pub use failure::ChartError;
pub use fetcher::Fetcher;
pub use packages::{Collected, Packages, Subject};
pub use repository::Repository;
pub use source::{Fetched, Source};
