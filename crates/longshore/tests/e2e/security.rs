//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), connections and requests ([`traffic`]), hostile objects ([`objects`]), hostile charts ([`charts`]), and controllers ([`controllers`]).

mod access;
mod charts;
mod controllers;
mod identities;
mod nodes;
mod objects;
mod traffic;
