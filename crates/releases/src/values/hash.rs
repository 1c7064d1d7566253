//! Hashes of the values, and of all inputs of an operation.

use aws_lc_rs::digest;
use helm_template::data::Members;
use md5::{Digest as _, Md5};
use serde::Serialize;
use serde_json::Value;

use super::canonical_json;

/// SHA-256 over the chart's digest, the values and the options. An operation is needed when it changes.
pub fn spec_hash(chart_digest: &str, values: &Members, options: &impl Serialize) -> String {
    let options = serde_json::to_value(options).expect("options are plain data");
    let mut context = digest::Context::new(&digest::SHA256);
    // Each part is prefixed with its length, so that content cannot move between parts.
    for part in [chart_digest, &canonical_json(values), &sorted_json(&options)] {
        context.update(&part.len().to_be_bytes());
        context.update(part.as_bytes());
    }
    hex(context.finish().as_ref())
}

/// MD5 of the values, as KubeSphere computes it. Not used for security.
pub fn md5(text: &[u8]) -> String {
    hex(&Md5::digest(text))
}

/// Canonical JSON with sorted keys.
fn sorted_json(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted_json(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted_json).collect::<Vec<_>>().join(",")),
        scalar => scalar.to_string(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use helm_template::data::Data;
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_match_those_of_kubesphere() {
        assert_eq!(md5(b"replicas: 1\n"), "1b0f8dbf9fdec31a74c52a1e6be981d8");
        let values = Members::from([("a".into(), Data::Float(1.0)), ("b".into(), Data::string("<x>"))]);
        assert_eq!(canonical_json(&values), r#"{"a":1,"b":"<x>"}"#);
    }

    #[test]
    fn spec_hash_depends_on_every_part() {
        let values = |text: &str| Members::from([("a".into(), Data::string(text))]);
        let options = json!({"wait": true, "atomic": false});
        let base = spec_hash("sha256:1", &values("x"), &options);
        assert_eq!(base, spec_hash("sha256:1", &values("x"), &json!({"atomic": false, "wait": true})));
        assert_ne!(base, spec_hash("sha256:2", &values("x"), &options));
        assert_ne!(base, spec_hash("sha256:1", &values("y"), &options));
        assert_ne!(base, spec_hash("sha256:1", &values("x"), &json!({"wait": true})));
    }
}
