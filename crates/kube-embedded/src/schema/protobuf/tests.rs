//! Tests with bodies that Go wrote, and with malformed ones.

use proptest::{
    arbitrary::any,
    prelude::{prop, proptest},
};

use super::*;

/// Bodies written by Go's encoder, each with Go's JSON of the same object.
const SAMPLES: &str = include_str!("../../../data/protobuf.txt");

fn samples() -> Vec<(Vec<u8>, Value)> {
    let lines: Vec<_> = SAMPLES.lines().filter(|line| !line.starts_with('#')).collect();
    lines.chunks(2).map(|pair| (decode_hex(pair[0]), serde_json::from_str(pair[1]).unwrap())).collect()
}

fn decode_hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Go writes null for absent lists and maps, which protobuf cannot express.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        plain => plain,
    }
}

/// A message with one record of bytes.
fn record(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend(content);
    bytes
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [record(1, api_version.as_bytes()), record(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), record(1, &type_meta), record(2, raw)].concat()
}

#[test]
fn go_protobuf_bodies_decode_to_go_json() {
    let samples = samples();
    assert!(samples.len() >= 10);
    for (body, json) in samples {
        assert_eq!(without_nulls(decode(&body).unwrap()), without_nulls(json));
    }
}

#[test]
fn truncated_bodies_do_not_panic() {
    for (body, _) in samples() {
        for length in 0..body.len() {
            if let Ok(value) = decode(&body[..length]) {
                assert!(value.is_object());
            }
        }
    }
}

#[test]
fn invalid_body_errors() {
    for (body, message) in [
        (b"{}".to_vec(), "expected prefix [107 56 115 0]"),
        (envelope("v1", "Ship", b""), r#"no kind "Ship" is registered for version "v1""#),
        (envelope("v1", "Pod", &[0x0a, 0x05, 0x01]), "unexpected EOF"),
        (envelope("v1", "Pod", &[0x08, 0x01]), "proto: wrong wireType = 0"),
        (envelope("v1", "Pod", &[0x0b]), "proto: wrong wireType = 3 for field 1"),
        (envelope("v1", "Pod", &[0xff; 12]), "proto: integer overflow"),
        (
            envelope(
                "v1",
                "Event",
                &record(10, &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            ),
            "seconds",
        ),
    ] {
        let error = decode(&body).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn message_depth_is_bounded() {
    let mut schema = Vec::new();
    for _ in 0..5000 {
        schema = [&[0xe2, 0x01][..], &record(0, &schema)[1..]].concat(); // JSONSchemaProps.not, 28
    }
    let version = record(4, &record(1, &schema)); // CustomResourceDefinitionVersion.schema.openAPIV3Schema
    let body =
        envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", &record(2, &record(7, &version)));
    let error = decode(&body).unwrap_err();
    assert!(error.contains("exceeded max depth"), "{error}");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(at in 0..10_usize, raw in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_, json) = &samples()[at];
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let _ = decode(&raw);
        let _ = decode(&envelope(&text("apiVersion"), &text("kind"), &raw));
    }

    #[test]
    fn changed_bytes_never_panic(at in 0..10_usize, changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..6)) {
        let (mut body, _) = samples().swap_remove(at);
        for (index, byte) in changes {
            let index = index.index(body.len());
            body[index] = byte;
        }
        let _ = decode(&body);
    }
}
