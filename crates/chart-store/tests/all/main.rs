//! Charts from test repositories and registries on loopback, and packages in an embedded cluster.
//! `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3` name the real Helm programs.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attacks;
mod budgets;
mod fake_registry;
mod fake_server;
mod fixtures;
mod helm;
mod packages;
mod platform;
mod registries;
mod repositories;
