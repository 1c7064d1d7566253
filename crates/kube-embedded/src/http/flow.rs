//! Priority level and flow of a request, as in API Priority and Fairness.
//!
//! Invariant: a tenant cannot multiply its flows. All `ServiceAccounts` of one namespace, which the tenant can create and issue tokens for,
//! share one flow; with [`ServiceAccountFlows::group_labels`], the `ServiceAccounts` of all namespaces of one group do.

use std::net::IpAddr;

use governor::{Flow, Governor, PriorityLevel};

use crate::access::{ANONYMOUS, MASTERS, User, split_service_account};
use crate::cluster::Cluster;
use crate::store::Store;

/// Configures which `ServiceAccounts` share a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountFlows {
    /// Namespaces whose `ServiceAccounts` have a flow each. Tenants must not be able to create any there.
    pub separate_in: Vec<String>,
    /// Namespace labels; the first one present on a namespace counts. Namespaces with the same value of it share one flow. Tenants must not
    /// be able to change these labels.
    pub group_labels: Vec<String>,
}

impl Default for ServiceAccountFlows {
    fn default() -> Self {
        Self { separate_in: vec!["kube-system".to_owned()], group_labels: Vec::new() }
    }
}

/// The identity that determines the flow of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FlowKey {
    Address(Option<IpAddr>),
    User(String),
    Namespace(String),
    Group(String),
}

impl FlowKey {
    fn for_user(user: &User, flows: &ServiceAccountFlows, store: &Store) -> Self {
        let account = split_service_account(&user.name);
        match account.filter(|(ns, _)| flows.separate_in.iter().all(|name| name != ns)) {
            Some((namespace, _)) => Self::of_namespace(namespace, flows, store),
            None => Self::User(user.name.clone()),
        }
    }

    fn of_namespace(namespace: &str, flows: &ServiceAccountFlows, store: &Store) -> Self {
        let object =
            if flows.group_labels.is_empty() { None } else { store.get("namespaces", "", namespace) };
        let group = object.and_then(|object| {
            let mut values = flows.group_labels.iter().filter_map(|label| object.label(label));
            values.find(|value| !value.is_empty()).map(str::to_owned)
        });
        group.map_or_else(|| Self::Namespace(namespace.to_owned()), Self::Group)
    }
}

/// The flow of the `ServiceAccounts` of a namespace, to which controllers' work for its objects is charged.
pub fn of_namespace(cluster: &Cluster, namespace: &str) -> Flow {
    cluster.governor().flow(FlowKey::of_namespace(
        namespace,
        cluster.service_account_flows(),
        cluster.store(),
    ))
}

/// The priority level and flow that a request is charged to.
#[derive(Clone, Copy)]
pub struct FlowAssignment {
    pub level: PriorityLevel,
    pub flow: Flow,
}

impl FlowAssignment {
    /// Requests of the platform itself and of cluster administrators have a separate level. Requests that it makes with impersonation are
    /// charged to the impersonated user.
    pub fn for_request(
        governor: &Governor,
        flows: &ServiceAccountFlows,
        store: &Store,
        user: &User,
        is_platform: bool,
        address: Option<IpAddr>,
    ) -> Self {
        if is_platform || user.in_group(MASTERS) {
            return Self {
                level: PriorityLevel::Platform,
                flow: governor.flow(FlowKey::User(user.name.clone())),
            };
        }
        if user.name == ANONYMOUS {
            return Self { level: PriorityLevel::Anonymous, flow: governor.flow(FlowKey::Address(address)) };
        }
        Self {
            level: PriorityLevel::Authenticated,
            flow: governor.flow(FlowKey::for_user(user, flows, store)),
        }
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
        let namespaces = [
            ("a", json!({"group": "g"})),
            ("b", json!({"group": "g"})),
            ("c", json!({})),
            ("d", json!({"group": "other", "owner": "g"})),
            ("e", json!({"group": "third", "owner": "g"})),
        ];
        for (name, labels) in namespaces {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            let key = Key::new(&"namespaces".into(), "", name);
            let change = Change { key, expect: Expect::Absent, op: Op::Put(object) };
            store.commit(vec![change]).await.unwrap();
        }
        let of = |name: &str, labels: &[&str]| {
            let flows = ServiceAccountFlows {
                separate_in: vec!["people".to_owned()],
                group_labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            };
            FlowKey::for_user(&User { name: name.to_owned(), ..User::default() }, &flows, &store)
        };
        let account = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
        assert_eq!(of(&account("a", "x"), &[]), of(&account("a", "y"), &[]));
        assert_ne!(of(&account("a", "x"), &[]), of(&account("b", "x"), &[]));
        assert_eq!(of(&account("a", "x"), &["group"]), of(&account("b", "y"), &["group"]));
        assert_ne!(of(&account("a", "x"), &["group"]), of(&account("c", "x"), &["group"]));
        assert_ne!(of(&account("people", "x"), &[]), of(&account("people", "y"), &[]));
        assert_ne!(of("jane", &[]), of("joe", &[]));
        // A user and a namespace of the same name have different flows.
        assert_ne!(of("a", &[]), of(&account("a", "x"), &[]));
        // The first label present on a namespace counts; later labels apply to namespaces without it.
        assert_ne!(of(&account("d", "x"), &["group", "owner"]), of(&account("e", "y"), &["group", "owner"]));
        assert_eq!(of(&account("d", "x"), &["owner", "group"]), of(&account("e", "y"), &["owner", "group"]));
        assert_eq!(of(&account("d", "x"), &["owner", "group"]), of(&account("a", "y"), &["owner", "group"]));
    }
}
