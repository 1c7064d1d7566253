//! Discovery: the documents below `/api` and `/apis`.
//!
//! Pure functions of the currently served resources, built-in and custom, in any order. `http`
//! chooses the format by the `Accept` header and adds the `ETag`.
//!
//! Invariants: built-in groups come first in a fixed order, then custom groups by name. Versions are ordered by
//! [`order::compare`], the preferred one first; resources by name.

pub mod order;

use std::{borrow::Borrow, cmp::Ordering};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::schema::resources::{Resource, Subresource, api_version};

/// `/api` as `APIGroupDiscoveryList`: the core group, which has no name.
pub fn aggregated_core<R: Borrow<Resource>>(served: &[R]) -> Value {
    aggregated(&sorted_resources(served, str::is_empty))
}

/// `/apis` as `APIGroupDiscoveryList`: all named groups.
pub fn aggregated_groups<R: Borrow<Resource>>(served: &[R]) -> Value {
    aggregated(&sorted_resources(served, |group| !group.is_empty()))
}

/// `/api` for older clients. `address` is the server's `host:port`.
pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis` for older clients.
pub fn group_list<R: Borrow<Resource>>(served: &[R]) -> Value {
    let rows = sorted_resources(served, |group| !group.is_empty());
    let groups: Vec<_> = rows.chunk_by(same_group).map(|rows| Value::Object(versions(rows))).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`; `None` for a group that is not served.
pub fn group<R: Borrow<Resource>>(served: &[R], name: &str) -> Option<Value> {
    let rows = sorted_resources(served, |group| group == name && !group.is_empty());
    if rows.is_empty() {
        return None;
    }
    let mut document = versions(&rows);
    document.insert("kind".to_owned(), "APIGroup".into());
    document.insert("apiVersion".to_owned(), "v1".into());
    Some(Value::Object(document))
}

/// `/api/v1` and `/apis/<group>/<version>`: subresources are separate entries.
pub fn resource_list<R: Borrow<Resource>>(served: &[R], group: &str, version: &str) -> Option<Value> {
    let mut rows = sorted_resources(served, |name| name == group);
    rows.retain(|row| &*row.version == version);
    if rows.is_empty() {
        return None;
    }
    let mut resources = Vec::new();
    for row in rows {
        resources.push(resource_entry(row));
        resources.extend(row.subresources.iter().map(|sub| subresource_entry(row, sub)));
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": api_version(group, version),
        "resources": resources,
    });
    if !group.is_empty() {
        list["apiVersion"] = "v1".into(); // the core group's list is older than `apiVersion` in lists
    }
    Some(list)
}

fn sorted_resources<R: Borrow<Resource>>(served: &[R], wanted: impl Fn(&str) -> bool) -> Vec<&Resource> {
    let mut rows: Vec<_> = served.iter().map(Borrow::borrow).filter(|row| wanted(&row.group)).collect();
    rows.sort_by(|a, b| compare_resources(a, b));
    rows
}

fn compare_resources(a: &Resource, b: &Resource) -> Ordering {
    let group = |row: &Resource| order::group_rank(&row.group);
    (group(a).cmp(&group(b)))
        .then_with(|| a.group.cmp(&b.group))
        .then_with(|| order::compare(&a.version, &b.version))
        .then_with(|| a.name.cmp(&b.name))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that chunk_by asks for")]
fn same_group(a: &&Resource, b: &&Resource) -> bool {
    a.group == b.group
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that chunk_by asks for")]
fn same_version(a: &&Resource, b: &&Resource) -> bool {
    a.version == b.version
}

fn aggregated(rows: &[&Resource]) -> Value {
    let items: Vec<_> = rows.chunk_by(same_group).map(aggregated_group).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(rows: &[&Resource]) -> Value {
    let group = &*rows[0].group;
    let versions: Vec<_> = rows
        .chunk_by(same_version)
        .map(|rows| {
            let resources: Vec<_> = rows.iter().map(|row| aggregated_resource(row)).collect();
            json!({"version": rows[0].version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(row: &Resource) -> Value {
    let subresources: Vec<_> = row
        .subresources
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(row, &sub.group, &sub.version, &sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    let mut document = json!({
        "resource": row.name,
        "responseKind": response_kind(row, "", "", &row.kind),
        "scope": if row.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": row.singular,
        "verbs": row.verbs,
    });
    add_short_names_and_categories(row, &mut document);
    if !subresources.is_empty() {
        document["subresources"] = subresources.into();
    }
    document
}

/// The kind's group and version are omitted if they are the resource's own, except for custom resources.
fn response_kind(row: &Resource, group: &str, version: &str, kind: &str) -> Value {
    let (group, version) =
        if version.is_empty() && row.is_custom() { (&*row.group, &*row.version) } else { (group, version) };
    json!({"group": group, "version": version, "kind": kind})
}

/// A group as in the list of groups: its versions, the preferred one first.
fn versions(rows: &[&Resource]) -> Map<String, Value> {
    let versions: Vec<_> = rows
        .chunk_by(same_version)
        .map(|rows| json!({"groupVersion": rows[0].api_version(), "version": rows[0].version}))
        .collect();
    let mut group = Map::new();
    group.insert("name".to_owned(), (*rows[0].group).into());
    group.insert("preferredVersion".to_owned(), versions[0].clone());
    group.insert("versions".to_owned(), versions.into());
    group
}

fn resource_entry(row: &Resource) -> Value {
    let mut document = json!({
        "name": row.name,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": row.verbs,
    });
    if row.has_verb("create") && row.has_verb("list") {
        document["storageVersionHash"] = storage_version_hash(row).into();
    }
    add_short_names_and_categories(row, &mut document);
    document
}

/// A hash that changes with the storage version, without revealing it.
fn storage_version_hash(row: &Resource) -> String {
    let group = if row.storage.as_ref() == "events" { "" } else { row.group.as_ref() };
    let form = format!("{group}/{}/{}", row.storage_version, row.kind);
    let hash = digest::digest(&digest::SHA256, form.as_bytes());
    STANDARD.encode(&hash.as_ref()[..8])
}

fn subresource_entry(row: &Resource, sub: &Subresource) -> Value {
    let mut document = json!({
        "name": format!("{}/{}", row.name, sub.name),
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if !sub.version.is_empty() {
        document["group"] = (*sub.group).into();
        document["version"] = (*sub.version).into();
    }
    document
}

fn add_short_names_and_categories(row: &Resource, document: &mut Value) {
    for (key, names) in [("shortNames", &row.short_names), ("categories", &row.categories)] {
        if !names.is_empty() {
            document[key] = json!(names);
        }
    }
}

#[cfg(test)]
mod tests;
