//! The `LimitRanger` plugin: default requests and limits of containers, and bounds.
//!
//! Applies to creates and resizes of pods, and to writes of claims. Defaults come
//! first ([`mutate`]), bounds are checked on the result ([`validate`]).

use domain::resources::resource_list::{self, ResourceField, ResourceList};
use serde_json::{Map, Value};

use super::errors::{forbidden, join_messages};
use super::{AdmissionRequest, Operation};
use crate::access::{items, text};
use crate::error::Result;
use crate::quantity::Quantity;
use crate::store::Store;

const LIMIT_RANGER_ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Whether limit ranges apply to this write.
fn applies(request: &AdmissionRequest<'_>) -> bool {
    let core = request.resource.group.is_empty() && !request.namespace.is_empty();
    let leaving = request.old.is_some_and(|old| !old["metadata"]["deletionTimestamp"].is_null());
    let kind = match (request.resource.name.as_ref(), request.subresource, request.operation) {
        ("pods", "", operation) => operation == Operation::Create,
        ("pods", "resize", operation) => operation == Operation::Update,
        ("persistentvolumeclaims", "", operation) => operation != Operation::Delete,
        _ => false,
    };
    core && kind && !leaving
}

fn limit_ranges(store: &Store, namespace: &str) -> Vec<Value> {
    store.list("limitranges", Some(namespace)).objects.iter().map(|object| object.value()).collect()
}

/// Sets default requests and limits of a new pod's containers.
pub fn mutate(store: &Store, request: &AdmissionRequest<'_>, object: &mut Value) {
    if !applies(request) || request.resource.name.as_ref() != "pods" {
        return;
    }
    for range in limit_ranges(store, request.namespace) {
        apply_defaults(&range, object);
    }
}

fn apply_defaults(range: &Value, pod: &mut Value) {
    let mut defaults = [
        (ResourceField::Requests, "defaultRequest", Map::new()),
        (ResourceField::Limits, "default", Map::new()),
    ];
    for limit in items(&range["spec"], "limits").iter().filter(|limit| limit["type"] == "Container") {
        for (_, key, amounts) in &mut defaults {
            amounts.extend(limit[*key].as_object().cloned().unwrap_or_default());
        }
    }
    let mut done: Vec<String> = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.pointer_mut(&format!("/spec/{list}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for (side, _, amounts) in &defaults {
                let added = fill_missing_amounts(container, side.key(), amounts);
                if !added.is_empty() {
                    let (name, side) = (text(container, "name"), side.key().trim_end_matches('s'));
                    done.push(format!("{} {side} for {what} {name}", added.join(", ")));
                }
            }
        }
    }
    if done.is_empty() {
        return;
    }
    let metadata = &mut pod["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = Value::Object(Map::new());
    }
    metadata["annotations"][LIMIT_RANGER_ANNOTATION] =
        format!("LimitRanger plugin set: {}", done.join("; ")).into();
}

/// Adds the amounts that the container lacks; returns their names, sorted.
fn fill_missing_amounts(container: &mut Value, side: &str, amounts: &Map<String, Value>) -> Vec<String> {
    let Some(container) = container.as_object_mut() else { return Vec::new() };
    let lacks = |name: &&String| container.get("resources").is_none_or(|r| r[side][name.as_str()].is_null());
    let added: Vec<String> = amounts.keys().filter(lacks).cloned().collect();
    if added.is_empty() {
        return added;
    }
    let empty = || Value::Object(Map::new());
    let resources = container.entry("resources").or_insert_with(empty);
    if !resources.is_object() {
        *resources = empty();
    }
    if !resources[side].is_object() {
        resources[side] = empty();
    }
    for name in &added {
        resources[side][name] = amounts[name].clone();
    }
    added
}

/// Rejects requests and limits outside the bounds of a limit range in the namespace.
pub fn validate(store: &Store, request: &AdmissionRequest<'_>, object: &Value) -> Result<()> {
    if !applies(request) {
        return Ok(());
    }
    for range in limit_ranges(store, request.namespace) {
        let complaints = match request.resource.name.as_ref() {
            "pods" => pod_violations(&range, object),
            _ => claim_violations(&range, object),
        };
        if let Some(why) = join_messages(&complaints) {
            return Err(forbidden(request, object, why));
        }
    }
    Ok(())
}

