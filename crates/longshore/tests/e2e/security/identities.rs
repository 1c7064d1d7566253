//! Attempts to gain the rights of whoever touched a release.
//!
//! Modules: the people and the forgery that all of them need ([`scene`]), forged and foreign Helm records ([`records`]), charts with
//! objects outside the workspace ([`charts`]), scoped tokens ([`tokens`]) and masked values ([`masking`]).

mod scene;

mod charts;
mod masking;
mod records;
mod tokens;
