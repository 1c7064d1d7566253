//! What is checked and filled in between the request and the store.
//!
//! First everything that changes the object (`mutate`), then, after the kind's own validation, everything
//! that can only refuse (`validate`). What must be counted exactly (quota) joins the write's transaction.

pub mod defaults;
pub mod services;

use serde_json::Value;

use crate::access::User;
use crate::schema::resources::Resource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// One write, as admission sees it.
pub struct Request<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    pub name: &'a str,
    pub user: &'a User,
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}
