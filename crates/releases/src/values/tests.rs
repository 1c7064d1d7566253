//! Merging layers, and errors of unreadable ones.

use std::collections::BTreeMap;

use helm_template::budget::Unlimited;
use serde_json::json;

use super::*;

/// ConfigMaps and Secrets by kind and name.
#[derive(Default)]
struct Shelf(BTreeMap<(bool, String), Contents>);

impl Shelf {
    fn with(mut self, kind: ValuesKind, name: &str, key: &str, text: &str) -> Self {
        let contents = self.0.entry((kind == ValuesKind::Secret, name.to_owned())).or_default();
        contents.insert(key.to_owned(), text.as_bytes().to_vec());
        self
    }
}

impl Reader for Shelf {
    async fn read(&self, kind: ValuesKind, name: &str) -> Result<Option<Contents>, Unread> {
        if name == "shut" {
            let why = "secrets \"shut\" is forbidden".to_owned();
            return Err(Unread { kind: Kind::Forbidden, why });
        }
        Ok(self.0.get(&(kind == ValuesKind::Secret, name.to_owned())).cloned())
    }
}

fn reference(value: Value) -> ValuesReference {
    serde_json::from_value(value).unwrap()
}

fn nothing() -> Layers<'static> {
    Layers { values_from: &[], values: "", values_ref: None, values_ref_is_ours: false, values_object: None }
}

async fn gather(layers: &Layers<'_>, theirs: &Shelf, ours: &Shelf) -> Result<Gathered, ValuesError> {
    let texts = fetch(layers, theirs, ours, &mut |_| Ok(())).await;
    texts.and_then(|texts| merge(texts, &Unlimited)).map_err(|error| match error {
        GatherError::Values(error) => error,
        other => panic!("{other}"),
    })
}

async fn gathered(layers: Layers<'_>, shelf: &Shelf) -> Result<Gathered, ValuesError> {
    gather(&layers, shelf, &Shelf::default()).await
}

fn shown(gathered: &Gathered) -> Value {
    serde_json::from_str(&canonical(&gathered.values)).unwrap()
}

