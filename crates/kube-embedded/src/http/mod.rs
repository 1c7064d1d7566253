//! The protocol: paths, media types, bodies, streams.
//!
//! [`service`] takes a request apart, asks who and whether (`access`), lets a verb answer (`verbs`) and dresses
//! the answer ([`respond`]). In process it is called directly; [`accept`] puts it behind TLS.

pub mod accept;
pub mod audit;
mod body;
pub mod flow;
mod gather;
pub mod list;
pub mod negotiate;
pub mod outgoing;
pub mod query;
pub mod respond;
mod revalidate;
pub mod routes;
pub mod service;
pub mod target;
pub mod yaml;
