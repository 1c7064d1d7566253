//! Attempts to gain the rights of a user who changed a release.
//!
//! Modules:
//!
//! - [`scene`]: the users, and helpers to forge records
//! - [`records`]: forged Helm records
//! - [`charts`]: charts with objects outside the workspace
//! - [`tokens`]: scoped tokens
//! - [`masking`]: masked values
//! - [`administrator`]: rights that an administrator used once

pub mod scene;

mod administrator;
mod charts;
mod masking;
mod records;
mod tokens;
