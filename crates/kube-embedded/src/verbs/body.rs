//! From the bytes of a request to an object that can be stored: decoded, checked against its type, converted
//! to the stored version, with defaults and in normal form.

use serde_json::Value;

use super::Call;
use super::convert::to_storage;
use crate::decode::{self, body::Decoded};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::rules::{self, Rules};
use crate::schema::resources::Resource;
use crate::schema::types::TypeRef;
use crate::schema::{builtin, protobuf};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Where an object comes from: it decides how a complaint about its shape is worded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    Body,
    /// The result of this patch.
    Patch(&'a str),
}

/// The object in a POST or PUT.
pub fn read(call: &Call) -> Result<Value> {
    let resource = &call.resource;
    let mut decoded = decode_as(call, &resource.kind)?;
    let mut value = std::mem::take(&mut decoded.value);
    check_kind(resource, &mut value, &call.body)?;
    accept(call, value, |unknown| decoded.complaints(unknown), Origin::Body)
}

/// The body as a document that should be of `kind`.
pub fn decode_as<'a>(call: &'a Call, kind: &str) -> Result<Decoded<'a>> {
    decode::body::object(call.content_type.as_deref(), &call.body, kind, protobuf::decode)
}

/// Checks an object in the request's version against its type and brings it into stored form. `complaints`
/// adds to the unknown fields what else a strict reader would refuse.
pub fn accept(
    call: &Call,
    mut value: Value,
    complaints: impl FnOnce(&[String]) -> Vec<String>,
    origin: Origin<'_>,
) -> Result<Value> {
    let resource = &call.resource;
    let unknown = conform(resource, &mut value).map_err(|why| malformed(resource, &why, origin))?;
    let complaints = complaints(&unknown);
    match call.query.field_validation.as_str() {
        "Strict" if !complaints.is_empty() => {
            let why = format!("strict decoding error: {}", complaints.join(", "));
            return Err(malformed(resource, &why, origin));
        }
        "Ignore" => {}
        _ => complaints.into_iter().for_each(|complaint| call.warn(complaint)),
    }
    if !resource.is_custom() {
        to_storage(resource, &mut value);
    }
    complete(resource, &mut value);
    Ok(value)
}

/// Drops what the type does not know, and says what that was; an error says which value has the wrong type.
fn conform(resource: &Resource, value: &mut Value) -> Result<Vec<String>, String> {
    match &resource.custom {
        Some(custom) => {
            if let Some(error) = custom.malformed(value) {
                return Err(error.to_string());
            }
            let mut unknown = conform_metadata(value)?;
            unknown.extend(custom.prune(value));
            Ok(unknown)
        }
        None => decode::conform::conform(resource.root(), value).map(|findings| findings.unknown),
    }
}

/// A custom resource's metadata has the type that all metadata has.
fn conform_metadata(value: &mut Value) -> Result<Vec<String>, String> {
    let Some(ty) = builtin::types().named(OBJECT_META) else { return Ok(Vec::new()) };
    let Some(metadata) = value.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    let findings = decode::conform::conform(ty, metadata)?;
    decode::normalise::normalise(ty, metadata);
    Ok(findings.unknown.iter().map(|path| format!("metadata.{path}")).collect())
}

/// Defaults and normal form of an object in its stored version.
pub fn complete(resource: &Resource, value: &mut Value) {
    match &resource.custom {
        Some(custom) => custom.default(value),
        None => {
            let ty = stored_type(resource);
            decode::normalise::normalise(ty, value);
            (rules_of(resource).default)(value);
            decode::normalise::normalise(ty, value);
        }
    }
}

/// The type of the stored form.
fn stored_type(resource: &Resource) -> TypeRef<'_> {
    if !resource.is_view() {
        return resource.root();
    }
    let group = if resource.name.as_ref() == "events" { "" } else { resource.group.as_ref() };
    builtin::type_of(group, &resource.storage_version, &resource.kind).unwrap_or_else(|| resource.root())
}

/// The rules of a kind. They look at the stored form; of Events, each group has its own.
pub fn rules_of(resource: &Resource) -> &'static Rules {
    if resource.is_custom() { &rules::CUSTOM } else { rules::of(&resource.group, &resource.kind) }
}

fn malformed(resource: &Resource, why: &str, origin: Origin<'_>) -> ApiError {
    match origin {
        Origin::Body => ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}",
            kind = resource.kind,
            version = resource.version,
        )),
        Origin::Patch(patch) => {
            ApiError::invalid("", "", "", &[FieldError::invalid(&Path::new("patch"), patch, why)])
        }
    }
}

/// The body's own idea of its kind: absent means the URL's.
fn check_kind(resource: &Resource, value: &mut Value, body: &[u8]) -> Result<()> {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = resource.api_version();
    if resource.is_custom() {
        check_custom_kind(resource, &api_version, &kind, body)?;
    } else {
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let same_kind = kind.is_empty() || kind == resource.kind.as_ref();
        let same_version = api_version.is_empty() || api_version == expected;
        if !same_kind || !same_version {
            let shown_kind = if kind.is_empty() { resource.kind.as_ref() } else { &kind };
            let shown_version = if version.is_empty() { resource.version.as_ref() } else { version };
            let group = if api_version.is_empty() { resource.group.as_ref() } else { group };
            let known = builtin::type_of(group, shown_version, shown_kind).is_some();
            let why = if known {
                let package = |group: &str| {
                    group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core").to_owned()
                };
                let (own, other) = (package(&resource.group), package(group));
                let go_package =
                    if group.is_empty() { shown_version.to_owned() } else { shown_version.to_owned() };
                let _ = other;
                format!(
                    "converting ({go_package}.{shown_kind}) to ({own}.{}): unknown conversion",
                    resource.kind
                )
            } else {
                let shown = if api_version.is_empty() { &expected } else { &api_version };
                format!(
                    "no kind \"{shown_kind}\" is registered for version \"{shown}\" in scheme \"pkg/runtime/scheme.go:111\""
                )
            };
            return Err(ApiError::bad_request(format!(
                "{shown_kind} in version \"{shown_version}\" cannot be handled as a {}: {why}",
                resource.kind
            )));
        }
    }
    value["apiVersion"] = expected.into();
    if !resource.is_custom() {
        value["kind"] = resource.kind.as_ref().into();
    }
    Ok(())
}

/// Another kind is a complaint of its validation.
fn check_custom_kind(resource: &Resource, api_version: &str, kind: &str, body: &[u8]) -> Result<()> {
    let expected = resource.api_version();
    if kind.is_empty() {
        let body = String::from_utf8_lossy(body);
        let mut start: String = body.chars().take(30).collect();
        if start.len() < body.len() {
            start.push_str(" ...");
        }
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}' ({start})",
            resource.kind
        )));
    }
    if api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}
