//! Tests of pruning, defaulting and validation of custom resources.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::types::TypeArena;

fn kind(schema: &Value) -> std::sync::Arc<CustomKind> {
    let crd = json!({"spec": {
        "group": "x.dev", "scope": "Namespaced", "names": {"plural": "tugs", "singular": "tug", "kind": "Tug"},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        }],
    }});
    let rows = resources(&crd, &TypeArena::default()).unwrap();
    rows[0].custom.clone().unwrap()
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Tug", "metadata": {"name": "a"}, "spec": spec})
}

fn error_texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn validation_errors_have_kubernetes_messages() {
    let kind = kind(&json!({"type": "object", "properties": {
        "s": {"type": "string", "minLength": 2, "maxLength": 4}, "p": {"type": "string", "pattern": "^[a-z]+$"},
        "e": {"type": "string", "enum": ["red", "blue"]}, "i": {"type": "integer", "minimum": 1, "maximum": 10},
        "x": {"type": "integer", "minimum": 1, "exclusiveMinimum": true, "multipleOf": 3},
        "f": {"type": "integer", "format": "int32"}, "n": {"type": "integer"},
        "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "m": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
        "r": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        "d": {"type": "string", "format": "date-time"}, "ios": {"x-kubernetes-int-or-string": true},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "no": {"type": "string", "not": {"enum": ["never"]}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
    }}));
    let table: &[(Value, &[&str])] = &[
        (json!({"s": "abc", "i": 5, "x": 6, "l": [1], "ios": "5%", "one": {"a": "x"}, "f": 1.0}), &[]),
        (
            json!({"s": "a"}),
            &["spec.s: Invalid value: \"a\": spec.s in body should be at least 2 chars long"],
        ),
        (json!({"s": "abcde"}), &["spec.s: Too long: may not be more than 4 bytes"]),
        (json!({"p": "X"}), &["spec.p: Invalid value: \"X\": spec.p in body should match '^[a-z]+$'"]),
        (json!({"e": "q"}), &["spec.e: Unsupported value: \"q\": supported values: \"red\", \"blue\""]),
        (json!({"i": 11}), &["spec.i: Invalid value: 11: spec.i in body should be less than or equal to 10"]),
        (
            json!({"x": 1}),
            &[
                "spec.x: Invalid value: 1: spec.x in body should be a multiple of 3",
                "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
            ],
        ),
        (
            json!({"i": "5"}),
            &["spec.i: Invalid value: \"string\": spec.i in body must be of type integer: \"string\""],
        ),
        (
            json!({"i": 1.5}),
            &[
                "spec.i: Invalid value: \"number\": spec.i in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.i",
            ],
        ),
        (
            json!({"f": 5_000_000_000_i64}),
            &[
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.f",
            ],
        ),
        (json!({"f": true}), &["spec.f: Invalid value: \"\": spec.f in body must be of type int32: \"\""]),
        (json!({"l": []}), &["spec.l: Invalid value: 0: spec.l in body should have at least 1 items"]),
        (json!({"l": [1, 2, 3]}), &["spec.l: Too many: 3: must have at most 2 items"]),
        (
            json!({"l": ["a"]}),
            &["spec.l[0]: Invalid value: \"string\": spec.l[0] in body must be of type integer: \"string\""],
        ),
        (
            json!({"m": {"a": 1}}),
            &["spec.m.a: Invalid value: \"integer\": spec.m.a in body must be of type string: \"integer\""],
        ),
        (json!({"r": {}}), &["spec.r.a: Required value"]),
        (
            json!({"d": "x"}),
            &["spec.d: Invalid value: \"x\": spec.d in body must be of type date-time: \"x\""],
        ),
        (
            json!({"ios": true}),
            &[
                "spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer,string: \"boolean\"",
            ],
        ),
        (
            json!({"one": {"a": "", "b": ""}}),
            &[
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            json!({"one": {}}),
            &[
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found none valid",
                "spec.one.a: Required value",
            ],
        ),
        (
            json!({"no": "never"}),
            &["<nil>: Invalid value: \"\": \"spec.no\" must not validate the schema (not)"],
        ),
        (json!({"n": -1}), &[".spec.n: Invalid value: -1: should be a non-negative integer"]),
        (json!({"set": ["a", "b", "a", "a"]}), &["spec.set[2]: Duplicate value: \"a\""]),
        (json!({"map": [{"k": "x"}, {"k": "x"}]}), &["spec.map[1]: Duplicate value: {\"k\":\"x\"}"]),
        (
            json!([]),
            &[
                "spec: Invalid value: \"array\": spec in body must be of type object: \"array\"",
                ".spec.n: Invalid value: 0: .spec.n accessor error: [] is of the type []interface {}, expected map[string]interface{}",
            ],
        ),
    ];
    for (spec, wanted) in table {
        assert_eq!(
            error_texts(&kind.validate(&object(spec), None, FieldErrors::new()).errors),
            *wanted,
            "{spec}"
        );
    }
}

#[test]
fn cel_rules_report_violations_and_ratchet_unchanged_values() {
    let kind = kind(&json!({"type": "object", "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "kind": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}]},
        "name": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [
            {"rule": "self.startsWith('l-')", "reason": "FieldValueForbidden", "message": "must start with l-"}]},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.v > 0", "messageExpression": "'v of ' + self.n + ' is bad'"}]}},
        "opt": {"type": "string", "x-kubernetes-validations": [
            {"rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": true, "message": "opt is fixed"}]},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "message": "min above max", "fieldPath": ".min"},
        {"rule": "!has(self.items) || self.items.all(i, self.items.exists_one(j, j.n == i.n))"},
    ]}));
    let check = |spec: Value, old: Option<Value>| {
        error_texts(
            &kind.validate(&object(&spec), old.map(|old| object(&old)).as_ref(), FieldErrors::new()).errors,
        )
    };
    let none: [&str; 0] = [];
    assert_eq!(check(json!({"min": 1, "max": 2, "kind": "x", "opt": "a"}), None), none);
    assert_eq!(check(json!({"min": 3, "max": 2}), None), ["spec.min: Invalid value: min above max"]);
    assert_eq!(check(json!({"name": "x"}), None), ["spec.name: Forbidden: must start with l-"]);
    assert_eq!(
        check(json!({"items": [{"n": "q", "v": -1}]}), None),
        ["spec.items[0]: Invalid value: v of q is bad"]
    );
    assert_eq!(
        check(json!({"items": [{"n": "q", "v": 1}, {"n": "q", "v": 1}]}), None),
        [
            "spec: Invalid value: failed rule: !has(self.items) || self.items.all(i, self.items.exists_one(j, j.n == i.n))"
        ]
    );
    assert_eq!(
        check(json!({"items": [{"n": "q"}]}), None),
        ["spec.items[0]: Invalid value: \"object\": no such key: v evaluating rule: self.v > 0"]
    );
    assert_eq!(
        check(json!({"kind": "y"}), Some(json!({"kind": "x"}))),
        ["spec.kind: Invalid value: \"y\": fixed"]
    );
    assert_eq!(
        check(json!({"opt": "y"}), Some(json!({"opt": "x"}))),
        ["spec.opt: Invalid value: \"y\": opt is fixed"]
    );
    assert_eq!(
        check(json!({"name": "too long for it", "min": 3, "max": 2}), None),
        [
            "spec.name: Too long: may not be more than 9 bytes",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );

    let (old, new) = (json!({"name": "x", "kind": "k"}), json!({"name": "x", "kind": "k", "max": 1}));
    let verdict = kind.validate(&object(&new), Some(&object(&old)), FieldErrors::new());
    assert_eq!(verdict.errors, []);
    assert_eq!(verdict.warnings, ["spec.name: Forbidden: must start with l-"]);
}

