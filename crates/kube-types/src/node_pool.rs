//! `NodePool`: a group of nodes. OpenYurt's kind, cluster-scoped.
//!
//! OpenYurt has served this kind in three versions. One struct reads all of them: fields that a version lacks are
//! empty, and further fields are left alone. If the platform creates the CRD, it has `v1alpha1`, which is stored, and
//! `v1beta1` with the same schema, so that no conversion is needed.
//!
//! See also: the labels in [`crate::well_known`] that make a node a member.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, CustomResourceExt};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Type of a pool of edge nodes.
pub const POOL_TYPE_EDGE: &str = "Edge";
/// Type of a pool of nodes in the data centre.
pub const POOL_TYPE_CLOUD: &str = "Cloud";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "apps.openyurt.io",
    version = "v1alpha1",
    kind = "NodePool",
    plural = "nodepools",
    shortname = "np",
    status = "NodePoolStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Group of nodes",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "ReadyNodes", type_ = "integer", json_path = ".status.readyNodeNum"),
    printcolumn(name = "NotReadyNodes", type_ = "integer", json_path = ".status.unreadyNodeNum"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolSpec {
    /// `Edge` or `Cloud`. A string, so that objects with a type of a later version can still be read.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "types")]
    pub pool_type: String,
    /// Selector of the members; absent since `v1beta1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Labels of every member.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of every member.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Taints of every member.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub taints: Vec<Taint>,
    /// Whether pods of the pool use the host network.
    #[serde(skip_serializing_if = "is_false")]
    pub host_network: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePoolStatus {
    pub ready_node_num: i64,
    pub unready_node_num: i64,
    /// The names of the members.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// The platform's CRD: both versions with the same schema.
pub fn crd() -> CustomResourceDefinition {
    let mut definition = NodePool::crd();
    let versions = &mut definition.spec.versions;
    let newer = versions.first().cloned().map(|mut version| {
        "v1beta1".clone_into(&mut version.name);
        version.storage = false;
        version
    });
    versions.extend(newer);
    definition
}

fn types(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [POOL_TYPE_EDGE, POOL_TYPE_CLOUD] })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pools_of_every_version_can_be_read() {
        let table = [
            (json!({}), ""),
            (
                json!({"type": "Edge", "selector": {"matchLabels": {"apps.openyurt.io/nodepool": "hangzhou"}}}),
                "Edge",
            ),
            (json!({"type": "Cloud", "hostNetwork": true, "labels": {"a": "b"}}), "Cloud"),
            (
                json!({"type": "Edge", "interConnectivity": true, "leaderElectionStrategy": "random",
                       "poolScopeMetadata": [{"version": "v1", "resource": "services"}], "taints": [{"key": "a", "effect": "NoSchedule"}]}),
                "Edge",
            ),
            (json!({"type": "Somewhere"}), "Somewhere"),
        ];
        for (spec, expected) in table {
            let pool = json!({"apiVersion": "apps.openyurt.io/v1beta2", "kind": "NodePool", "metadata": {"name": "p"},
                              "spec": spec, "status": {"nodes": ["a"], "leaderEndpoints": [], "conditions": []}});
            let pool: NodePool = serde_json::from_value(pool).unwrap();
            assert_eq!(pool.spec.pool_type, expected);
            assert_eq!(pool.status.unwrap().nodes, ["a"]);
        }
    }

    #[test]
    fn crd_serves_two_versions_with_one_schema() {
        let versions = crd().spec.versions;
        let told: Vec<_> = versions.iter().map(|version| (version.name.as_str(), version.storage)).collect();
        assert_eq!(told, [("v1alpha1", true), ("v1beta1", false)]);
        assert_eq!(versions[0].schema, versions[1].schema);
    }
}
