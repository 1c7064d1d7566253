//! Releases on a cluster that others use, too.
//!
//! Modules: the command line ([`cli`]), public charts beside the real Helm ([`public`]).

mod cli;
mod public;
