//! What every user of a cluster needs of it, over a `kube::Client` and nothing else.
//!
//! Modules in reading order: as whom one asks ([`clients`]) and how long one waits ([`patience`]), what there is and what
//! changes ([`feed`]), work that follows from it ([`queue`]), and to be the only one who does something ([`judge`],
//! [`lock`]: a Lease that one of many may hold).

pub mod clients;
pub mod feed;
pub mod judge;
pub mod lock;
pub mod patience;
pub mod queue;

pub use clients::Clients;
pub use feed::{Change, Feed};
pub use lock::{Lock, Lost};
