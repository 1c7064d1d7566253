//! Request bodies to stored objects: decoding, type checks, conversion to the storage version, defaulting, normalization.

use serde_json::Value;

use super::ResourceRequest;
use super::convert::to_storage;
use crate::decode::{
    body::{self, DecodedBody},
    conform::{self, ErrorStyle},
    normalise::{self, normalise},
};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::rules::{self, KindRules};
use crate::schema::resources::Resource;
use crate::schema::types::TypeRef;
use crate::schema::{builtin, protobuf};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The source of an object, which determines the wording of errors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ObjectSource<'a> {
    Body,
    /// The result of this patch, decoded from JSON text.
    Patch(&'a str),
    /// The result of this strategic merge patch.
    Strategic(&'a str),
    /// The result of applying this object.
    Apply(&'a Value),
}

impl ObjectSource<'_> {
    fn error_style(self) -> ErrorStyle {
        match self {
            Self::Body | Self::Patch(_) => ErrorStyle::Json,
            Self::Strategic(_) | Self::Apply(_) => ErrorStyle::Unstructured,
        }
    }
}

/// Reads the object of a POST or PUT.
pub fn read_object(call: &ResourceRequest) -> Result<Value> {
    let resource = &call.resource;
    let mut decoded = decode(call, &resource.kind)?;
    let mut value = std::mem::take(&mut decoded.value);
    if resource.is_custom() {
        decoded = decoded.without_document_order();
    }
    check_kind(resource, &mut value, &call.body)?;
    to_stored_form(call, value, |unknown| decoded.strict_errors(unknown), ObjectSource::Body)
}

fn decode<'a>(call: &'a ResourceRequest, kind: &str) -> Result<DecodedBody<'a>> {
    body::decode_object(call.content_type.as_deref(), &call.body, kind, protobuf::decode)
}

/// Decodes the body as the internal type `wanted` (`core.Binding`).
pub fn decode_as(call: &ResourceRequest, wanted: &str) -> Result<Value> {
    let kind = wanted.rsplit('.').next().unwrap_or_default();
    let value = decode(call, kind)?.value;
    let claim = DeclaredType::from_value(&value);
    if !claim.kind.is_empty() && claim.kind != kind {
        let why = conversion_error_message(claim.api_version, claim.kind, wanted, &value);
        let version = claim.api_version.rsplit('/').next().unwrap_or_default();
        return Err(body::kind_mismatch(claim.kind, version, kind, &why));
    }
    Ok(value)
}

/// Checks an object in the request's version against its type and converts it to the stored form. `complaints` adds the other strict
/// decoding errors to the unknown fields.
pub fn to_stored_form(
    call: &ResourceRequest,
    mut value: Value,
    complaints: impl FnOnce(&[String]) -> Vec<String>,
    origin: ObjectSource<'_>,
) -> Result<Value> {
    let resource = &call.resource;
    let unknown = conform(resource, &mut value, origin.error_style())
        .map_err(|why| malformed_object(resource, &why, origin))?;
    validate_fields(call, complaints(&unknown)).map_err(|why| malformed_object(resource, &why, origin))?;
    let cleared = value["metadata"]["managedFields"].as_array().is_some_and(Vec::is_empty);
    if !resource.is_custom() {
        to_storage(resource, &mut value);
    }
    default_and_normalise(resource, &mut value);
    if cleared {
        // Normalization removes an empty list, but here it requests that all managed fields be cleared.
        value["metadata"]["managedFields"] = Value::Array(Vec::new());
    }
    Ok(value)
}

/// Handles unknown and duplicate fields according to `fieldValidation`.
pub fn validate_fields(call: &ResourceRequest, complaints: Vec<String>) -> Result<(), String> {
    match call.query.field_validation.as_str() {
        "Strict" if !complaints.is_empty() => {
            return Err(format!("strict decoding error: {}", complaints.join(", ")));
        }
        "Ignore" => {}
        _ => complaints.into_iter().for_each(|complaint| call.warn(complaint)),
    }
    Ok(())
}

/// Drops unknown fields and returns their paths; an error names the value of the wrong type.
fn conform(resource: &Resource, value: &mut Value, reader: ErrorStyle) -> Result<Vec<String>, String> {
    match &resource.custom {
        Some(custom) => {
            if let Some(error) = custom.decode_error(value) {
                return Err(error.to_string());
            }
            let mut unknown = conform_metadata(value, reader)?;
            // Nulls in an applied object are validated as they are; other readers drop nulls without effect.
            let applied = matches!(reader, ErrorStyle::Unstructured);
            unknown.extend(if applied { custom.drop_unknown(value) } else { custom.prune(value) });
            Ok(unknown)
        }
        None => conform::conform(resource.root_type(), value, reader).map(|findings| findings.unknown),
    }
}

/// Checks the metadata of a custom resource, which has the type `ObjectMeta`.
fn conform_metadata(value: &mut Value, reader: ErrorStyle) -> Result<Vec<String>, String> {
    let Some(ty) = builtin::types().by_name(OBJECT_META) else { return Ok(Vec::new()) };
    let Some(metadata) = value.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
        return Ok(Vec::new());
    };
    let findings = conform::conform(ty, metadata, reader)?;
    normalise(ty, metadata);
    Ok(findings.unknown.iter().map(|path| format!("metadata.{path}")).collect())
}

