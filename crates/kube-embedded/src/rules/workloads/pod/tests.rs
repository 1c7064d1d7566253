//! Tests of pods: defaults, validation, updates.

use super::*;
use crate::field::error_messages;

fn pod(spec: &Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    if let (Value::Object(all), Value::Object(own)) = (&mut pod["spec"], spec.clone()) {
        all.extend(own);
    }
    default(&mut pod);
    pod
}

#[test]
fn invalid_pods_have_kubernetes_messages() {
    let container = |own: Value| {
        let mut container = json!({"name": "c", "image": "i:1"});
        if let (Value::Object(all), Value::Object(own)) = (&mut container, own) {
            all.extend(own);
        }
        json!({"containers": [container]})
    };
    let rows = [
        (json!({"containers": []}), "spec.containers: Required value"),
        (container(json!({"image": ""})), "spec.containers[0].image: Required value"),
        (
            container(json!({"image": "i "})),
            r#"spec.containers[0].image: Invalid value: "i ": must not have leading or trailing whitespace"#,
        ),
        (
            container(json!({"imagePullPolicy": "Foo"})),
            r#"spec.containers[0].imagePullPolicy: Unsupported value: "Foo": supported values: "Always", "IfNotPresent", "Never""#,
        ),
        (
            container(json!({"ports": [{"containerPort": 70000}]})),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/"}]})),
            r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#,
        ),
        (
            container(json!({"env": [{"name": "a=b"}]})),
            r#"spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
        ),
        (
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            r#"spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
        ),
        (
            container(json!({"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}})),
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            container(json!({"securityContext": {"runAsUser": -1}})),
            "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
        (
            json!({"volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "x"}}]}),
            "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
        ),
        (
            json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}),
            r#"spec.tolerations[0].operator: Invalid value: "x": value must be empty when `operator` is 'Exists'"#,
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}]}),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        ),
        (
            json!({"dnsPolicy": "None"}),
            "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ),
    ];
    assert_eq!(validate(&pod(&json!({}))), []);
    for (spec, words) in rows {
        assert_eq!(error_messages(&validate(&pod(&spec))), [words], "{spec}");
    }
}

#[test]
fn pod_updates_are_restricted() {
    let old = pod(&json!({"activeDeadlineSeconds": 10, "tolerations": [{"key": "a", "operator": "Exists"}]}));
    let with = |change: fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        error_messages(&validate_update(&new, &old))
    };
    assert!(with(|spec| spec["containers"][0]["image"] = "j".into()).is_empty());
    assert!(with(|spec| spec["activeDeadlineSeconds"] = 5.into()).is_empty());
    let refused = with(|spec| spec["hostname"] = "h".into()).join("");
    let difference = refused.strip_prefix(&format!("spec: Forbidden: {IMMUTABLE_FIELDS_MESSAGE}"));
    assert!(difference.unwrap().contains("\n- \"Hostname\": \"\",\n+ \"Hostname\": \"h\",\n  \"Subdomain\""));
    assert_eq!(
        with(|spec| spec["tolerations"] = json!([])),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    assert_eq!(
        with(|spec| spec["activeDeadlineSeconds"] = 20.into()),
        ["spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value"]
    );
    assert_eq!(
        with(|spec| spec["containers"] = json!([])).last().map(String::as_str),
        Some("spec.containers: Forbidden: pod updates may not add or remove containers")
    );
}

#[test]
fn qos_class_follows_requests_and_limits() {
    let class = |containers: Value| {
        let mut pod = pod(&json!({"containers": containers}));
        create(&mut pod);
        pod["status"]["qosClass"].as_str().unwrap().to_owned()
    };
    let with = |resources: Value| json!({"name": "c", "image": "i", "resources": resources});
    let both = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    assert_eq!(class(json!([with(json!({}))])), "BestEffort");
    assert_eq!(class(json!([with(both.clone())])), "Guaranteed");
    assert_eq!(class(json!([with(both.clone()), with(json!({}))])), "Burstable");
    assert_eq!(class(json!([with(json!({"requests": {"cpu": "1"}}))])), "Burstable");
}

#[test]
fn accepted_pods_may_have_warnings() {
    let spec = json!({
        "nodeSelector": {"beta.kubernetes.io/os": "linux"},
        "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
            "ports": [{"containerPort": 80}, {"containerPort": 80}]}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}],
    });
    assert_eq!(
        (RULES.warnings)(&pod(&spec), None),
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        ]
    );
}

#[test]
fn pod_rules_do_not_panic_on_malformed_objects() {
    let odd = [
        json!(null),
        json!(1),
        json!("x"),
        json!([]),
        json!({"spec": 1}),
        json!({"spec": {"containers": {"a": 1}}}),
        json!({"metadata": [], "spec": {"containers": [null, 1, [], {"ports": [1], "env": "x", "resources": []}], "volumes": [[], {"name": {}}]}}),
    ];
    for rules in super::super::RULES {
        for object in &odd {
            let mut new = object.clone();
            (rules.default)(&mut new);
            (rules.prepare_for_create)(&mut new);
            (rules.prepare_for_update)(&mut new, object);
            let _ = (rules.validate)(&new);
            let _ = (rules.validate_update)(&new, object);
            let _ = (rules.validate_status)(&new, object);
            (rules.warnings)(&new, None);
            (rules.warnings)(&new, Some(object));
        }
    }
}
