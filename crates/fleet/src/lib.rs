//! Nodes, node pools and workloads for the console of edge clusters.
//!
//! Modules:
//! - `fleet`: the fleet with its settings
//! - [`rows`]: response types
//! - `visibility`, [`view`], [`page`]: views restricted by visibility, pagination
//! - `node`, `pod`, `workload`, `job`, `pool`: cached objects and their rows
//! - `metadata`, `partial_object`, `interner`, `resources`: shared parts of these
//! - `cache`: the cache with derived sums
//! - `watches`, `node_pool_crd`, `metrics`: watches and polling that fill the cache
//! - [`events`]: events, read on request
//! - [`service`]: writes on behalf of users
//! - `pool_attributes`: attributes that a pool may set
//! - `controller`: pool controller
//!
//! Invariant: a view makes no API call and shows nothing outside the caller's visibility.
//!
//! See also: `tenancy` assigns nodes to tenants, `domain::resources` sums resources, `api` defines the routes.

mod cache;
mod controller;
mod error;
pub mod events;
mod fleet;
mod interner;
mod job;
mod metadata;
mod metrics;
mod node;
mod node_pool_crd;
pub mod page;
mod partial_object;
mod pod;
mod pool;
mod pool_attributes;
mod resources;
pub mod rows;
pub mod service;
#[cfg(test)]
mod testing;
pub mod view;
mod visibility;
mod watches;
mod workload;

pub use error::Error;
pub use fleet::{Fleet, ManagePools, Settings, StartError};
pub use page::Page;
pub use view::FleetView;
pub use visibility::{Namespaces, Visibility};
pub use watches::WatchedKind;
