//! What happened, told to those who ought to know.
//!
//! So far that is the audit trail ([`audit`]).

pub mod audit;
