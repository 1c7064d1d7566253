//! Tests of CRD selection.

use serde_json::{Value, json};

use super::*;

fn crd(change: impl Fn(&mut Value)) -> CustomResourceDefinition {
    let mut value = json!({
        "metadata": {"name": "nodepools.apps.openyurt.io", "annotations": {CRD_REVISION: "1"}},
        "spec": {"group": "apps.openyurt.io", "scope": "Cluster", "names": {"kind": "NodePool", "plural": "nodepools"},
                 "versions": [{"name": "v1alpha1", "served": true, "storage": true}, {"name": "v1beta1", "served": true, "storage": false}]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    });
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn usable_version_of_a_crd() {
    type Row = (&'static str, fn(&mut Value), Option<(&'static str, bool)>);
    #[rustfmt::skip]
    let table: &[Row] = &[
        ("ours", |_| {}, Some(("v1alpha1", true))),
        ("of others", |it| it["metadata"]["annotations"] = json!({}), Some(("v1alpha1", false))),
        ("a later one", |it| it["spec"]["versions"][0]["served"] = false.into(), Some(("v1beta1", true))),
        ("the latest", |it| it["spec"]["versions"] = json!([{"name": "v1beta2", "served": true, "storage": true}]), Some(("v1beta2", true))),
        ("of no version that we know", |it| it["spec"]["versions"] = json!([{"name": "v7", "served": true, "storage": true}]), None),
        ("of another scope", |it| it["spec"]["scope"] = "Namespaced".into(), None),
        ("not served yet", |it| it["status"] = json!(null), None),
        ("being deleted", |it| it["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into(), None),
    ];
    for (what, change, expected) in table {
        let found = served_crd(&crd(change));
        let expected =
            expected.map(|(version, ours)| ServedCrd { version: version.to_owned(), is_own: ours });
        assert_eq!(found, expected, "{what}");
    }
}
