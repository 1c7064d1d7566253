//! Server-side apply, and the managed fields of all writes.
//!
//! Entry points:
//!
//! - [`update`] runs for every create, update and ordinary patch: it compares the objects and makes the requester own the changes.
//! - [`apply`] merges the object of a manager into the live one, removes fields that the manager no longer applies, and refuses conflicts
//!   with other managers.
//! - [`is_same_object`] detects a write that changes nothing.
//!
//! [`update`] takes the decoded and defaulted object, before admission and before the preparation of the kind (`rules`, addresses,
//! finalizers); their changes have no manager. The result of [`apply`] may contain nulls and unchecked scalars: the caller decodes and
//! defaults it, then continues as for an update, or as for a create if there was no live object. Before storing, it calls
//! [`is_same_object`].
//!
//! See also: paths in `/scale` ([`scale`]), fields that subresources never own ([`reset`]).

mod compare;
mod element;
mod field_ownership;
mod fieldset;
mod last_applied;
mod managed_fields;
mod merge;
mod node;
mod prune;
pub mod reset;
pub mod scale;
mod updater;
mod validate;
mod zero;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use self::{element::PathElement, fieldset::FieldSet, reset::ResetFilter};
use self::{
    managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerOperation},
    node::TypeNode,
    updater::ApplyError,
};
use crate::{
    error::{ApiError, Result},
    schema::types::TypeRef,
};

/// Converts an object to another version of its kind, returned with its type. `None`: the version is no longer served, and its entries are
/// dropped.
pub type ConvertFn<'a> = dyn Fn(&Value, &str) -> Option<(Value, TypeRef<'a>)> + 'a;

/// Request data for [`update`] and [`apply`].
pub struct ApplyContext<'a> {
    /// The object's type in the request's version.
    pub ty: TypeRef<'a>,
    /// Whether this is a custom resource, whose unset fields are absent.
    pub custom: bool,
    /// API version of the request: `apps/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// The manager: the parameter `fieldManager`, or derived from the `User-Agent`.
    pub manager: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Fields that this endpoint lets no manager own.
    pub reset_filter: &'a ResetFilter,
    /// Converts objects for entries in other versions than the request's.
    pub convert: &'a ConvertFn<'a>,
}

impl<'a> ApplyContext<'a> {
    fn root(&self) -> TypeNode<'a> {
        TypeNode::root(self.ty)
    }

    /// Returns an empty entry of the requester.
    fn entry(&self, operation: ManagerOperation) -> ManagedFieldsEntry {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        ManagedFieldsEntry {
            manager: manager.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            set: FieldSet::default(),
        }
    }
}

/// Writes `metadata.managedFields` of `new`, which is about to replace `live` (`None` on create).
///
/// On the main resource, `managedFields` in the request has an effect: absent or null keeps the live entries, an empty list (except for
/// custom resources) or one empty entry clears them. An object without entries stays untracked until the first apply. Never fails: an
/// object that does not match its type loses its entries.
pub fn update(ctx: &ApplyContext<'_>, live: Option<&Value>, new: &mut Value) {
    let managed = previous_entries(ctx, live, new);
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let after = match (live, managed.is_empty()) {
        (Some(_), true) => managed,
        (Some(live), false) => {
            updater::update(ctx, &without_managed_fields(live), new, managed).unwrap_or_default()
        }
        (None, _) => updater::update(ctx, &zero::zero_object(ctx), new, managed).unwrap_or_default(),
    };
    after.write_to(new);
}

/// Returns the entries before the write.
fn previous_entries(ctx: &ApplyContext<'_>, live: Option<&Value>, new: &Value) -> ManagedFields {
    let lived = || live.and_then(|live| ManagedFields::from_object(live).ok()).unwrap_or_default();
    if !ctx.subresource.is_empty() {
        return lived();
    }
    let cleared = match new["metadata"]["managedFields"].as_array().map(Vec::as_slice) {
        // Custom resources lose an empty list during decoding.
        Some([]) => !ctx.custom,
        Some([only]) => only.as_object().is_none_or(|entry| entry.values().all(Value::is_null)),
        _ => false,
    };
    if cleared {
        return ManagedFields::default();
    }
    ManagedFields::from_object(new).ok().filter(|managed| !managed.is_empty()).unwrap_or_else(lived)
}

