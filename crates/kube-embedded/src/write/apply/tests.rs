//! Sequences of writes with the results of Kubernetes, and properties of apply.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ApplyContext, ResetFilter, apply, is_same_object, update};
use crate::{
    error::ApiError,
    schema::types::{Field, List, ListMerge, Mapping, PatchStrategy, Shape, Struct, Type, TypeArena, TypeId},
};

/// Builds types from a compact notation: `"string"`, `{"field": type}`, `["map:name", type]`, `["set", type]`, `["atomic", type]`,
/// `["dict", type]`. A name ending in `?` is optional; `name=default` has a default.
pub fn types(form: &Value) -> (TypeArena, TypeId) {
    let mut types = TypeArena::default();
    let root = add(&mut types, form);
    (types, root)
}

fn add(types: &mut TypeArena, form: &Value) -> TypeId {
    let shape = match form {
        Value::String(name) => match name.as_str() {
            "string" => Shape::String,
            "int" => Shape::Int32,
            "bool" => Shape::Bool,
            "time" => Shape::Time,
            "intstr" => Shape::IntOrString,
            "quantity" => Shape::Quantity,
            _ => Shape::Any,
        },
        Value::Array(parts) => {
            let element = add(types, &parts[1]);
            match parts[0].as_str().unwrap() {
                "dict" => Shape::Map(Mapping { value: element, atomic: false }),
                "atomic" => Shape::List(List { element, merge: ListMerge::Atomic }),
                "set" => Shape::List(List { element, merge: ListMerge::Set }),
                keys => {
                    let keys = keys.trim_start_matches("map:").split(',').map(Into::into).collect();
                    Shape::List(List { element, merge: ListMerge::Map(keys) })
                }
            }
        }
        Value::Object(members) => {
            let atomic = members.contains_key("!atomic");
            let mut fields: Vec<Field> = Vec::new();
            for (name, form) in members.iter().filter(|(name, _)| !name.starts_with('!')) {
                let (name, default) = match name.split_once('=') {
                    Some((name, default)) => (name, Some(Value::from(default))),
                    None => (name.as_str(), None),
                };
                let optional = name.ends_with('?');
                fields.push(Field {
                    name: name.trim_end_matches('?').into(),
                    ty: add(types, form),
                    required: !optional,
                    pointer: optional,
                    omitempty: optional,
                    numbers: Box::default(),
                    default,
                    patch: PatchStrategy::default(),
                });
            }
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            Shape::Struct(Struct { fields: fields.into(), atomic, preserve_unknown: false })
        }
        other => panic!("not a type: {other}"),
    };
    types.add(Type { name: "".into(), shape })
}

/// The parts of the Deployment type that the tests use.
fn workload() -> Value {
    json!({
        "apiVersion?": "string", "kind?": "string",
        "metadata": {
            "name?": "string", "namespace?": "string", "uid?": "string", "resourceVersion?": "string",
            "labels?": ["dict", "string"], "annotations?": ["dict", "string"], "finalizers?": ["set", "string"],
            "managedFields?": ["atomic", "any"],
        },
        "data?": ["dict", "string"],
        "spec": {
            "replicas?": "int", "paused?": "bool",
            "selector?": {"!atomic": true, "matchLabels?": ["dict", "string"]},
            "strategy": {"type?": "string", "maxSurge?": "intstr"},
            "containers": ["map:name", {
                "name?": "string", "image?": "string", "args?": ["atomic", "string"],
                "resources": {"requests?": ["dict", "quantity"]},
                "ports?": ["map:containerPort,protocol", {"containerPort": "int", "protocol?=TCP": "string", "name?": "string"}],
                "env?": ["map:name", {"name?": "string", "value?": "string"}],
            }],
            "extra?": "any",
        },
        "status": {"replicas?": "int"},
    })
}

/// A server that stores one object.
struct ApplyTestServer {
    types: TypeArena,
    root: TypeId,
    clock: i64,
    object: Option<Value>,
}

impl ApplyTestServer {
    fn new() -> Self {
        let (types, root) = types(&workload());
        Self { types, root, clock: 1_767_323_045, object: None }
    }

