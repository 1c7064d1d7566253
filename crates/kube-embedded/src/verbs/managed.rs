//! Who owns which field after a request: the verbs' way to `write::apply`.
//!
//! Fields are owned in the version of the request, so an object that is stored in another form is shown in the
//! request's before its owners are written down.

use std::sync::Arc;

use serde_json::Value;

use super::Call;
use super::convert::{from_storage, to_storage};
use crate::error::Result;
use crate::registry::Registry;
use crate::schema::resources::Resource;
use crate::schema::types::TypeRef;
use crate::write::apply::{self, Applied, Context, Reset};

/// Runs `work` with what managed fields need to know of this request.
fn with_context<T>(call: &Call, manager: &str, work: impl FnOnce(&Context<'_>) -> T) -> T {
    let resource = &call.resource;
    let subresource = if call.door.is_empty() { call.subresource.as_str() } else { call.door };
    let has_status = resource.subresource("status").is_some();
    let reset = Reset::of(&resource.group, &resource.kind, subresource, resource.is_custom(), has_status);
    let registry = call.cluster.registry();
    let rows: Vec<&Arc<Resource>> = same_kind(&registry, resource).collect();
    let convert = |object: &Value, version: &str| in_version(resource, &rows, object, version);
    work(&Context {
        ty: resource.root(),
        custom: resource.is_custom(),
        api_version: &resource.api_version(),
        kind: &resource.kind,
        manager,
        subresource,
        now: call.cluster.clock().now(),
        reset: &reset,
        convert: &convert,
    })
}

/// The rows that show the same objects.
fn same_kind<'a>(registry: &'a Registry, resource: &'a Resource) -> impl Iterator<Item = &'a Arc<Resource>> {
    registry.resources().iter().filter(|row| row.storage == resource.storage)
}

/// `object`, which is in `resource`'s version, in the served version `api_version`.
fn in_version<'a>(
    resource: &Resource,
    rows: &[&'a Arc<Resource>],
    object: &Value,
    api_version: &str,
) -> Option<(Value, TypeRef<'a>)> {
    let row = rows.iter().find(|row| row.api_version() == api_version)?;
    let mut object = object.clone();
    to_storage(resource, &mut object);
    from_storage(row, &mut object);
    Some((object, row.root()))
}

/// After a create, an update or a patch: the requester owns what it changed. Both objects are in stored form.
pub fn update(call: &Call, live: Option<&Value>, new: &mut Value) {
    let manager = call.manager();
    if call.resource.is_custom() || !call.resource.is_view() {
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

/// Server-side apply of `body` to `live`, both in the request's version.
pub fn apply(call: &Call, live: Option<&Value>, body: &Value) -> Result<Value> {
    let force = call.query.force.unwrap_or(false);
    let manager = call.query.field_manager.as_str();
    let applied = with_context(call, manager, |context| apply::apply(context, live, body, force));
    applied.map(|Applied { object }| object)
}
