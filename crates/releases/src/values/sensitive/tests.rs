//! Masks, and the property that no sensitive text passes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use helm_template::yaml;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn chart(schema: Option<&Value>) -> Chart {
    Chart { schema: schema.map(|schema| Bytes::from(schema.to_string())), ..Chart::default() }
}

fn merged_values(values: &str, from_secrets: &[&str]) -> MergedValues {
    MergedValues {
        values: yaml::parse_map(values.as_bytes(), "").unwrap(),
        from_secrets: from_secrets.iter().map(|pointer| (*pointer).to_owned()).collect(),
        hash: String::new(),
    }
}

fn secret(key: &str, text: &str) -> Object {
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {key: STANDARD.encode(text)},
    }))
    .unwrap()
}

#[test]
fn schema_secrets_are_masked() {
    let schema = json!({
        "properties": {
            "db": {"$ref": "#/definitions/database"},
            "users": {"type": "array", "items": {"properties": {"token": {"writeOnly": true}}}},
            "extra": {"additionalProperties": {"anyOf": [{"type": "null"}, {"format": "password"}]}},
        },
        "definitions": {"database": {
            "properties": {"password": {"format": "password"}, "next": {"$ref": "#/definitions/database"}},
        }},
    });
    let values = "db: {host: h, password: p1, next: {password: longer-secret}}\n\
        users: [{name: ann, token: 12345678}]\nextra: {a: {b: c}}\n";
    let sensitive = SensitiveValues::from_chart(&chart(Some(&schema)), &merged_values(values, &[]), &[]);
    let plain = json!({
        "db": {"host": "h", "password": "p1", "next": {"password": "longer-secret"}},
        "users": [{"name": "ann", "token": 12_345_678}], "extra": {"a": {"b": "c"}}, "port": 12_345_678,
    });
    assert_eq!(
        sensitive.mask_values(&plain),
        json!({
            "db": {"host": "h", "password": "[masked]", "next": {"password": "[masked]"}},
            "users": [{"name": "ann", "token": "[masked]"}], "extra": {"a": "[masked]"}, "port": "[masked]",
        })
    );
    // A short text is masked in the values only.
    assert_eq!(sensitive.mask_text("p1 longer-secret"), "p1 [masked]");
}

#[test]
fn subchart_schemas_apply_to_subchart_values() {
    let mut child = chart(Some(&json!({"properties": {"key": {"writeOnly": true}}})));
    child.metadata.name = "child".into();
    let parent = Chart { dependencies: vec![child], ..chart(None) };
    let sensitive =
        SensitiveValues::from_chart(&parent, &merged_values("key: open\nchild: {key: shut}", &[]), &[]);
    let plain = json!({"key": "open", "child": {"key": "shut"}});
    assert_eq!(sensitive.mask_values(&plain), json!({"key": "open", "child": {"key": "[masked]"}}));
}

#[test]
fn recursive_schema_masks_all_values() {
    let schema = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {"writeOnly": true}}});
    let sensitive = SensitiveValues::from_chart(&chart(Some(&schema)), &merged_values("a: x", &[]), &[]);
    assert_eq!(sensitive.mask_values(&json!({"a": "x", "b": "y"})), json!("[masked]"));
}

#[test]
fn secret_values_are_masked_in_every_encoding() {
    let key = "-----BEGIN KEY-----\nMIIEabcdefgh\n-----END KEY-----\n";
    let values = format!("password: p@ss\"word\nkey: {}\n", Value::from(key));
    let sensitive =
        SensitiveValues::from_chart(&chart(None), &merged_values(&values, &["/password", "/key"]), &[]);
    for offset in 0..4 {
        let around = format!("{}p@ss\"word and more", "x".repeat(offset));
        let masked = sensitive.mask_text(&STANDARD.encode(&around));
        assert!(masked.contains(MASKED), "{around}: {masked}");
    }
    assert_eq!(sensitive.mask_text(r#"{"a":"p@ss\"word"}"#), r#"{"a":"[masked]"}"#);
    let block = key.trim_end().replace('\n', "\n    ");
    assert_eq!(
        sensitive.mask_text(&format!("key: |\n    {block}\n")),
        "key: |\n    [masked]\n    [masked]\n    [masked]\n"
    );
}

#[test]
fn secret_data_is_masked_everywhere() {
    let object = secret("password", "correct horse");
    let sensitive = SensitiveValues::from_objects([&object]);
    assert_eq!(sensitive.mask(object.value())["data"], json!({"password": "[masked]"}));
    let plain = json!({"kind": "ConfigMap", "data": {"url": "x://a:correct horse@db", "correct horse": 1}});
    assert_eq!(
        sensitive.mask(&plain),
        json!({"kind": "ConfigMap", "data": {"url": "x://a:[masked]@db", "[masked]": 1}})
    );
    // Texts of fewer than eight characters are not searched.
    assert_eq!(SensitiveValues::from_objects([&secret("p", "horse")]).mask_text("horse"), "horse");
}

#[test]
fn overlapping_and_long_texts_are_masked() {
    let long = "0123456789".repeat(300);
    let objects = [secret("a", "abcdefgh"), secret("b", "ghijklmn"), secret("c", &long)];
    let sensitive = SensitiveValues::from_objects(&objects);
    assert_eq!(sensitive.mask_text("<abcdefghijklmn>"), "<[masked]>");
    assert_eq!(sensitive.mask_text(&format!("<{long}>")), "<[masked]>");
}

proptest! {
    #[test]
    fn nothing_sensitive_survives(
        secrets in proptest::collection::vec("[a-c/é\"]{8,20}", 1..4),
        noise in proptest::collection::vec("[a-c/é\" \n]{0,12}", 0..6),
        order in proptest::collection::vec(0usize..8, 0..10),
    ) {
        let objects: Vec<Object> = secrets.iter().map(|text| secret("k", text)).collect();
        let sensitive = SensitiveValues::from_objects(&objects);
        let parts: Vec<&String> = secrets.iter().chain(&noise).collect();
        let text: String = order.iter().map(|index| parts[index % parts.len()].as_str()).collect();
        let value = json!({"plain": text, "encoded": STANDARD.encode(&text), &text: [text.clone()]});
        let masked = sensitive.mask(&value).to_string();
        let texts = [sensitive.mask_text(&text), sensitive.mask_text(&value.to_string()), masked];
        for text in &texts {
            for secret in &secrets {
                prop_assert!(!text.contains(secret.as_str()));
                prop_assert!(!text.contains(&STANDARD.encode(secret)));
            }
        }
    }
}
