//! The HTTP layer: paths, media types, bodies, streams.
//!
//! [`service`] parses a request, authenticates and authorizes it (`access`), calls a verb (`verbs`) and encodes the result ([`respond`]).
//! In-process clients call it directly; [`accept`] serves it over TLS.

pub mod accept;
pub mod audit;
mod body;
mod coalescing_writer;
pub mod flow;
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
