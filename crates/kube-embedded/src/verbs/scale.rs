//! The subresource `scale`.

use serde_json::{Map, Value, json};

use super::body::read_scale;
use super::patch;
use super::update::modify;
use super::{ResourceRequest, ResourceResponse, managed_fields, meta};
use crate::decode::body::{self, PatchKind};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::print;
use crate::schema::builtin;
use crate::write::apply::scale::with_managed_fields;

/// Paths of a kind's replica counts and selector.
struct ReplicaPaths {
    replicas: String,
    status_replicas: String,
    selector: Option<String>,
}

fn replica_paths(call: &ResourceRequest) -> ReplicaPaths {
    match call.resource.custom.as_ref().and_then(|custom| custom.scale()) {
        Some(scale) => ReplicaPaths {
            replicas: scale.spec_replicas.to_string(),
            status_replicas: scale.status_replicas.to_string(),
            selector: Some(scale.selector.as_deref().unwrap_or_default().to_owned()),
        },
        None => ReplicaPaths {
            replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            selector: None,
        },
    }
}

pub async fn handle(call: &ResourceRequest) -> Result<ResourceResponse> {
    if call.verb == "get" {
        return Ok(ResourceResponse::Scale(scale_of(call, &call.get_live()?.value())?));
    }
    let ty = builtin::type_of("autoscaling", "v1", "Scale").ok_or_else(ApiError::no_such_resource)?;
    let parent = call.for_main_resource("scale");
    let answer = if call.verb == "update" {
        call.query.check_write("UpdateOptions", None)?;
        let scale = read_scale(call, ty)?;
        meta::check_name(call, &scale["metadata"])?;
        modify(&parent, |live| with_replicas(&parent, live, &scale)).await
    } else {
        let kind = patch::patch_kind(call)?;
        call.query.check_write("PatchOptions", Some(kind == PatchKind::Apply))?;
        modify(&parent, |live| {
            if kind == PatchKind::Apply {
                apply_replicas(&parent, live)
            } else {
                let scale = patch::patched(call, kind, ty, &scale_or_zero(&parent, live))?;
                meta::check_name(call, &scale["metadata"])?;
                with_replicas(&parent, live, &scale)
            }
        })
        .await
    };
    call.warnings.lock().append(&mut parent.warnings.lock());
    scale_response(call, answer?)
}

fn scale_response(call: &ResourceRequest, answer: ResourceResponse) -> Result<ResourceResponse> {
    let value = match answer {
        ResourceResponse::Stored(_, object) => object.value(),
        ResourceResponse::Document(_, value) => value,
        other => return Ok(other),
    };
    Ok(ResourceResponse::Scale(scale_of(call, &value)?))
}

/// Returns the parent with the replicas of `scale`.
fn with_replicas(call: &ResourceRequest, live: &Value, scale: &Value) -> Result<Value> {
    let replicas = desired_replicas(call, scale)?;
    let path = replica_paths(call).replicas;
    // A parent without replicas has no Scale to read, but can be scaled.
    let shown = scale_or_zero(call, live);
    let mut new = shown.clone();
    new["spec"] = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    let segments: Vec<&str> = segments(&path).collect();
    let entries = managed_fields::update_scale(call, live, &segments, shown, new)?;
    let mut object = with_managed_fields(live.clone(), entries);
    set_at_path(&mut object, &path, replicas.into());
    for key in ["resourceVersion", "uid"] {
        match scale["metadata"].get(key).filter(|value| !value.is_null()) {
            Some(value) => object["metadata"][key] = value.clone(),
            None => {
                object["metadata"].as_object_mut().expect("stored objects have metadata").remove(key);
            }
        }
    }
    Ok(object)
}

fn desired_replicas(call: &ResourceRequest, scale: &Value) -> Result<i64> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    // Custom resources have their own validation.
    if replicas < 0 && !call.resource.is_custom() {
        let error =
            FieldError::invalid(&Path::new("spec.replicas"), replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid("autoscaling", "Scale", &call.name, &[error]));
    }
    Ok(replicas)
}

/// Server-side apply of a Scale: the manager owns the parent's replicas field.
fn apply_replicas(call: &ResourceRequest, live: &Value) -> Result<Value> {
    let body = body::decode_patch(PatchKind::Apply, &call.body)?.value;
    let path = replica_paths(call).replicas;
    let segments: Vec<&str> = segments(&path).collect();
    let (scale, entries) =
        managed_fields::apply_scale(call, live, &segments, scale_or_zero(call, live), &body)?;
    let mut object = with_managed_fields(live.clone(), entries);
    set_at_path(&mut object, &path, desired_replicas(call, &scale)?.into());
    object["metadata"].as_object_mut().expect("stored objects have metadata").remove("resourceVersion");
    Ok(object)
}

/// Returns the Scale of an object.
fn scale_of(call: &ResourceRequest, parent: &Value) -> Result<Value> {
    let path = replica_paths(call).replicas;
    if call.resource.is_custom() && value_at_path(parent, &path).is_null() {
        let why = format!("the spec replicas field \"{path}\" does not exist");
        return Err(ApiError::internal(format!("Internal error occurred: {why}")).with_cause("", &why, ""));
    }
    Ok(scale_or_zero(call, parent))
}

/// Returns the Scale of an object, with 0 if its replicas are unset.
fn scale_or_zero(call: &ResourceRequest, parent: &Value) -> Value {
    let paths = replica_paths(call);
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = parent["metadata"].get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let replicas = value_at_path(parent, &paths.replicas).as_i64().unwrap_or(0);
    let mut status = json!({"replicas": value_at_path(parent, &paths.status_replicas).as_i64().unwrap_or(0)});
    let selector = match &paths.selector {
        Some(path) if path.is_empty() => String::new(),
        Some(path) => value_at_path(parent, path).as_str().unwrap_or_default().to_owned(),
        None if call.resource.group.is_empty() => print::selector::join_labels(&parent["spec"]["selector"]),
        None => print::selector::requirements(&parent["spec"]["selector"]),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|part| !part.is_empty())
}

fn value_at_path<'a>(value: &'a Value, path: &str) -> &'a Value {
    segments(path).fold(value, |value, key| &value[key])
}

fn set_at_path(value: &mut Value, path: &str, new: Value) {
    let place = segments(path).fold(value, |value, key| {
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[key]
    });
    *place = new;
}
