//! Admission policies for node pools.
//!
//! `longshore-pools`: a pool that has nodes cannot be deleted by any client. The count is the one in the pool's status: a pool without a
//! count has no nodes.
//!
//! `longshore-pool-memory`: an annotation on a node records the attributes that its pool applied, and the previous ones. They are reverted
//! from it when the node leaves. A node that could write the annotation could add or remove any attribute of itself.

use kube_types::well_known::PREVIOUS_POOL_ATTRIBUTES;
use serde_json::{Value, json};

use super::labels;

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let pools = json!({ "apiGroups": ["apps.openyurt.io"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["nodepools"] });
    let empty = json!([{
        "expression": "!has(oldObject.status) || !has(oldObject.status.nodes) || size(oldObject.status.nodes) == 0",
        "message": "this node pool still has nodes: move them first",
        "reason": "Forbidden",
    }]);
    let nodes = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["nodes", "nodes/status"],
    });
    let by_a_node = json!([{ "name": "by-a-node", "expression": "request.userInfo.username.startsWith('system:node:')" }]);
    let memory = |node: &str| {
        let annotations = format!("{node}.metadata.annotations");
        format!(
            "({node} != null && has({annotations}) && '{PREVIOUS_POOL_ATTRIBUTES}' in {annotations} ? {annotations}['{PREVIOUS_POOL_ATTRIBUTES}'] : '')"
        )
    };
    let same = json!([{
        "expression": format!("{} == {}", memory("object"), memory("oldObject")),
        "message": format!("the annotation {PREVIOUS_POOL_ATTRIBUTES} is not for the node itself to write"),
        "reason": "Forbidden",
    }]);
    let [pools, nodes] = [
        policy("longshore-pools", &pools, &json!([]), &empty),
        policy("longshore-pool-memory", &nodes, &by_a_node, &same),
    ];
    pools.into_iter().chain(nodes).collect()
}

/// A policy for cluster-scoped objects, and its binding.
fn policy(name: &str, what: &Value, conditions: &Value, validations: &Value) -> [Value; 2] {
    let mut rule = what.clone();
    rule["scope"] = "Cluster".into();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": name, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [rule],
            },
            "matchConditions": conditions,
            "validations": validations,
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name, "labels": labels() },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    [policy, binding]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
    use kube::{Api, ResourceExt};
    use kube_types::NodePool;
    use testkit::TestCluster;

    use super::*;

    fn assert_forbidden<T: std::fmt::Debug>(answer: Result<T, kube::Error>) {
        match answer {
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn pool_with_nodes_cannot_be_deleted() {
        let world = TestCluster::new().await;
        world.apply(objects()).await;
        let pools = Api::<NodePool>::all(world.admin_client());
        let pool = json!({"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {"type": "Edge"}});
        world.apply([pool]).await;
        for (nodes, deleted) in [(json!(["a"]), false), (json!([]), true)] {
            let status = json!({"status": {"nodes": nodes}});
            pools.patch_status("p", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
            let answer = pools.delete("p", &DeleteParams::default()).await;
            if deleted {
                answer.unwrap();
            } else {
                assert_forbidden(answer);
            }
        }
    }

    #[tokio::test]
    async fn node_cannot_write_its_pool_attributes_annotation() {
        let world = TestCluster::new().await;
        world.apply(objects()).await;
        let machine = Api::<Node>::all(
            world.client_for("system:node:n", &["system:nodes", "system:authenticated", "system:masters"]),
        );
        let node = |annotations: Value| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n", "annotations": annotations}})).unwrap()
        };
        assert_forbidden(
            machine.create(&PostParams::default(), &node(json!({PREVIOUS_POOL_ATTRIBUTES: "{}"}))).await,
        );
        machine.create(&PostParams::default(), &node(json!({"own": "1"}))).await.unwrap();
        let write = |value: Value| {
            Patch::Merge(json!({"metadata": {"annotations": {PREVIOUS_POOL_ATTRIBUTES: value, "own": "2"}}}))
        };
        assert_forbidden(machine.patch("n", &PatchParams::default(), &write(json!("{}"))).await);
        assert_forbidden(machine.patch_status("n", &PatchParams::default(), &write(json!("{}"))).await);
        let people = Api::<Node>::all(world.admin_client());
        people.patch("n", &PatchParams::default(), &write(json!("{}"))).await.unwrap();
        assert_forbidden(machine.patch("n", &PatchParams::default(), &write(Value::Null)).await);
        // It may write its other annotations.
        let own = machine.patch("n", &PatchParams::default(), &write(json!("{}"))).await.unwrap();
        assert_eq!(own.annotations()["own"], "2");
    }
}
