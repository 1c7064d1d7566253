//! Tests of commands against a running platform, in process.
//!
//! Modules:
//!
//! - [`cli_user`]: a user's environment
//! - [`test_platform`]: a platform on a loopback port
//! - [`story`]: accounts, workspaces, tokens
//! - [`releases`], releases
//! - [`bad_servers`]: unreachable and misbehaving servers
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accounts;
mod bad_servers;
mod cli_user;
mod releases;
mod test_platform;
