//! Admission errors: 403, with the object's name or `generateName`.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::AdmissionRequest;
use crate::access::text;
use crate::error::ApiError;

/// `pods "a" is forbidden: <why>`; without a name `generateName` is used, then `Unknown`.
pub(crate) fn forbidden(request: &AdmissionRequest<'_>, object: &Value, why: impl fmt::Display) -> ApiError {
    let metadata = &object["metadata"];
    let candidates = [request.name, text(metadata, "name"), text(metadata, "generateName"), "Unknown"];
    let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    ApiError::forbidden(&request.resource.group, &request.resource.name, name, why)
}

/// Joins messages without duplicates: a single one unchanged, several in brackets.
pub(crate) fn join_messages(complaints: &[String]) -> Option<String> {
    let mut seen = HashSet::new();
    let unique: Vec<&str> = complaints.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
    match unique.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}
