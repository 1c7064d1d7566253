//! What every user of a cluster needs of it, over a `kube::Client` and nothing else.
//!
//! Modules in reading order: as whom one asks ([`clients`]), what its path and query may be ([`verb`]), how long one waits ([`patience`]), what tenants read of a failure
//! ([`failure`]) and whether somebody may ([`review`]), how a full workspace is told from a missing permission ([`storage_budget`]), our kinds in it ([`install`]), what there is and what changes ([`feed`]), the controller runtime ([`controller`]),
//! and to be the only one who does something ([`judge`], [`lock`]: a Lease that one of many may hold).

pub mod clients;
pub mod controller;
pub mod failure;
pub mod feed;
pub mod install;
pub mod judge;
pub mod lock;
pub mod patience;
pub mod review;
pub mod storage_budget;
pub mod verb;

pub use clients::Clients;
pub use controller::queue;
pub use feed::{Change, Feed};
pub use install::{InstallError, install};
pub use lock::{Lock, Lost, Missed, Sightings};
pub use review::may;
