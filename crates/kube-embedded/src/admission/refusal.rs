//! How admission says no: 403, with the name that the object has, or will be derived from.

use std::fmt;

use serde_json::Value;

use super::Request;
use crate::access::text;
use crate::error::ApiError;

/// `pods "a" is forbidden: <why>`; without a name `generateName` stands in, then `Unknown`.
pub(crate) fn refused(request: &Request<'_>, object: &Value, why: impl fmt::Display) -> ApiError {
    let metadata = &object["metadata"];
    let candidates = [request.name, text(metadata, "name"), text(metadata, "generateName"), "Unknown"];
    let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    ApiError::forbidden(&request.resource.group, &request.resource.name, name, why)
}

/// Several complaints as one text: a single one as it is, more in brackets, each once.
pub(crate) fn together(complaints: &[String]) -> Option<String> {
    let mut unique: Vec<&str> = Vec::new();
    for complaint in complaints {
        if !unique.contains(&complaint.as_str()) {
            unique.push(complaint);
        }
    }
    match unique.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}
