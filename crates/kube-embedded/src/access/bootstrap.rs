//! Default RBAC roles and bindings, and `ClusterRole` aggregation.
//!
//! The defaults match Kubernetes 1.36 and are stored as data. Server start writes the result of [`missing_objects`]; the aggregation
//! controller calls [`aggregate`].

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use super::{ANONYMOUS, RBAC_GROUP, items, text};
use crate::selector::LabelSelector;
use crate::store::Store;

/// Roles and bindings of a Kubernetes 1.36 server after its first start, before any controller runs.
const DEFAULTS: &str = include_str!("../../data/rbac-defaults.json");

/// Returns all default roles and bindings, and the role and binding for anonymous reads of `kube-public/cluster-info`.
pub fn defaults() -> &'static [Value] {
    static PARSED: OnceLock<Vec<Value>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let mut objects: Vec<Value> =
            serde_json::from_str(DEFAULTS).expect("the default roles are checked in as JSON");
        objects.extend(cluster_info_access());
        objects
    })
}

/// The role and binding that kubeadm makes: a joining node reads the cluster's address and CA certificate before it has credentials.
fn cluster_info_access() -> [Value; 2] {
    let name = "kubeadm:bootstrap-signer-clusterinfo";
    let api_version = format!("{RBAC_GROUP}/v1");
    [
        json!({
            "apiVersion": api_version, "kind": "Role",
            "metadata": { "name": name, "namespace": "kube-public" },
            "rules": [{
                "apiGroups": [""], "resourceNames": ["cluster-info"],
                "resources": ["configmaps"], "verbs": ["get"],
            }],
        }),
        json!({
            "apiVersion": api_version, "kind": "RoleBinding",
            "metadata": { "name": name, "namespace": "kube-public" },
            "roleRef": { "apiGroup": RBAC_GROUP, "kind": "Role", "name": name },
            "subjects": [{ "apiGroup": RBAC_GROUP, "kind": "User", "name": ANONYMOUS }],
        }),
    ]
}

/// Returns the storage of one of the four RBAC kinds.
pub fn storage_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Role" => ROLES,
        "RoleBinding" => ROLE_BINDINGS,
        "ClusterRole" => CLUSTER_ROLES,
        "ClusterRoleBinding" => CLUSTER_ROLE_BINDINGS,
        _ => return None,
    })
}

/// Returns the default roles and bindings that the store lacks, each with its storage. An aggregated role already has the rules from the
/// defaults, so that it works before the aggregation controller first runs.
pub fn missing_objects(store: &Store) -> Vec<(&'static str, Value)> {
    let mut missing = Vec::new();
    for object in defaults() {
        let Some(storage) = storage_of(text(object, "kind")) else { continue };
        let metadata = &object["metadata"];
        if store.get(storage, text(metadata, "namespace"), text(metadata, "name")).is_some() {
            continue;
        }
        let mut object = object.clone();
        if let Some(rules) = aggregate(&object, defaults()) {
            object["rules"] = rules.into();
        }
        missing.push((storage, object));
    }
    missing
}

/// Returns the rules that an aggregated `ClusterRole` must have, given all `ClusterRoles`; `None` if it has no aggregation rule, or already
/// has exactly these.
pub fn aggregate(role: &Value, all: &[Value]) -> Option<Vec<Value>> {
    if role["aggregationRule"].is_null() {
        return None;
    }
    let selectors = items(&role["aggregationRule"], "clusterRoleSelectors");
    let own = text(&role["metadata"], "name");
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        let mut chosen: Vec<&Value> = all
            .iter()
            .filter(|other| text(other, "kind") != "Role" && text(&other["metadata"], "name") != own)
            .filter(|other| selects(selector, &other["metadata"]["labels"]))
            .collect();
        chosen.sort_by_key(|other| text(&other["metadata"], "name"));
        for rule in chosen.iter().flat_map(|other| aggregated_rules(other, all, 0)) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    (items(role, "rules") != rules.as_slice()).then_some(rules)
}

