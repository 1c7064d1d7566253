//! Tests of commands against a running platform, in process.
//!
//! Modules:
//!
//! - [`desk`]: a user's environment
//! - [`house`]: a platform on a loopback port
//! - [`story`]: accounts, workspaces, tokens
//! - [`releases`], releases
//! - [`strange`]: unreachable and misbehaving servers
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod desk;
mod house;
mod releases;
mod story;
mod strange;
