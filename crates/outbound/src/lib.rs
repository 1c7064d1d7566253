//! The one way out of the process: every address is checked before it is dialled.
//!
//! Modules in reading order: which addresses may be reached ([`policy`]), how one is found and dialled ([`dial`]), where
//! something is ([`address`]), how one is let in and whom one believes ([`access`], `tls`), and to fetch something
//! ([`client`], `body`, [`failure`]).
//!
//! Always true: a name is resolved once for a connection, every address that it has is checked, and one of those is dialled; what
//! lets one in at an origin is sent to no other; nothing that comes is held beyond its limit, or waited for beyond its time; no
//! text of an error has a password, or the query of an address, in it.

pub mod access;
pub mod address;
mod body;
pub mod client;
pub mod dial;
pub mod failure;
pub mod policy;
mod tls;

pub use access::{Access, Login, Secret, Trust};
pub use address::{Address, BadAddress, Origin};
pub use body::Budget;
pub use client::{Answer, Ask, Client, Patience, Validators};
pub use dial::{Connector, DialError, Dialer, Line, Resolver};
pub use failure::Failure;
pub use policy::{Network, Policy};
