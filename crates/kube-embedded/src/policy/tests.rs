//! Tests of policies with small requests.

use std::sync::Weak;

use crate::access::User;
use crate::schema::resources::Resource;
use crate::schema::types::{Shape, Type, TypeArena};
use crate::store::{Change, Expect, Key, Op};

use super::*;

fn resource() -> Resource {
    let mut types = TypeArena::default();
    let ty = types.add(Type { name: "".into(), shape: Shape::Any });
    Resource {
        group: "".into(),
        version: "v1".into(),
        name: "configmaps".into(),
        singular: "configmap".into(),
        kind: "ConfigMap".into(),
        list_kind: "ConfigMapList".into(),
        namespaced: true,
        short_names: Box::default(),
        categories: Box::default(),
        verbs: Box::default(),
        subresources: Box::default(),
        columns: Box::default(),
        storage: "configmaps".into(),
        storage_version: "v1".into(),
        types: Arc::new(types),
        ty,
        custom: None,
    }
}

fn put(store: &Store, storage: &str, namespace: &str, mut object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    object["metadata"]["uid"] = format!("uid-{name}").into();
    object["metadata"]["namespace"] = namespace.into();
    let key = Key::new(&storage.into(), namespace, &name);
    let change = Change { key, expect: Expect::Absent, op: Op::Put(object) };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.commit(vec![change])).unwrap();
}

fn delete(store: &Store, storage: &str, name: &str) {
    let expect = Expect::Version(store.get(storage, "", name).unwrap().version);
    let change = Change { key: Key::new(&storage.into(), "", name), expect, op: Op::Delete };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.commit(vec![change])).unwrap();
}

/// Evaluates the create of a ConfigMap by `jane`.
fn evaluate_config_map(policies: &Policies, store: &Store, data: &Value) -> Result<Vec<String>> {
    let (resource, user) = (resource(), User::named("jane", &["devs"]));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": data});
    let request = AdmissionRequest {
        operation: Operation::Create,
        resource: &resource,
        subresource: "",
        namespace: "n",
        name: "c",
        user: &user,
        old: None,
        dry_run: false,
    };
    let find = |_: &str, kind: &str| {
        (kind == "ConfigMap").then(|| ParamSource { storage: "configmaps".into(), namespaced: true })
    };
    policies.evaluate(store, &request, Some(&object), &find)
}

/// Evaluates the create of a ConfigMap under one policy.
#[expect(clippy::needless_pass_by_value, reason = "the tables read better without borrows")]
fn evaluate_create(spec: Value, binding: Value, data: Value) -> Result<Vec<String>> {
    let store = Store::in_memory();
    put(&store, "namespaces", "", json!({"metadata": {"name": "n", "labels": {"env": "prod"}}}));
    put(&store, "configmaps", "n", json!({"metadata": {"name": "limits"}, "data": {"max": "3"}}));
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
    }});
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    assert_eq!(check_policy(&policy), [], "{policy}");
    put(&store, POLICIES, "", policy);
    let mut bound =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    for (key, value) in binding.as_object().unwrap() {
        bound["spec"][key] = value.clone();
    }
    put(&store, BINDINGS, "", bound);
    evaluate_config_map(&Policies::default(), &store, &data)
}

#[test]
fn policies_admit_warn_and_deny() {
    let prefix =
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let refused = |result: Result<Vec<String>>| {
        let error = result.unwrap_err();
        (error.code, error.reason, error.message.strip_prefix(prefix).unwrap_or(&error.message).to_owned())
    };
    let rule = |expression: &str| json!({"validations": [{"expression": expression}]});
    let none = json!({});

    assert_eq!(evaluate_create(rule("object.data.a == 'x'"), none.clone(), json!({"a": "x"})), Ok(vec![]));
    assert_eq!(
        refused(evaluate_create(rule("object.data.a == 'x'"), none.clone(), json!({"a": "y"}))),
        (422, "Invalid", "failed expression: object.data.a == 'x'".to_owned())
    );
    assert_eq!(
        refused(evaluate_create(rule("object.data.b == 'x'"), none.clone(), json!({"a": "y"}))),
        (422, "Invalid", "expression 'object.data.b == 'x'' resulted in error: no such key: b".to_owned())
    );
    let ignoring =
        json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.data.b == 'x'"}]});
    assert_eq!(evaluate_create(ignoring, none.clone(), json!({"a": "y"})), Ok(vec![]));
    assert_eq!(
        evaluate_create(rule("has(object.data.q)"), json!({"validationActions": ["Warn", "Audit"]}), json!({"a": "y"})),
        Ok(vec!["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: has(object.data.q)".to_owned()])
    );
    let worded = json!({
        "variables": [{"name": "bad", "expression": "object.data.missing"}, {"name": "n", "expression": "size(object.data)"},
                      {"name": "twice", "expression": "variables.n * 2"}],
        "validations": [{"expression": "variables.twice < 4", "messageExpression": "'too many: ' + string(variables.n)",
                         "reason": "Forbidden"}],
    });
    assert_eq!(
        refused(evaluate_create(worded, none.clone(), json!({"a": "1", "b": "2"}))),
        (403, "Forbidden", "too many: 2".to_owned())
    );
    let conditional = json!({"matchConditions": [{"name": "c", "expression": "request.userInfo.username != 'jane'"}],
                             "validations": [{"expression": "false"}]});
    assert_eq!(evaluate_create(conditional, none.clone(), json!({})), Ok(vec![]));
    let elsewhere = json!({"matchResources": {"namespaceSelector": {"matchLabels": {"env": "test"}}}});
    assert_eq!(evaluate_create(rule("false"), elsewhere, json!({})), Ok(vec![]));
    assert_eq!(
        refused(evaluate_create(
            rule("authorizer.group('').resource('pods').check('get').allowed()"),
            none,
            json!({})
        ))
        .0,
        422
    );
}

