//! Patching: the three patches, and server-side apply.

use serde_json::Value;

use super::body::{Origin, accept};
use super::convert::from_storage;
use super::update::{Changed, modify, take_part};
use super::{Answer, Call, create, managed, meta};
use crate::decode::{
    self,
    body::{Decoded, PatchKind},
};
use crate::error::{ApiError, Result};
use crate::schema::types::TypeRef;
use crate::write::{go, json_patch, strategic};

pub async fn patch(call: &Call) -> Result<Answer> {
    patch_then(call, |_| Ok(())).await
}

/// A patch whose result `finish` completes just before it is checked.
pub async fn patch_then(call: &Call, finish: impl Fn(&mut Value) -> Result<()>) -> Result<Answer> {
    let kind = patch_kind(call)?;
    call.query.check_write("PatchOptions", Some(kind == PatchKind::Apply))?;
    if kind == PatchKind::Apply {
        return apply_patch(call).await;
    }
    let parsed = Parsed::read(call, kind)?;
    modify(call, |live| {
        let mut shown = live.clone();
        from_storage(&call.resource, &mut shown);
        let patched = parsed.apply(call.resource.root(), &shown)?;
        let shown_patch = parsed.quoted(&patched);
        let complaints = |unknown: &[String]| parsed.decoded.complaints(unknown);
        let mut object = accept(call, with_type(call, patched), complaints, Origin::Patch(&shown_patch))?;
        meta::place(call, &mut object)?;
        take_part(call, &mut object, live);
        managed::update(call, Some(live), &mut object);
        finish(&mut object)?;
        Ok(Changed { object })
    })
    .await
}

/// `document`, which is of the kind that `ty` describes, after the request's patch.
pub fn patched(call: &Call, kind: PatchKind, ty: TypeRef<'_>, document: &Value) -> Result<Value> {
    Parsed::read(call, kind)?.apply(ty, document)
}

/// Which patch the request's media type names.
pub fn patch_kind(call: &Call) -> Result<PatchKind> {
    decode::body::patch_kind(call.content_type.as_deref(), call.resource.is_custom())
}

/// A patch that has been read, so that a repeated attempt need not read it again.
struct Parsed<'a> {
    kind: PatchKind,
    text: &'a str,
    decoded: Decoded<'a>,
}

impl<'a> Parsed<'a> {
    fn read(call: &'a Call, kind: PatchKind) -> Result<Self> {
        let text = std::str::from_utf8(&call.body)
            .map_err(|_| ApiError::bad_request("the patch is not valid UTF-8"))?;
        Ok(Self { kind, text, decoded: decode::body::patch(kind, &call.body)? })
    }

    /// What a refusal quotes: the patched document, or for a strategic merge the patch itself, as Go prints it.
    fn quoted(&self, patched: &Value) -> String {
        if self.kind == PatchKind::Strategic {
            return go::plain(&self.decoded.value);
        }
        let mut shown = patched.clone();
        if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        shown.to_string()
    }

    fn apply(&self, ty: TypeRef<'_>, document: &Value) -> Result<Value> {
        match self.kind {
            PatchKind::Merge => json_patch::merge(document, &self.decoded.value),
            PatchKind::Strategic => strategic::apply(ty, document, &self.decoded.value),
            PatchKind::Json | PatchKind::Apply => json_patch::apply(document, self.text.as_bytes()),
        }
    }
}

/// A patch cannot change what an object is.
fn with_type(call: &Call, mut object: Value) -> Value {
    if object.is_object() {
        object["apiVersion"] = call.resource.api_version().into();
        object["kind"] = call.resource.kind.as_ref().into();
    }
    object
}

async fn apply_patch(call: &Call) -> Result<Answer> {
    let decoded = decode::body::patch(PatchKind::Apply, &call.body)?;
    let body = &decoded.value;
    check_applied_type(call, body)?;
    let exists = call.cluster.store().get(&call.resource.storage, &call.namespace, &call.name).is_some();
    if !exists {
        if !call.subresource.is_empty() {
            return Err(call.not_found());
        }
        return apply_new(call, body).await;
    }
    modify(call, |live| {
        let mut shown = live.clone();
        from_storage(&call.resource, &mut shown);
        let merged = managed::apply(call, Some(&shown), body)?;
        let mut object = completed(call, merged)?;
        take_part(call, &mut object, live);
        Ok(Changed { object })
    })
    .await
}

/// An apply on nothing creates.
async fn apply_new(call: &Call, body: &Value) -> Result<Answer> {
    if body["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()) {
        let path = crate::field::Path::new("metadata.uid");
        let error =
            crate::field::FieldError::invalid(&path, body["metadata"]["uid"].clone(), "field is immutable");
        return Err(ApiError::invalid(&call.resource.group, &call.resource.kind, &call.name, &[error]));
    }
    let merged = managed::apply(call, None, body)?;
    let object = completed(call, merged)?;
    create::insert(call, object, |_, _| {}).await
}

/// The merged object in stored form; what the server adds from here on belongs to nobody.
fn completed(call: &Call, merged: Value) -> Result<Value> {
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    let mut object = accept(call, merged, |_| Vec::new(), Origin::Patch(text))?;
    meta::place(call, &mut object)?;
    Ok(object)
}

fn check_applied_type(call: &Call, body: &Value) -> Result<()> {
    let api_version = body["apiVersion"].as_str().unwrap_or_default();
    let kind = body["kind"].as_str().unwrap_or_default();
    let expected = call.resource.api_version();
    if api_version != expected || kind != call.resource.kind.as_ref() {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(ApiError::bad_request(format!(
            "incorrect version specified in apply patch. Specified patch version: {}, expected: {expected}",
            crate::schema::resources::api_version(group, version)
        )));
    }
    Ok(())
}
