//! The verb `patch`: three kinds of patches, and server-side apply.

use std::io;

use serde_json::Value;

use super::body::{
    ObjectSource, check_patched_kind, patch_result_error, set_type_meta, to_stored_form, validate_fields,
};
use super::convert::from_storage;
use super::update::{
    MAX_CONFLICT_ATTEMPTS, has_lost_race, keep_fields_of_other_endpoints, modify, stale_version,
};
use super::{ResourceRequest, ResourceResponse, create, managed_fields, meta};
use crate::decode::{
    self,
    body::{DecodedBody, PatchKind},
    conform::{ErrorStyle, conform},
};
use crate::error::{ApiError, Result};
use crate::go;
use crate::http::service::BODY_LIMIT;
use crate::schema::types::TypeRef;
use crate::write::{json_patch, strategic};

pub async fn patch(call: &ResourceRequest) -> Result<ResourceResponse> {
    patch_with(call, |_| Ok(())).await
}

/// Applies a patch; `finish` completes the result before it is validated.
pub async fn patch_with(
    call: &ResourceRequest,
    finish: impl Fn(&mut Value) -> Result<()>,
) -> Result<ResourceResponse> {
    let kind = patch_kind(call)?;
    call.query.check_write("PatchOptions", Some(kind == PatchKind::Apply))?;
    if kind == PatchKind::Apply {
        return server_side_apply(call, &finish).await;
    }
    call.get_live()?; // a missing object is reported before errors in the patch
    let parsed = DecodedPatch::read(call, kind)?;
    modify(call, |live| {
        let mut shown = live.clone();
        from_storage(&call.resource, &mut shown);
        let mut patched = parsed.apply(call.resource.root_type(), &shown)?;
        call.check_interrupt()?;
        let shown_patch = parsed.quoted_text(&patched);
        let complaints = |unknown: &[String]| parsed.strict_errors(unknown);
        let origin = if kind == PatchKind::Strategic {
            set_type_meta(&call.resource, &mut patched);
            ObjectSource::Strategic(&shown_patch)
        } else {
            check_patched_kind(call, &mut patched, &shown_patch)?;
            ObjectSource::Patch(&shown_patch)
        };
        let mut object = to_stored_form(call, patched, complaints, origin)?;
        call.check_interrupt()?;
        meta::set_namespace(call, &mut object)?;
        keep_fields_of_other_endpoints(call, &mut object, live);
        managed_fields::update(call, Some(live), &mut object);
        finish(&mut object)?;
        Ok(object)
    })
    .await
}

/// Applies the request's patch to `document`, whose type is `ty`.
pub fn patched(call: &ResourceRequest, kind: PatchKind, ty: TypeRef<'_>, document: &Value) -> Result<Value> {
    let parsed = DecodedPatch::read(call, kind)?;
    let mut value = parsed.apply(ty, document)?;
    let quoted = parsed.quoted_text(&value);
    let reader = if kind == PatchKind::Strategic { ErrorStyle::Unstructured } else { ErrorStyle::Json };
    let findings = conform(ty, &mut value, reader).map_err(|why| patch_result_error(&quoted, &why))?;
    let complaints = parsed.strict_errors(&findings.unknown);
    validate_fields(call, complaints).map_err(|why| patch_result_error(&quoted, &why))?;
    Ok(value)
}

/// Returns the kind of patch of the request's media type.
pub fn patch_kind(call: &ResourceRequest) -> Result<PatchKind> {
    decode::body::patch_kind(call.content_type.as_deref(), call.resource.is_custom())
}

/// A decoded patch, reused by retries.
struct DecodedPatch<'a> {
    kind: PatchKind,
    text: &'a str,
    decoded: DecodedBody<'a>,
}

impl<'a> DecodedPatch<'a> {
    fn read(call: &'a ResourceRequest, kind: PatchKind) -> Result<Self> {
        let text = std::str::from_utf8(&call.body)
            .map_err(|_| ApiError::bad_request("the patch is not valid UTF-8"))?;
        Ok(Self { kind, text, decoded: decode::body::decode_patch(kind, &call.body)? })
    }

    /// The text that an error quotes: the patched document, or for a strategic merge the patch itself, as Go prints it.
    fn quoted_text(&self, patched: &Value) -> String {
        if self.kind == PatchKind::Strategic {
            return go::format_v(&self.decoded.value);
        }
        let mut shown = patched.clone();
        if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        shown.to_string()
    }

