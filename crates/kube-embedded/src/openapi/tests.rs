//! Tests of documents of built-in and custom kinds.

use super::*;

fn no_custom_schema(_: &Resource) -> Value {
    Value::Null
}

fn builtin_document(group: &str, version: &str) -> Value {
    document(group, version, &builtin::resources(), &no_custom_schema).unwrap()
}

fn schema<'a>(document: &'a Value, name: &str) -> &'a Value {
    &document["components"]["schemas"][name]
}

/// All `$ref`s below a value.
fn references(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|inner| references(inner, into));
        }
        Value::Array(values) => values.iter().for_each(|inner| references(inner, into)),
        _ => {}
    }
}

#[test]
fn references_resolve_and_kinds_have_paths() {
    let served = builtin::resources();
    for row in &served {
        let document = builtin_document(&row.group, &row.version);
        let mut all = Vec::new();
        references(&document, &mut all);
        for one in all {
            let name = one.strip_prefix("#/components/schemas/").unwrap();
            assert!(schema(&document, name).is_object(), "{name}");
        }
        let kind = json!({"group": row.group, "version": row.version, "kind": row.kind});
        let paths = document["paths"].as_object().unwrap();
        assert!(
            paths
                .values()
                .flat_map(|path| path.as_object().unwrap().values())
                .any(|operation| operation["x-kubernetes-group-version-kind"] == kind),
            "{kind}"
        );
        assert_eq!(
            schema(&document, row.root_type().name())["x-kubernetes-group-version-kind"],
            json!([kind])
        );
    }
}

#[test]
fn patch_operation_has_parameters_of_clients() {
    let document = builtin_document("apps", "v1");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|one| one["name"] == "fieldValidation" && one["in"] == "query"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let reviews = builtin_document("authentication.k8s.io", "v1");
    assert!(reviews["paths"]["/apis/authentication.k8s.io/v1/tokenreviews"]["post"].is_object());
}

#[test]
fn builtin_schemas_are_those_of_kubernetes() {
    let document = builtin_document("", "v1");
    let core = |name: &str| schema(&document, &format!("io.k8s.api.core.v1.{name}"));
    let without_text = |value: &Value| {
        let mut value = value.clone();
        value.as_object_mut().unwrap().remove("description").expect("it is described");
        value
    };
    let property = |of: &str, name: &str| without_text(&core(of)["properties"][name]);
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let container = reference("io.k8s.api.core.v1.Container");
    let quantity = reference("io.k8s.apimachinery.pkg.api.resource.Quantity");
    let object_reference = reference("io.k8s.api.core.v1.ObjectReference");
    for (of, name, wanted) in [
        (
            "PodSpec",
            "containers",
            json!({"type": "array", "items": {"default": {}, "allOf": [container]},
                "x-kubernetes-list-map-keys": ["name"], "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}),
        ),
        ("PodSpec", "overhead", json!({"type": "object", "additionalProperties": quantity})),
        (
            "PodSpec",
            "nodeSelector",
            json!({"type": "object", "additionalProperties": {"type": "string", "default": ""}, "x-kubernetes-map-type": "atomic"}),
        ),
        ("ContainerPort", "containerPort", json!({"type": "integer", "format": "int32", "default": 0})),
        (
            "ContainerPort",
            "protocol",
            json!({"type": "string", "default": "TCP", "enum": ["SCTP", "TCP", "UDP"]}),
        ),
        (
            "PersistentVolumeSpec",
            "claimRef",
            json!({"allOf": [object_reference], "x-kubernetes-map-type": "granular"}),
        ),
    ] {
        assert_eq!(property(of, name), wanted, "{of}.{name}");
    }
    assert_eq!(core("ContainerPort")["required"], json!(["containerPort"]));
    assert_eq!(core("ObjectReference")["x-kubernetes-map-type"], "atomic");
    let options = schema(&document, "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    assert_eq!(
        options["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "DeleteOptions"}])
    );
}

#[test]
fn custom_kind_schema_has_common_fields() {
    let mut row = builtin::resources().swap_remove(0);
    (row.group, row.version) = ("ships.example.com".into(), "v1".into());
    (row.name, row.kind, row.list_kind) = ("ships".into(), "Ship".into(), "ShipList".into());
    let mut schemas = schemas::SchemaCollector::new(&row.group, &row.version);
    let given = json!({"description": "A ship.", "properties": {"spec": {"properties": {
        "port": {"x-kubernetes-int-or-string": true}}}, "metadata": {"type": "object"}}});
    custom::add_custom_kind(&row, given, &mut schemas);
    let schemas = schemas.finish();
    let ship = &schemas["com.example.ships.v1.Ship"];
    assert_eq!(ship["properties"]["spec"]["properties"]["port"]["anyOf"][0]["type"], "integer");
    assert_eq!(ship["x-kubernetes-group-version-kind"][0]["kind"], "Ship");
    assert_eq!(
        ship["properties"]["metadata"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
    );
    let list = &schemas["com.example.ships.v1.ShipList"];
    assert_eq!(
        list["properties"]["items"]["items"]["$ref"],
        "#/components/schemas/com.example.ships.v1.Ship"
    );
    assert!(schemas.contains_key("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"));
}

#[test]
fn index_has_distinct_hash_per_group_version() {
    let served = builtin::resources();
    let index = index(&served, &no_custom_schema);
    let paths = index["paths"].as_object().unwrap();
    let hashes: BTreeSet<_> =
        paths.values().map(|path| path["serverRelativeURL"].as_str().unwrap()).collect();
    assert_eq!(hashes.len(), paths.len());
    for path in paths.keys() {
        let (group, version) = group_version(path).unwrap();
        let hash = hash(group, version, &served, &no_custom_schema).unwrap();
        assert_eq!(hash.len(), 128);
        assert_eq!(paths[path]["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
    }
    for path in ["", "api", "apis", "apis/apps", "apis/apps/v1/deployments", "version"] {
        assert_eq!(group_version(path), None, "{path}");
    }
    assert_eq!(document("none.example.com", "v1", &served, &no_custom_schema), None);
}
