//! Many people on one platform, none of whom may see or harm another's things: on every target, with real clients.
//!
//! Modules: a member at work with kubectl ([`member`]), attempts to get more than one was given ([`escalation`]), the server
//! itself with no more rights than it needs ([`least`]), and secrets that must not be seen anywhere ([`canary`]).

mod canary;
mod escalation;
mod least;
mod member;
