//! Privilege escalation check for writes of roles and bindings.
//!
//! Writing a role requires that the user has every rule of it, or the verb `escalate` on it. Writing a binding requires the rules of its
//! role, or the verb `bind` on that role. The write path calls [`check`] for each create and update of the four kinds, after defaulting and
//! before validation.

use serde_json::Value;

use super::rbac::Authorizer;
use super::rule::Rule;
use super::{Attributes, MASTERS, RBAC_GROUP, User, items, quoted_list, text};
use crate::admission::{AdmissionRequest, Operation};
use crate::error::{ApiError, Result};
use crate::go::quote;

/// Refuses a role or binding that grants more than the user has. Other resources pass.
pub fn check(authorizer: &Authorizer, request: &AdmissionRequest<'_>, new: &Value) -> Result<()> {
    let resource = request.resource.name.as_ref();
    let concerned = request.resource.group.as_ref() == RBAC_GROUP && request.subresource.is_empty();
    if !concerned || request.operation == Operation::Delete || request.user.in_group(MASTERS) {
        return Ok(());
    }
    if request.old.is_some_and(|old| is_equal_except_gc_fields(new, old)) {
        return Ok(());
    }
    let guard = EscalationCheck { authorizer, request, new };
    match resource {
        "roles" => guard.check_role(),
        "clusterroles" => guard.check_role().and_then(|()| guard.check_aggregation()),
        "rolebindings" | "clusterrolebindings" => guard.check_binding(),
        _ => Ok(()),
    }
}

struct EscalationCheck<'a> {
    authorizer: &'a Authorizer,
    request: &'a AdmissionRequest<'a>,
    new: &'a Value,
}

impl EscalationCheck<'_> {
    fn forbidden(&self, reason: &str) -> ApiError {
        let name = text(&self.new["metadata"], "name");
        ApiError::forbidden(RBAC_GROUP, &self.request.resource.name, name, reason)
    }

    fn is_allowed(&self, verb: &str, resource: &str, name: &str) -> bool {
        let asked = Attributes {
            verb: verb.to_owned(),
            group: RBAC_GROUP.to_owned(),
            version: "*".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            namespace: self.request.namespace.to_owned(),
            ..Attributes::default()
        };
        self.authorizer.decide(self.request.user, &asked).allowed
    }

    fn can_escalate(&self) -> bool {
        // RBAC checks of `create` have no name.
        let name = if self.request.operation == Operation::Create { "" } else { self.request.name };
        self.is_allowed("escalate", &self.request.resource.name, name)
    }

    fn check_role(&self) -> Result<()> {
        if self.can_escalate() {
            return Ok(());
        }
        self.check_rules(&Rule::from_role(self.new))
    }

    /// An aggregated role can include any rule, so that writing it requires all permissions.
    fn check_aggregation(&self) -> Result<()> {
        let aggregates = |role: &Value| !items(&role["aggregationRule"], "clusterRoleSelectors").is_empty();
        if !aggregates(self.new) && !self.request.old.is_some_and(aggregates) || self.can_escalate() {
            return Ok(());
        }
        self.check_rules(&Rule::allow_all())
            .map_err(|_| self.forbidden("must have cluster-admin privileges to use the aggregationRule"))
    }

    fn check_binding(&self) -> Result<()> {
        let (kind, name) = (text(&self.new["roleRef"], "kind"), text(&self.new["roleRef"], "name"));
        let (resource, namespace) = match kind {
            "Role" => ("roles", self.request.namespace),
            "ClusterRole" => ("clusterroles", ""),
            other => {
                let why = format!("unsupported role reference kind: {}", quote(other));
                return Err(ApiError { reason: "", ..ApiError::internal(why) });
            }
        };
        if self.is_allowed("bind", resource, name) {
            return Ok(());
        }
        if kind == "Role" && namespace.is_empty() {
            return Err(ApiError::bad_request("Namespace parameter required."));
        }
        if name.is_empty() {
            return Err(ApiError::bad_request("Name parameter required."));
        }
        let Some(role) = self.authorizer.role(namespace, name) else {
            return Err(ApiError::not_found(RBAC_GROUP, &self.request.resource.name, name));
        };
        self.check_rules(role.rules().list())
    }

    fn check_rules(&self, wanted: &[Rule]) -> Result<()> {
        let user = self.request.user;
        let held = self.authorizer.rules_for(user, self.request.namespace);
        let Some(lines) = held.missing_rules(wanted) else { return Ok(()) };
        let mut why = attempt_message(user, &lines);
        if let Some(errors) = held.errors.text() {
            why.extend(["; resolution errors: [", errors.as_str(), "]"]);
        }
        Err(self.forbidden(&why))
    }
}

