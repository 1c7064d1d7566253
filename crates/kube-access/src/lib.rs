//! What every user of a cluster needs of it, over a `kube::Client` and nothing else.
//!
//! So far that is one thing: to be the only one who does something. A [`Lock`] is a Lease that one of many may hold;
//! a platform's leader holds one for its life, an operation on a release holds one for minutes. Modules in reading
//! order: what a Lease says and what to do about it ([`judge`], pure), and how that is done ([`lock`]).

pub mod judge;
pub mod lock;

pub use lock::{Lock, Lost};
