//! The server: reads its configuration, opens or reaches a cluster, serves, and stops cleanly.
//!
//! The one place that knows all the rooms. Modules in reading order: [`config`] (what was asked for),
//! [`cluster`] (embedded or real), [`ground`] (what the platform needs of it), [`leader`] (of several servers), [`tls`] (of the port),
//! [`files`] (how many may be open), [`budgets`] (of memory), `sending` (answers that nobody reads), [`audit`] (of the embedded Kubernetes API), `listener` (supervised),
//! [`run`] (the whole life of the process), [`logs`]; and [`administrator`], for who has forgotten the password.

pub mod administrator;
pub mod audit;
pub mod budgets;
pub mod cluster;
pub mod config;
pub mod endpoints;
pub mod files;
pub mod ground;
pub mod leader;
mod listener;
pub mod logs;
pub mod panics;
pub mod run;
mod sending;
pub mod tls;

pub use config::{Config, ConfigError, Flags};
pub use run::{RunError, Said, run};

/// What a cluster administrator applies before the platform can run there, as YAML.
pub fn manifests() -> String {
    tenancy::manifests::yaml()
}