/// Applies defaults and normal form to an object in its storage version.
pub fn default_and_normalise(resource: &Resource, value: &mut Value) {
    if let Some(custom) = &resource.custom {
        custom.default(value);
        return;
    }
    let ty = stored_type(resource);
    normalise(ty, value);
    (rules_of(resource).default)(value);
    normalise(ty, value);
}

/// Converts an object to the form in which the store returns it.
pub fn as_stored(resource: &Resource, value: &mut Value) {
    if !resource.is_custom() {
        normalise::as_stored(stored_type(resource), value);
    }
}

/// Returns the type of the stored form.
fn stored_type(resource: &Resource) -> TypeRef<'_> {
    if !resource.needs_conversion() {
        return resource.root_type();
    }
    let group = if resource.name.as_ref() == "events" { "" } else { resource.group.as_ref() };
    builtin::type_of(group, &resource.storage_version, &resource.kind).unwrap_or_else(|| resource.root_type())
}

/// Returns the rules of a kind. They apply to the stored form, but Events have rules per group.
pub fn rules_of(resource: &Resource) -> &'static KindRules {
    if resource.is_custom() {
        &rules::CUSTOM_RESOURCE_RULES
    } else {
        rules::for_kind(&resource.group, &resource.kind)
    }
}

fn malformed_object(resource: &Resource, why: &str, origin: ObjectSource<'_>) -> ApiError {
    match origin {
        ObjectSource::Body => body::kind_mismatch(&resource.kind, &resource.version, &resource.kind, why),
        ObjectSource::Patch(patch) | ObjectSource::Strategic(patch) => patch_result_error(patch, why),
        ObjectSource::Apply(given) => {
            let text = |key: &str| given["metadata"][key].as_str().unwrap_or_default();
            let gvk = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
            let object = format!("{}/{}; {gvk}", text("namespace"), text("name"));
            ApiError::new(
                500,
                "",
                format!(
                    "failed to convert new object ({object}) to proper version: unable to convert unstructured object to {gvk}: {why}"
                ),
            )
        }
    }
}

/// The error for a patch whose result is not an object of its kind.
pub fn patch_result_error(patch: &str, why: &str) -> ApiError {
    ApiError::invalid("", "", "", &[FieldError::invalid(&Path::new("patch"), patch, why)])
}

/// `apiVersion` and `kind` of a document, both optional.
struct DeclaredType<'a> {
    api_version: &'a str,
    kind: &'a str,
}

impl<'a> DeclaredType<'a> {
    fn from_value(value: &'a Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let api_version = text("apiVersion");
        Self { api_version: api_version.strip_prefix('/').unwrap_or(api_version), kind: text("kind") }
    }

    fn matches(&self, resource: &Resource) -> bool {
        (self.kind.is_empty() || self.kind == resource.kind.as_ref())
            && (self.api_version.is_empty() || self.api_version == resource.api_version())
    }
}

/// Checks that a body is of the URL's kind, and sets `apiVersion` and `kind`.
fn check_kind(resource: &Resource, value: &mut Value, text: &[u8]) -> Result<()> {
    let claim = DeclaredType::from_value(value);
    if resource.is_custom() {
        check_custom_kind(resource, &claim, text)?;
        value["apiVersion"] = resource.api_version().into();
        return Ok(());
    }
    if !claim.matches(resource) {
        if claim.kind == resource.kind.as_ref() && is_removed_version(claim.api_version) {
            return Err(version_mismatch(claim.api_version, &resource.api_version()));
        }
        let why = type_mismatch_message(resource, value);
        let version = claim.api_version.rsplit('/').next().filter(|version| !version.is_empty());
        let kind = if claim.kind.is_empty() { resource.kind.as_ref() } else { claim.kind };
        return Err(body::kind_mismatch(kind, version.unwrap_or(&resource.version), &resource.kind, &why));
    }
    set_type_meta(resource, value);
    Ok(())
}

