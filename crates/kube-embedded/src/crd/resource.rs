//! API resources of a CRD: one [`Resource`] per served version.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use super::cel::rules::CelRules;
use super::schema::StructuralSchema;
use super::status::is_terminating;
use super::{CustomKind, ScalePaths, VersionSchemas, types};
use crate::schema::resources::{PrinterColumn, Resource, Subresource};
use crate::schema::types::TypeArena;

const VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs of a terminating CRD.
const TERMINATING_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];
const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although \
    some resources may allow a client to request the generation of an appropriate name automatically. Name is \
    primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: \
    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. \
    It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this \
    value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for \
    lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns one resource per served version of a CRD; `builtin` provides the type `ObjectMeta`.
pub fn resources(crd: &Value, builtin: &TypeArena) -> Result<Vec<Resource>, String> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().map(Box::<str>::from);
    let missing = |what: &str| format!("the definition has no {what}");
    let group = text(&spec["group"]).ok_or_else(|| missing("group"))?;
    let names = &spec["names"];
    let plural = text(&names["plural"]).ok_or_else(|| missing("plural name"))?;
    let kind = text(&names["kind"]).ok_or_else(|| missing("kind"))?;
    let versions = spec["versions"].as_array().ok_or_else(|| missing("versions"))?;
    let stored = versions.iter().find(|version| version["storage"] == true);
    let storage_version =
        stored.and_then(|version| text(&version["name"])).ok_or_else(|| missing("storage version"))?;
    let storage: Arc<str> = format!("{plural}.{group}").into();
    let strings = |value: &Value| -> Box<[Box<str>]> {
        value.as_array().into_iter().flatten().filter_map(text).collect()
    };

    let schemas = versions.iter().filter_map(|version| {
        let mut schema = StructuralSchema::parse(&version["schema"]["openAPIV3Schema"]);
        schema.preserve_unknown |= spec["preserveUnknownFields"] == true;
        Some((text(&version["name"])?, Arc::new(schema)))
    });
    let schemas: Arc<VersionSchemas> = Arc::new(schemas.collect());
    let since = crd["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    let definition = (
        text(&crd["metadata"]["uid"]).unwrap_or_default(),
        crd["metadata"]["generation"].as_i64().unwrap_or(0),
    );
    let verbs = if is_terminating(crd) { TERMINATING_VERBS } else { VERBS };
    let mut rows = Vec::new();
    for version in versions.iter().filter(|version| version["served"] == true) {
        let name = text(&version["name"]).ok_or_else(|| missing("name of a version"))?;
        let schema = schemas.get(&name).cloned().unwrap_or_default();
        let path = |value: &Value| value.as_str().filter(|path| !path.is_empty()).map(Box::<str>::from);
        let scale = &version["subresources"]["scale"];
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        let custom = CustomKind {
            group: group.clone(),
            version: name.clone(),
            kind: kind.clone(),
            document: version["schema"]["openAPIV3Schema"].clone(),
            rules: CelRules::compile(&schema),
            schema,
            versions: schemas.clone(),
            storage_version: storage_version.clone(),
            defined_at_version: since.unwrap_or(u64::MAX),
            crd_uid_and_generation: definition.clone(),
            has_status: version["subresources"]["status"].is_object(),
            scale: scale.is_object().then(|| ScalePaths {
                spec_replicas: path(&scale["specReplicasPath"]).unwrap_or_default(),
                status_replicas: path(&scale["statusReplicasPath"]).unwrap_or_default(),
                selector: path(&scale["labelSelectorPath"]),
            }),
            selectable: selectable.filter_map(|field| path(&field["jsonPath"])).collect(),
            deprecation: deprecation(version, spec, &group, &name, &kind),
        };
        let (arena, ty) = types::from_schema(custom.schema(), builtin);
        rows.push(Resource {
            group: group.clone(),
            version: name,
            name: plural.clone(),
            singular: text(&names["singular"]).unwrap_or_else(|| kind.to_lowercase().into()),
            kind: kind.clone(),
            list_kind: text(&names["listKind"]).unwrap_or_else(|| format!("{kind}List").into()),
            namespaced: spec["scope"] == "Namespaced",
            short_names: strings(&names["shortNames"]),
            categories: strings(&names["categories"]),
            verbs: verbs.iter().copied().map(Into::into).collect(),
            subresources: subresources(&custom),
            columns: columns(&version["additionalPrinterColumns"]),
            storage: storage.clone(),
            storage_version: storage_version.clone(),
            types: Arc::new(arena),
            ty,
            custom: Some(Arc::new(custom)),
        });
    }
    Ok(rows)
}

fn subresources(custom: &CustomKind) -> Box<[Subresource]> {
    let verbs = || ["get", "patch", "update"].map(Into::into).into();
    let mut list = Vec::new();
    if custom.has_status {
        list.push(Subresource {
            name: "status".into(),
            group: Box::default(),
            version: Box::default(),
            kind: custom.kind.clone(),
            verbs: verbs(),
        });
    }
    if custom.scale.is_some() {
        list.push(Subresource {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs(),
        });
    }
    list.into()
}

fn columns(additional: &Value) -> Box<[PrinterColumn]> {
    let mut columns = vec![PrinterColumn {
        name: "Name".into(),
        ty: "string".into(),
        format: "name".into(),
        description: NAME_DESCRIPTION.into(),
        priority: 0,
        json_path: ".metadata.name".into(),
    }];
    let additional = additional.as_array().map(Vec::as_slice).unwrap_or_default();
    if additional.is_empty() {
        columns.push(PrinterColumn {
            name: "Age".into(),
            ty: "date".into(),
            format: Box::default(),
            description: AGE_DESCRIPTION.into(),
            priority: 0,
            json_path: ".metadata.creationTimestamp".into(),
        });
    }
    for column in additional {
        let text = |key: &str| column[key].as_str().unwrap_or_default();
        let description = match text("description") {
            "" => {
                format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")).into()
            }
            description => description.into(),
        };
        let priority = column["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok());
        columns.push(PrinterColumn {
            name: text("name").into(),
            ty: text("type").into(),
            format: text("format").into(),
            description,
            priority: priority.unwrap_or_default(),
            json_path: text("jsonPath").into(),
        });
    }
    columns.into()
}

fn deprecation(version: &Value, spec: &Value, group: &str, name: &str, kind: &str) -> Option<Box<str>> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.into());
    }
    let served = spec["versions"].as_array().into_iter().flatten();
    let newer = served
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .filter_map(|other| other["name"].as_str())
        .filter(|other| version_order(other, name).is_gt())
        .max_by(|a, b| version_order(a, b));
    let advice = newer.map(|newer| format!("; use {group}/{newer} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{advice}").into())
}

/// Orders versions by priority: stable above beta above alpha, then by number; other names are lowest, in reverse alphabetical order.
pub fn version_order(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Parses `v2beta1` as (stability, major, minor).
fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let (stability, minor) = match &rest[digits..] {
        "" => return Some((2, major, 0)),
        tail if tail.starts_with("beta") => (1, &tail[4..]),
        tail if tail.starts_with("alpha") => (0, &tail[5..]),
        _ => return None,
    };
    Some((stability, major, minor.parse().ok()?))
}
