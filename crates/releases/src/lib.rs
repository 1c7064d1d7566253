//! Requests and releases, and their controllers.

pub mod chain;
pub mod values;
