//! Request bodies: decoding by media type, and errors.
//!
//! Called by the verbs first. Objects are JSON, YAML or protobuf, patches have one of four media types. Status codes
//! and messages of all errors match Kubernetes.

use serde_json::{Map, Value};

use super::{json, yaml};
use crate::error::{ApiError, Result};
use crate::go::json_kind;

const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// A decoded body.
#[derive(Debug)]
#[must_use]
pub struct DecodedBody<'a> {
    pub value: Value,
    /// `duplicate field "data.a"`, in document order.
    pub duplicates: Vec<String>,
    /// The text, if errors are reported in document order.
    json: Option<&'a [u8]>,
}

impl DecodedBody<'_> {
    /// Orders errors as for objects without a Go type: first duplicate fields, then unknown ones.
    pub fn without_document_order(self) -> Self {
        Self { json: None, ..self }
    }

    /// All errors of strict decoding: duplicate fields, and the unknown fields given by
    /// path, in document order if there is a Go type.
    pub fn strict_errors(&self, unknown: &[String]) -> Vec<String> {
        let below = |inner: &str, outer: &String| {
            inner.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let repeated = self
            .duplicates
            .iter()
            .filter(|text| !unknown.iter().any(|outer| below(quoted_path(text), outer)));
        let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
        let mut complaints: Vec<String> = repeated.cloned().chain(unknown).collect();
        if let (Some(text), true) = (self.json, complaints.len() > 1) {
            let paths: Vec<String> = complaints.iter().map(|text| quoted_path(text).to_owned()).collect();
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let places = json::field_positions(text, &paths);
            complaints.sort_by_key(|complaint| places.get(quoted_path(complaint)).copied());
        }
        complaints
    }
}

/// Returns the path in `unknown field "path"`.
fn quoted_path(complaint: &str) -> &str {
    complaint.split_once('"').and_then(|(_, rest)| rest.strip_suffix('"')).unwrap_or_default()
}

/// Returns the media type without its parameters, in lower case; `None` if it is invalid.
fn media_type(content_type: &str) -> Option<String> {
    let mut parts = content_type.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    let parameters: Vec<_> = parts.collect();
    let (last, others) = parameters.split_last().unwrap_or((&"", &[]));
    let whole = others.iter().all(|p| p.contains('=')) && (last.is_empty() || last.contains('='));
    (whole && media.split('/').count() == 2).then_some(media)
}

/// Decodes an object that should be of `kind`. Without a media type it is JSON.
pub fn decode_object<'a>(
    content_type: Option<&str>,
    bytes: &'a [u8],
    kind: &str,
    protobuf: impl FnOnce(&[u8]) -> Result<Value, String>,
) -> Result<DecodedBody<'a>> {
    decode(content_type, bytes, protobuf)?.map_err(|why| unrecognized(kind, &why, bytes))
}

/// The error of a body that is no object or has no kind.
pub fn unrecognized(kind: &str, why: &str, bytes: &[u8]) -> ApiError {
    let summary = body_excerpt(bytes);
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// Decodes the options that some requests carry (`DeleteOptions`); the caller handles an empty body.
pub fn decode_options<'a>(
    content_type: Option<&str>,
    bytes: &'a [u8],
    protobuf: impl FnOnce(&[u8]) -> Result<Value, String>,
) -> Result<DecodedBody<'a>> {
    decode(content_type, bytes, protobuf)?.map_err(ApiError::bad_request)
}

/// Outer error: an unsupported media type. Inner error: a body that is invalid for its media type.
fn decode<'a>(
    content_type: Option<&str>,
    bytes: &'a [u8],
    protobuf: impl FnOnce(&[u8]) -> Result<Value, String>,
) -> Result<Result<DecodedBody<'a>, String>> {
    let media = match content_type {
        None | Some("") => Some("application/json".to_owned()),
        Some(given) => media_type(given),
    };
    Ok(match media.as_deref() {
        Some("application/json") => json::parse(bytes)
            .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))
            .map(|read| DecodedBody { json: Some(bytes), ..from_json(read) }),
        Some("application/yaml") => yaml::parse(bytes).map(from_yaml),
        Some("application/vnd.kubernetes.protobuf") => {
            protobuf(bytes).map(|value| DecodedBody { value, duplicates: Vec::new(), json: None })
        }
        _ => return Err(ApiError::unsupported_media_type(OBJECT_TYPES)),
    }
    .and_then(with_checked_type_meta))
}

fn from_json(read: json::JsonDocument) -> DecodedBody<'static> {
    let duplicates = read.duplicates.iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    DecodedBody { value: read.value, duplicates, json: None }
}

fn from_yaml(read: yaml::YamlDocument) -> DecodedBody<'static> {
    DecodedBody { value: read.value, duplicates: read.duplicates, json: None }
}

