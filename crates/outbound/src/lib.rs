//! HTTP client for outgoing requests. Every address is checked against a policy before a connection is opened.
//!
//! Modules:
//! - [`policy`]: which IP addresses may be reached
//! - [`dial`]: name resolution and connecting
//! - [`address`]: URLs and origins
//! - [`access`]: credentials and trusted certificates
//! - `tls`: rustls configuration
//! - [`client`]: fetch, redirects, caching validators
//! - `body`: size and rate limits
//! - [`error`], errors
//!
//! Invariants:
//! - A name is resolved once per connection, all its addresses are checked, and one of the checked addresses is
//!   dialled.
//! - Credentials of one origin are sent to no other.
//! - Every response is bounded in size and in time.
//! - No error message contains a password or the query string of a URL.

pub mod access;
pub mod address;
mod body;
pub mod client;
pub mod dial;
pub mod error;
pub mod policy;
mod tls;

pub use access::{Access, HttpAuth, SecretString, TlsTrust};
pub use address::{Address, Origin, ParseAddressError};
pub use body::MemoryBudget;
pub use client::{FetchClient, FetchRequest, FetchResponse, Timeouts, Validators};
pub use dial::{ByteStream, Connector, DialError, Dialer, Resolver};
pub use error::FetchError;
pub use policy::{EgressPolicy, IpNetwork};
