//! Tests of conforming and normalising, with a small pod-like type.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::conform::{ErrorStyle, conform};
use super::normalise::normalise;
use crate::schema::types::{
    Field, List, ListMerge, Mapping, PatchStrategy, Shape, Struct, Type, TypeArena, TypeId,
};

const POINTER: u8 = 1;
const OMIT: u8 = 2;

fn add(types: &mut TypeArena, name: &str, shape: Shape) -> TypeId {
    types.add(Type { name: name.into(), shape })
}

fn structure(types: &mut TypeArena, name: &str, fields: &[(&str, TypeId, u8)]) -> TypeId {
    let mut fields: Vec<Field> = fields
        .iter()
        .map(|&(name, ty, flags)| Field {
            name: name.into(),
            ty,
            required: false,
            pointer: flags & POINTER != 0,
            omitempty: flags & OMIT != 0,
            numbers: Box::default(),
            default: None,
            patch: PatchStrategy::default(),
        })
        .collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    add(types, name, Shape::Struct(Struct { fields: fields.into(), ..Struct::default() }))
}

fn sample() -> (TypeArena, TypeId) {
    let mut types = TypeArena::default();
    let t = &mut types;
    let string = add(t, "", Shape::String);
    let int = add(t, "", Shape::Int32);
    let quantity = add(t, "", Shape::Quantity);
    let time = add(t, "", Shape::Time);
    let bytes = add(t, "", Shape::Bytes);
    let any = add(t, "", Shape::Any);
    let either = add(t, "", Shape::IntOrString);
    let texts = add(t, "", Shape::Map(Mapping { value: string, atomic: false }));
    let amounts = add(t, "", Shape::Map(Mapping { value: quantity, atomic: false }));
    let list =
        |t: &mut TypeArena, element| add(t, "", Shape::List(List { element, merge: ListMerge::Atomic }));
    let words = list(t, string);
    let resources = structure(t, "io.k8s.api.core.v1.Resources", &[("limits", amounts, OMIT)]);
    let container = structure(
        t,
        "io.k8s.api.core.v1.Container",
        &[("name", string, 0), ("image", string, OMIT), ("args", words, OMIT), ("resources", resources, 0)],
    );
    let containers = list(t, container);
    let spec = structure(
        t,
        "io.k8s.api.core.v1.Spec",
        &[
            ("replicas", int, POINTER | OMIT),
            ("ready", int, OMIT),
            ("containers", containers, 0),
            ("port", either, POINTER | OMIT),
            ("raw", any, OMIT),
            ("selector", texts, OMIT),
            ("when", time, 0),
            ("made", time, OMIT),
            ("data", bytes, OMIT),
        ],
    );
    let root = structure(t, "io.k8s.api.core.v1.Thing", &[("spec", spec, 0), ("kind", string, OMIT)]);
    (types, root)
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let (types, root) = sample();
    let mut value = json!({
        "bogus": 1, "Kind": "x",
        "spec": {"containers": [{"name": "a", "image": null, "nope": {"x": 1}}, null], "raw": {"a": null, "b": {}},
                 "selector": {"a": null}},
    });
    let findings = conform(types.get(root), &mut value, ErrorStyle::Json).unwrap();
    assert_eq!(findings.unknown, ["Kind", "bogus", "spec.containers[0].nope"]);
    assert_eq!(
        value,
        json!({"spec": {"containers": [{"name": "a"}, {}], "raw": {"a": null, "b": {}}, "selector": {"a": ""}}})
    );
}

