//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), connections and requests ([`traffic`]), hostile objects ([`objects`]), controllers ([`controllers`]), and packages
//! and repositories of charts ([`packages`]).

mod access;
mod controllers;
mod identities;
mod nodes;
mod objects;
mod packages;
mod traffic;
