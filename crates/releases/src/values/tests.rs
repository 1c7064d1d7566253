//! Merging layers, and errors of unreadable ones.

use std::collections::BTreeMap;

use helm_template::budget::Unlimited;
use serde_json::json;

use super::*;

/// ConfigMaps and Secrets by kind and name.
#[derive(Default)]
struct FakeReader(BTreeMap<(bool, String), Contents>);

impl FakeReader {
    fn with(mut self, kind: ValuesKind, name: &str, key: &str, text: &str) -> Self {
        let contents = self.0.entry((kind == ValuesKind::Secret, name.to_owned())).or_default();
        contents.insert(key.to_owned(), text.as_bytes().to_vec());
        self
    }
}

impl ValuesReader for FakeReader {
    async fn read(&self, kind: ValuesKind, name: &str) -> Result<Option<Contents>, ReadError> {
        if name == "shut" {
            let why = "secrets \"shut\" is forbidden".to_owned();
            return Err(ReadError { kind: ErrorKind::Forbidden, message: why });
        }
        Ok(self.0.get(&(kind == ValuesKind::Secret, name.to_owned())).cloned())
    }
}

fn reference(value: Value) -> ValuesReference {
    serde_json::from_value(value).unwrap()
}

fn no_sources() -> ValuesSources<'static> {
    ValuesSources {
        values_from: &[],
        values: "",
        values_ref: None,
        is_values_ref_managed: false,
        values_object: None,
    }
}

async fn merge_from(
    layers: &ValuesSources<'_>,
    theirs: &FakeReader,
    ours: &FakeReader,
) -> Result<MergedValues, ValuesError> {
    let texts = fetch(layers, theirs, ours, &mut |_| Ok(())).await;
    texts.and_then(|texts| merge(texts, &Unlimited)).map_err(|error| match error {
        LoadValuesError::Values(error) => error,
        other => panic!("{other}"),
    })
}

async fn merge_from_tenant(
    layers: ValuesSources<'_>,
    shelf: &FakeReader,
) -> Result<MergedValues, ValuesError> {
    merge_from(&layers, shelf, &FakeReader::default()).await
}

fn to_json(gathered: &MergedValues) -> Value {
    serde_json::from_str(&canonical_json(&gathered.values)).unwrap()
}

#[tokio::test]
async fn later_layers_override_earlier_ones() {
    let shelf = FakeReader::default()
        .with(ValuesKind::ConfigMap, "base", DEFAULT_KEY, "a: 1\nb: {c: 1, d: 1}\nlist: [1, 2]\n")
        .with(ValuesKind::Secret, "keys", "prod", "b: {c: from-secret}\npassword: hush\n")
        .with(ValuesKind::Secret, "keys", "port", "5432")
        .with(ValuesKind::Secret, "keys", "code", "'007'")
        .with(ValuesKind::Secret, "last", DEFAULT_KEY, "b: {e: ref}\n");
    let from = [
        reference(json!({"kind": "ConfigMap", "name": "base"})),
        reference(json!({"kind": "Secret", "name": "keys", "valuesKey": "prod"})),
        reference(
            json!({"kind": "Secret", "name": "keys", "valuesKey": "port", "targetPath": "db.ports[1]"}),
        ),
        reference(json!({"kind": "Secret", "name": "keys", "valuesKey": "code", "targetPath": "code"})),
        reference(json!({"kind": "Secret", "name": "none", "optional": true})),
        reference(json!({"kind": "Secret", "name": "keys", "valuesKey": "none", "optional": true})),
    ];
    let values = STANDARD.encode("a: 2\npassword: null\n");
    let object = json!({"b": {"d": 4}, "f": 1.5});
    let last = ValuesSecretRef { name: "last".into(), key: None };
    let layers = ValuesSources {
        values_from: &from,
        values: &values,
        values_ref: Some(&last),
        values_object: object.as_object(),
        ..no_sources()
    };
    let all = merge_from_tenant(layers, &shelf).await.unwrap();
    assert_eq!(
        to_json(&all),
        json!({
            "a": 2, "b": {"c": "from-secret", "d": 4, "e": "ref"}, "list": [1, 2], "password": null,
            "db": {"ports": [null, 5432]}, "code": "007", "f": 1.5,
        })
    );
    // The password was removed again; the null in the list comes from the Secret.
    let secret: Vec<&str> = all.from_secrets.iter().map(String::as_str).collect();
    assert_eq!(secret, ["/b/c", "/b/e", "/code", "/db/ports/0", "/db/ports/1"]);
    assert!(!format!("{all:?}").contains("from-secret"));
}

