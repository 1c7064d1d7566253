//! Authentication and authorization.
//!
//! A request passes `authn`, `impersonate`, `rbac` (for nodes `node` first), and for RBAC objects `escalation`. `reviews` and `tokens`
//! implement the review APIs and token requests; `pki` and `csr` issue certificates, `bootstrap` defines the roles of an empty cluster.
//! `changes` finds the changes that can end an access.
//!
//! See also: parsing of requests (`crate::http`), admission of objects (`crate::admission`).

pub mod authn;
pub mod bootstrap;
mod certificate;
pub mod changes;
pub mod cluster_info;
pub mod csr;
pub mod escalation;
mod held_rules;
pub mod impersonate;
pub mod jwt;
pub mod node;
pub mod pki;
pub mod rbac;
mod rbac_sources;
pub mod reviews;
pub mod rule;
mod rule_index;
pub mod tokens;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::go::quote;

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all anonymous users.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of a request without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The administrators' group, which skips authorization.
pub const MASTERS: &str = "system:masters";

pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A user, as established by authentication or impersonation.
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
        Self::named("kubernetes-admin", &[MASTERS, AUTHENTICATED])
    }

    pub fn named(name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// The anonymous user.
    pub fn anonymous() -> Self {
        Self::named(ANONYMOUS, &[UNAUTHENTICATED])
    }

    /// The user of the `ServiceAccount` `name` in `namespace`, with its implied groups.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            name: service_account_username(namespace, name),
            uid: uid.to_owned(),
            groups: service_account_groups(namespace).to_vec(),
            extra: BTreeMap::new(),
        }
    }

    /// Returns the `UserInfo` of `authentication.k8s.io/v1`; empty fields are omitted.
    pub fn user_info(&self) -> Value {
        let mut info = Map::new();
        for (key, text) in [("username", &self.name), ("uid", &self.uid)] {
            if !text.is_empty() {
                info.insert(key.to_owned(), text.as_str().into());
            }
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), self.groups.clone().into());
        }
        if !self.extra.is_empty() {
            let extra = self.extra.iter().map(|(k, v)| (k.clone(), v.clone().into()));
            info.insert("extra".to_owned(), Value::Object(extra.collect()));
        }
        Value::Object(info)
    }

    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// The attributes of a request that authorization checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or any verb that a rule uses (`bind`,
    /// `impersonate`); for a path, the lower-case HTTP method.
    pub verb: String,
    pub group: String,
    pub version: String,
    /// Empty for a non-resource request.
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// The node name in the field selector of a list or watch of pods.
    pub node_name: String,
    /// The path of a non-resource request.
    pub path: String,
}

impl Attributes {
    /// Whether this is a resource request, as opposed to a non-resource URL.
    pub fn is_resource(&self) -> bool {
        self.path.is_empty() || !self.resource.is_empty()
    }

    /// Returns resource and subresource as in RBAC rules: `deployments/scale`.
    pub fn combined_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// Returns the user name `system:serviceaccount:<namespace>:<name>`.
pub fn service_account_username(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Splits the user name of a `ServiceAccount` into namespace and name.
pub fn split_service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

pub fn service_account_groups(namespace: &str) -> [String; 2] {
    ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Formats a list as Go's `%q`: `["a" "b"]`.
pub(crate) fn quoted_list(texts: &[impl AsRef<str>]) -> String {
    format!("[{}]", texts.iter().map(|text| quote(text.as_ref())).collect::<Vec<_>>().join(" "))
}

/// Returns the string at `key`, empty if absent.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the list at `key`, empty if absent.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the strings in the list at `key`.
pub(crate) fn texts(value: &Value, key: &str) -> Vec<String> {
    items(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Test helpers of access and admission.
#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Arc;

    use serde_json::Value;

    use crate::schema::resources::Resource;
    use crate::store::{Change, Expect, Key, Op, Store};

    /// A resource definition with names only.
    pub fn resource(group: &str, name: &str) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            name: name.into(),
            singular: "".into(),
            kind: "".into(),
            list_kind: "".into(),
            namespaced: true,
            short_names: Box::default(),
            categories: Box::default(),
            verbs: Box::default(),
            subresources: Box::default(),
            columns: Box::default(),
            storage: crate::error::qualified(name, group).into(),
            storage_version: "v1".into(),
            types: Arc::default(),
            ty: 0,
            custom: None,
        }
    }

    /// Creates or replaces an object.
    pub async fn store_object(store: &Store, storage: &str, object: Value) {
        let metadata = &object["metadata"];
        let key =
            Key::new(&storage.into(), super::text(metadata, "namespace"), super::text(metadata, "name"));
        let found = store.get(storage, &key.namespace, &key.name);
        let expect = found.map_or(Expect::Absent, |found| Expect::Version(found.version));
        store.commit(vec![Change { key, expect, op: Op::Put(object) }]).await.expect("nobody else writes");
    }
}
