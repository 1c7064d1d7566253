//! ConfigMap and Secret: keys, sizes, and immutable fields.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::{bool_or_false, entries, set_if_empty, text};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, KindRules, NamePolicy, meta};

/// Maximum total size of the values of one object.
const MAX_DATA_BYTES: usize = 1024 * 1024;

const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: "",
        kind: "ConfigMap",
        validate: validate_config_map,
        validate_update: |new, old| {
            let mut errs = validate_immutable(new, old, &["data", "binaryData"]);
            errs.extend(meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain));
            errs.extend(validate_config_map(new));
            errs
        },
        ..DEFAULT_RULES
    },
    KindRules {
        group: "",
        kind: "Secret",
        default: default_secret,
        prepare_for_update: |new, old| {
            if let (Some(new), Some(kind)) = (new.as_object_mut(), old.get("type")) {
                set_if_empty(new, "type", kind.clone());
            }
        },
        validate: validate_secret,
        validate_update: |new, old| {
            let mut errs = FieldErrors::new();
            check::immutable(&PathValue::root(new).get("type"), &PathValue::root(old).get("type"), &mut errs);
            errs.extend(validate_immutable(new, old, &["data"]));
            errs.extend(meta::validate_create(&new["metadata"], true, NamePolicy::Subdomain));
            errs.extend(validate_secret(new));
            errs
        },
        warnings: |secret, _| secret_warnings(secret),
        ..DEFAULT_RULES
    },
];

/// Errors of changes to an immutable object.
fn validate_immutable(new: &Value, old: &Value, fields: &[&str]) -> FieldErrors {
    if !bool_or_false(&old["immutable"]) {
        return FieldErrors::new();
    }
    let unset = (!bool_or_false(&new["immutable"])).then_some("immutable");
    let changed = fields.iter().copied().filter(|field| new[*field] != old[*field]);
    unset
        .into_iter()
        .chain(changed)
        .map(|field| FieldError::forbidden(&Path::new(field), IMMUTABLE_MESSAGE))
        .collect()
}

/// The decoded length of a base64 string.
fn decoded_len(encoded: &str) -> usize {
    let padding = encoded.bytes().rev().take_while(|b| *b == b'=').count();
    (encoded.len() / 4 * 3).saturating_sub(padding)
}

fn validate_keys(map: &PathValue, errs: &mut FieldErrors) {
    for (key, entry) in map.entries() {
        let words = check::config_key(key);
        errs.extend(words.into_iter().map(|words| FieldError::invalid(&entry.path, key, words)));
    }
}

fn validate_config_map(object: &Value) -> FieldErrors {
    let root = PathValue::root(object);
    let (data, binary) = (root.get("data"), root.get("binaryData"));
    let mut errs = FieldErrors::new();
    validate_keys(&data, &mut errs);
    for (key, entry) in data.entries().filter(|(key, _)| binary.has(key)) {
        errs.push(FieldError::invalid(&entry.path, key, "duplicate of key present in binaryData"));
    }
    validate_keys(&binary, &mut errs);
    let plain: usize = entries(&object["data"]).map(|(_, value)| text(value).len()).sum();
    let encoded: usize = entries(&object["binaryData"]).map(|(_, value)| decoded_len(text(value))).sum();
    if plain + encoded > MAX_DATA_BYTES {
        // Kubernetes' path here is one empty name, which is written so.
        errs.push(FieldError::too_long(&Path::new("[]"), MAX_DATA_BYTES));
    }
    errs
}

/// `stringData` is write-only: it is merged into `data`.
fn default_secret(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    set_if_empty(fields, "type", "Opaque");
    if let Some(Value::Object(plain)) = fields.remove("stringData") {
        if plain.is_empty() {
            return;
        }
        let data = fields.entry("data").or_insert_with(|| Value::Object(Map::new()));
        if data.is_null() {
            *data = Value::Object(Map::new());
        }
        if let Some(data) = data.as_object_mut() {
            for (key, value) in plain {
                data.insert(key, STANDARD.encode(text(&value)).into());
            }
        }
    }
}

/// The required keys per type of Secret.
const REQUIRED_KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

