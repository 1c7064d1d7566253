//! Domain types and rules of the platform. Pure: no I/O, no clock.
//!
//! Modules:
//! - [`ids`]: validated ids and workspace names
//! - [`names`]: names of Kubernetes objects
//! - [`fields`]: validated fields of accounts
//! - [`roles`], [`scopes`]: permissions of roles and tokens
//! - [`actor`]: the caller of a request
//! - [`error`]: error kinds with status codes and retry policy
//! - [`clock`]: wall-clock time behind a trait
//! - [`quantity`]: resource quantities
//! - [`resources`]: resource usage of objects
//! - [`status`]: status view shared by clusters and hosts
//! - [`release`]: state machine of releases

pub mod actor;
pub mod clock;
pub mod error;
pub mod fields;
pub mod ids;
pub mod names;
pub mod quantity;
pub mod release;
pub mod resources;
pub mod roles;
pub mod scopes;
pub mod status;

pub use actor::{AccessScope, Actor, AuthorizationError};
pub use error::ErrorKind;
