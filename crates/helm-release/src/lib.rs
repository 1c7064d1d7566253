//! Helm's release records and the actions on them.
//!
//! Modules:
//!
//! - [`record`]: the release record
//! - [`storage`]: records in Secrets
//! - [`render`]: renders charts
//! - [`lock`]: one operation per release at a time
//! - [`queries`]: list, get and history
//! - [`helm`]: entry point of the actions
//! - [`actions`]: install, upgrade, rollback, uninstall, test, recover
//! - [`hooks`]: runs hooks
//! - [`error`]: errors of actions
//! - [`masked_progress`]: masks secrets in progress events
//! - [`trust`]: decides which identity executes the content of a record

pub mod actions;
pub mod error;
pub mod helm;
mod hooks;
pub mod lock;
mod masked_progress;
pub mod queries;
pub mod record;
pub mod render;
pub mod storage;
pub mod trust;

pub use error::{Error, FailureCause, HookError};
pub use helm::Helm;
pub use lock::{LockError, ReleaseLock};
pub use record::{Record, Status};
pub use storage::{Storage, StorageError, StoredRecord};
pub use trust::{Ledger, LedgerError, Origin, Trust};
