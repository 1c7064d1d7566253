//! Encoding by both go-yaml versions. Every expectation was compared with Helm 3.17.3 and 4.3.1.

use proptest::prelude::*;

use crate::data::Data;
use crate::json;
use crate::nesting::EncodeError;
use crate::value::{List, Map, Value};
use crate::yaml::{parse, write_pretty, write_value};

/// The results of both functions, without the trailing newline; empty on error.
fn encode_v2_and_v3(value: &Value) -> (String, String) {
    let plain = |text: String| text.strip_suffix('\n').map(str::to_owned).unwrap_or(text);
    (write_value(value).map(plain).unwrap_or_default(), write_pretty(value).map(plain).unwrap_or_default())
}

fn value(json: &str) -> Value {
    Value::from(&json::parse(json).unwrap())
}

#[test]
#[rustfmt::skip]
fn v2_and_v3_agree() {
    let table = [
        (r#"{"b": 1, "a10": 1, "a2": 1, "a": 1, "A": 1, "_": 1, "1": 1, "10": 1, "9": 1, "a-b": 1, "a.b": 1, "a01": 1}"#, "_: 1\n\"1\": 1\n\"9\": 1\n\"10\": 1\nA: 1\na: 1\na-b: 1\na.b: 1\na01: 1\na2: 1\na10: 1\nb: 1"),
        (r#""""#, r#""""#),
        (r#""a""#, "a"),
        (r#""a b""#, "a b"),
        (r#"" a""#, "' a'"),
        (r#""a ""#, "'a '"),
        (r#""yes""#, r#""yes""#),
        (r#""No""#, r#""No""#),
        (r#""on""#, r#""on""#),
        (r#""~""#, r#""~""#),
        (r#""null""#, r#""null""#),
        (r#""true""#, r#""true""#),
        (r#""y""#, r#""y""#),
        (r#""12""#, r#""12""#),
        (r#""0x1F""#, r#""0x1F""#),
        (r#""0b11""#, r#""0b11""#),
        (r#""0b-1""#, r#""0b-1""#),
        (r#""0o7""#, r#""0o7""#),
        (r#""1e3""#, r#""1e3""#),
        (r#""1_000""#, r#""1_000""#),
        (r#"".5""#, r#"".5""#),
        (r#"".5_0""#, r#"".5_0""#),
        (r#"".inf""#, r#"".inf""#),
        (r#""-.INF""#, r#""-.INF""#),
        (r#"".nan""#, r#"".nan""#),
        (r#""1.""#, r#""1.""#),
        (r#""+1""#, r#""+1""#),
        (r#""-""#, "'-'"),
        (r#""--""#, "--"),
        (r#""---""#, "'---'"),
        (r#""...""#, "'...'"),
        (r#""- a""#, "'- a'"),
        (r#""-a""#, "-a"),
        (r#""? a""#, "'? a'"),
        (r#""?a""#, "?a"),
        (r#"":a""#, ":a"),
        (r#"": a""#, "': a'"),
        (r#""a:""#, "'a:'"),
        (r#""a: b""#, "'a: b'"),
        (r#""a:b""#, "a:b"),
        (r#""a #b""#, "'a #b'"),
        (r#""a#b""#, "a#b"),
        (r##""#a""##, "'#a'"),
        (r#""&a""#, "'&a'"),
        (r#""*a""#, "'*a'"),
        (r#""!a""#, "'!a'"),
        (r#""|""#, "'|'"),
        (r#""> a""#, "'> a'"),
        (r#""'a'""#, "'''a'''"),
        (r#""\"a\"""#, r#"'"a"'"#),
        (r#""%a""#, "'%a'"),
        (r#""@a""#, "'@a'"),
        (r#""`a""#, "'`a'"),
        (r#""[a]""#, "'[a]'"),
        (r#""{a}""#, "'{a}'"),
        (r#""a,b""#, "a,b"),
        (r#""1:30""#, r#""1:30""#),
        (r#""12:30:45""#, r#""12:30:45""#),
        (r#""1:99""#, "1:99"),
        (r#""2020-01-01""#, r#""2020-01-01""#),
        (r#""2020-1-2 3:4:5""#, r#""2020-1-2 3:4:5""#),
        (r#""2020-01-01T00:00:00Z""#, r#""2020-01-01T00:00:00Z""#),
        (r#""2020-02-30""#, "2020-02-30"),
        (r#""089""#, r#""089""#),
        (r#""0777""#, r#""0777""#),
        (r#""1e400""#, "1e400"),
        (r#""9999999999999999999999999""#, r#""9999999999999999999999999""#),
        (r#""<<""#, "<<"),
        (r#""=""#, "="),
        (r#""a\tb""#, r#""a\tb""#),
        (r#""a\\b""#, r"a\b"),
        (r#""a\"b""#, r#"a"b"#),
        (r#""it's""#, "it's"),
        (r#""a\nb""#, "|-\n  a\n  b"),
        (r#""a\nb\n""#, "|\n  a\n  b"),
        (r#""a\nb\n\n""#, "|+\n  a\n  b\n"),
        (r#""\n""#, "|2+\n"),
        (r#""\na""#, "|2-\n\n  a"),
        (r#"" a\nb""#, "|2-\n   a\n  b"),
        (r#""a \nb""#, r#""a \nb""#),
        (r#""a\n b""#, "|-\n  a\n   b"),
        (r#""\u00e9""#, "\u{e9}"),
        (r#""\u65e5\u672c""#, "\u{65e5}\u{672c}"),
        (r#""\ud83d\ude00""#, r#""\U0001F600""#),
        (r#""\ufeffx""#, r#""\uFEFF\x78""#),
        (r#""x\ufeff""#, r#""x\uFEFF""#),
        (r#""\u2028a""#, "'\u{2028}  a'"),
        (r#""a\u2028b""#, "'a\u{2028}  b'"),
        (r#""a\u00a0b""#, "a\u{a0}b"),
        (r#""\u0000""#, r#""\0""#),
        (r#""\u001b""#, r#""\e""#),
        (r#""\r""#, r#""\r""#),
        (r#""word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  end""#, "word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  end"),
        (r#""wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww""#, "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"),
        ("0", "0"),
        ("1", "1"),
        ("1.5", "1.5"),
        ("1234567.5", "1.2345675e+06"),
        ("0.00001", "1e-05"),
        ("18446744073709551615", "1.8446744073709552e+19"),
        ("18446744073709551616", "1.8446744073709552e+19"),
        ("1e20", "1e+20"),
        ("1e21", "1e+21"),
        ("-1e19", "-1e+19"),
        ("-777707444638603.25", "-7.777074446386032e+14"),
        ("5e-324", "5e-324"),
        ("1e-7", "1e-07"),
        ("{}", "{}"),
        ("[]", "[]"),
        (r#"{"a": {}}"#, "a: {}"),
        (r#"{"a": []}"#, "a: []"),
        (r#"[[1, 2], [{"a": 1, "b": 2}]]"#, "- - 1\n  - 2\n- - a: 1\n    b: 2"),
        (r##"{"": 1, "yes": 2, "1": 3, "a b": 4, "a: b": 5, "#": 6, "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk": 7, "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk": [8], "a\nb": {"c": 9}}"##, "\"\": 1\n'#': 6\n\"1\": 3\n? |-\n  a\n  b\n: c: 9\na b: 4\n'a: b': 5\nkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk: 7\n? kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n: - 8\n\"yes\": 2"),
        ("[null, true, false]", "- null\n- true\n- false"),
        (r#"{"a1b2": 1, "a1b10": 1, "a1": 1, "a1c": 1, "1a": 1, "1": 1, "01": 1}"#, "\"1\": 1\n1a: 1\n\"01\": 1\na1: 1\na1b2: 1\na1b10: 1\na1c: 1"),
    ];
    for (json, expected) in table {
        assert_eq!(encode_v2_and_v3(&value(json)), (expected.to_owned(), expected.to_owned()), "{json}");
    }
}

#[test]
#[rustfmt::skip]
fn v2_and_v3_differ() {
    let table = [
        (r#"{"a1b": 1, "a10": 1, "a1": 1, "1a": 1, "12": 1}"#, "\"12\": 1\n1a: 1\na1: 1\na10: 1\na1b: 1", "1a: 1\n\"12\": 1\na1: 1\na1b: 1\na10: 1"),
        (r#""a\tb\nc""#, r#""a\tb\nc""#, "|-\n  a\tb\n  c"),
        (r#""\u007f""#, "", r#""\x7F""#),
        (r#""a\u0085b""#, "a b", r#""a\Nb""#),
        (r#""a \u0085\u0085 b""#, "|-\n  a\n  b", r#""a \N\N b""#),
        (r#""a\u0085--- b""#, "", r#""a\N--- b""#),
        (r#""word word word word word word word word word word word word word word word word word word end""#, "word word word word word word word word word word word word word word word word word\n  word end", "word word word word word word word word word word word word word word word word word word end"),
        (r#""'word word word word word word word word word word word word word word word word word word end""#, "'''word word word word word word word word word word word word word word word word\n  word word end'", "'''word word word word word word word word word word word word word word word word word word end'"),
        (r#""yes: word word word word word word word word word word word word word word word word word word ""#, "'yes: word word word word word word word word word word word word word word word word\n  word word '", "'yes: word word word word word word word word word word word word word word word word word word '"),
        ("-0", "0", "-0"),
        ("1000000", "1000000", "1e+06"),
        ("1e6", "1000000", "1e+06"),
        ("1e15", "1000000000000000", "1e+15"),
        ("1e16", "10000000000000000", "1e+16"),
        ("9007199254740993", "9007199254740992", "9.007199254740992e+15"),
        ("9223372036854775807", "9223372036854776000", "9.223372036854776e+18"),
        ("123456789012", "123456789012", "1.23456789012e+11"),
        (r#"{"a": [1, {"b": [2, [3, []]]}]}"#, "a:\n- 1\n- b:\n  - 2\n  - - 3\n    - []", "a:\n  - 1\n  - b:\n      - 2\n      - - 3\n        - []"),
        (r#"{"a": "x\ny\n", "b": ["x\ny"], "c": {"d": " x\n"}}"#, "a: |\n  x\n  y\nb:\n- |-\n  x\n  y\nc:\n  d: |2\n     x", "a: |\n  x\n  y\nb:\n  - |-\n    x\n    y\nc:\n  d: |2\n     x"),
        (r#"{"k": "word word word word word word word word word word word word word word word word word word word word ", "l": ["word word word word word word word word word word word word word word word word word word word word "]}"#, "k: 'word word word word word word word word word word word word word word word word\n  word word word word '\nl:\n- 'word word word word word word word word word word word word word word word word\n  word word word word '", "k: 'word word word word word word word word word word word word word word word word word word word word '\nl:\n  - 'word word word word word word word word word word word word word word word word word word word word '"),
    ];
    for (json, yaml, pretty) in table {
        assert_eq!(encode_v2_and_v3(&value(json)), (yaml.to_owned(), pretty.to_owned()), "{json}");
    }
}

#[test]
fn v2_rejects_keys_lost_in_json_round_trip() {
    let of = |key: &str| Value::from(Map::from_entries([(key.into(), Value::Int(1))]));
    assert!(write_value(&of(&"k".repeat(1022))).is_ok());
    assert!(write_value(&of(&"k".repeat(1023))).is_err());
    assert!(write_value(&of(&"<".repeat(171))).is_err());
    assert!(write_value(&of("a\u{85}b")).is_err());
    assert!(write_pretty(&of(&"k".repeat(1023))).is_ok());
}

#[test]
fn binary_and_object_values_are_encoded_like_helm() {
    let raw = Value::string_from_bytes(b"a\xE2\x82b".to_vec());
    assert_eq!(encode_v2_and_v3(&raw), ("a\u{FFFD}\u{FFFD}b".to_owned(), "!!binary YeKCYg==".to_owned()));
    let bytes = Value::Bytes(b"hi".as_slice().into());
    assert_eq!(encode_v2_and_v3(&bytes), ("aGk=".to_owned(), "- 104\n- 105".to_owned()));
    let infinite = Value::Float(f64::INFINITY);
    assert_eq!(encode_v2_and_v3(&infinite), (String::new(), ".inf".to_owned()));
    assert_eq!(
        write_value(&infinite),
        Err(EncodeError::Unsupported("error marshaling into JSON: json: unsupported value: +Inf".into()))
    );
}

#[test]
fn cycles_and_deep_nesting_are_rejected() {
    let circle = Map::new();
    circle.insert("list", List::any([circle.clone().into()]).into());
    let why = "json: unsupported value: encountered a cycle via map[string]interface {}";
    assert_eq!(write_value(&circle.clone().into()), Err(EncodeError::Unsupported(why.into())));
    let deep = (0..2_000).fold(Value::Nil, |inner, _| List::any([inner]).into());
    assert_eq!(write_value(&deep), Err(EncodeError::TooDeep));
    assert_eq!(json::write_value(&deep, json::JsonStyle::Plain), Err(EncodeError::TooDeep));
    circle.remove("list");
}

fn any_data() -> impl Strategy<Value = Data> {
    // Excludes Unicode line breaks, which go-yaml does not encode in a form that it decodes.
    let text =
        prop_oneof!["[ab:#'\" \\-\n\t0.]{0,12}", "([a-z]{1,9} ){0,30}", "[^\u{85}\u{2028}\u{2029}]{0,12}",];
    let leaf = prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        prop::num::f64::NORMAL.prop_map(Data::Float),
        text.prop_map(Data::string),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Data::List),
            prop::collection::btree_map("[a-z0-9 :\n]{0,9}", inner, 0..6)
                .prop_map(|members| Data::Map(members.into_iter().map(|(k, v)| (k.into(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_ends_its_line(data in any_data()) {
        let value = Value::from(&data);
        if let Ok(text) = write_value(&value) {
            prop_assert!(text.ends_with('\n'));
        }
        prop_assert!(write_pretty(&value).unwrap().ends_with('\n'));
    }

    #[test]
    fn what_was_written_comes_back(data in any_data()) {
        if let Ok(text) = crate::yaml::write(&data) {
            prop_assert_eq!(parse(text.as_bytes()).unwrap(), data);
        }
    }

    #[test]
    fn keys_in_any_order_are_sorted_without_a_panic(keys in prop::collection::btree_set("[ab01]{0,24}", 0..80)) {
        let map = Map::from_entries(keys.iter().map(|key| (key.as_str().into(), Value::Bool(true))));
        let lines = write_value(&map.into()).unwrap().lines().count();
        prop_assert_eq!(lines, keys.len().max(1));
    }
}