/// Checks that a patch did not change `apiVersion` and `kind`.
pub fn check_patched_kind(call: &ResourceRequest, value: &mut Value, patch: &str) -> Result<()> {
    let resource = &call.resource;
    body::check_type_meta(value).map_err(|why| patch_result_error(patch, &why))?;
    let claim = DeclaredType::from_value(value);
    if !resource.is_custom() {
        if !claim.matches(resource) {
            return Err(patch_result_error(patch, &type_mismatch_message(resource, value)));
        }
        set_type_meta(resource, value);
        return Ok(());
    }
    if claim.kind.is_empty() {
        return Err(patch_result_error(patch, &format!("Object 'Kind' is missing in '{patch}'")));
    }
    let mut errors = Vec::new();
    for (key, given, wanted) in
        [("apiVersion", claim.api_version, &*resource.api_version()), ("kind", claim.kind, &resource.kind)]
    {
        if given != wanted {
            errors.push(FieldError::invalid(&Path::new(key), given, format!("must be {wanted}")));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let group = claim.api_version.split_once('/').map_or("", |(group, _)| group);
    Err(ApiError::invalid(group, claim.kind, &call.name, &errors))
}

/// Sets `apiVersion` and `kind` of a document from the URL.
pub fn set_type_meta(resource: &Resource, value: &mut Value) {
    if value.is_object() {
        value["apiVersion"] = resource.api_version().into();
        value["kind"] = resource.kind.as_ref().into();
    }
}

/// Explains why an object with another type is refused: it is malformed as that type, of another kind, or of an unknown one.
fn type_mismatch_message(resource: &Resource, value: &Value) -> String {
    let wanted = format!("{}.{}", go_package(resource), resource.kind);
    let claim = DeclaredType::from_value(value);
    let kind = if claim.kind.is_empty() { resource.kind.as_ref() } else { claim.kind };
    let expected = resource.api_version();
    let api_version = if claim.api_version.is_empty() { expected.as_str() } else { claim.api_version };
    conversion_error_message(api_version, kind, &wanted, value)
}

/// Explains why a `kind` of `api_version` cannot be converted to the internal type `wanted`.
fn conversion_error_message(api_version: &str, kind: &str, wanted: &str, value: &Value) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // The group of metadata has types, but registers no kinds.
    let Some(ty) = builtin::type_of(group, version, kind).filter(|_| group != "meta.k8s.io") else {
        let scheme = "pkg/runtime/scheme.go:111";
        return format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{scheme}\""
        );
    };
    match conform::conform(ty, &mut value.clone(), ErrorStyle::Json) {
        Ok(_) => format!("converting ({version}.{kind}) to ({wanted}): unknown conversion"),
        Err(why) => why,
    }
}

/// Reads the Scale of a PUT to `/scale`.
pub fn read_scale(call: &ResourceRequest, ty: TypeRef<'_>) -> Result<Value> {
    let mut decoded = decode(call, "Scale")?;
    let mut value = std::mem::take(&mut decoded.value);
    let DeclaredType { api_version, kind } = DeclaredType::from_value(&value);
    let is_scale = matches!(kind, "" | "Scale") && matches!(api_version, "" | "autoscaling/v1");
    if !is_scale && call.resource.is_custom() {
        let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
        return Err(ApiError::bad_request(why));
    }
    if !is_scale {
        let why = conversion_error_message(api_version, kind, "autoscaling.Scale", &value);
        let version = api_version.rsplit('/').next().unwrap_or_default();
        return Err(body::kind_mismatch(kind, version, "Scale", &why));
    }
    let refuse = |why: &str| body::kind_mismatch("Scale", "v1", "Scale", why);
    let findings = conform::conform(ty, &mut value, ErrorStyle::Json).map_err(|why| refuse(&why))?;
    validate_fields(call, decoded.strict_errors(&findings.unknown)).map_err(|why| refuse(&why))?;
    Ok(value)
}

/// The Go package of a group's internal types. Events belong to the core group.
pub fn go_package(resource: &Resource) -> &str {
    match resource.group.split('.').next() {
        None | Some("" | "events") => "core",
        Some(first) => first,
    }
}

/// API versions that Kubernetes still decodes but no longer serves.
fn is_removed_version(api_version: &str) -> bool {
    const RETIRED: &[&str] = &[
        "admissionregistration.k8s.io/v1alpha1",
        "admissionregistration.k8s.io/v1beta1",
        "apps/v1beta1",
        "apps/v1beta2",
        "authentication.k8s.io/v1alpha1",
        "authentication.k8s.io/v1beta1",
        "authorization.k8s.io/v1beta1",
        "autoscaling/v2beta1",
        "autoscaling/v2beta2",
        "batch/v1beta1",
        "certificates.k8s.io/v1alpha1",
        "certificates.k8s.io/v1beta1",
        "coordination.k8s.io/v1beta1",
        "discovery.k8s.io/v1beta1",
        "events.k8s.io/v1beta1",
        "extensions/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta2",
        "flowcontrol.apiserver.k8s.io/v1beta3",
        "networking.k8s.io/v1beta1",
        "node.k8s.io/v1alpha1",
        "node.k8s.io/v1beta1",
        "policy/v1beta1",
        "rbac.authorization.k8s.io/v1alpha1",
        "rbac.authorization.k8s.io/v1beta1",
        "scheduling.k8s.io/v1beta1",
        "storage.k8s.io/v1alpha1",
        "storage.k8s.io/v1beta1",
    ];
    RETIRED.contains(&api_version)
}

fn version_mismatch(given: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Checks the `apiVersion` of a custom resource. Validation checks the kind.
fn check_custom_kind(resource: &Resource, claim: &DeclaredType<'_>, text: &[u8]) -> Result<()> {
    let expected = resource.api_version();
    if claim.kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(text));
        return Err(body::unrecognized(&resource.kind, &why, text));
    }
    if claim.api_version != expected {
        return Err(version_mismatch(claim.api_version, &expected));
    }
    Ok(())
}
