//! Who is asking, and may they.

use std::collections::BTreeMap;

/// Somebody, as authentication or impersonation found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The administrator: group `system:masters` skips authorization.
    pub fn admin() -> Self {
        Self::named("kubernetes-admin", &["system:masters", "system:authenticated"])
    }

    pub fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// What somebody wants to do, as RBAC sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or any word
    /// that a rule uses (`bind`, `impersonate`); for a path, the lower-case HTTP method.
    pub verb: String,
    pub group: String,
    pub version: String,
    /// Empty for a request that is not about a resource.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// For a request that is not about a resource.
    pub path: String,
}
