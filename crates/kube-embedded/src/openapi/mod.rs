//! OpenAPI documents, as far as clients use them.
//!
//! kubectl and Helm need three things: the schema of a kind (`explain`, merge keys of client-side
//! apply), whether the PATCH of a kind supports `fieldValidation` (then they leave validation to the server), and
//! its patch types. A document therefore has all schemas and one path per kind; unused operations
//! are omitted. `http` serves and caches the documents.
//!
//! Invariant: equal resources give equal documents and equal hashes.

mod custom;
mod descriptions;
mod schemas;

use std::{borrow::Borrow, collections::BTreeSet, fmt::Write, sync::LazyLock};

use aws_lc_rs::digest;
use serde_json::{Map, Value, json};

use crate::schema::{builtin, resources::Resource};

/// Returns the `openAPIV3Schema` of a custom resource.
pub type CustomSchema<'a> = &'a dyn Fn(&Resource) -> Value;

/// The shortest v2 document in protobuf that kubectl accepts: `swagger` and
/// `info.title`. kubectl requests it only for kinds that are not served.
pub const V2_PROTOBUF: &[u8] = b"\x0a\x032.0\x12\x0c\x0a\x0aKubernetes";

/// `/openapi/v2` as JSON, as empty as [`V2_PROTOBUF`].
pub fn v2() -> Value {
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": {}})
}

/// `/openapi/v3`: the paths of the documents of all group versions.
pub fn index<R: Borrow<Resource>>(served: &[R], custom: CustomSchema) -> Value {
    let versions: BTreeSet<_> =
        served.iter().map(|row| (&*row.borrow().group, &*row.borrow().version)).collect();
    let paths: Map<_, _> = versions
        .into_iter()
        .filter_map(|(group, version)| {
            let path = path_of(group, version);
            let hash = hash(group, version, served, custom)?;
            Some((path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")})))
        })
        .collect();
    json!({"paths": paths})
}

/// The group and version of `/openapi/v3/<path>`: `api/v1`, `apis/apps/v1`.
pub fn group_version(path: &str) -> Option<(&str, &str)> {
    match path.strip_prefix("apis/") {
        Some(rest) => rest.split_once('/').filter(|(_, version)| !version.contains('/')),
        None => {
            path.strip_prefix("api/").filter(|version| !version.contains('/')).map(|version| ("", version))
        }
    }
}

/// A hash that changes with the document, computed without building it. `None` if the group version is not served.
pub fn hash<R: Borrow<Resource>>(
    group: &str,
    version: &str,
    served: &[R],
    custom: CustomSchema,
) -> Option<String> {
    /// Built-in kinds change only with the binary.
    static BUILTIN_DIGEST: LazyLock<digest::Digest> = LazyLock::new(|| {
        let tables = [
            env!("CARGO_PKG_VERSION"),
            include_str!("../../data/schema.txt"),
            include_str!("../../data/resources.txt"),
            include_str!("../../data/descriptions.txt"),
        ];
        digest::digest(&digest::SHA512, tables.concat().as_bytes())
    });
    let rows = resources_of(group, version, served)?;
    let mut context = digest::Context::new(&digest::SHA512);
    context.update(BUILTIN_DIGEST.as_ref());
    for row in rows {
        let schema = if row.is_custom() { custom(row) } else { Value::Null };
        let subresources: Vec<_> = row.subresources.iter().map(|sub| &sub.name).collect();
        let names = json!([group, version, row.name, row.kind, row.list_kind]);
        let identity = json!([names, row.namespaced, subresources, row.verbs, schema]);
        context.update(identity.to_string().as_bytes());
    }
    let mut hash = String::new();
    for byte in context.finish().as_ref() {
        let _ = write!(hash, "{byte:02X}"); // writing to a string cannot fail
    }
    Some(hash)
}

/// The document of one group version. `None` if it is not served.
pub fn document<R: Borrow<Resource>>(
    group: &str,
    version: &str,
    served: &[R],
    custom: CustomSchema,
) -> Option<Value> {
    let rows = resources_of(group, version, served)?;
    let mut schemas = schemas::SchemaCollector::new(group, version);
    let mut paths = Map::new();
    for row in rows {
        if row.is_custom() {
            custom::add_custom_kind(row, custom(row), &mut schemas);
        } else {
            schemas.add(row.root_type());
            if row.has_verb("list")
                && let Some(list) = builtin::type_of(group, version, &row.list_kind)
            {
                schemas.add(list);
            }
        }
        for sub in &row.subresources {
            let (group, version) =
                if sub.version.is_empty() { (group, version) } else { (&*sub.group, &*sub.version) };
            schemas.add_published(builtin::type_of(group, version, &sub.kind));
        }
        let (path, operations) = operations(row);
        paths.insert(path, operations);
    }
    schemas.add_published(builtin::type_of("", "v1", "DeleteOptions"));
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths,
        "components": {"schemas": schemas.finish()},
    }))
}

fn resources_of<'a, R: Borrow<Resource>>(
    group: &str,
    version: &str,
    served: &'a [R],
) -> Option<Vec<&'a Resource>> {
    let mut rows: Vec<_> = served
        .iter()
        .map(Borrow::borrow)
        .filter(|row| (&*row.group, &*row.version) == (group, version))
        .collect();
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    if rows.is_empty() { None } else { Some(rows) }
}

/// `api/v1`, `apis/apps/v1`
fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The path of a kind, with its PATCH operation if it has one.
fn operations(row: &Resource) -> (String, Value) {
    let namespace = if row.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{}{namespace}/{}", path_of(&row.group, &row.version), row.name);
    let kind = json!({"group": row.group, "version": row.version, "kind": row.kind});
    if !row.has_verb("patch") {
        let verb = if row.has_verb("create") { "post" } else { "get" };
        return (collection, json!({ verb: {"x-kubernetes-group-version-kind": kind, "responses": {}} }));
    }
    let mut patches =
        vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    if !row.is_custom() {
        patches.push("application/strategic-merge-patch+json");
    }
    let content: Map<_, _> = patches.into_iter().map(|patch| (patch.to_owned(), json!({}))).collect();
    let parameters: Vec<_> = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .into_iter()
        .map(|name| {
            let ty = if name == "force" { "boolean" } else { "string" };
            json!({"name": name, "in": "query", "schema": {"type": ty, "uniqueItems": true}})
        })
        .collect();
    let patch = json!({
        "parameters": parameters,
        "requestBody": {"content": content, "required": true},
        "responses": {},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
    });
    (format!("{collection}/{{name}}"), json!({"patch": patch}))
}

#[cfg(test)]
mod tests;
