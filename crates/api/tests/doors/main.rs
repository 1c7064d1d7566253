//! The doors as those find them who stand before them: the whole router, in process, over an embedded cluster.
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