/// Merges `body` into `live` (`None`: it will be created) on behalf of the manager; returns the object with its new managed fields.
///
/// The caller checks a `resourceVersion` in the body. Conflicts are a 409 error unless `force` is set.
pub fn apply(ctx: &ApplyContext<'_>, live: Option<&Value>, body: &Value, force: bool) -> Result<Value> {
    check_kind(ctx, body)?;
    let managed = match live {
        Some(live) => ManagedFields::from_object(live)
            .map_err(|why| internal_error(format!("failed to decode managed fields: {why}")))?,
        None => ManagedFields::default(),
    };
    if body["metadata"].get("managedFields").is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    validate::validate(ctx.root(), body).map_err(|why| {
        let name = |key: &str| body["metadata"][key].as_str().unwrap_or_default();
        let object = format!("{}/{}; {}", name("namespace"), name("name"), gvk(body));
        internal_error(format!("failed to create typed patch object ({object}): {why}"))
    })?;

    let before = live.map_or_else(|| Value::Object(Map::new()), without_managed_fields);
    let managed = match live {
        // Fields of an untracked object are assigned to the manager `before-first-apply`.
        Some(_) if managed.is_empty() => {
            let ctx = ApplyContext { manager: "before-first-apply", ..*ctx };
            updater::update(&ctx, &zero::zero_object(&ctx), &before, managed).map_err(|why| {
                internal_error(format!("failed to create manager for existing fields: {why}"))
            })?
        }
        _ => managed,
    };

    let outcome = match updater::apply(ctx, &before, body, managed.clone(), force) {
        Err(ApplyError::Conflicts(conflicts)) if ctx.manager == last_applied::KUBECTL_MANAGER => {
            match last_applied::remaining_conflicts(ctx, &before, conflicts) {
                left if left.is_empty() => updater::apply(ctx, &before, body, managed, true),
                left => Err(ApplyError::Conflicts(left)),
            }
        }
        other => other,
    };
    let (mut object, managed) = outcome.map_err(|refusal| match refusal {
        ApplyError::Conflicts(conflicts) => updater::conflict_error(&conflicts),
        ApplyError::Failed(why) => internal_error(why),
    })?;
    if ctx.manager == last_applied::KUBECTL_MANAGER {
        last_applied::refresh_annotation(&mut object, body);
    }
    managed.write_to(&mut object);
    Ok(object)
}

/// Whether two objects differ at most in the times of their managed fields. Such a write is skipped, and the old times stay.
pub fn is_same_object(old: &Value, new: &Value) -> bool {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return old == new };
    let alike = |a: &Map<String, Value>, b: &Map<String, Value>, except: &str| {
        a.len() == b.len() && a.iter().all(|(name, value)| name == except || b.get(name) == Some(value))
    };
    let (Some(Value::Object(old_meta)), Some(Value::Object(new_meta))) =
        (old.get("metadata"), new.get("metadata"))
    else {
        return old == new;
    };
    let entries = |metadata: &Map<String, Value>| match metadata.get("managedFields") {
        Some(Value::Array(entries)) => entries.clone(),
        _ => Vec::new(),
    };
    alike(old, new, "metadata") && alike(old_meta, new_meta, "managedFields") && {
        let (old, new) = (entries(old_meta), entries(new_meta));
        old.len() == new.len()
            && old.iter().zip(&new).all(|(a, b)| match (a, b) {
                (Value::Object(a), Value::Object(b)) => {
                    let timeless =
                        |entry: &Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
                    timeless(a) == timeless(b)
                        && a.iter().all(|(name, value)| name == "time" || b.get(name) == Some(value))
                }
                _ => a == b,
            })
    }
}

fn check_kind(ctx: &ApplyContext<'_>, body: &Value) -> Result<()> {
    let fits = body["kind"] == ctx.kind && body["apiVersion"] == ctx.api_version;
    if fits { Ok(()) } else { Err(ApiError::bad_request(format!("invalid object type: {}", gvk(body)))) }
}

/// Formats group, version and kind: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn gvk(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", object["kind"].as_str().unwrap_or_default())
}

/// The error of failures for which Kubernetes has no specific status.
fn internal_error(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

/// Copies `object` without its managed fields, which may be its larger part.
fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(members) = object else { return object.clone() };
    let copy = members.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copy.collect())
}
