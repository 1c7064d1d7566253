//! The server: reads its configuration, opens or connects to a cluster, serves, and shuts down.
//!
//! The only crate that wires all components together.
//!
//! Modules:
//! - [`config`], configuration
//! - [`run`]: life cycle of the process
//! - [`cluster`]: embedded or real cluster; [`bootstrap`]: bootstrap of namespace, CRDs and roles
//! - [`leader`]: leader election
//! - [`tls`], `listener`, `response_tracking`: TLS, supervised listeners, and disconnection of clients that do not read
//! - [`open_files`], [`budgets`]: limits of open files and of memory
//! - [`audit`]: audit events of the embedded Kubernetes API; [`logs`]: log output
//! - [`password_reset`]: password reset by the cluster administrator

pub mod audit;
pub mod bootstrap;
pub mod budgets;
pub mod cluster;
pub mod config;
pub mod endpoints;
pub mod leader;
mod listener;
pub mod logs;
pub mod open_files;
pub mod panics;
pub mod password_reset;
mod response_tracking;
pub mod run;
pub mod tls;

pub use config::{Config, ConfigError, Flags};
pub use run::{RunError, StdoutLine, run};

/// YAML manifests that a cluster administrator applies before the platform can run on a real cluster.
pub fn manifests() -> String {
    tenancy::manifests::yaml()
}
