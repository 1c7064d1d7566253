//! Attacks by tenants. Tests are named for the attack.
//!
//! Modules:
//!
//! - [`identities`]: identities of releases
//! - [`nodes`]: nodes of tenants
//! - [`access`]: members, tokens, sessions and invitations
//! - [`names`]: names of workspaces and namespaces
//! - [`paths`]: names in API paths, and releases that hang
//! - [`packages`]: packages and chart repositories
//! - [`traffic`]: connections, slow bodies and watches
//! - [`answers`]: responses that are not read
//! - [`floods`]: HTTP/2 and HTTP/1 frame floods
//! - [`objects`]: hostile objects
//! - [`chaos`]: generated objects of all kinds
//! - [`charts`]: hostile charts
//! - [`controllers`], controllers
//! - [`storage_budget`]: limits of stored bytes
//! - [`workspaces`]: members, object counts, quota and policies of workspaces
//! - [`storage`]: faults of the disk and the process
//! - [`hostile_load`]: several hostile tenants at once
//! - [`model`]: identities under random creation and removal

mod access;
mod answers;
mod chaos;
mod charts;
mod controllers;
mod floods;
mod hostile_load;
pub mod identities;
mod model;
mod names;
mod nodes;
mod objects;
mod packages;
mod paths;
mod storage;
mod storage_budget;
mod traffic;
mod workspaces;
