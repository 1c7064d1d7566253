//! Tests of the order and form of discovery documents.

use super::*;
use crate::schema::builtin;

/// A resource of a group that is not built in.
fn custom_resource(group: &str, version: &str, name: &str) -> Resource {
    let mut row = builtin::resources().swap_remove(0);
    (row.group, row.version, row.name) = (group.into(), version.into(), name.into());
    row.subresources = Box::default();
    row
}

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn discovery_order_does_not_depend_on_registry_order() {
    let mut served = builtin::resources();
    served.extend([
        custom_resource("b.dev", "v1beta1", "x"),
        custom_resource("b.dev", "v1", "z"),
        custom_resource("b.dev", "v1", "y"),
        custom_resource("a.dev", "v1", "x"),
    ]);
    let straight = (group_list(&served), aggregated_groups(&served), resource_list(&served, "b.dev", "v1"));
    served.reverse();
    let reversed = (group_list(&served), aggregated_groups(&served), resource_list(&served, "b.dev", "v1"));
    assert_eq!(straight, reversed);

    let (groups, _, resources) = straight;
    let order = names(&groups["groups"], "name");
    assert_eq!(order[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert_eq!(order[order.len() - 3..], ["flowcontrol.apiserver.k8s.io", "a.dev", "b.dev"]);
    assert_eq!(names(&resources.unwrap()["resources"], "name"), ["y", "z"]);
    let custom = group(&served, "b.dev").unwrap();
    assert_eq!(custom["preferredVersion"]["groupVersion"], "b.dev/v1");
    assert_eq!(names(&custom["versions"], "version"), ["v1", "v1beta1"]);
    assert_eq!(names(&group(&served, "autoscaling").unwrap()["versions"], "version"), ["v2", "v1"]);
}

#[test]
fn resource_appears_in_both_discovery_formats() {
    let served = builtin::resources();
    let aggregated = aggregated_core(&served);
    assert_eq!(aggregated["items"][0]["metadata"], json!({}));
    let pods = aggregated["items"][0]["versions"][0]["resources"].as_array().unwrap();
    let pods = pods.iter().find(|row| row["resource"] == "pods").unwrap();
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(
        pods["subresources"][3],
        json!({"subresource": "eviction", "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}, "verbs": ["create"]})
    );
    let list = resource_list(&served, "", "v1").unwrap();
    assert!(list["apiVersion"].is_null());
    let eviction = list["resources"].as_array().unwrap().iter().find(|row| row["name"] == "pods/eviction");
    assert_eq!(
        eviction.unwrap(),
        &json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]})
    );
}

#[test]
fn unserved_groups_have_no_document() {
    let served = builtin::resources();
    assert_eq!(group(&served, "none.example.com"), None);
    assert_eq!(group(&served, ""), None);
    assert_eq!(resource_list(&served, "apps", "v9"), None);
    assert_eq!(resource_list(&served, "none.example.com", "v1"), None);
}

#[test]
fn storage_version_hash_is_that_of_kubernetes() {
    let served = crate::schema::builtin::resources();
    let hash = |group: &str, version: &str, name: &str| {
        let list = resource_list(&served, group, version).unwrap();
        let rows = list["resources"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["storageVersionHash"].clone()
    };
    assert_eq!(hash("", "v1", "pods"), "xPOwRZ+Yhw8=");
    assert_eq!(hash("events.k8s.io", "v1", "events"), "r2yiGXH7wu8=");
    assert_eq!(hash("autoscaling", "v1", "horizontalpodautoscalers"), "qwQve8ut294=");
    assert_eq!(hash("authorization.k8s.io", "v1", "subjectaccessreviews"), serde_json::Value::Null);
}
