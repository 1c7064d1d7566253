//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), names of workspaces ([`names`]), names in API paths ([`paths`]), packages ([`packages`]), connections and requests
//! ([`traffic`]), unread answers ([`answers`]), hostile objects ([`objects`]), generated objects ([`chaos`]), hostile charts ([`charts`]), controllers ([`controllers`]),
//! and faults of the disk and the process ([`storage`]).

mod access;
mod answers;
mod chaos;
mod charts;
mod controllers;
mod identities;
mod names;
mod nodes;
mod objects;
mod packages;
mod paths;
mod storage;
mod traffic;
