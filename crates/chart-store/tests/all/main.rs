//! Charts from repositories and registries that are served here, on loopback, and packages in an embedded cluster. The real
//! Helms are named by `LONGSHORE_HELM_3_17` and `LONGSHORE_HELM_4_3`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attacks;
mod budgets;
mod helm;
mod made;
mod packages;
mod platform;
mod registries;
mod registry;
mod repositories;
mod served;