/// Returns the rules of a role that is aggregated into another. If the role is aggregated itself (`edit` within `admin`) and still empty,
/// its future rules are computed. Depth is bounded because label selectors can form a cycle.
fn aggregated_rules(role: &Value, all: &[Value], depth: usize) -> Vec<Value> {
    let rules = items(role, "rules");
    let aggregates = !items(&role["aggregationRule"], "clusterRoleSelectors").is_empty();
    if !rules.is_empty() || !aggregates || depth > 4 {
        return rules.to_vec();
    }
    let selectors = items(&role["aggregationRule"], "clusterRoleSelectors");
    let own = text(&role["metadata"], "name");
    let chosen = all.iter().filter(|other| {
        let labels = &other["metadata"]["labels"];
        text(&other["metadata"], "name") != own && selectors.iter().any(|selector| selects(selector, labels))
    });
    chosen.flat_map(|other| aggregated_rules(other, all, depth + 1)).collect()
}

/// Whether a label selector matches these labels; an invalid selector matches nothing.
fn selects(selector: &Value, labels: &Value) -> bool {
    LabelSelector::from_label_selector_object(selector).is_ok_and(|selector| selector.matches_value(labels))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::rbac::Authorizer;
    use super::super::rbac::tests::{binding, put};
    use super::super::{Attributes, User};
    use super::*;

    #[tokio::test]
    async fn default_roles_are_written_once_and_grant_expected_access() {
        let store = Store::in_memory();
        for (_, object) in missing_objects(&store) {
            put(&store, object).await;
        }
        assert_eq!(missing_objects(&store).len(), 0);
        put(&store, binding("a", "v", ("ClusterRole", "view"), ("User", "viewer"))).await;
        put(&store, binding("a", "e", ("ClusterRole", "edit"), ("User", "editor"))).await;
        put(&store, binding("a", "a", ("ClusterRole", "admin"), ("User", "boss"))).await;
        let authorizer = Authorizer::new(Arc::clone(&store));
        let table = [
            ("get", "", "configmaps", "viewer editor boss"),
            ("create", "", "configmaps", "editor boss"),
            ("get", "", "secrets", "editor boss"),
            ("create", "rbac.authorization.k8s.io", "rolebindings", "boss"),
            ("create", "apps", "deployments", "editor boss"),
            ("impersonate", "", "serviceaccounts", "editor boss"),
            ("create", "", "resourcequotas", ""),
            ("get", "", "nodes", ""),
        ];
        for (verb, group, resource, who) in table {
            let asked = Attributes {
                verb: verb.to_owned(),
                group: group.to_owned(),
                resource: resource.to_owned(),
                namespace: "a".to_owned(),
                ..Attributes::default()
            };
            let may = |name: &&str| authorizer.decide(&User::named(name, &[]), &asked).allowed;
            let allowed: Vec<&str> = ["viewer", "editor", "boss"].into_iter().filter(may).collect();
            assert_eq!(allowed.join(" "), who, "{verb} {resource}");
        }
        let path = |path: &str| Attributes {
            verb: "get".to_owned(),
            path: path.to_owned(),
            ..Attributes::default()
        };
        assert!(authorizer.decide(&User::anonymous(), &path("/version")).allowed);
        assert!(!authorizer.decide(&User::anonymous(), &path("/api")).allowed);
    }

    #[test]
    fn aggregation_selects_roles_by_label_and_is_idempotent() {
        let role = |name: &str, labels: Value, verb: &str| json!({"kind": "ClusterRole", "metadata": {"name": name, "labels": labels}, "rules": [{"verbs": [verb]}]});
        let all = [
            role("b", json!({"to": "x"}), "get"),
            role("a", json!({"to": "x"}), "list"),
            role("c", json!({"to": "y"}), "watch"),
            role("d", json!({"to": "x"}), "get"),
        ];
        let mut gathering = json!({"kind": "ClusterRole", "metadata": {"name": "g", "labels": {"to": "x"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "x"}},
                {"matchExpressions": [{"key": "to", "operator": "In", "values": ["y"]}]}]}});
        let rules = aggregate(&gathering, &all).unwrap();
        assert_eq!(json!(rules), json!([{"verbs": ["list"]}, {"verbs": ["get"]}, {"verbs": ["watch"]}]));
        gathering["rules"] = rules.into();
        assert_eq!(aggregate(&gathering, &all), None);
        assert_eq!(aggregate(&all[0], &all), None);
    }
}
