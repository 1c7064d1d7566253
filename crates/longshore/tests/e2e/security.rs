//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), names of workspaces ([`names`]), names in API paths ([`paths`]), packages ([`packages`]), connections and requests
//! ([`traffic`]), hostile objects ([`objects`]), generated objects ([`chaos`]), hostile charts ([`charts`]), controllers ([`controllers`]),
//! several hostile tenants at once ([`hostile_load`]), and faults of the disk and the process ([`storage`]).

mod access;
mod chaos;
mod charts;
mod controllers;
mod hostile_load;
mod identities;
mod names;
mod nodes;
mod objects;
mod packages;
mod paths;
mod storage;
mod traffic;