#[test]
fn policies_use_parameters() {
    let policy = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                        "validations": [{"expression": "size(object.data) <= int(params.data.max)", "message": "too many"}]});
    let by_name = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": "n", "parameterNotFoundAction": action}});
    let many = json!({"a": "", "b": "", "c": "", "d": ""});
    assert_eq!(evaluate_create(policy.clone(), by_name("limits", "Deny"), json!({"a": ""})), Ok(vec![]));
    assert!(
        evaluate_create(policy.clone(), by_name("limits", "Deny"), many.clone())
            .unwrap_err()
            .message
            .ends_with("too many")
    );
    assert_eq!(evaluate_create(policy.clone(), by_name("none", "Allow"), many.clone()), Ok(vec![]));
    let error = evaluate_create(policy, by_name("none", "Deny"), many).unwrap_err();
    assert!(error.message.ends_with(
        "denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    ), "{}", error.message);
}

#[test]
fn invalid_expressions_are_reported() {
    let policy = json!({"spec": {
        "matchConditions": [{"name": "a", "expression": "params.x == 1"}],
        "variables": [{"name": "v", "expression": "object.spec"}],
        "validations": [{"expression": "1 + 1"}, {"expression": "request.zz == 'x'"}, {"expression": "variables.w == 1"}],
    }});
    let found: Vec<String> = check_policy(&policy).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].starts_with("spec.matchConditions[0].expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"));
    assert_eq!(
        found[1],
        "spec.validations[0].expression: Invalid value: \"1 + 1\": must evaluate to bool but got int"
    );
    assert!(found[2].contains("undefined field 'zz'"));
    assert!(found[3].contains("undefined field 'w'"));
}

#[test]
fn compiled_policies_are_evicted_when_their_policy_is_deleted_or_changed() {
    const POLICY_COUNT: usize = 50;
    let store = Store::in_memory();
    put(&store, "namespaces", "", json!({"metadata": {"name": "n"}}));
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]});
    let add = |name: &str| {
        let spec =
            json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
        put(&store, POLICIES, "", json!({"metadata": {"name": name}, "spec": spec}));
        let spec = json!({"policyName": name, "validationActions": ["Deny"]});
        put(&store, BINDINGS, "", json!({"metadata": {"name": name}, "spec": spec}));
    };
    let policies = Policies::default();
    let evaluate = || assert_eq!(evaluate_config_map(&policies, &store, &json!({})), Ok(vec![]));
    let compiled = || -> Vec<Weak<CompiledAdmissionPolicy>> {
        policies.0.lock().by_uid.values().map(|(_, policy)| Arc::downgrade(policy)).collect()
    };
    let mut deleted = Vec::new();
    for round in 0..3 {
        let names: Vec<_> = (0..POLICY_COUNT).map(|n| format!("p{round}-{n}")).collect();
        for name in &names {
            add(name);
        }
        evaluate();
        assert_eq!(compiled().len(), POLICY_COUNT);
        deleted.extend(compiled());
        for name in &names {
            delete(&store, POLICIES, name);
            delete(&store, BINDINGS, name);
        }
    }
    // Nothing is compiled by the next write, because no policy is left.
    evaluate();
    assert!(compiled().is_empty() && deleted.iter().all(|policy| policy.strong_count() == 0));

    // A new version replaces the one before it.
    let mut versions = Vec::new();
    for _ in 0..5 {
        add("changing");
        evaluate();
        assert_eq!(compiled().len(), 1);
        versions.extend(compiled());
        delete(&store, POLICIES, "changing");
        delete(&store, BINDINGS, "changing");
    }
    assert_eq!(versions.iter().filter(|policy| policy.strong_count() > 0).count(), 1);
}

#[test]
fn request_that_has_read_a_deleted_policy_does_not_cache_it() {
    let store = Store::in_memory();
    put(&store, POLICIES, "", json!({"metadata": {"name": "p"}, "spec": {}}));
    let (policies, policy, version) =
        (Policies::default(), store.get(POLICIES, "", "p").unwrap(), store.version());
    delete(&store, POLICIES, "p");
    policies.evict_deleted(store.storage_version(POLICIES), &[]);
    policies.compiled(&policy, version);
    assert!(policies.0.lock().by_uid.is_empty());
}