fn with_checked_type_meta(mut decoded: DecodedBody<'_>) -> Result<DecodedBody<'_>, String> {
    if decoded.value.is_null() {
        decoded.value = Value::Object(Map::new());
    }
    check_type_meta(&decoded.value)?;
    Ok(decoded)
}

/// Checks that the value is an object and that its `apiVersion` and `kind` are strings, if set.
pub fn check_type_meta(value: &Value) -> Result<(), String> {
    const ERROR_PREFIX: &str = "couldn't get version/kind; json parse error: json: cannot unmarshal";
    let Some(members) = value.as_object() else {
        let word = json_kind(value);
        return Err(format!(
            "{ERROR_PREFIX} {word} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    };
    for name in ["apiVersion", "kind"] {
        match members.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                return Err(format!(
                    "{ERROR_PREFIX} {} into Go struct field .{name} of type string",
                    json_kind(other)
                ));
            }
        }
    }
    let version = members.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    Ok(())
}

/// The start of a body for error messages: text if it looks like JSON, hexadecimal otherwise.
fn body_excerpt(bytes: &[u8]) -> String {
    const MAX_EXCERPT_LEN: usize = 30;
    let head = &bytes[..bytes.len().min(MAX_EXCERPT_LEN)];
    let more = if bytes.len() > MAX_EXCERPT_LEN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
            let text: String = head.iter().flat_map(|byte| [hex(byte >> 4), hex(byte & 15)]).collect();
            format!("{text}{more}")
        }
    }
}

/// `Pod in version "v1" cannot be handled as a ConfigMap: <why>`: the object is valid but of another
/// kind. `version` is that of the object, without its group.
pub fn kind_mismatch(kind: &str, version: &str, wanted: &str, why: &str) -> ApiError {
    ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {wanted}: {why}"))
}

/// The four patch types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Returns the patch type of a media type; custom resources do not support strategic merge.
pub fn patch_kind(content_type: Option<&str>, custom: bool) -> Result<PatchKind> {
    match content_type.and_then(media_type).as_deref() {
        Some("application/json-patch+json") => Ok(PatchKind::Json),
        Some("application/merge-patch+json") => Ok(PatchKind::Merge),
        Some("application/apply-patch+yaml") => Ok(PatchKind::Apply),
        Some("application/strategic-merge-patch+json") if !custom => Ok(PatchKind::Strategic),
        _ if custom => Err(ApiError::unsupported_media_type(CUSTOM_PATCH_TYPES)),
        _ => Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_details(&[])),
    }
}

/// Decodes a patch: a list for [`PatchKind::Json`], an object for the others.
pub fn decode_patch(kind: PatchKind, bytes: &[u8]) -> Result<DecodedBody<'_>> {
    const MAP: &str = "map[string]interface {}";
    const OPERATIONS: &str = "[]handlers.jsonPatchOp";
    let refuse = |why: String| {
        ApiError::bad_request(match kind {
            PatchKind::Strategic => why,
            PatchKind::Json | PatchKind::Merge => format!("error decoding patch: {why}"),
            PatchKind::Apply => format!("error decoding YAML: {why}"),
        })
    };
    let mut decoded = if kind == PatchKind::Apply {
        decode_apply(bytes).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?
    } else {
        from_json(json::parse(bytes).map_err(refuse)?)
    };
    if kind == PatchKind::Json {
        decoded.duplicates.iter_mut().for_each(|text| text.insert_str(0, "json patch "));
    }
    if matches!(kind, PatchKind::Merge | PatchKind::Strategic) && !decoded.duplicates.is_empty() {
        // A patch has no type, so repeated objects are not merged: the last value of a repeated key counts.
        decoded.value = serde_json::from_slice(bytes).unwrap_or(decoded.value);
    }
    match (kind, &decoded.value) {
        (PatchKind::Merge, Value::Null) => return Err(ApiError::bad_request("Invalid JSON Patch")),
        (PatchKind::Json, Value::Null) => decoded.value = Value::Array(Vec::new()),
        (_, Value::Null) => decoded.value = Value::Object(Map::new()),
        (PatchKind::Json, Value::Array(_)) => {}
        (PatchKind::Json, other) => {
            return Err(refuse(format!(
                "json: cannot unmarshal {} into Go value of type {OPERATIONS}",
                json_kind(other)
            )));
        }
        (_, Value::Object(_)) => {}
        (_, other) => {
            let why = format!("json: cannot unmarshal {} into Go value of type {MAP}", json_kind(other));
            let stage = "error unmarshaling JSON: while decoding JSON: ";
            return Err(refuse(if kind == PatchKind::Apply { format!("{stage}{why}") } else { why }));
        }
    }
    Ok(decoded)
}

