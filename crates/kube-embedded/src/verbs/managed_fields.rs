//! Field ownership (`managedFields`): connects the verbs to `write::apply`.
//!
//! Fields are owned in the version of the request, so that an object stored in another form is converted to the request's version before
//! ownership is computed.

use std::sync::Arc;

use serde_json::Value;

use super::ResourceRequest;
use super::convert::{from_storage, to_storage};
use crate::error::{ApiError, Result};
use crate::registry::Registry;
use crate::schema::builtin;
use crate::schema::resources::Resource;
use crate::schema::types::TypeRef;
use crate::write::apply::{self, ApplyContext, ResetFilter, scale};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Runs `work` with the managed-fields context of this request.
fn with_context<T>(call: &ResourceRequest, manager: &str, work: impl FnOnce(&ApplyContext<'_>) -> T) -> T {
    let resource = &call.resource;
    let subresource =
        if call.via_subresource.is_empty() { call.subresource.as_str() } else { call.via_subresource };
    let has_status = resource.subresource("status").is_some();
    let reset = ResetFilter::for_endpoint(
        &resource.group,
        &resource.kind,
        subresource,
        resource.is_custom(),
        has_status,
    );
    let registry = call.cluster.registry();
    let rows: Vec<&Arc<Resource>> = resources_of_same_storage(&registry, resource).collect();
    let convert = |object: &Value, version: &str| convert_to_version(resource, &rows, object, version);
    work(&ApplyContext {
        ty: resource.root_type(),
        custom: resource.is_custom(),
        api_version: &resource.api_version(),
        kind: &resource.kind,
        manager,
        subresource,
        now: call.cluster.clock().now(),
        reset_filter: &reset,
        convert: &convert,
    })
}

/// Returns the resources that serve the same stored objects.
fn resources_of_same_storage<'a>(
    registry: &'a Registry,
    resource: &'a Resource,
) -> impl Iterator<Item = &'a Arc<Resource>> {
    registry.resources().iter().filter(|row| row.storage == resource.storage)
}

/// Converts `object`, which is in `resource`'s version unless it names another, to the served version `api_version`.
fn convert_to_version<'a>(
    resource: &Resource,
    rows: &[&'a Arc<Resource>],
    object: &Value,
    api_version: &str,
) -> Option<(Value, TypeRef<'a>)> {
    let of_version = |version: &str| rows.iter().find(|row| row.api_version() == version);
    let row = of_version(api_version)?;
    let now_in = object["apiVersion"].as_str().and_then(of_version).map_or(resource, |row| row.as_ref());
    let mut object = object.clone();
    to_storage(now_in, &mut object);
    from_storage(row, &mut object);
    Some((object, row.root_type()))
}

/// Updates managed fields after a create, update or patch: the manager owns the fields that it changed. Both objects are in stored form.
pub fn update(call: &ResourceRequest, live: Option<&Value>, new: &mut Value) {
    let manager = call.manager();
    if call.resource.is_custom() || !call.resource.needs_conversion() {
        with_context(call, &manager, |context| apply::update(context, live, new));
        return;
    }
    let shown = |value: &Value| {
        let mut value = value.clone();
        from_storage(&call.resource, &mut value);
        value
    };
    let mut viewed = shown(new);
    with_context(call, &manager, |context| apply::update(context, live.map(shown).as_ref(), &mut viewed));
    new["metadata"]["managedFields"] = viewed["metadata"]["managedFields"].take();
}

/// Runs `work` with the managed-fields context of a request to `/scale`, whose object is a Scale.
fn with_scale_context<T>(
    call: &ResourceRequest,
    manager: &str,
    work: impl FnOnce(&ApplyContext<'_>) -> T,
) -> Result<T> {
    let ty = builtin::type_of("autoscaling", "v1", "Scale").ok_or_else(ApiError::no_such_resource)?;
    let convert = |object: &Value, version: &str| (version == SCALE_VERSION).then(|| (object.clone(), ty));
    Ok(work(&ApplyContext {
        ty,
        custom: false,
        api_version: SCALE_VERSION,
        kind: "Scale",
        manager,
        subresource: "scale",
        now: call.cluster.clock().now(),
        reset_filter: &ResetFilter::for_endpoint("autoscaling", "Scale", "scale", false, false),
        convert: &convert,
    }))
}

/// Returns the parent's managed fields after a change of its Scale, given the parent's live state and both Scales. `path` is the path of
/// the parent's replicas.
pub fn update_scale(
    call: &ResourceRequest,
    parent: &Value,
    path: &[&str],
    live: Value,
    mut new: Value,
) -> Result<Value> {
    let version = call.resource.api_version();
    let paths = [(version.as_str(), path)];
    let entries = scale::to_scale(&parent["metadata"]["managedFields"], &paths);
    let live = scale::with_managed_fields(live, entries.clone());
    new = scale::with_managed_fields(new, entries);
    with_scale_context(call, &call.manager(), |context| apply::update(context, Some(&live), &mut new))?;
    let (before, after) = (&parent["metadata"]["managedFields"], &new["metadata"]["managedFields"]);
    Ok(scale::to_parent(before, after, &version, &paths))
}

/// Server-side apply of a Scale; returns the merged Scale and the parent's managed fields.
pub fn apply_scale(
    call: &ResourceRequest,
    parent: &Value,
    path: &[&str],
    live: Value,
    body: &Value,
) -> Result<(Value, Value)> {
    let version = call.resource.api_version();
    let paths = [(version.as_str(), path)];
    let live =
        scale::with_managed_fields(live, scale::to_scale(&parent["metadata"]["managedFields"], &paths));
    let force = call.query.force.unwrap_or(false);
    let manager = call.query.field_manager.as_str();
    let merged =
        with_scale_context(call, manager, |context| apply::apply(context, Some(&live), body, force))??;
    let (before, after) = (&parent["metadata"]["managedFields"], &merged["metadata"]["managedFields"]);
    let entries = scale::to_parent(before, after, &version, &paths);
    Ok((merged, entries))
}

/// Server-side apply of `body` to `live`, both in the request's version.
pub fn apply(call: &ResourceRequest, live: Option<&Value>, body: &Value) -> Result<Value> {
    let force = call.query.force.unwrap_or(false);
    let manager = call.query.field_manager.as_str();
    with_context(call, manager, |context| apply::apply(context, live, body, force))
}