fn attempt_message(user: &User, lines: &str) -> String {
    let (name, groups) = (quote(&user.name), quoted_list(&user.groups));
    format!(
        "user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}"
    )
}

/// Changes of owner references and finalizers need no permissions: the garbage collector and namespace deletion make them.
fn is_equal_except_gc_fields(new: &Value, old: &Value) -> bool {
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for key in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
                metadata.remove(key);
            }
        }
        object
    };
    stripped(new) == stripped(old)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::rbac::tests::{binding, put};
    use super::super::testing::resource;
    use super::*;
    use crate::store::Store;

    fn check_result(
        authorizer: &Authorizer,
        name: &str,
        namespace: &str,
        new: &Value,
        old: Option<&Value>,
    ) -> String {
        let user = User::named("eve", &["system:authenticated"]);
        let resource = resource(RBAC_GROUP, name);
        let request = AdmissionRequest {
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            resource: &resource,
            subresource: "",
            namespace,
            name: text(&new["metadata"], "name"),
            user: &user,
            old,
            dry_run: false,
        };
        match check(authorizer, &request, new) {
            Ok(()) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.code, error.message),
        }
    }

    #[tokio::test]
    async fn role_cannot_grant_more_than_its_writer_has() {
        let store = Store::in_memory();
        let rules = |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
        let role = |name: &str, verbs: &[&str]| json!({"kind": "Role", "metadata": {"name": name, "namespace": "a"}, "rules": rules(verbs)});
        put(&store, role("half", &["get", "list"])).await;
        put(&store, role("full", &["*"])).await;
        put(&store, role("bindable", &["*"])).await;
        put(&store, json!({"kind": "Role", "metadata": {"name": "b", "namespace": "a"}, "rules": [
            {"apiGroups": [RBAC_GROUP], "resources": ["roles"], "resourceNames": ["bindable"], "verbs": ["bind"]}]}))
        .await;
        for name in ["half", "b"] {
            put(&store, binding("a", name, ("Role", name), ("User", "eve"))).await;
        }
        let authorizer = Authorizer::new(Arc::clone(&store));
        let lacks = "eve\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                     held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:";
        let bind = |role: &str| binding("a", "x", ("Role", role), ("User", "tom"));
        let table = [
            ("roles", role("x", &["get"]), "ok".to_owned()),
            (
                "roles",
                role("x", &["get", "delete", "watch"]),
                format!(
                    "403 roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"{lacks}[\"delete\" \"watch\"]}}"
                ),
            ),
            ("rolebindings", bind("half"), "ok".to_owned()),
            ("rolebindings", bind("bindable"), "ok".to_owned()),
            (
                "rolebindings",
                bind("full"),
                format!(
                    "403 rolebindings.rbac.authorization.k8s.io \"x\" is forbidden: user \"{lacks}[\"*\"]}}"
                ),
            ),
            (
                "rolebindings",
                bind("none"),
                "404 rolebindings.rbac.authorization.k8s.io \"none\" not found".to_owned(),
            ),
        ];
        for (resource, new, expected) in table {
            assert_eq!(check_result(&authorizer, resource, "a", &new, None), expected);
        }

        let old = role("full", &["*"]);
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["x"]);
        assert_eq!(check_result(&authorizer, "roles", "a", &new, Some(&old)), "ok");
        new["metadata"]["labels"] = json!({"a": "b"});
        assert_ne!(check_result(&authorizer, "roles", "a", &new, Some(&old)), "ok");

        let gathering = json!({"kind": "ClusterRole", "metadata": {"name": "g"}, "rules": [],
            "aggregationRule": {"clusterRoleSelectors": [{}]}});
        assert_eq!(
            check_result(&authorizer, "clusterroles", "", &gathering, None),
            "403 clusterroles.rbac.authorization.k8s.io \"g\" is forbidden: must have cluster-admin privileges to \
             use the aggregationRule"
        );
    }
}
