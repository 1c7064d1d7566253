//! Attacks by tenants, each named for the attack.
//!
//! Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and sessions ([`access`]), names of workspaces
//! ([`names`]), names in API paths ([`paths`]), packages ([`packages`]), connections and requests ([`traffic`]), unread answers
//! ([`answers`]), floods of frames ([`floods`]),
//! hostile objects ([`objects`]), generated objects ([`chaos`]), hostile charts ([`charts`]), controllers ([`controllers`]), bytes stored
//! ([`storage_budget`]), members, counts, shares and policies of workspaces ([`workspaces`]), and faults of the disk and the process
//! ([`storage`]). Several hostile tenants at once: [`hostile_load`]. Identities under random creation and removal: [`model`].

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
