//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), names of workspaces ([`names`]), names in API paths ([`paths`]), packages ([`packages`]), connections and requests
//! ([`traffic`]), hostile objects ([`objects`]), hostile charts ([`charts`]), and controllers ([`controllers`]).

mod access;
mod charts;
mod controllers;
mod identities;
mod names;
mod nodes;
mod objects;
mod packages;
mod paths;
mod traffic;