    fn with<T>(&self, manager: &str, subresource: &str, work: impl FnOnce(&ApplyContext<'_>) -> T) -> T {
        let reset = ResetFilter::for_endpoint("apps", "Deployment", subresource, false, true);
        work(&ApplyContext {
            ty: self.types.get(self.root),
            custom: false,
            api_version: "apps/v1",
            kind: "Deployment",
            manager,
            subresource,
            now: Timestamp::from_second(self.clock).unwrap(),
            reset_filter: &reset,
            convert: &|_, _| None,
        })
    }

    fn apply(&mut self, manager: &str, body: &Value, force: bool) -> Result<&Value, ApiError> {
        self.clock += 1;
        let mut body = body.clone();
        body["apiVersion"] = "apps/v1".into();
        body["kind"] = "Deployment".into();
        body["metadata"]["name"] = "web".into();
        let mut applied = self.with(manager, "", |ctx| apply(ctx, self.object.as_ref(), &body, force))?;
        tidy(&mut applied);
        if self.object.as_ref().is_none_or(|old| !is_same_object(old, &applied)) {
            self.object = Some(applied);
        }
        Ok(self.object.as_ref().unwrap())
    }

    fn update(&mut self, manager: &str, subresource: &str, mut new: Value) -> &Value {
        self.clock += 1;
        self.with(manager, subresource, |ctx| update(ctx, self.object.as_ref(), &mut new));
        self.object = Some(new);
        self.object.as_ref().unwrap()
    }

    /// Formats one entry per line: `manager operation[/subresource] [seconds since the start]: fields`.
    fn owners(&self) -> String {
        let entries = self.object.as_ref().unwrap()["metadata"]["managedFields"].as_array().cloned();
        let lines = entries.unwrap_or_default().into_iter().map(|entry| {
            let time = entry["time"].as_str().map(|time| {
                let at: Timestamp = time.parse().unwrap();
                format!(" @{}", at.as_second() - 1_767_323_045)
            });
            let sub = entry["subresource"].as_str().map(|sub| format!("/{sub}")).unwrap_or_default();
            let (manager, operation) =
                (entry["manager"].as_str().unwrap(), entry["operation"].as_str().unwrap());
            format!("{manager} {operation}{sub}{}: {}", time.unwrap_or_default(), entry["fieldsV1"])
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Does the same as decoding: removes nulls and empty optional values.
fn tidy(object: &mut Value) {
    fn drop_empty(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.values_mut().for_each(drop_empty);
                members.retain(|name, value| match value {
                    Value::Object(below) => {
                        !below.is_empty() || ["metadata", "spec", "extra"].contains(&name.as_str())
                    }
                    Value::Array(items) => !items.is_empty(),
                    _ => true,
                });
            }
            Value::Array(items) => items.iter_mut().for_each(drop_empty),
            _ => {}
        }
    }
    super::super::json_patch::drop_nulls(object);
    let entries = object["metadata"]["managedFields"].take();
    drop_empty(object);
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    if !entries.is_null() {
        object["metadata"]["managedFields"] = entries;
    }
}

fn content(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}

#[test]
fn who_creates_owns_what_is_set_but_not_the_structs_around_it() {
    let mut server = ApplyTestServer::new();
    server.update(
        "creator",
        "",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "1"}},
        "spec": {"replicas": 1, "strategy": {"type": "R"}, "selector": {"matchLabels": {"a": "1"}},
            "containers": [{"name": "a", "image": "i", "resources": {}, "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80, "protocol": "TCP"}]}]},
        "status": {}}),
    );
    insta::assert_snapshot!(server.owners(), @r#"creator Update @1: {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"X\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}},"f:replicas":{},"f:selector":{},"f:strategy":{"f:type":{}}}}"#);
}

#[test]
fn appliers_share_lose_and_drop_fields() {
    let mut server = ApplyTestServer::new();
    let both = json!({"metadata": {"labels": {"x": "1"}}, "data": {"k": "1", "l": "1"}});
    server.apply("alice", &both, false).unwrap();
    let first = server.object.clone();
    server.apply("alice", &both, false).unwrap();
    assert_eq!(server.object, first, "applying twice is applying once");

    server.apply("alice", &json!({"metadata": {"labels": {"x": "1"}}, "data": {"k": "2"}}), false).unwrap();
    assert_eq!(server.object.as_ref().unwrap()["data"], json!({"k": "2"}));

    let refused = server.apply("bob", &json!({"data": {"k": "3"}}), false).unwrap_err();
    assert_eq!(refused.message, "Apply failed with 1 conflict: conflict with \"alice\": .data.k");
    assert_eq!(
        refused.details.unwrap()["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"alice\"", "field": ".data.k"}])
    );
    server.apply("bob", &json!({"data": {"k": "2", "m": "1"}}), false).unwrap();
    server.apply("bob", &json!({"data": {"m": "1"}}), false).unwrap();
    assert_eq!(server.object.as_ref().unwrap()["data"], json!({"k": "2", "m": "1"}));
    server.apply("bob", &json!({"data": {"k": "3"}}), true).unwrap();
    insta::assert_snapshot!(server.owners(), @r#"
    alice Apply @3: {"f:metadata":{"f:labels":{"f:x":{}}}}
    bob Apply @7: {"f:data":{"f:k":{}}}
    "#);
    // Nothing changes, but the entry is new: it has no time.
    server.apply("carol", &json!({"data": {"k": "3"}}), false).unwrap();
    insta::assert_snapshot!(server.owners(), @r#"
    carol Apply: {"f:data":{"f:k":{}}}
    alice Apply @3: {"f:metadata":{"f:labels":{"f:x":{}}}}
    bob Apply @7: {"f:data":{"f:k":{}}}
    "#);
    let refused =
        server.apply("dora", &json!({"metadata": {"labels": {"x": "2"}}, "data": {"k": "4"}}), false);
    insta::assert_snapshot!(refused.unwrap_err().message, @r#"
    Apply failed with 3 conflicts: conflicts with "alice":
    - .metadata.labels.x
    conflicts with "bob":
    - .data.k
    conflicts with "carol":
    - .data.k
    "#);
}

#[test]
fn list_elements_come_and_go_with_their_owners() {
    let mut server = ApplyTestServer::new();
    let containers = |list: Value| json!({"spec": {"containers": list}});
    server
        .apply(
            "alice",
            &containers(
                json!([{"name": "a", "image": "1", "args": ["x"], "ports": [{"containerPort": 80}]}]),
            ),
            false,
        )
        .unwrap();
    server.apply("bob", &containers(json!([{"name": "b", "image": "1"}])), false).unwrap();
    server
        .apply(
            "carol",
            &containers(json!([{"name": "a", "env": [{"name": "Y"}], "ports": [{"containerPort": 81}]}])),
            false,
        )
        .unwrap();
    let refused =
        server.apply("carol", &containers(json!([{"name": "a", "args": ["y"]}])), false).unwrap_err();
    assert!(refused.message.ends_with(r#"conflict with "alice": .spec.containers[name="a"].args"#));
    server.apply("alice", &containers(json!([])), false).unwrap();
    assert_eq!(
        server.object.as_ref().unwrap()["spec"]["containers"],
        json!([{"name": "a", "env": [{"name": "Y"}], "ports": [{"containerPort": 81}]}, {"name": "b", "image": "1"}])
    );
    server.apply("bob", &json!({"metadata": {"finalizers": ["f/b"]}}), false).unwrap();
    server.apply("carol", &json!({"metadata": {"finalizers": ["f/a", "f/b"]}}), false).unwrap();
    assert_eq!(server.object.as_ref().unwrap()["metadata"]["finalizers"], json!(["f/a", "f/b"]));
    server.apply("carol", &json!({}), false).unwrap();
    assert_eq!(server.object.as_ref().unwrap()["metadata"]["finalizers"], json!(["f/b"]));
    insta::assert_snapshot!(server.owners(), @r#"bob Apply @6: {"f:metadata":{"f:finalizers":{"v:\"f/b\"":{}}}}"#);
}

#[test]
fn applied_body_type_errors() {
    let mut server = ApplyTestServer::new();
    let rows = [
        (json!({"spec": {"bogus": 1}}), ".spec.bogus: field not declared in schema"),
        (json!({"spec": {"replicas": "x"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"spec": {"paused": {"a": [1, null]}}}),
            ".spec.paused: expected boolean, got &{map[a:[1 <nil>]]}",
        ),
        (
            json!({"spec": {"strategy": {"type": 1}}}),
            ".spec.strategy.type: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (json!({"spec": [1]}), ".spec: expected map, got &{[1]}"),
        (json!({"spec": {"containers": {"a": 1}}}), ".spec.containers: expected list, got &{map[a:1]}"),
        (
            json!({"spec": {"containers": [null]}}),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        ),
        (
            json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"metadata": {"finalizers": ["a", "a"]}}),
            ".metadata.finalizers: duplicate entries for key [=\"a\"]",
        ),
        (
            json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": {"a": 1}}}}]}}),
            ".spec.containers[name=\"a\"].resources.requests.cpu: expected any scalar, got &{map[a:1]}",
        ),
        (
            json!({"spec": {"replicas": "x", "paused": 1}}),
            "errors:\n  .spec.paused: expected boolean, got &{1}\n  .spec.replicas: expected numeric (int or float), got string",
        ),
    ];
    for (body, why) in rows {
        let error = server.apply("alice", &body, true).unwrap_err();
        let message = format!("failed to create typed patch object (/web; apps/v1, Kind=Deployment): {why}");
        assert_eq!((error.code, error.message), (500, message));
    }
    let error = server.apply("alice", &json!({"metadata": {"managedFields": []}}), true).unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (400, "metadata.managedFields must be nil"));
}

#[test]
fn the_request_may_rewrite_or_clear_the_entries() {
    let mut server = ApplyTestServer::new();
    server.update("helm", "", json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}, "status": {}}));
    let live = server.object.clone().unwrap();

    let mut kept = live.clone();
    kept["metadata"]["managedFields"] = Value::Null;
    kept["spec"]["replicas"] = 2.into();
    server.update("hpa", "", kept);
    insta::assert_snapshot!(server.owners(), @r#"hpa Update @2: {"f:spec":{"f:replicas":{}}}"#);

    let mut moved = server.object.clone().unwrap();
    moved["metadata"]["managedFields"][0]["operation"] = "Apply".into();
    moved["metadata"]["managedFields"][0]["manager"] = "helm".into();
    server.update("anyone", "", moved);
    insta::assert_snapshot!(server.owners(), @r#"helm Apply @2: {"f:spec":{"f:replicas":{}}}"#);

    // On a subresource, `managedFields` of the request has no effect.
    let mut cleared = server.object.clone().unwrap();
    cleared["metadata"]["managedFields"] = json!([]);
    cleared["status"] = json!({"replicas": 1});
    server.update("kubelet", "status", cleared.clone());
    insta::assert_snapshot!(server.owners(), @r#"
    helm Apply @2: {"f:spec":{"f:replicas":{}}}
    kubelet Update/status @4: {"f:status":{"f:replicas":{}}}
    "#);
    server.update("anyone", "", cleared);
    assert_eq!(server.owners(), "");
    // Untracked until the first apply, which assigns the existing fields.
    let mut more = server.object.clone().unwrap();
    more["spec"]["paused"] = true.into();
    server.update("anyone", "", more);
    assert_eq!(server.owners(), "");
    server.apply("alice", &json!({"spec": {"paused": true}}), false).unwrap();
    insta::assert_snapshot!(server.owners(), @r#"
    alice Apply: {"f:spec":{"f:paused":{}}}
    before-first-apply Update @7: {"f:spec":{"f:paused":{},"f:replicas":{}}}
    "#);
}

#[test]
fn old_updates_melt_together() {
    let mut server = ApplyTestServer::new();
    server.update("m00", "", json!({"metadata": {"name": "web"}, "data": {"k00": "1"}}));
    for i in 1..13 {
        let mut next = server.object.clone().unwrap();
        next["data"][format!("k{i:02}")] = "1".into();
        server.update(&format!("m{i:02}"), "", next);
    }
    let owners = server.owners();
    assert_eq!(owners.lines().count(), 10);
    insta::assert_snapshot!(owners.lines().next().unwrap(), @r#"ancient-changes Update @4: {"f:data":{".":{},"f:k00":{},"f:k01":{},"f:k02":{},"f:k03":{}}}"#);
}

#[test]
fn kubectl_takes_over_client_side_applied_fields() {
    const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let mut server = ApplyTestServer::new();
    let last = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {}}, "spec": {"replicas": 1}}).to_string();
    server.update(
        "kubectl-client-side-apply",
        "",
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {ANNOTATION: last}}, "spec": {"replicas": 1, "paused": true}}),
    );
    assert_eq!(server.apply("someone", &json!({"spec": {"replicas": 2}}), false).unwrap_err().code, 409);
    let refused =
        server.apply("kubectl", &json!({"spec": {"replicas": 2, "paused": false}}), false).unwrap_err();
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.paused"
    );
    let object = server.apply("kubectl", &json!({"spec": {"replicas": 2}}), false).unwrap();
    assert_eq!(
        object["metadata"]["annotations"][ANNOTATION],
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"replicas\":2}}\n"
    );
}

#[test]
fn managed_fields_follow_schema_or_are_dropped_with_their_version() {
    let (types, root) = types(&workload());
    let reset = ResetFilter::for_endpoint("apps", "Deployment", "", true, true);
    let entry = |manager: &str, version: &str, fields: Value| json!({"manager": manager, "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields});
    let live = json!({"apiVersion": "g/v1", "kind": "Deployment", "metadata": {"name": "web", "managedFields": [
        entry("old", "g/v1beta1", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})),
        entry("gone", "g/v1alpha1", json!({"f:spec": {"f:paused": {}}})),
    ]}, "spec": {"replicas": 1, "paused": true}});
    let ctx = ApplyContext {
        ty: types.get(root),
        custom: true,
        api_version: "g/v1",
        kind: "Deployment",
        manager: "new",
        subresource: "",
        now: Timestamp::from_second(1_767_323_045).unwrap(),
        reset_filter: &reset,
        convert: &|object, version| {
            let mut object = object.clone();
            object["apiVersion"] = version.into();
            (version != "g/v1alpha1").then(|| (object, types.get(root)))
        },
    };
    let body = json!({"apiVersion": "g/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
    let refused = apply(&ctx, Some(&live), &body, false).unwrap_err();
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"old\" using g/v1beta1: .spec.replicas"
    );
    let forced = apply(&ctx, Some(&live), &body, true).unwrap();
    let owners = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .map(|e| format!("{} {} {}", e["manager"], e["apiVersion"], e["fieldsV1"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        owners(&forced),
        [r#""new" "g/v1" {"f:spec":{"f:replicas":{}}}"#, r#""old" "g/v1beta1" {"f:spec":{"f:paused":{}}}"#,]
    );

    // An applier in another version keeps one entry, and fields that it no longer applies are removed.
    let beta = ApplyContext { api_version: "g/v1beta1", convert: ctx.convert, ..ctx };
    let mut body = body;
    body["apiVersion"] = "g/v1beta1".into();
    body["spec"] = json!({"strategy": {"type": "R"}});
    let mut live = forced;
    live["apiVersion"] = "g/v1beta1".into();
    let moved = apply(&beta, Some(&live), &body, false).unwrap();
    assert_eq!(moved["spec"], json!({"paused": true, "strategy": {"type": "R"}}));
    assert_eq!(
        owners(&moved),
        [
            r#""new" "g/v1beta1" {"f:spec":{"f:strategy":{"f:type":{}}}}"#,
            r#""old" "g/v1beta1" {"f:spec":{"f:paused":{}}}"#,
        ]
    );
}

#[test]
fn replicas_are_owned_through_scale() {
    let paths: super::scale::VersionedPaths<'_> = &[("apps/v1", &["spec", "replicas"])];
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let entry = |manager: &str, operation: &str, version: &str, sub: &str, fields: &Value| {
        let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields});
        if !sub.is_empty() {
            entry["subresource"] = sub.into();
        }
        entry
    };
    let both = json!({"f:spec": {"f:paused": {}, "f:replicas": {}}});
    let paused = json!({"f:spec": {"f:paused": {}}});
    let parent = json!([
        entry("a1", "Apply", "apps/v1", "scale", &replicas),
        entry("creator", "Update", "apps/v1", "", &both),
        entry("other", "Update", "apps/v1", "", &paused),
    ]);
    let scale = super::scale::to_scale(&parent, paths);
    assert_eq!(
        scale,
        json!([
            entry("a1", "Apply", "autoscaling/v1", "scale", &replicas),
            entry("creator", "Update", "autoscaling/v1", "", &replicas),
        ])
    );
    let after = json!([
        entry("a1", "Apply", "autoscaling/v1", "scale", &replicas),
        entry("s1", "Update", "autoscaling/v1", "scale", &replicas),
    ]);
    assert_eq!(
        super::scale::to_parent(&parent, &after, "apps/v1", paths),
        json!([
            entry("a1", "Apply", "apps/v1", "scale", &replicas),
            entry("creator", "Update", "apps/v1", "", &paused),
            entry("other", "Update", "apps/v1", "", &paused),
            entry("s1", "Update", "apps/v1", "scale", &replicas),
        ])
    );
}

#[test]
fn objects_differing_only_in_manager_times_are_same() {
    let object = |time: Option<&str>, label: &str| {
        let mut entry = json!({"manager": "m", "fieldsV1": {"f:spec": {}}});
        if let Some(time) = time {
            entry["time"] = time.into();
        }
        json!({"metadata": {"labels": {"a": label}, "managedFields": [entry]}})
    };
    let old = object(Some("2026-01-01T00:00:00Z"), "1");
    assert!(is_same_object(&old, &object(Some("2026-01-02T00:00:00Z"), "1")));
    assert!(is_same_object(&old, &object(None, "1")));
    assert!(!is_same_object(&old, &object(None, "2")));
    assert!(!is_same_object(&old, &json!({"metadata": {"labels": {"a": "1"}}})));
}

/// Contains no empty or null values, because decoding would drop owned fields.
fn body() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["1", "2"]);
    let labels = prop::option::of(prop::collection::btree_map("[ab]", text(), 1..3));
    let finalizers = prop::option::of(prop::collection::btree_set("[xyz]", 1..4).prop_shuffle_list());
    let env = prop::option::of(prop::collection::btree_map("[EF]", text(), 1..3));
    let container = (prop::option::of(text()), env, prop::option::of(prop::collection::vec(text(), 1..3)));
    let containers = prop::option::of(prop::collection::btree_map("[cd]", container, 1..3));
    let extra = prop::option::of(prop_oneof![
        Just(json!("s")),
        Just(json!({"p": 1})),
        Just(json!({"p": {"q": 2}})),
        Just(json!([1]))
    ]);
    (labels, finalizers, containers, 0..3i32, extra).prop_map(
        |(labels, finalizers, containers, replicas, extra)| {
            let mut body = json!({"metadata": {}, "spec": {}});
            if let Some(labels) = labels {
                body["metadata"]["labels"] = json!(labels);
            }
            if let Some(finalizers) = finalizers {
                body["metadata"]["finalizers"] = json!(finalizers);
            }
            body["spec"]["replicas"] = replicas.into();
            if let Some(extra) = extra {
                body["spec"]["extra"] = extra;
            }
            if let Some(containers) = containers {
                let list = containers.into_iter().map(|(name, (image, env, args))| {
                    let mut one = json!({"name": name});
                    if let Some(image) = image {
                        one["image"] = image.into();
                    }
                    if let Some(args) = args {
                        one["args"] = json!(args);
                    }
                    if let Some(env) = env {
                        one["env"] = env
                            .into_iter()
                            .map(|(name, value)| json!({"name": name, "value": value}))
                            .collect();
                    }
                    one
                });
                body["spec"]["containers"] = list.collect();
            }
            body
        },
    )
}

trait ShuffleList {
    fn prop_shuffle_list(self) -> BoxedStrategy<Vec<String>>;
}

impl<S: Strategy<Value = std::collections::BTreeSet<String>> + 'static> ShuffleList for S {
    fn prop_shuffle_list(self) -> BoxedStrategy<Vec<String>> {
        self.prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle().boxed()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn applies_keep_their_laws(steps in prop::collection::vec((0..3usize, body(), any::<bool>()), 1..8)) {
        let mut server = ApplyTestServer::new();
        for (manager, body, by_update) in steps {
            let manager = ["alice", "bob", "carol"][manager];
            if by_update && server.object.is_some() {
                let mut new = body;
                tidy(&mut new);
                new["apiVersion"] = "apps/v1".into();
                new["kind"] = "Deployment".into();
                new["metadata"]["name"] = "web".into();
                server.update(manager, "", new.clone());
                prop_assert_eq!(content(server.object.as_ref().unwrap()), new);
            } else {
                server.apply(manager, &body, true).expect("force never conflicts");
                let once = server.object.clone().unwrap();
                server.apply(manager, &body, false).expect("what was applied is not in conflict");
                prop_assert_eq!(server.object.as_ref().unwrap(), &once, "applying twice is applying once");
            }
            // Owned fields exist, except for containers that became empty.
            let object = server.object.clone().unwrap();
            let (types, root) = types(&workload());
            let there = super::updater::declared_field_set(super::node::TypeNode::root(types.get(root)), &content(&object));
            for entry in super::managed_fields::ManagedFields::from_object(&object).unwrap().entries {
                if entry.operation == super::managed_fields::ManagerOperation::Update {
                    let mut absent = Vec::new();
                    entry.set.difference(&there).for_each_path(&mut |path| absent.push(super::fieldset::format_path(path)));
                    absent.retain(|path| ![".labels", ".finalizers", ".env", ".extra", ".containers"].iter().any(|end| path.ends_with(end)));
                    prop_assert!(absent.is_empty(), "{} {absent:?}", server.owners());
                }
            }
        }
    }
}
