//! Isolation of users on one platform, on every target and with real clients.
//!
//! Modules:
//!
//! - [`member`]: a workspace member with kubectl
//! - [`escalation`]: attempts to gain more rights than granted
//! - [`least_privilege`]: the server with minimal rights
//! - [`canary`]: secrets that must not leak

mod canary;
mod escalation;
mod least_privilege;
mod member;