#[tokio::test]
async fn platform_values_secret_is_not_sensitive() {
    let kept = FakeReader::default().with(ValuesKind::Secret, "kept", DEFAULT_KEY, "a: b\n");
    let reference = ValuesSecretRef { name: "kept".into(), key: None };
    let layers = ValuesSources { values_ref: Some(&reference), is_values_ref_managed: true, ..no_sources() };
    let all = merge_from(&layers, &FakeReader::default(), &kept).await.unwrap();
    assert_eq!((to_json(&all), all.from_secrets.len()), (json!({"a": "b"}), 0));
    // In a hand-written release the same reference is read with the release's identity.
    let layers = ValuesSources { is_values_ref_managed: false, ..layers };
    let error = merge_from(&layers, &FakeReader::default(), &kept).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn errors_name_the_reference_and_omit_content() {
    let shelf = FakeReader::default()
        .with(ValuesKind::Secret, "bad", DEFAULT_KEY, "hush: [")
        .with(ValuesKind::Secret, "list", DEFAULT_KEY, "- hush\n")
        .with(ValuesKind::Secret, "path", DEFAULT_KEY, "{hush");
    let of = |value: Value| vec![reference(value)];
    let table = [
        (json!({"kind": "Secret", "name": "bad"}), "the values must be a YAML map", ErrorKind::Invalid),
        (json!({"kind": "Secret", "name": "list"}), "the values must be a YAML map", ErrorKind::Invalid),
        (
            json!({"kind": "Secret", "name": "path", "targetPath": "a[0].b"}),
            "cannot set the value at a[0].b",
            ErrorKind::Invalid,
        ),
        (
            json!({"kind": "ConfigMap", "name": "bad"}),
            "ConfigMap bad not found in the release's namespace",
            ErrorKind::NotFound,
        ),
        (
            json!({"kind": "Secret", "name": "bad", "valuesKey": "k"}),
            "Secret bad has no key k",
            ErrorKind::NotFound,
        ),
        (
            json!({"kind": "Secret", "name": "shut", "optional": true}),
            "cannot read Secret shut: secrets \"shut\" is forbidden",
            ErrorKind::Forbidden,
        ),
    ];
    for (reference, why, kind) in table {
        let from = of(reference);
        let error = merge_from_tenant(ValuesSources { values_from: &from, ..no_sources() }, &shelf)
            .await
            .unwrap_err();
        assert_eq!((error.to_string(), error.kind()), (format!("spec.valuesFrom[0]: {why}"), kind));
    }
    let error = merge_from_tenant(ValuesSources { values: "%%%", ..no_sources() }, &shelf).await.unwrap_err();
    assert_eq!(error.to_string(), "spec.values: is not base64");
}

#[tokio::test]
async fn single_text_is_hashed_verbatim() {
    let text = "a: 1 # a comment\n";
    let values = STANDARD.encode(text);
    let one = merge_from_tenant(ValuesSources { values: &values, ..no_sources() }, &FakeReader::default())
        .await
        .unwrap();
    assert_eq!(one.hash, hash::md5(text.as_bytes()));
    let object = json!({"b": 1});
    let layers = ValuesSources { values: &values, values_object: object.as_object(), ..no_sources() };
    let two = merge_from_tenant(layers, &FakeReader::default()).await.unwrap();
    assert_eq!(two.hash, hash::md5(br#"{"a":1,"b":1}"#));
    assert_eq!(merge_from_tenant(no_sources(), &FakeReader::default()).await.unwrap().hash, hash::md5(b"{}"));
}

#[tokio::test]
async fn layers_over_the_limits_are_rejected() {
    let shelf = FakeReader::default()
        .with(ValuesKind::Secret, "large", DEFAULT_KEY, &format!("'{}'", "x".repeat(1_000_000)))
        .with(ValuesKind::Secret, "wide", DEFAULT_KEY, &{
            let leaves: Vec<_> = (0..20_000).map(|n| format!("m{n}: 1")).collect();
            format!("{}: {{{}}}", "k".repeat(1_000), leaves.join(", "))
        });
    let large: Vec<_> = (0..20)
        .map(|n| reference(json!({"kind": "Secret", "name": "large", "targetPath": format!("k{n}")})))
        .collect();
    let error =
        merge_from_tenant(ValuesSources { values_from: &large, ..no_sources() }, &shelf).await.unwrap_err();
    assert_eq!(error.to_string(), "spec.valuesFrom[4]: the values of the release exceed 4194304 bytes");
    let wide: Vec<_> = (0..30).map(|_| reference(json!({"kind": "Secret", "name": "wide"}))).collect();
    assert!(
        merge_from_tenant(ValuesSources { values_from: &wide[..1], ..no_sources() }, &shelf).await.is_ok()
    );
    let error =
        merge_from_tenant(ValuesSources { values_from: &wide, ..no_sources() }, &shelf).await.unwrap_err();
    assert!(error.to_string().starts_with("spec.valuesFrom["), "{error}");
    let deep = format!(
        "{}: {{{}}}",
        "k".repeat(1_000),
        (0..50_000).map(|n| format!("m{n}: 1")).collect::<Vec<_>>().join(", ")
    );
    let error = merge_from_tenant(ValuesSources { values: &STANDARD.encode(deep), ..no_sources() }, &shelf)
        .await
        .unwrap_err();
    let why = "spec.values: the values exceed 33554432 bytes including the path of each value";
    assert_eq!(error.to_string(), why);
}
