//! Attempts to gain the rights of whoever touched a release.
//!
//! Modules: the people and the forgery that all of them need ([`scene`]), forged and foreign Helm records ([`records`]), charts with
//! objects outside the workspace ([`charts`]), scoped tokens ([`tokens`]), masked values ([`masking`]), and rights that an administrator
//! used once ([`administrator`]).

pub mod scene;

mod administrator;
mod charts;
mod masking;
mod records;
mod tokens;
