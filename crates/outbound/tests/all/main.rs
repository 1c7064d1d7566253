//! Integration tests of the client over an in-memory network that resolves names as a test says and records
//! connections.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod credentials;
mod hostile;
mod network;
mod private;
mod secure;
