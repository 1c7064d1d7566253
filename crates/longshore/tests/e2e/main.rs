//! The program as its users see it: a started binary, its two ports, its output, its data folder.
//!
//! Modules: the running program ([`program`]) and the requests that tests send it ([`request`]); its life
//! ([`serve`]), and what survives its death ([`crash`]); real clients ([`controller`], [`kubectl`]), and such as
//! mean no good ([`bad_input`]).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod program;
mod request;

mod bad_input;
mod controller;
mod crash;
mod kubectl;
mod serve;
