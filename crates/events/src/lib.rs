//! Events for external consumers: so far the audit log ([`audit`]).

pub mod audit;
