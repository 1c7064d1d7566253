//! Role overrides: replicas, resources or a stop for one workload of a release.

use domain::quantity::Quantity;
use helm_template::budget::Budget;
use kube_apply::Object;
use kube_types::release::RoleOverride;
use kube_types::release::spec::RoleResources;
use serde_json::{Value, json};

use super::{PostRenderError, accounting, is_hook, pause};

/// Kinds with `spec.replicas`.
const SCALABLE_KINDS: &[&str] = &["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"];

/// Whether overrides can apply to this object.
pub fn is_workload(object: &Object) -> bool {
    pause::is_workload(object) && !is_hook(object)
}

/// Whether the override applies to this object.
fn is_target(role: &RoleOverride, object: &Object) -> bool {
    role.kind == object.kind() && role.name == object.name() && is_workload(object)
}

pub fn apply(
    objects: Vec<Object>,
    roles: &[RoleOverride],
    budget: &Budget<'_>,
) -> Result<Vec<Object>, PostRenderError> {
    let mut objects = objects;
    for (index, role) in roles.iter().enumerate() {
        let wrong = |why: String| PostRenderError { place: format!("spec.roles[{index}]"), why };
        validate(role).map_err(wrong)?;
        accounting::charge_match_all(budget, &objects).map_err(wrong)?;
        let mut changed = Vec::with_capacity(objects.len());
        for object in objects {
            if is_target(role, &object) {
                accounting::charge_copy(budget, accounting::bytes(object.value()).saturating_mul(2))
                    .map_err(wrong)?;
                let object = resize(role, object).map_err(wrong)?;
                changed.extend(if role.stopped { pause::pause_object(object) } else { Some(object) });
            } else if !(role.stopped && pause::is_autoscaler_of(&object, &role.kind, &role.name)) {
                changed.push(object);
            }
        }
        objects = changed;
    }
    Ok(objects)
}

/// Validates an override regardless of its target.
fn validate(role: &RoleOverride) -> Result<(), String> {
    if role.replicas.is_some() && !SCALABLE_KINDS.contains(&role.kind.as_str()) {
        return Err(format!("a {} has no replicas", role.kind));
    }
    let Some(RoleResources { requests, limits }) = &role.resources else { return Ok(()) };
    for (half, list) in [("requests", requests), ("limits", limits)] {
        for (name, amount) in list {
            Quantity::parse(amount).map_err(|why| format!("resources.{half}[{name}]: {why}"))?;
        }
    }
    Ok(())
}

fn resize(role: &RoleOverride, object: Object) -> Result<Object, String> {
    if role.replicas.is_none() && role.resources.is_none() {
        return Ok(object);
    }
    let mut value = object.value().clone();
    if let Some(replicas) = role.replicas {
        pause::set_field(&mut value, &["spec", "replicas"], json!(replicas));
    }
    if let Some(resources) = &role.resources {
        let container = find_container(role, &mut value)?;
        for (half, list) in [("requests", &resources.requests), ("limits", &resources.limits)] {
            for (name, amount) in list {
                pause::set_field(container, &["resources", half, name], json!(amount));
            }
        }
    }
    object.with_value(value).map_err(|error| error.why)
}

/// The container to resize: the named one, else the first.
fn find_container<'a>(role: &RoleOverride, object: &'a mut Value) -> Result<&'a mut Value, String> {
    let template = match role.kind.as_str() {
        "Pod" => "",
        "CronJob" => "/spec/jobTemplate/spec/template",
        _ => "/spec/template",
    };
    let of = format!("{}/{}", role.kind, role.name);
    let mut found = None;
    let named = |container: &Value| role.container.as_deref().is_none_or(|name| container["name"] == name);
    for list in ["containers", "initContainers"] {
        let pointer = format!("{template}/spec/{list}");
        let containers = object.pointer(&pointer).and_then(Value::as_array);
        if let Some(at) = containers.and_then(|containers| containers.iter().position(named)) {
            found = Some(format!("{pointer}/{at}"));
            break;
        }
    }
    let found = found.and_then(|pointer| object.pointer_mut(&pointer));
    found.ok_or_else(|| match &role.container {
        Some(name) => format!("{of} has no container {name}"),
        None => format!("{of} has no container"),
    })
}
