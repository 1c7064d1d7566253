//! Releases on a cluster that others use, too.
//!
//! Modules: the command line ([`cli`]), public charts beside the real Helm ([`public`]), and all of us on the same releases
//! ([`interop`]).

mod cli;
mod interop;
mod public;