    /// Returns the strict decoding errors of the patch and of its result.
    fn strict_errors(&self, unknown: &[String]) -> Vec<String> {
        let mut complaints = Vec::new();
        for (at, operation) in self.decoded.value.as_array().into_iter().flatten().enumerate() {
            let members = operation.as_object().into_iter().flat_map(|operation| operation.keys());
            let strange = members.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
            complaints.extend(strange.map(|name| format!("json patch unknown field \"[{at}].{name}\"")));
        }
        complaints.extend(self.decoded.strict_errors(unknown));
        complaints
    }

    fn apply(&self, ty: TypeRef<'_>, document: &Value) -> Result<Value> {
        let patched = match self.kind {
            PatchKind::Merge => json_patch::merge(document, &self.decoded.value),
            PatchKind::Strategic => strategic::apply(ty, document, &self.decoded.value),
            PatchKind::Json | PatchKind::Apply => json_patch::apply(document, self.text.as_bytes()),
        }?;
        if is_too_large(&patched) { Err(ApiError::too_large(BODY_LIMIT)) } else { Ok(patched) }
    }
}

/// Whether a document is larger than any request body may be.
fn is_too_large(document: &Value) -> bool {
    struct RemainingBytes(usize);

    impl io::Write for RemainingBytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    serde_json::to_writer(RemainingBytes(BODY_LIMIT), document).is_err()
}

async fn server_side_apply(
    call: &ResourceRequest,
    finish: &impl Fn(&mut Value) -> Result<()>,
) -> Result<ResourceResponse> {
    let decoded = decode::body::decode_patch(PatchKind::Apply, &call.body)?;
    let body = &decoded.value;
    check_duplicate_keys(call, &decoded.duplicates)?;
    for _ in 0..MAX_CONFLICT_ATTEMPTS {
        call.check_interrupt()?;
        let exists = call.exists();
        let answer = if exists {
            apply_to_existing(call, body, finish).await
        } else if call.subresource.is_empty() {
            apply_new(call, body).await
        } else {
            Err(call.not_found())
        };
        if !has_lost_race(call, exists, &answer) {
            return answer;
        }
    }
    Err(stale_version(call))
}

/// Applies to an existing object.
async fn apply_to_existing(
    call: &ResourceRequest,
    body: &Value,
    finish: &impl Fn(&mut Value) -> Result<()>,
) -> Result<ResourceResponse> {
    modify(call, |live| {
        let mut shown = live.clone();
        from_storage(&call.resource, &mut shown);
        let merged = managed_fields::apply(call, Some(&shown), body)?;
        let mut object = merged_in_stored_form(call, body, merged)?;
        keep_fields_of_other_endpoints(call, &mut object, live);
        finish(&mut object)?;
        Ok(object)
    })
    .await
}

/// Reports duplicate keys in an applied body.
fn check_duplicate_keys(call: &ResourceRequest, duplicates: &[String]) -> Result<()> {
    match call.query.field_validation.as_str() {
        "Strict" if !duplicates.is_empty() => {
            let lines = format!("\n  {}", duplicates.join("\n  "));
            let why = format!("error converting YAML to JSON: yaml: unmarshal errors:{lines}");
            return Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")));
        }
        "Ignore" => {}
        _ => duplicates.iter().for_each(|line| call.warn(line)),
    }
    Ok(())
}

/// Applies to a missing object, which creates it.
async fn apply_new(call: &ResourceRequest, body: &Value) -> Result<ResourceResponse> {
    if let Some(uid) = body["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(ApiError::conflict(&call.resource.group, &call.resource.name, &call.name, why));
    }
    let merged = managed_fields::apply(call, None, body)?;
    let object = merged_in_stored_form(call, body, merged)?;
    create::insert(call, object, |_, _| {}).await
}

/// Returns the merged object in stored form. Fields that the server sets from here on have no manager.
fn merged_in_stored_form(call: &ResourceRequest, body: &Value, merged: Value) -> Result<Value> {
    call.check_interrupt()?;
    let mut object = to_stored_form(call, merged, |_| Vec::new(), ObjectSource::Apply(body))?;
    meta::set_namespace(call, &mut object)?;
    Ok(object)
}