fn pod_violations(range: &Value, pod: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for limit in items(&range["spec"], "limits") {
        match text(limit, "type") {
            "Container" => {
                let spec = &pod["spec"];
                for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
                    let resources = &container["resources"];
                    let (requests, limits) = (
                        resource_list::parse(&resources["requests"]),
                        resource_list::parse(&resources["limits"]),
                    );
                    LimitCheck { limit, subject: "Container", requests, limits }
                        .collect_violations(&mut complaints);
                }
            }
            "Pod" => {
                let (requests, limits) = (
                    resource_list::for_pod(pod, ResourceField::Requests),
                    resource_list::for_pod(pod, ResourceField::Limits),
                );
                LimitCheck { limit, subject: "Pod", requests, limits }.collect_violations(&mut complaints);
            }
            _ => {}
        }
    }
    complaints
}

fn claim_violations(range: &Value, claim: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    let what = "PersistentVolumeClaim";
    for limit in items(&range["spec"], "limits").iter().filter(|limit| limit["type"] == what) {
        let requests = resource_list::parse(&claim["spec"]["resources"]["requests"]);
        let bounds = LimitCheck { limit, subject: what, requests, limits: ResourceList::new() };
        for (name, least) in resource_list::parse(&limit["min"]) {
            complaints.extend(bounds.min_violation(&name, &least));
        }
        for (name, most) in resource_list::parse(&limit["max"]) {
            // A claim has no limits: its request is compared with the maximum.
            let prefix = format!("maximum {name} usage per {what} is {most}");
            match bounds.requests.get(&name) {
                None => complaints.push(format!("{prefix}.  No request is specified")),
                Some(request) if *request > most => {
                    complaints.push(format!("{prefix}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
    complaints
}

/// One item of a limit range, with the amounts to compare.
struct LimitCheck<'a> {
    limit: &'a Value,
    subject: &'static str,
    requests: ResourceList,
    limits: ResourceList,
}

impl LimitCheck<'_> {
    fn collect_violations(&self, complaints: &mut Vec<String>) {
        for (name, least) in resource_list::parse(&self.limit["min"]) {
            complaints.extend(self.min_violation(&name, &least));
        }
        for (name, most) in resource_list::parse(&self.limit["max"]) {
            complaints.extend(self.max_violation(&name, &most));
        }
        for (name, ratio) in resource_list::parse(&self.limit["maxLimitRequestRatio"]) {
            complaints.extend(self.ratio_violation(&name, &ratio));
        }
    }

    fn min_violation(&self, name: &str, least: &Quantity) -> Option<String> {
        let prefix = format!("minimum {name} usage per {} is {least}", self.subject);
        let Some(request) = self.requests.get(name) else {
            return Some(format!("{prefix}.  No request is specified"));
        };
        if request < least {
            return Some(format!("{prefix}, but request is {request}"));
        }
        let limit = self.limits.get(name).filter(|limit| *limit < least)?;
        Some(format!("{prefix}, but limit is {limit}"))
    }

    fn max_violation(&self, name: &str, most: &Quantity) -> Option<String> {
        let prefix = format!("maximum {name} usage per {} is {most}", self.subject);
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("{prefix}.  No limit is specified"));
        };
        if limit > most {
            return Some(format!("{prefix}, but limit is {limit}"));
        }
        let request = self.requests.get(name).filter(|request| *request > most)?;
        Some(format!("{prefix}, but request is {request}"))
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio is shown with six digits")]
    fn ratio_violation(&self, name: &str, most: &Quantity) -> Option<String> {
        let prefix = format!("{name} max limit to request ratio per {} is {most}", self.subject);
        let given = |list: &ResourceList| list.get(name).filter(|amount| !amount.is_zero()).cloned();
        let Some(request) = given(&self.requests) else {
            return Some(format!("{prefix}, but no request is specified or request is 0"));
        };
        let Some(limit) = given(&self.limits) else {
            return Some(format!("{prefix}, but no limit is specified or limit is 0"));
        };
        let saturated = |amount: &Quantity| amount.milli_value() == i64::MAX;
        let observed = if saturated(&request) || saturated(&limit) {
            limit.value() as f64 / request.value() as f64
        } else {
            limit.milli_value() as f64 / request.milli_value() as f64
        };
        (observed * 1000.0 > most.milli_value() as f64)
            .then(|| format!("{prefix}, but provided ratio is {observed:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::User;
    use crate::access::testing::{resource, store_object};

    async fn admit(limits: Value, kind: &str, mut object: Value) -> (Value, String) {
        let store = Store::in_memory();
        let range = json!({"metadata": {"name": "l", "namespace": "a"}, "spec": {"limits": limits}});
        store_object(&store, "limitranges", range).await;
        let (resource, user) = (resource("", kind), User::admin());
        let request = AdmissionRequest {
            operation: Operation::Create,
            resource: &resource,
            subresource: "",
            namespace: "a",
            name: "",
            user: &user,
            old: None,
            dry_run: false,
        };
        mutate(&store, &request, &mut object);
        let verdict =
            validate(&store, &request, &object).map_or_else(|error| error.message, |()| "ok".to_owned());
        (object, verdict)
    }

    fn pod(resources: impl Into<Value>) -> Value {
        let container = json!({"name": "main", "resources": resources.into()});
        json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    }

    #[tokio::test]
    async fn defaults_are_set_and_annotated_on_pod() {
        let limits = json!([{"type": "Container", "default": {"cpu": "200m", "memory": "128Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "128Mi"}}]);
        let (given, verdict) = admit(limits.clone(), "pods", pod(json!({"limits": {"cpu": "1"}}))).await;
        assert_eq!(verdict, "ok");
        assert_eq!(
            given["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}})
        );
        assert_eq!(
            given["metadata"]["annotations"][LIMIT_RANGER_ANNOTATION],
            "LimitRanger plugin set: cpu, memory request for container main; memory limit for container main"
        );
        let whole = json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}});
        let (given, _) = admit(limits, "pods", pod(whole.clone())).await;
        assert_eq!(given, pod(whole));
    }

    #[tokio::test]
    async fn bound_violations_have_kubernetes_messages() {
        let container = json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "50m"}},
            {"type": "Pod", "max": {"cpu": "1500m"}}]);
        let ratio = json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]);
        let amounts =
            |request: &str, limit: &str| json!({"requests": {"cpu": request}, "limits": {"cpu": limit}});
        let claim =
            json!({"metadata": {"name": "p"}, "spec": {"resources": {"requests": {"storage": "5Gi"}}}});
        let size = json!([{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]);
        let table = [
            (&container, "pods", pod(amounts("100m", "1")), "ok"),
            (
                &container,
                "pods",
                pod(amounts("10m", "1")),
                "pods \"p\" is forbidden: minimum cpu usage per Container is 50m, but request is 10m",
            ),
            (
                &container,
                "pods",
                pod(amounts("100m", "2")),
                "pods \"p\" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, maximum cpu usage per Pod is 1500m, but limit is 2]",
            ),
            (
                &container,
                "pods",
                pod(json!({})),
                "pods \"p\" is forbidden: [minimum cpu usage per Container is 50m.  No request is specified, maximum cpu usage per Container is 1.  No limit is specified, maximum cpu usage per Pod is 1500m.  No limit is specified]",
            ),
            (
                &ratio,
                "pods",
                pod(amounts("100m", "300m")),
                "pods \"p\" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            ),
            (&ratio, "pods", pod(amounts("150m", "300m")), "ok"),
            (
                &size,
                "persistentvolumeclaims",
                claim,
                "persistentvolumeclaims \"p\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 5Gi",
            ),
        ];
        for (limits, kind, object, expected) in table {
            assert_eq!(admit(limits.clone(), kind, object).await.1, expected);
        }
    }
}
