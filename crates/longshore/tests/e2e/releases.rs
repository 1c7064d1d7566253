//! Releases on a cluster that others use, too.
//!
//! Modules: the command line ([`cli`]).

mod cli;
