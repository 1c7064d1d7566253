//! HTTP tests of the whole router, in process, on an embedded cluster.
//!
//! Fixtures:
//!
//! - [`house`]: cluster, services, router and accounts
//! - [`releases`]: also has `Acme`, a workspace with members
//!
//! Tests:
//!
//! - [`matrix`]: every route with every kind of caller
//! - [`identity`], [`audit`], [`canary`]: credentials, audit records, and leaks of secrets
//! - [`names`], [`sent_names`], [`strict`]: hostile names and invalid input
//! - [`budgets`], [`streams`], [`outage`]: memory of requests, event streams, an unreachable cluster
//! - [`releases`], [`acts`], [`force`], [`logs`], [`repos`], [`whole`]: releases and chart repositories
//! - [`tenants`]: accounts and workspaces
//! - [`console`]: the API of the OpenYurt console
//! - [`description`]: the OpenAPI document
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod acts;
mod audit;
mod budgets;
mod canary;
mod console;
mod description;
mod force;
mod house;
mod identity;
mod logs;
mod matrix;
mod names;
mod outage;
mod releases;
mod repos;
mod sent_names;
mod streams;
mod strict;
mod tenants;
mod whole;