#[tokio::test]
async fn each_layer_lies_over_the_one_before() {
    let shelf = Shelf::default()
        .with(ValuesKind::ConfigMap, "base", KEY, "a: 1\nb: {c: 1, d: 1}\nlist: [1, 2]\n")
        .with(ValuesKind::Secret, "keys", "prod", "b: {c: from-secret}\npassword: hush\n")
        .with(ValuesKind::Secret, "keys", "port", "5432")
        .with(ValuesKind::Secret, "keys", "code", "'007'")
        .with(ValuesKind::Secret, "last", KEY, "b: {e: ref}\n");
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
    let last = Reference { name: "last".into(), key: None };
    let layers = Layers {
        values_from: &from,
        values: &values,
        values_ref: Some(&last),
        values_object: object.as_object(),
        ..nothing()
    };
    let all = gathered(layers, &shelf).await.unwrap();
    assert_eq!(
        shown(&all),
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
async fn what_came_through_a_door_is_no_secret_for_being_kept_in_one() {
    let kept = Shelf::default().with(ValuesKind::Secret, "kept", KEY, "a: b\n");
    let reference = Reference { name: "kept".into(), key: None };
    let layers = Layers { values_ref: Some(&reference), values_ref_is_ours: true, ..nothing() };
    let all = gather(&layers, &Shelf::default(), &kept).await.unwrap();
    assert_eq!((shown(&all), all.from_secrets.len()), (json!({"a": "b"}), 0));
    // In a hand-written release the same reference is read with the release's identity.
    let layers = Layers { values_ref_is_ours: false, ..layers };
    let error = gather(&layers, &Shelf::default(), &kept).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

#[tokio::test]
async fn what_is_wrong_is_named_and_not_repeated() {
    let shelf = Shelf::default()
        .with(ValuesKind::Secret, "bad", KEY, "hush: [")
        .with(ValuesKind::Secret, "list", KEY, "- hush\n")
        .with(ValuesKind::Secret, "path", KEY, "{hush");
    let of = |value: Value| vec![reference(value)];
    let table = [
        (json!({"kind": "Secret", "name": "bad"}), "the values are no YAML, or no map", Kind::Invalid),
        (json!({"kind": "Secret", "name": "list"}), "the values are no YAML, or no map", Kind::Invalid),
        (
            json!({"kind": "Secret", "name": "path", "targetPath": "a[0].b"}),
            "the value cannot be set at a[0].b",
            Kind::Invalid,
        ),
        (
            json!({"kind": "ConfigMap", "name": "bad"}),
            "there is no ConfigMap bad in the release's namespace",
            Kind::NotFound,
        ),
        (
            json!({"kind": "Secret", "name": "bad", "valuesKey": "k"}),
            "Secret bad has no key k",
            Kind::NotFound,
        ),
        (
            json!({"kind": "Secret", "name": "shut", "optional": true}),
            "cannot read Secret shut: secrets \"shut\" is forbidden",
            Kind::Forbidden,
        ),
    ];
    for (reference, why, kind) in table {
        let from = of(reference);
        let error = gathered(Layers { values_from: &from, ..nothing() }, &shelf).await.unwrap_err();
        assert_eq!((error.to_string(), error.kind()), (format!("spec.valuesFrom[0]: {why}"), kind));
    }
    let error = gathered(Layers { values: "%%%", ..nothing() }, &shelf).await.unwrap_err();
    assert_eq!(error.to_string(), "spec.values: is not base64");
}

#[tokio::test]
async fn the_hash_of_one_text_is_its_own() {
    let text = "a: 1 # a comment\n";
    let values = STANDARD.encode(text);
    let one = gathered(Layers { values: &values, ..nothing() }, &Shelf::default()).await.unwrap();
    assert_eq!(one.hash, hash::md5(text.as_bytes()));
    let object = json!({"b": 1});
    let layers = Layers { values: &values, values_object: object.as_object(), ..nothing() };
    let two = gathered(layers, &Shelf::default()).await.unwrap();
    assert_eq!(two.hash, hash::md5(br#"{"a":1,"b":1}"#));
    assert_eq!(gathered(nothing(), &Shelf::default()).await.unwrap().hash, hash::md5(b"{}"));
}

#[tokio::test]
async fn layers_that_grow_without_end_are_refused() {
    let shelf = Shelf::default()
        .with(ValuesKind::Secret, "large", KEY, &format!("'{}'", "x".repeat(1_000_000)))
        .with(ValuesKind::Secret, "wide", KEY, &{
            let leaves: Vec<_> = (0..20_000).map(|n| format!("m{n}: 1")).collect();
            format!("{}: {{{}}}", "k".repeat(1_000), leaves.join(", "))
        });
    let large: Vec<_> = (0..20)
        .map(|n| reference(json!({"kind": "Secret", "name": "large", "targetPath": format!("k{n}")})))
        .collect();
    let error = gathered(Layers { values_from: &large, ..nothing() }, &shelf).await.unwrap_err();
    assert_eq!(error.to_string(), "spec.valuesFrom[4]: the values of the release exceed 4194304 bytes");
    let wide: Vec<_> = (0..30).map(|_| reference(json!({"kind": "Secret", "name": "wide"}))).collect();
    assert!(gathered(Layers { values_from: &wide[..1], ..nothing() }, &shelf).await.is_ok());
    let error = gathered(Layers { values_from: &wide, ..nothing() }, &shelf).await.unwrap_err();
    assert!(error.to_string().starts_with("spec.valuesFrom["), "{error}");
    let deep = format!(
        "{}: {{{}}}",
        "k".repeat(1_000),
        (0..50_000).map(|n| format!("m{n}: 1")).collect::<Vec<_>>().join(", ")
    );
    let error = gathered(Layers { values: &STANDARD.encode(deep), ..nothing() }, &shelf).await.unwrap_err();
    let why = "spec.values: the values exceed 33554432 bytes with the paths that lead to each of them";
    assert_eq!(error.to_string(), why);
}
