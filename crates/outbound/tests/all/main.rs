//! The way out, over a network that is made here: names lead where a test says, and what is dialled is recorded.

mod credentials;
mod hostile;
mod network;
mod private;
mod secure;
