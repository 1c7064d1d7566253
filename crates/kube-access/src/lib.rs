//! Kubernetes client layer shared by all components; uses only a `kube::Client`.
//!
//! Modules:
//! - [`clients`]: impersonating clients; [`verb`]: checks of path and query; [`timeout`]: request timeouts
//! - [`errors`]: unsent requests, error reasons for tenants; [`storage_budget`]: storage quota errors
//! - [`access_review`]: permission checks by SubjectAccessReview
//! - [`crds`]: installation of CRDs
//! - [`cache`]: watch-fed caches
//! - [`controller`]: controller runtime
//! - [`lease_rules`], [`lease`]: Lease rules, leader election and exclusive operations

pub mod access_review;
pub mod cache;
pub mod clients;
pub mod controller;
pub mod crds;
pub mod errors;
pub mod lease;
pub mod lease_rules;
pub mod storage_budget;
pub mod timeout;
pub mod verb;

pub use access_review::is_allowed;
pub use cache::{CacheEvent, WatchCache};
pub use clients::Clients;
pub use controller::queue;
pub use crds::{CrdInstallError, install_crds};
pub use lease::{AcquireError, LeaseElection, LeaseLost, LeaseObserver};
