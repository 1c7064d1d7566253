//! Releases on a cluster that others use, too.
//!
//! Modules: charts to ask for ([`charts`]); the command line ([`cli`]), public charts beside the real Helm ([`public`]), and all of us on the
//! same releases ([`interop`]); attempts to act as somebody else through a release ([`escalation`]), secrets that must not be seen
//! anywhere ([`canary`]), servers that are killed or stand still in the middle ([`faults`]), and
//! what rollback, plans and concurrent changes must not lose ([`repairs`]).

pub mod charts;

mod canary;
mod cli;
mod escalation;
mod faults;
mod interop;
mod public;
mod repairs;
