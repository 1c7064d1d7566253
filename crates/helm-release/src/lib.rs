//! Helm's release records, and the acts that make them.
//!
//! Modules in reading order: what Helm keeps of a release ([`record`]), where it keeps it ([`storage`]), how a chart
//! becomes one ([`render`]), and that only one at a time works on it ([`hold`]); what can be asked ([`queries`]); who
//! acts ([`helm`]), what can be done ([`actions`], [`hooks`]), what goes wrong ([`error`]) what is never said ([`quiet`]), and which identity executes
//! what a record holds ([`trust`]).

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
