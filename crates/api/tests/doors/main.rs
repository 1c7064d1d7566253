//! HTTP tests of the whole router, in process, on an embedded cluster.
//!
//! Fixtures:
//!
//! - [`test_server`]: cluster, services, router and accounts
//! - [`releases`]: also has `AcmeFixture`, a workspace with members
//!
//! Tests:
//!
//! - [`matrix`]: every route with every kind of caller
//! - [`identity`], [`audit`], [`secret_leaks`]: credentials, audit records, and leaks of secrets
//! - [`names`], [`body_names`], [`validation`]: hostile names and invalid input
//! - [`budgets`], [`streams`], [`outage`]: memory of requests, event streams, an unreachable cluster
//! - [`releases`], [`release_actions`], [`force_delete`], [`logs`], [`repos`], [`cluster_rights`]: releases and chart repositories
//! - [`tenants`]: accounts and workspaces
//! - [`console`]: the API of the OpenYurt console
//! - [`description`]: the OpenAPI document
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod audit;
mod body_names;
mod budgets;
mod cluster_rights;
mod console;
mod description;
mod force_delete;
mod identity;
mod logs;
mod matrix;
mod names;
mod outage;
mod release_actions;
mod releases;
mod repos;
mod secret_leaks;
mod streams;
mod tenants;
mod test_server;
mod validation;