fn validate_secret(secret: &Value) -> FieldErrors {
    let root = PathValue::root(secret);
    let data = root.get("data");
    let mut errs = FieldErrors::new();
    validate_keys(&data, &mut errs);
    let size: usize = data.entries().map(|(_, value)| decoded_len(value.text())).sum();
    if size > MAX_DATA_BYTES {
        errs.push(FieldError::too_long(&data.path, MAX_DATA_BYTES));
    }
    let kind = text(&secret["type"]);
    let mut require = |at: PathValue| errs.push(FieldError::required(&at.path, ""));
    match kind {
        "kubernetes.io/service-account-token" => {
            let account = root.nested("metadata.annotations").key("kubernetes.io/service-account.name");
            if account.text().is_empty() {
                require(account);
            }
        }
        "kubernetes.io/basic-auth" if !data.has("username") && !data.has("password") => {
            require(data.key("username"));
            require(data.key("password"));
        }
        "kubernetes.io/ssh-auth" if data.key("ssh-privatekey").is_empty() => {
            require(data.key("ssh-privatekey"));
        }
        _ => {
            let required = REQUIRED_KEYS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, keys)| keys);
            for key in required.iter().filter(|key| !data.has(key)) {
                require(data.key(key));
            }
        }
    }
    let config = match kind {
        "kubernetes.io/dockercfg" => data.key(".dockercfg"),
        "kubernetes.io/dockerconfigjson" => data.key(".dockerconfigjson"),
        _ => return errs,
    };
    if config.exists() {
        validate_docker_config(&config, &mut errs);
    }
    errs
}

/// Registry credentials are a JSON object; errors never repeat their content.
fn validate_docker_config(config: &PathValue, errs: &mut FieldErrors) {
    let bytes = STANDARD.decode(config.text()).unwrap_or_default();
    let words = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let found = match other {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Array(_) => "array",
                _ => "bool",
            };
            format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
        }
        Err(_) => go_syntax_error(&bytes),
    };
    errs.push(FieldError::invalid(&config.path, "<secret contents redacted>", words));
}

/// The most common errors of Go's JSON decoder.
fn go_syntax_error(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.trim_start().chars().next() {
        Some(c) if !matches!(c, '{' | '[' | '"' | '-' | '0'..='9' | 't' | 'f' | 'n') => {
            format!("invalid character {c:?} looking for beginning of value")
        }
        _ => "unexpected end of JSON input".to_owned(),
    }
}

fn secret_warnings(secret: &Value) -> Vec<String> {
    let data = &secret["data"];
    if text(&secret["type"]) != "kubernetes.io/tls" {
        return Vec::new();
    }
    // Kubernetes parses the key pair; here only the PEM header is checked.
    let pem = |key: &str| {
        let bytes = STANDARD.decode(text(&data[key])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains("-----BEGIN ")
    };
    if pem("tls.crt") {
        if pem("tls.key") {
            return Vec::new();
        }
        return vec!["tls: failed to find any PEM data in key input".to_owned()];
    }
    vec!["tls: failed to find any PEM data in certificate input".to_owned()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field::error_messages;

    #[test]
    fn string_data_is_merged_into_data() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"a": "y", "b": "z"}});
        default_secret(&mut secret);
        assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "eQ==", "b": "eg=="}}));
    }

    #[test]
    fn secret_type_requires_keys() {
        let table = [
            ("Opaque", json!({}), vec![]),
            ("kubernetes.io/tls", json!({"tls.crt": ""}), vec!["data[tls.key]: Required value"]),
            (
                "kubernetes.io/basic-auth",
                json!({}),
                vec!["data[username]: Required value", "data[password]: Required value"],
            ),
            ("kubernetes.io/basic-auth", json!({"password": "eA=="}), vec![]),
            ("kubernetes.io/ssh-auth", json!({}), vec!["data[ssh-privatekey]: Required value"]),
            ("kubernetes.io/dockerconfigjson", json!({}), vec!["data[.dockerconfigjson]: Required value"]),
            (
                "kubernetes.io/service-account-token",
                json!({}),
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
        ];
        for (kind, data, expected) in table {
            assert_eq!(
                error_messages(&validate_secret(&json!({"type": kind, "data": data}))),
                expected,
                "{kind}"
            );
        }
    }

    #[test]
    fn immutable_objects_cannot_change() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let new = json!({"data": {"a": "2"}});
        assert_eq!(
            error_messages(&validate_immutable(&new, &old, &["data", "binaryData"])),
            [
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set"
            ]
        );
    }

    #[test]
    fn secret_size_is_that_of_decoded_values() {
        let half = "a".repeat(MAX_DATA_BYTES / 2);
        let map = json!({"data": {"a": half}, "binaryData": {"b": STANDARD.encode(&half)}});
        assert_eq!(error_messages(&validate_config_map(&map)), Vec::<String>::new());
        let map = json!({"data": {"a": half, "c": "x"}, "binaryData": {"b": STANDARD.encode(&half)}});
        assert_eq!(
            error_messages(&validate_config_map(&map)),
            ["[]: Too long: may not be more than 1048576 bytes"]
        );
    }
}
