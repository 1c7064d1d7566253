//! Kubernetes client layer shared by all components; uses only a `kube::Client`.
//!
//! Modules:
//! - [`clients`]: impersonating clients; [`verb`]: checks of path and query; [`patience`]: request timeouts
//! - [`failure`]: error reasons for tenants; [`review`]: SubjectAccessReviews; [`storage_budget`]: storage quota errors
//! - [`install`]: installation of CRDs
//! - [`feed`]: watch-fed caches
//! - [`controller`]: controller runtime
//! - [`judge`], [`lock`]: Lease rules, leader election and exclusive operations

pub mod clients;
pub mod controller;
pub mod failure;
pub mod feed;
pub mod install;
pub mod judge;
pub mod lock;
pub mod patience;
pub mod review;
pub mod storage_budget;
pub mod verb;

pub use clients::Clients;
pub use controller::queue;
pub use feed::{Change, Feed};
pub use install::{InstallError, install};
pub use lock::{Lock, Lost, Missed, Sightings};
pub use review::may;