/// Most applied bodies are JSON, whose parser is ten times faster; only other bodies and those with duplicate
/// keys need the YAML parser.
fn decode_apply(bytes: &[u8]) -> Result<DecodedBody<'_>, String> {
    if bytes.starts_with(b"{")
        && std::str::from_utf8(bytes).is_ok()
        && let Some(mut read) = json::parse(bytes).ok().filter(|read| read.duplicates.is_empty())
    {
        json::floats_to_integers(&mut read.value);
        return Ok(from_json(read));
    }
    yaml::parse(bytes).map(from_yaml)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode_error(content_type: &str, text: &str) -> (u16, String) {
        let no_protobuf = |_: &[u8]| Err("unexpected EOF".to_owned());
        match decode_object(Some(content_type), text.as_bytes(), "ConfigMap", no_protobuf) {
            Ok(decoded) => (200, decoded.value.to_string()),
            Err(error) => (error.code, error.message),
        }
    }

    #[test]
    fn json_patch_uses_last_value_of_duplicate_key() {
        let text = br#"{"data": {"a": "1"}, "data": {"b": "2"}}"#;
        for kind in [PatchKind::Merge, PatchKind::Strategic] {
            let read = decode_patch(kind, text).unwrap();
            assert_eq!(read.value, json!({"data": {"b": "2"}}));
            assert_eq!(read.duplicates.len(), 1);
        }
    }

    #[test]
    fn invalid_object_errors() {
        const BEGIN: &str = "the object provided is unrecognized (must be of type ConfigMap): ";
        const PARSE: &str = "couldn't get version/kind; json parse error: ";
        #[rustfmt::skip]
        let table = [
            ("application/json", "", format!("{PARSE}unexpected end of JSON input (<empty>)")),
            ("application/json", "x", format!("{PARSE}invalid character 'x' looking for beginning of value (78)")),
            ("application/json", "[]", format!("{PARSE}json: cannot unmarshal array into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} (5b5d)")),
            ("application/json", "{\"apiVersion\":5}", format!("{PARSE}json: cannot unmarshal number into Go struct field .apiVersion of type string ({{\"apiVersion\":5}})")),
            ("application/json", "{\"apiVersion\":\"a/b/c\",\"kind\":\"X\"}", "unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)".to_owned()),
            ("application/vnd.kubernetes.protobuf", "k8s\0junk", "unexpected EOF (6b3873006a756e6b)".to_owned()),
        ];
        for (media, text, message) in table {
            assert_eq!(decode_error(media, text), (400, format!("{BEGIN}{message}")), "{text}");
        }
        assert_eq!(decode_error("application/yaml", ""), (200, "{}".to_owned()));
        for media in ["text/plain", "json", "application/json;;", "application/json, application/yaml"] {
            assert_eq!(decode_error(media, "{}").0, 415, "{media}");
        }
        for media in ["APPLICATION/JSON", "application/json; charset=utf-8", "application/json;"] {
            assert_eq!(decode_error(media, "{}").0, 200, "{media}");
        }
    }

    #[test]
    fn invalid_patch_errors() {
        use PatchKind::*;
        #[rustfmt::skip]
        let table = [
            (Merge, "[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
            (Merge, "null", "Invalid JSON Patch"),
            (Strategic, "{\"a\":", "unexpected end of JSON input"),
            (Json, "{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
            (Apply, "[]", "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ];
        for (kind, text, message) in table {
            assert_eq!(decode_patch(kind, text.as_bytes()).unwrap_err().message, message, "{text}");
        }
        assert_eq!(decode_patch(Strategic, b"null").unwrap().value, json!({}));
        assert_eq!(decode_patch(Apply, b"a: 1.0").unwrap().value, json!({"a": 1}));
        assert_eq!(decode_patch(Apply, b"{\"a\": 1.0}").unwrap().value, json!({"a": 1}));
        let custom = patch_kind(Some("application/strategic-merge-patch+json"), true).unwrap_err();
        assert_eq!(custom, ApiError::unsupported_media_type(CUSTOM_PATCH_TYPES));
        assert_eq!(
            patch_kind(Some("application/json"), false).unwrap_err().message,
            "415: Unsupported Media Type"
        );
    }

    #[test]
    fn strict_errors_are_in_document_order() {
        let text = br#"{"metadata":{"labls":1,"name":"a","name":"b"},"extra":{"x":1,"x":2}}"#;
        let decoded = decode_object(None, text, "ConfigMap", |_| Ok(Value::Null)).unwrap();
        let unknown = ["extra".to_owned(), "metadata.labls".to_owned()];
        assert_eq!(
            decoded.strict_errors(&unknown),
            [
                "unknown field \"metadata.labls\"",
                "duplicate field \"metadata.name\"",
                "unknown field \"extra\""
            ]
        );
    }
}
