//! Server-side apply and the managed fields that every write keeps.
//!
//! Two doors. [`update`] follows every create, update and ordinary patch: it sees what has changed and
//! writes down that the requester owns it now. [`apply`] merges what a manager applies into what is there,
//! drops what that manager no longer applies, and refuses what others own. [`same`] tells a write that
//! changes nothing.
//!
//! When: [`update`] sees the decoded and defaulted object, before admission and before the kind's own
//! preparation (`rules`, addresses, finalizers); what those change belongs to nobody. What [`apply`] returns
//! may hold nulls and whatever the schema's loose scalars let pass: the caller decodes and defaults it, then
//! goes on as with an update, or as with a create if there was no live object. Before storing, [`same`].
//!
//! Elsewhere: which path is where in `/scale` ([`scale`]), what a subresource never owns ([`reset`]).

mod compare;
mod element;
mod fieldset;
mod last_applied;
mod managed;
mod merge;
mod node;
mod owned;
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

pub use self::{element::Element, fieldset::FieldSet, reset::Reset};
use self::{
    managed::{Entry, Managed, Operation},
    node::Node,
    updater::Refusal,
};
use crate::{
    error::{ApiError, Result},
    schema::types::TypeRef,
};

/// An object in another version of its kind, with its type there. `None`: the version is not served (any
/// more), and who owned fields in it is forgotten.
pub type Convert<'a> = dyn Fn(&Value, &str) -> Option<(Value, TypeRef<'a>)> + 'a;

/// What both doors must know about the request.
pub struct Context<'a> {
    /// The object's type in the request's version.
    pub ty: TypeRef<'a>,
    /// A custom resource: what is not set is not there at all.
    pub custom: bool,
    /// Of the request: `apps/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Who asks: the parameter `fieldManager`, or what is made of the `User-Agent`.
    pub manager: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// What this endpoint never lets anybody own.
    pub reset: &'a Reset,
    /// For entries in other versions than the request's.
    pub convert: &'a Convert<'a>,
}

impl<'a> Context<'a> {
    fn root(&self) -> Node<'a> {
        Node::root(self.ty)
    }

    /// The requester's entry, still owning nothing.
    fn entry(&self, operation: Operation) -> Entry {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        Entry {
            manager: manager.to_owned(),
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            time: None,
            set: FieldSet::default(),
        }
    }
}

/// Writes `metadata.managedFields` of `new`, which is about to replace `live` (none on create).
///
/// What the request itself says in `managedFields` counts on the main resource: nothing or null keeps the
/// live entries, an empty list (but for custom resources) or one empty entry clears them. An object without entries stays without
/// until somebody applies. This never fails: an object that does not fit its type loses its entries.
pub fn update(ctx: &Context<'_>, live: Option<&Value>, new: &mut Value) {
    let managed = entries_before(ctx, live, new);
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let after = match (live, managed.is_empty()) {
        (Some(_), true) => managed,
        (Some(live), false) => updater::update(ctx, &without_entries(live), new, managed).unwrap_or_default(),
        (None, _) => updater::update(ctx, &zero::object(ctx), new, managed).unwrap_or_default(),
    };
    after.write(new);
}

/// The entries that a write starts from.
fn entries_before(ctx: &Context<'_>, live: Option<&Value>, new: &Value) -> Managed {
    let lived = || live.and_then(|live| Managed::of(live).ok()).unwrap_or_default();
    if !ctx.subresource.is_empty() {
        return lived();
    }
    let cleared = match new["metadata"]["managedFields"].as_array().map(Vec::as_slice) {
        // Custom resources lose an empty list on the way in.
        Some([]) => !ctx.custom,
        Some([only]) => only.as_object().is_none_or(|entry| entry.values().all(Value::is_null)),
        _ => false,
    };
    if cleared {
        return Managed::default();
    }
    Managed::of(new).ok().filter(|managed| !managed.is_empty()).unwrap_or_else(lived)
}

/// Merges `body` into `live` (none: it will be created) on behalf of the manager: the object with its new
/// managed fields.
///
/// A `resourceVersion` in the body is the caller's to check. Conflicts are a 409 unless `force`d.
pub fn apply(ctx: &Context<'_>, live: Option<&Value>, body: &Value, force: bool) -> Result<Value> {
    check_kind(ctx, body)?;
    let managed = match live {
        Some(live) => {
            Managed::of(live).map_err(|why| failed(format!("failed to decode managed fields: {why}")))?
        }
        None => Managed::default(),
    };
    if body["metadata"].get("managedFields").is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    validate::validate(ctx.root(), body).map_err(|why| {
        let name = |key: &str| body["metadata"][key].as_str().unwrap_or_default();
        let object = format!("{}/{}; {}", name("namespace"), name("name"), gvk(body));
        failed(format!("failed to create typed patch object ({object}): {why}"))
    })?;

    let before = live.map_or_else(|| Value::Object(Map::new()), without_entries);
    let managed = match live {
        // What is there was never tracked: it belongs to whoever came before the first apply.
        Some(_) if managed.is_empty() => {
            let ctx = Context { manager: "before-first-apply", ..*ctx };
            updater::update(&ctx, &zero::object(&ctx), &before, managed)
                .map_err(|why| failed(format!("failed to create manager for existing fields: {why}")))?
        }
        _ => managed,
    };

    let outcome = match updater::apply(ctx, &before, body, managed.clone(), force) {
        Err(Refusal::Conflicts(conflicts)) if ctx.manager == last_applied::KUBECTL => {
            match last_applied::remaining(ctx, &before, conflicts) {
                left if left.is_empty() => updater::apply(ctx, &before, body, managed, true),
                left => Err(Refusal::Conflicts(left)),
            }
        }
        other => other,
    };
    let (mut object, managed) = outcome.map_err(|refusal| match refusal {
        Refusal::Conflicts(conflicts) => updater::conflict(&conflicts),
        Refusal::Failed(why) => failed(why),
    })?;
    if ctx.manager == last_applied::KUBECTL {
        last_applied::refresh(&mut object, body);
    }
    managed.write(&mut object);
    Ok(object)
}

/// Whether two objects differ in nothing but the times of their managed fields. Then nothing is written,
/// and the old times stay.
pub fn same(old: &Value, new: &Value) -> bool {
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

fn check_kind(ctx: &Context<'_>, body: &Value) -> Result<()> {
    let fits = body["kind"] == ctx.kind && body["apiVersion"] == ctx.api_version;
    if fits { Ok(()) } else { Err(ApiError::bad_request(format!("invalid object type: {}", gvk(body)))) }
}

/// `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`
fn gvk(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", object["kind"].as_str().unwrap_or_default())
}

/// What Kubernetes answers where it has no particular status for a failure.
fn failed(message: String) -> ApiError {
    ApiError::new(500, "", message)
}

/// A copy of `object` without its managed fields, which may well be its larger part.
fn without_entries(object: &Value) -> Value {
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