#[test]
fn wrong_types_have_go_error_messages() {
    let (types, root) = sample();
    let field = "into Go struct field";
    #[rustfmt::skip]
    let table = [
        (json!([]), "json: cannot unmarshal array into Go value of type v1.Thing".to_owned()),
        (json!({"spec": "x"}), format!("json: cannot unmarshal string {field} Thing.spec of type v1.Spec")),
        (json!({"spec": {"replicas": "3"}}), format!("json: cannot unmarshal string {field} Spec.spec.replicas of type int32")),
        (json!({"spec": {"replicas": 3_000_000_000_i64}}), format!("json: cannot unmarshal number 3000000000 {field} Spec.spec.replicas of type int32")),
        (json!({"spec": {"replicas": 1.5}}), format!("json: cannot unmarshal number 1.5 {field} Spec.spec.replicas of type int32")),
        (json!({"spec": {"containers": {}}}), format!("json: cannot unmarshal object {field} Spec.spec.containers of type []v1.Container")),
        (json!({"spec": {"containers": [{"args": ["a", 5]}]}}), format!("json: cannot unmarshal number {field} Container.spec.containers.args of type string")),
        (json!({"spec": {"selector": []}}), format!("json: cannot unmarshal array {field} Spec.spec.selector of type map[string]string")),
        (json!({"spec": {"port": true}}), format!("json: cannot unmarshal bool {field} Spec.spec.port of type int32")),
        (json!({"spec": {"when": 5}}), format!("json: cannot unmarshal number {field} Spec.spec.when of type string")),
        (json!({"spec": {"data": "*"}}), "illegal base64 data at input byte 0".to_owned()),
    ];
    for (mut value, message) in table {
        let given = value.to_string();
        assert_eq!(conform(types.get(root), &mut value, ErrorStyle::Json), Err(message), "{given}");
    }
}

#[test]
fn normal_form_is_what_go_encodes() {
    let (types, root) = sample();
    let mut value = json!({"kind": "", "spec": {
        "replicas": 0, "ready": 0, "port": "", "selector": {}, "data": "YQ\n==", "when": "2020-01-01T01:00:00.5+01:00",
        "containers": [{"image": "", "args": [], "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}],
    }});
    conform(types.get(root), &mut value, ErrorStyle::Json).unwrap();
    normalise(types.get(root), &mut value);
    assert_eq!(
        value,
        json!({"spec": {
            "replicas": 0, "port": "", "data": "YQ==", "when": "2020-01-01T00:00:00Z",
            "containers": [{"name": "", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}],
        }})
    );
    let mut empty = json!({});
    normalise(types.get(root), &mut empty);
    assert_eq!(empty, json!({"spec": {"containers": null, "when": null}}));
}

fn any_pod() -> impl Strategy<Value = Value> {
    let names =
        prop::sample::select(vec!["spec", "containers", "replicas", "when", "selector", "raw", "args", "x"]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9]{0,3}".prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_conforms_is_stable(mut value in any_pod()) {
        let (types, root) = sample();
        if conform(types.get(root), &mut value, ErrorStyle::Json).is_ok() {
            normalise(types.get(root), &mut value);
            let once = value.clone();
            prop_assert_eq!(conform(types.get(root), &mut value.clone(), ErrorStyle::Json).unwrap().unknown, Vec::<String>::new());
            normalise(types.get(root), &mut value);
            prop_assert_eq!(value, once);
        }
    }
}

#[test]
fn stored_form_has_no_empty_lists() {
    let ty = |group, kind| crate::schema::builtin::type_of(group, "v1", kind).unwrap();
    let mut role = json!({"rules": [{"verbs": [], "apiGroups": [""]}]});
    super::normalise::as_stored(ty("rbac.authorization.k8s.io", "Role"), &mut role);
    assert_eq!(role, json!({"rules": [{"verbs": null, "apiGroups": [""]}]}));
    // Reviews are returned unchanged.
    let mut review = json!({"spec": {"groups": []}});
    super::normalise::as_stored(ty("authorization.k8s.io", "SubjectAccessReview"), &mut review);
    assert_eq!(review, json!({"spec": {"groups": []}}));
}

#[test]
fn patched_object_errors_are_those_of_unstructured_conversion() {
    let ty = crate::schema::builtin::type_of("", "v1", "ConfigMap").unwrap();
    let rows = [
        (json!({"data": {"a": 5}}), "cannot convert int64 to string"),
        (json!({"data": {"a": true}}), "unrecognized type: string"),
        (json!({"data": []}), "cannot restore map from slice"),
        (json!({"metadata": "x"}), "cannot restore struct from: string"),
        (json!({"metadata": {"finalizers": "x"}}), "cannot restore slice from string"),
        (json!({"metadata": {"generation": 1.5}}), "cannot convert float64 to int64"),
        (
            json!({"metadata": {"creationTimestamp": 5}}),
            "json: cannot unmarshal number into Go value of type string",
        ),
        (json!({"immutable": "x"}), "unrecognized type: bool"),
        (json!({"binaryData": {"a": "!"}}), "error decoding from json: illegal base64 data at input byte 0"),
    ];
    for (mut given, message) in rows {
        assert_eq!(conform(ty, &mut given, ErrorStyle::Unstructured).unwrap_err(), message);
    }
}
