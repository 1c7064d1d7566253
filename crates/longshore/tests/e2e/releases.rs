//! Releases on a cluster that others use, too.
//!
//! Modules: charts to ask for ([`charts`]); attempts to act as somebody else through a release ([`escalation`]), secrets that must
//! not be seen anywhere ([`canary`]), and servers that are killed or stand still in the middle ([`faults`]).

mod charts;

mod canary;
mod escalation;
mod faults;