/// Arbitrary JSON with keys that schemas and objects share.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "default",
        "object",
        "array",
        "string",
        "integer",
        "nullable",
        "required",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-list-type",
        "map",
        "set",
        "pattern",
        "(",
        "oneOf",
        "metadata",
        "spec",
        "a",
        "b",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words.clone().prop_map(ToOwned::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_schema_and_no_object_panics_and_shaping_settles(schema in any_json(), spec in any_json()) {
        let definition = json!({"metadata": {"name": "tugs.x.dev"}, "spec": {
            "group": "x.dev", "names": {"plural": "tugs", "kind": "Tug"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        let _ = (RULES[0].validate)(&definition);
        let kind = kind(&schema);
        let mut once = object(&spec);
        kind.prune(&mut once);
        kind.default(&mut once);
        let _ = kind.validate(&once, Some(&object(&spec)), FieldErrors::new());
        let _ = kind.openapi();
        let mut twice = once.clone();
        kind.default(&mut twice);
        prop_assert_eq!(once, twice);
    }
}

#[test]
fn object_is_converted_from_its_storage_version() {
    let version = |name: &str, storage: bool, fields: Value| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": fields}}}}})
    };
    let text = json!({"type": "string"});
    let crd = json!({"metadata": {"resourceVersion": "7"}, "spec": {
        "group": "x.dev", "scope": "Namespaced", "names": {"plural": "tugs", "kind": "Tug"},
        "versions": [
            version("v1", true, json!({"a": text, "b": {"type": "string", "default": "one"}})),
            version("v2", false, json!({"a": text, "c": {"type": "string", "default": "two"}})),
        ],
    }});
    let rows = resources(&crd, &TypeArena::default()).unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| row.custom.clone().unwrap()).collect();
    let object = |version: &str, spec: Value| json!({"apiVersion": format!("x.dev/{version}"), "spec": spec});
    let table = [
        // Defaults come from the storage version; fields unknown to the requested version are dropped.
        (0, object("v1", json!({"a": "x"})), object("v1", json!({"a": "x", "b": "one"}))),
        (1, object("v1", json!({"a": "x"})), object("v2", json!({"a": "x"}))),
        (0, object("v2", json!({"a": "x"})), object("v1", json!({"a": "x"}))),
        (0, object("v1", json!({"b": "y", "gone": 1})), object("v1", json!({"b": "y"}))),
    ];
    for (kind, mut stored, shown) in table {
        kinds[kind].convert_from_storage(&mut stored);
        assert_eq!(stored, shown);
    }
    let mut new = object("v2", json!({"a": "x", "c": "z"}));
    kinds[1].convert_to_storage(&mut new);
    assert_eq!(new, object("v1", json!({"a": "x"})));
    let only = kind(&json!({"type": "object", "properties": {"s": {"type": "string", "default": "d"}}}));
    assert!(!only.is_served_as_stored(8), "no version of the store is known to be later than the CRD");
    assert!(!kinds[0].is_served_as_stored(8), "another version may have been written without its defaults");
}
