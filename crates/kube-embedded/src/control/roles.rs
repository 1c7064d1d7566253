//! The cluster role aggregation controller: an aggregated role has the rules of the roles that its selectors match.
//!
//! Invariant: a role is written only when its rules change, so roles that select each other converge.

use std::sync::Arc;

use serde_json::Value;

use super::queue::{Action, Controller};
use super::{Context, ReconcileError, build_change};
use crate::access::bootstrap::aggregate;
use crate::store::{Event, Key};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

/// Returns index and desired rules of the aggregated roles that need an update. Pure: no I/O, no clock.
fn decide(roles: &[Value]) -> Vec<(usize, Value)> {
    let wanted = |(at, role): (usize, &Value)| {
        let gathered = aggregate(role, roles)?;
        // A role without rules has `null`, as in Kubernetes.
        Some((at, if gathered.is_empty() { Value::Null } else { gathered.into() }))
    };
    roles.iter().enumerate().filter_map(wanted).collect()
}

pub(super) struct Roles;

/// The one key for all roles: there are few, and any may select any.
fn all_roles() -> Key {
    Key::new(&ROLES.into(), "", "")
}

impl Controller for Roles {
    fn initial_keys(&self, _context: &Context) -> Vec<Key> {
        vec![all_roles()]
    }

    fn keys_for_event(&self, _context: &Context, storage: &Arc<str>, _event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == ROLES && keys.is_empty() {
            keys.push(all_roles());
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let objects = context.store.list(ROLES, None).objects;
        let roles: Vec<Value> = objects.iter().map(|object| object.value()).collect();
        let changes = decide(&roles).into_iter().map(|(at, rules)| {
            let mut role = roles[at].clone();
            role["rules"] = rules;
            build_change(&Key::new(&key.storage, "", &objects[at].name), &objects[at], role)
        });
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            context.store.commit(changes).await?;
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aggregation_merges_rules_of_selected_roles_in_name_order() {
        let rule = |name: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [name]});
        let selector = json!({"matchLabels": {"to": "all"}});
        let roles = vec![
            json!({"metadata": {"name": "a", "labels": {"to": "all"}}, "rules": [rule("x"), rule("y")]}),
            json!({"metadata": {"name": "all", "labels": {"to": "all"}}, "rules": [rule("old")],
            "aggregationRule": {"clusterRoleSelectors": [selector, {"matchExpressions": [
                {"key": "extra", "operator": "In", "values": ["yes"]},
                {"key": "to", "operator": "DoesNotExist"},
            ]}]}}),
            json!({"metadata": {"name": "b", "labels": {"to": "all"}}, "rules": [rule("y"), rule("z")]}),
            json!({"metadata": {"name": "c", "labels": {"extra": "yes"}}, "rules": [rule("w")]}),
            json!({"metadata": {"name": "none"}, "rules": null,
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "nobody"}}]}}),
        ];
        let expected = json!([rule("x"), rule("y"), rule("z"), rule("w")]);
        assert_eq!(decide(&roles), [(1, expected.clone())]);
        let mut done = roles;
        done[1]["rules"] = expected;
        assert!(decide(&done).is_empty());
        done[1]["aggregationRule"]["clusterRoleSelectors"] = json!([]);
        assert_eq!(decide(&done), [(1, Value::Null)]);
    }
}
