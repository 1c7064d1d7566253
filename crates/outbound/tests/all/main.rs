//! The way out, over a network that is made here: names lead where a test says, and what is dialled is recorded.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod credentials;
mod hostile;
mod network;
mod private;
mod secure;
