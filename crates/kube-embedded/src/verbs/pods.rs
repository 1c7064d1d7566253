//! Subresources of pods: `binding`, and the ones that need a process, which is never simulated.
//!
//! See also: eviction (`super::evict`), logs (`super::logs`).

use serde_json::{Value, json};

use super::body::decode_as;
use super::update::{modify, uid_conflict};
use super::{ResourceRequest, ResourceResponse, managed_fields};
use crate::clock::rfc3339;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::store::Object;

/// The 501 error of subresources that need a process.
pub fn not_simulated(call: &ResourceRequest, object: &Object) -> ApiError {
    let asked = call.query.get("container").filter(|name| !name.is_empty()).map(str::to_owned);
    let first = || object.value()["spec"]["containers"][0]["name"].as_str().map(str::to_owned);
    let container = asked.or_else(first).unwrap_or_default();
    let verb = match call.subresource.as_str() {
        "exec" => "exec into",
        "attach" => "attach to",
        "portforward" => "forward a port to",
        _ => "reach",
    };
    ApiError::not_implemented(match call.resource.name.as_ref() {
        "pods" => format!(
            "kube-embedded simulates pods: there is no process in container \"{container}\" to {verb}"
        ),
        other => {
            format!("kube-embedded simulates {other}: there is nothing to {verb} through \"{}\"", call.name)
        }
    })
}

/// Binds a pod to a node.
pub async fn bind_pod(call: &ResourceRequest) -> Result<ResourceResponse> {
    let binding = decode_as(call, "core.Binding")?;
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    if !call.name.is_empty() && name != call.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
    check_target(&binding["target"])?;
    let pods =
        call.cluster.registry().get("", "v1", "pods").cloned().ok_or_else(ApiError::no_such_resource)?;
    let mut pod = call.for_object(&call.namespace, name);
    pod.resource = pods;
    "binding".clone_into(&mut pod.subresource);
    modify(&pod, |live| {
        if let Some(uid) = binding["metadata"]["uid"].as_str().filter(|uid| live["metadata"]["uid"] != *uid) {
            return Err(uid_conflict(&pod, uid, live["metadata"]["uid"].as_str().unwrap_or_default()));
        }
        let conflict = |why: String| Err(ApiError::conflict("", "pods/binding", name, why));
        if !live["metadata"]["deletionTimestamp"].is_null() {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let assigned = live["spec"]["nodeName"].as_str().unwrap_or_default();
        if !assigned.is_empty() {
            return conflict(format!("pod {name} is already assigned to node \"{assigned}\""));
        }
        let mut object = live.clone();
        object["spec"]["nodeName"] = node.as_str().into();
        for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
            object["metadata"]["annotations"][key] = value.clone();
        }
        let now = rfc3339(pod.cluster.clock().now());
        let scheduled = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
        let conditions = &mut object["status"]["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let list = conditions.as_array_mut().expect("it was made a list");
        list.retain(|condition| condition["type"] != "PodScheduled");
        list.push(scheduled);
        managed_fields::update(&pod, Some(live), &mut object);
        Ok(object)
    })
    .await?;
    Ok(ResourceResponse::OtherKind(
        201,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// Validates the target of a binding. In Kubernetes these errors are not a 422.
fn check_target(target: &Value) -> Result<()> {
    let path = Path::new("target");
    let mut errors = Vec::new();
    let kind = target["kind"].as_str().unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        errors.push(FieldError::unsupported(&path.field("kind"), kind, &["Node", "<empty>"]));
    }
    if target["name"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required(&path.field("name"), ""));
    }
    match errors.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        [only] => Err(ApiError::new(500, "", only)),
        several => Err(ApiError::new(500, "", format!("[{}]", several.join(", ")))),
    }
}
