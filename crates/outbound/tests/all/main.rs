//! Integration tests of the client over an in-memory network that resolves names as a test says and records
//! connections.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod credentials;
mod fake_network;
mod hostile;
mod ssrf;
mod tls;
