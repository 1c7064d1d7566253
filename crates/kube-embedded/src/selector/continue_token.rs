//! Continue tokens of lists with a `limit`.
//!
//! The token is base64 of a small JSON object, in the format of Kubernetes: the version of the whole list, and the key after the last
//! returned object. The format is opaque for clients, but some tests depend on it.
//!
//! Invariant: a decoded token names a position within the requested collection.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::decode::json as reader;

/// Go ignores unused trailing bits.
const LENIENT_BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The version of the list; negative to continue with the newest state, as offered by the 410 error.
    pub version: i64,
    /// Empty if the list is of one namespace, or of cluster-scoped objects.
    pub namespace: String,
    /// Name of the last returned object; `is_exclusive` is whether to continue after it (as issued tokens do) or with it.
    pub name: String,
    pub is_exclusive: bool,
}

impl ContinueToken {
    /// Continues after the object `name`; `namespace` only for lists across namespaces.
    pub fn after(version: i64, namespace: &str, name: &str) -> Self {
        Self { version, namespace: namespace.to_owned(), name: name.to_owned(), is_exclusive: true }
    }

    pub fn encode(&self) -> String {
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!("/{}", self.namespace) };
        let end = if self.is_exclusive { "\0" } else { "" };
        let start = json!(format!("{namespace}/{}{end}", self.name));
        URL_SAFE_NO_PAD
            .encode(format!("{{\"v\":\"{TOKEN_VERSION}\",\"rv\":{},\"start\":{start}}}", self.version))
    }

    /// Decodes a token; `all_namespaces` says whether its key starts with a namespace. The error is the text after the prefix
    /// `invalid continue token:` of the 400 error.
    pub fn decode(token: &str, all_namespaces: bool) -> Result<Self, String> {
        const INVALID: &str = "continue key is not valid:";
        let bytes: Vec<u8> = token.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
        let bytes = LENIENT_BASE64
            .decode(&bytes)
            .map_err(|error| format!("{INVALID} illegal base64 data at input byte {}", offset(&error)))?;
        let value = reader::parse(&bytes).map_err(|why| format!("{INVALID} {why}"))?.value;
        let text = |name: &str| match &value[name] {
            Value::Null => Ok(""),
            Value::String(text) => Ok(text.as_str()),
            other => Err(type_error(other, name, "string")),
        };
        if !matches!(value, Value::Object(_) | Value::Null) {
            let word = crate::go::json_kind(&value);
            return Err(format!(
                "{INVALID} json: cannot unmarshal {word} into Go value of type storage.continueToken"
            ));
        }
        let (written_by, start) = (text("v")?, text("start")?);
        let version = match &value["rv"] {
            Value::Null => 0,
            other => other.as_i64().ok_or_else(|| type_error(other, "rv", "int64"))?,
        };
        if written_by != TOKEN_VERSION {
            return Err(format!("{INVALID} server does not recognize this encoded version {written_by}"));
        }
        if version == 0 {
            return Err(format!(
                "{INVALID} incorrect encoded start resourceVersion (version {TOKEN_VERSION})"
            ));
        }
        if start.is_empty() {
            return Err(format!("{INVALID} encoded start key empty (version {TOKEN_VERSION})"));
        }
        let key = start.strip_prefix('/').unwrap_or(start);
        let strange = |part: &str| matches!(part, "" | "." | "..");
        if !key.is_empty() && key.split('/').any(strange) {
            return Err(format!("{INVALID} {start}"));
        }
        let (namespace, name) =
            if all_namespaces { key.split_once('/').unwrap_or((key, "")) } else { ("", key) };
        let after = name.ends_with('\0');
        Ok(Self {
            version,
            namespace: namespace.to_owned(),
            name: name.strip_suffix('\0').unwrap_or(name).to_owned(),
            is_exclusive: after,
        })
    }
}

fn type_error(given: &Value, name: &str, wanted: &str) -> String {
    let word = crate::go::json_kind(given);
    format!(
        "continue key is not valid: json: cannot unmarshal {word} into Go struct field continueToken.{name} of \
         type {wanted}"
    )
}

fn offset(error: &base64::DecodeError) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(length) => *length,
        base64::DecodeError::InvalidPadding => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_have_kubernetes_format() {
        let token = ContinueToken::after(632, "h-kinds-a", "m").encode();
        assert_eq!(token, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NjMyLCJzdGFydCI6Ii9oLWtpbmRzLWEvbVx1MDAwMCJ9");
        let token = ContinueToken::after(632, "", "default").encode();
        assert_eq!(token, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NjMyLCJzdGFydCI6Ii9kZWZhdWx0XHUwMDAwIn0");
    }

    #[test]
    fn invalid_tokens_have_kubernetes_messages() {
        #[rustfmt::skip]
        let table = [
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#, "encoded start key empty (version meta.k8s.io/v1)"),
            (r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            (r#"{"v":"meta.k8s.io/v2","rv":5,"start":"a"}"#, "server does not recognize this encoded version meta.k8s.io/v2"),
            (r#"{"v":"meta.k8s.io/v1","rv":5,"start":"../a"}"#, "../a"), (r#"{"v":"meta.k8s.io/v1","rv":2,"start":"x//a"}"#, "x//a"),
            ("{bad", "invalid character 'b' looking for beginning of object key string"),
            (r#"{"v":5}"#, "json: cannot unmarshal number into Go struct field continueToken.v of type string"),
        ];
        for (inner, error) in table {
            let decoded = ContinueToken::decode(&URL_SAFE_NO_PAD.encode(inner), false);
            assert_eq!(decoded, Err(format!("continue key is not valid: {error}")), "{inner}");
        }
        let not_base64 = ContinueToken::decode("%%", false).unwrap_err();
        assert_eq!(not_base64, "continue key is not valid: illegal base64 data at input byte 0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(version in 1_i64.., namespace in "[a-z]{1,5}", name in "[a-z:]{1,5}", text in "\\PC*") {
            let all = ContinueToken::after(version, &namespace, &name);
            prop_assert_eq!(ContinueToken::decode(&all.encode(), true), Ok(all.clone()));
            let one = ContinueToken::after(version, "", &name);
            prop_assert_eq!(ContinueToken::decode(&one.encode(), false), Ok(one));
            let _ = ContinueToken::decode(&text, true);
            let _ = ContinueToken::decode(&URL_SAFE_NO_PAD.encode(text), false);
        }
    }
}
