//! Fetching and storage of Helm charts, addressed by digest.
//!
//! Modules:
//! - [`digest`]: SHA-256 digests
//! - [`source`]: chart sources and fetched charts
//! - [`error`], errors
//! - [`work`]: limits of heavy work; [`accounts`]: owners of budgets
//! - `cache`: bounded caches
//! - [`repository`]: chart repositories and indexes; [`oci`]: registries; [`fetcher`]: fetches from both
//! - [`packages`]: charts stored in the cluster
//! - [`credentials`]: repository credentials
//! - [`charts`]: the chart service of the server
//!
//! Invariants: a returned chart has the digest that is reported, and was parsed under limits. If an index or registry named a digest, it
//! is the same.
//!
//! The command line uses the modules that need no cluster.

pub mod accounts;
mod cache;
pub mod charts;
pub mod credentials;
pub mod digest;
pub mod error;
pub mod fetcher;
pub mod oci;
pub mod packages;
pub mod repository;
pub mod source;
pub mod work;

pub use accounts::AccountLookup;
pub use charts::{ChartReader, ChartStore};
pub use digest::Digest;
pub use error::ChartError;
pub use fetcher::Fetcher;
pub use packages::{CollectResult, PackageStore, Subject};
pub use repository::ChartRepository;
pub use source::{ChartSource, LoadedChart};
