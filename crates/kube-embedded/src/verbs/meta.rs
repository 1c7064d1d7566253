//! Metadata fields that the server manages.

use serde_json::{Value, json};
use uuid::Uuid;

use super::ResourceRequest;
use super::body::rules_of;
use crate::clock::rfc3339;
use crate::error::{ApiError, Result};
use crate::rules::GenerationPolicy;
use crate::schema::resources::Resource;

/// The alphabet of generated suffixes: no vowels and no characters that are easily confused.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Sets name, namespace and system fields of an object to be created.
pub fn set_system_fields(call: &ResourceRequest, object: &mut Value) -> Result<()> {
    set_namespace(call, object)?;
    let generation = rules_of(&call.resource).generation;
    let now = rfc3339(call.cluster.clock().now());
    let metadata = object["metadata"].as_object_mut().expect("placed objects have metadata");
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(key);
    }
    metadata.insert("uid".to_owned(), Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    if !matches!(generation, GenerationPolicy::Absent | GenerationPolicy::ContentAfterCreate) {
        metadata.insert("generation".to_owned(), 1.into());
    }
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() && !prefix.is_empty() {
        let name = generated_name(prefix);
        metadata.insert("name".to_owned(), name.into());
    }
    Ok(())
}

/// Checks that namespace and name match the URL, and sets the namespace.
pub fn set_namespace(call: &ResourceRequest, object: &mut Value) -> Result<()> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let metadata = &mut object["metadata"];
    let own = metadata["namespace"].as_str().unwrap_or_default();
    if call.resource.namespaced {
        if !own.is_empty() && own != call.namespace {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(ApiError::bad_request(why));
        }
        metadata["namespace"] = call.namespace.as_str().into();
    } else {
        // Kubernetes clears it without an error.
        metadata.as_object_mut().expect("metadata is an object").remove("namespace");
    }
    if !call.name.is_empty() {
        check_name(call, metadata)?;
    }
    Ok(())
}

/// Checks that the object's name is that of the URL.
pub fn check_name(call: &ResourceRequest, metadata: &Value) -> Result<()> {
    match metadata["name"].as_str().unwrap_or_default() {
        name if name == call.name => Ok(()),
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        ))),
        name => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        ))),
    }
}

/// Returns `prefix` and five random characters; long prefixes are cut so that the result fits a label value.
pub fn generated_name(prefix: &str) -> String {
    let mut end = prefix.len().min(58);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let random = Uuid::new_v4().into_bytes();
    let sign = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    // Bytes 6 and 8 of a v4 UUID are not fully random.
    let suffix: String =
        [random[0], random[1], random[2], random[3], random[4]].into_iter().map(sign).collect();
    format!("{}{suffix}", &prefix[..end])
}

/// Carries over the fields that an update can never change.
pub fn keep_system_fields(new: &mut Value, old: &Value) {
    let metadata = new["metadata"].as_object_mut().expect("placed objects have metadata");
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "uid"] {
        let kept = &old["metadata"][key];
        let given = metadata.get(key).is_some_and(|value| !value.is_null() && value != "");
        // These fields are restored silently, but a changed uid or an unrequested deletion is left for validation to refuse.
        let judged = match key {
            "uid" | "deletionGracePeriodSeconds" => given,
            "deletionTimestamp" => given && kept.is_null(),
            _ => false,
        };
        if judged {
            continue;
        }
        if kept.is_null() {
            metadata.remove(key);
        } else {
            metadata.insert(key.to_owned(), kept.clone());
        }
    }
    metadata.remove("selfLink");
}

/// Increments the generation if the change counts for the kind.
pub fn bump_generation(resource: &Resource, new: &mut Value, old: &Value) {
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    // Without a status subresource, status counts as content.
    let differs = |new: &Value, old: &Value| {
        content_differs(new, old)
            || (resource.subresource("status").is_none() && new["status"] != old["status"])
    };
    let changed = match rules_of(resource).generation {
        GenerationPolicy::Absent | GenerationPolicy::Fixed => false,
        GenerationPolicy::Content | GenerationPolicy::ContentAfterCreate => differs(new, old),
        GenerationPolicy::ContentAndAnnotations => {
            differs(new, old) || new["metadata"]["annotations"] != old["metadata"]["annotations"]
        }
        GenerationPolicy::ContentAndLabels => {
            differs(new, old) || new["metadata"]["labels"] != old["metadata"]["labels"]
        }
    };
    if changed {
        new["metadata"]["generation"] = generation.saturating_add(1).into();
    }
}

/// Whether anything but metadata and status differs.
fn content_differs(a: &Value, b: &Value) -> bool {
    let ignored = |key: &str| matches!(key, "metadata" | "status" | "apiVersion" | "kind");
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a != b };
    let one_way = |x: &serde_json::Map<String, Value>, y: &serde_json::Map<String, Value>| {
        x.iter().any(|(key, value)| !ignored(key) && y.get(key) != Some(value))
    };
    one_way(a, b) || one_way(b, a)
}
