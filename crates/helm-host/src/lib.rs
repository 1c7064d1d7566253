//! What the Helm crates take from outside: the clock, chance, keys and certificates, and charts that lie in folders.
//!
//! The crates that render touch none of it by themselves; the command line and the server give them this.

pub mod folder;
mod sniff;

pub use folder::load;
