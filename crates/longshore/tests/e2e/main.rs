//! The program as its users see it: a started binary, its two ports, its output, its data folder.
//!
//! Modules: the running program ([`program`]), the cluster that a test is given ([`target`]), and the requests,
//! commands and people that tests send it ([`request`], [`clients`], [`platform`]); the program's life ([`serve`]), what survives its death ([`crash`]),
//! and which of several leads ([`leader`]); real clients ([`controller`], [`kubectl`], [`workloads`], [`helm`]), and such as mean no good ([`bad_input`]); requests at
//! the same time ([`concurrent_writes`]);
//! releases, also beside the real Helms ([`releases`]); many people on one platform ([`tenants`]), its command line ([`tenancy_cli`]), and the way
//! back in ([`reset_password`]); machines that join ([`nodes`]), and the console of the edge ([`console`]).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clients;
mod platform;
mod program;
mod request;
mod target;

mod bad_input;
mod concurrent_writes;
mod console;
mod controller;
mod crash;
mod edge;
mod helm;
mod kubectl;
mod leader;
mod nodes;
mod releases;
mod reset_password;
mod security;
mod serve;
mod tenancy_cli;
mod tenants;
mod workloads;
