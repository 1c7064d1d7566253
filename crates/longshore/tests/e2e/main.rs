//! End-to-end tests of the `longshore` binary as users see it: a started process, its two ports, its output and its
//! data folder.
//!
//! Fixtures:
//!
//! - [`program`]: a running server process
//! - [`target`]: the cluster that a test runs against
//! - [`request`]: raw HTTP requests
//! - [`clients`]: kubectl and helm
//! - [`platform`]: users of the platform
//!
//! Tests:
//!
//! - [`serve`]: start, output and shutdown of the process
//! - [`crash`]: durability under `kill -9`
//! - [`leader`]: leader election between several servers
//! - [`controller`], [`kubectl`], [`workloads`], [`helm`]: real Kubernetes clients
//! - [`bad_input`]: malformed and hostile requests
//! - [`concurrent_writes`]: simultaneous requests
//! - [`releases`]: releases, also next to the real Helm
//! - [`tenants`]: isolation of users on one platform
//! - [`security`]: attacks by tenants
//! - [`tenancy_cli`]: the command line of platform users
//! - [`reset_password`]: resetting the password of `admin`
//! - [`nodes`], [`edge`]: joining nodes, and edge accounts with nodes
//! - [`console`]: the API of the OpenYurt console
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clients;
mod platform;
mod program;
mod request;
mod target;

mod bad_input;
mod concurrent_writes;
mod console;
mod controller;
mod crash;
mod edge;
mod helm;
mod kubectl;
mod leader;
mod nodes;
mod releases;
mod reset_password;
mod security;
mod serve;
mod tenancy_cli;
mod tenants;
mod workloads;
