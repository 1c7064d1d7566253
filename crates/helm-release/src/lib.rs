//! Helm's release records and the actions on them.
//!
//! Modules:
//!
//! - [`record`]: the release record
//! - [`storage`]: records in Secrets
//! - [`render`]: renders charts
//! - [`hold`]: one operation per release at a time
//! - [`queries`]: list, get and history
//! - [`helm`]: entry point of the actions
//! - [`actions`]: install, upgrade, rollback, uninstall, test, recover
//! - [`hooks`]: runs hooks
//! - [`error`]: errors of actions
//! - [`quiet`]: masks secrets in progress events
//! - [`trust`]: decides which identity executes the content of a record

pub mod actions;
pub mod error;
pub mod helm;
pub mod hold;
mod hooks;
pub mod queries;
mod quiet;
pub mod record;
pub mod render;
pub mod storage;
pub mod trust;

pub use error::{Cause, Error, HookError};
pub use helm::Helm;
pub use hold::{Hold, HoldError};
pub use record::{Record, Status};
pub use storage::{Storage, StorageError, Stored};
pub use trust::{Ledger, LedgerError, Origin, Trust};
