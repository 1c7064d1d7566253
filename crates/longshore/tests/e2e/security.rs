//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), connections and requests ([`traffic`]), hostile objects ([`objects`]), names ([`names`]), and controllers ([`controllers`]).

mod access;
mod controllers;
mod identities;
mod names;
mod nodes;
mod objects;
mod traffic;
