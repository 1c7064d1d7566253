//! Tests of documents of built-in and custom kinds.

use super::*;

fn nothing_custom(_: &Resource) -> Value {
    Value::Null
}

fn built_in(group: &str, version: &str) -> Value {
    document(group, version, &builtin::resources(), &nothing_custom).unwrap()
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
fn every_reference_leads_to_a_schema_and_every_kind_has_a_path() {
    let served = builtin::resources();
    for row in &served {
        let document = built_in(&row.group, &row.version);
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
        assert_eq!(schema(&document, row.root().name())["x-kubernetes-group-version-kind"], json!([kind]));
    }
}

#[test]
fn a_patch_says_what_clients_look_for() {
    let document = built_in("apps", "v1");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|one| one["name"] == "fieldValidation" && one["in"] == "query"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let reviews = built_in("authentication.k8s.io", "v1");
    assert!(reviews["paths"]["/apis/authentication.k8s.io/v1/tokenreviews"]["post"].is_object());
}

#[test]
fn schemas_are_written_as_kubernetes_publishes_them() {
    let document = built_in("", "v1");
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
fn a_custom_kind_gets_what_every_object_has() {
    let mut row = builtin::resources().swap_remove(0);
    (row.group, row.version) = ("ships.example.com".into(), "v1".into());
    (row.name, row.kind, row.list_kind) = ("ships".into(), "Ship".into(), "ShipList".into());
    let mut schemas = schemas::Collector::new(&row.group, &row.version);
    let given = json!({"description": "A ship.", "properties": {"spec": {"properties": {
        "port": {"x-kubernetes-int-or-string": true}}}, "metadata": {"type": "object"}}});
    custom::add(&row, given, &mut schemas);
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
fn the_index_names_every_group_version_by_a_hash_of_its_own() {
    let served = builtin::resources();
    let index = index(&served, &nothing_custom);
    let paths = index["paths"].as_object().unwrap();
    let hashes: BTreeSet<_> =
        paths.values().map(|path| path["serverRelativeURL"].as_str().unwrap()).collect();
    assert_eq!(hashes.len(), paths.len());
    for path in paths.keys() {
        let (group, version) = group_version(path).unwrap();
        let hash = hash(group, version, &served, &nothing_custom).unwrap();
        assert_eq!(hash.len(), 128);
        assert_eq!(paths[path]["serverRelativeURL"], format!("/openapi/v3/{path}?hash={hash}"));
    }
    for path in ["", "api", "apis", "apis/apps", "apis/apps/v1/deployments", "version"] {
        assert_eq!(group_version(path), None, "{path}");
    }
    assert_eq!(document("none.example.com", "v1", &served, &nothing_custom), None);
}
