//! Whose budgets a request uses: its priority level and its flow.
//!
//! Invariant: a tenant cannot multiply its flows. ServiceAccounts of one namespace, which it can create and mint tokens for, are
//! one flow; with [`ServiceAccountFlows::group_label`], those of all namespaces of one group are.

use std::net::IpAddr;

use governor::{Flow, Governor, Level};

use crate::access::{ANONYMOUS, MASTERS, User, split_service_account};
use crate::store::Store;

/// Which ServiceAccounts share a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountFlows {
    /// Namespaces whose ServiceAccounts have a flow each. Tenants must not be able to create any there.
    pub separate_in: Vec<String>,
    /// Namespaces with the same value of this label share one flow. Tenants must not be able to change it.
    pub group_label: Option<String>,
}

impl Default for ServiceAccountFlows {
    fn default() -> Self {
        Self { separate_in: vec!["kube-system".to_owned()], group_label: None }
    }
}

/// What the flow of a caller is computed from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FlowKey {
    Address(Option<IpAddr>),
    User(String),
    Namespace(String),
    Group(String),
}

impl FlowKey {
    fn of(user: &User, flows: &ServiceAccountFlows, store: &Store) -> Self {
        let account = split_service_account(&user.name);
        let Some((namespace, _)) = account.filter(|(ns, _)| flows.separate_in.iter().all(|name| name != ns))
        else {
            return Self::User(user.name.clone());
        };
        let group = flows.group_label.as_deref().and_then(|label| {
            let object = store.get("namespaces", "", namespace)?;
            object.label(label).filter(|value| !value.is_empty()).map(str::to_owned)
        });
        group.map_or_else(|| Self::Namespace(namespace.to_owned()), Self::Group)
    }
}

/// Whose budgets a request uses.
#[derive(Clone, Copy)]
pub struct Payer {
    pub level: Level,
    pub flow: Flow,
}

impl Payer {
    /// The platform's own requests in process have a level of their own, as cluster administrators do. What it does
    /// on behalf of a user counts as that user's.
    pub fn of(
        governor: &Governor,
        flows: &ServiceAccountFlows,
        store: &Store,
        user: &User,
        is_own: bool,
        address: Option<IpAddr>,
    ) -> Self {
        if is_own || user.in_group(MASTERS) {
            return Self { level: Level::Platform, flow: governor.flow(FlowKey::User(user.name.clone())) };
        }
        if user.name == ANONYMOUS {
            return Self { level: Level::Anonymous, flow: governor.flow(FlowKey::Address(address)) };
        }
        Self { level: Level::Authenticated, flow: governor.flow(FlowKey::of(user, flows, store)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Change, Expect, Key, Op};

    #[tokio::test]
    async fn service_accounts_of_a_namespace_or_group_of_namespaces_are_one_flow() {
        let store = Store::in_memory();
        for (name, labels) in [("a", json!({"group": "g"})), ("b", json!({"group": "g"})), ("c", json!({}))] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            let key = Key::new(&"namespaces".into(), "", name);
            let change = Change { key, expect: Expect::Absent, op: Op::Put(object) };
            store.commit(vec![change]).await.unwrap();
        }
        let of = |name: &str, label: Option<&str>| {
            let flows = ServiceAccountFlows {
                separate_in: vec!["people".to_owned()],
                group_label: label.map(str::to_owned),
            };
            FlowKey::of(&User { name: name.to_owned(), ..User::default() }, &flows, &store)
        };
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        assert_eq!(of(&account("a", "x"), None), of(&account("a", "y"), None));
        assert_ne!(of(&account("a", "x"), None), of(&account("b", "x"), None));
        assert_eq!(of(&account("a", "x"), Some("group")), of(&account("b", "y"), Some("group")));
        assert_ne!(of(&account("a", "x"), Some("group")), of(&account("c", "x"), Some("group")));
        assert_ne!(of(&account("people", "x"), None), of(&account("people", "y"), None));
        assert_ne!(of("jane", None), of("joe", None));
        // Users and namespaces of one name are different callers.
        assert_ne!(of("a", None), of(&account("a", "x"), None));
    }
}
