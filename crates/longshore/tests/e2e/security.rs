//! Attacks by tenants, each named for the attack. Modules: identities of releases ([`identities`]), nodes ([`nodes`]), members, tokens and
//! sessions ([`access`]), connections and requests ([`traffic`]), hostile objects ([`objects`]), controllers ([`controllers`]), generated objects
//! ([`chaos`]), and faults of the disk and the process ([`storage`]).

mod access;
mod chaos;
mod controllers;
mod identities;
mod nodes;
mod objects;
mod storage;
mod traffic;
