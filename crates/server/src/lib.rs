//! The server: reads its configuration, opens or reaches a cluster, serves, and stops cleanly.
//!
//! The one place that knows all the rooms. Modules in reading order: [`config`] (what was asked for),
//! [`cluster`] (embedded or real), [`leader`] (of several servers), [`tls`] (of the port), [`run`] (the whole life of the process), [`logs`].

pub mod cluster;
pub mod config;
pub mod endpoints;
pub mod leader;
pub mod logs;
pub mod run;
pub mod tls;

pub use config::{Config, ConfigError, Flags};
pub use run::{RunError, run};
