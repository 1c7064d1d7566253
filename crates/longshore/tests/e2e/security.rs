//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), connections and requests ([`traffic`]), hostile objects ([`objects`]), controllers ([`controllers`]),
//! and names and workers ([`paths`]).

mod access;
mod controllers;
mod identities;
mod nodes;
mod objects;
mod paths;
mod traffic;
