//! TOML decoding and encoding. Every expectation was compared with Helm 3.17.3 and 4.3.1.

use proptest::prelude::*;

use super::*;
use crate::budget::{Budget, RenderLimits, Unlimited};
use crate::env::NullEnv;
use crate::json::{self, JsonStyle};
use crate::profile::Profile::{Helm3, Helm4};
use crate::value::Value;

fn encode(json: &str, profile: crate::profile::Profile) -> String {
    write(&Value::from(&json::parse(json).unwrap()), profile).unwrap_or_else(|why| why.to_string())
}

fn decode(toml: &str, profile: crate::profile::Profile) -> String {
    match parse(toml.as_bytes(), profile, &NullEnv, &Budget::default()) {
        Ok(map) => json::write_value(&map.into(), JsonStyle::Raw).unwrap(),
        Err(why) => why.to_string(),
    }
}

#[test]
#[rustfmt::skip]
fn encoding_matches_helm() {
    let table = [
        ("{}", "", ""),
        ("{\"a\":1,\"b\":1.5,\"c\":1e30,\"d\":true,\"e\":\"x\\n\\\"\\u0001\\u007f\",\"f\":null,\"g\":[],\"h\":{}}", "a = 1.0\nb = 1.5\nc = 1000000000000000000000000000000.0\nd = true\ne = \"x\\n\\\"\\u0001\\u007f\"\ng = []\n\n[h]\n", "a = 1.0\nb = 1.5\nc = 1e+30\nd = true\ne = \"x\\n\\\"\\u0001\\u007f\"\ng = []\n\n[h]\n"),
        ("{\"z\":1,\"a\":{\"b\":{\"c d\":2},\"y\":[1,\"x\",[2]]},\"b\":3}", "b = 3.0\nz = 1.0\n\n[a]\n  y = [1.0, \"x\", [2.0]]\n  [a.b]\n    \"c d\" = 2.0\n", "b = 3.0\nz = 1.0\n\n[a]\n  y = [1.0, \"x\", [2.0]]\n  [a.b]\n    \"c d\" = 2.0\n"),
        ("{\"t\":[{\"a\":1,\"u\":[{\"b\":2}]},{\"a\":3}],\"e\":{\"f\":[{}]}}", "[e]\n\n  [[e.f]]\n\n[[t]]\n  a = 1.0\n\n  [[t.u]]\n    b = 2.0\n\n[[t]]\n  a = 3.0\n", "[e]\n\n  [[e.f]]\n\n[[t]]\n  a = 1.0\n\n  [[t.u]]\n    b = 2.0\n\n[[t]]\n  a = 3.0\n"),
        ("{\"m\":[1,{\"b\":null,\"c\":{\"d\":1},\"e\":2}]}", "m = [1.0, {e = 2.0, c = {d = 1.0}}]\n", "m = [1.0, {e = 2.0, c = {d = 1.0}}]\n"),
        ("{\"a\":[null]}", "toml: cannot encode array with nil element", "toml: cannot encode array with nil element"),
        ("[{\"a\":1}]", "toml: top-level values must be Go maps or structs", "toml: top-level values must be Go maps or structs"),
        ("[1,2]", "[1.0, 2.0]", "[1.0, 2.0]"),
        ("\"x\"", "\"x\"", "\"x\""),
        ("{\"\":1,\"a.b\":2,\"\\u00e9\":3}", "\"\" = 1.0\n\"a.b\" = 2.0\n\"\u{e9}\" = 3.0\n", "\"\" = 1.0\n\"a.b\" = 2.0\n\"\u{e9}\" = 3.0\n"),
    ];
    for (json, three, four) in table {
        assert_eq!((encode(json, Helm3).as_str(), encode(json, Helm4).as_str()), (three, four), "{json}");
    }
}

#[test]
#[rustfmt::skip]
fn decoding_matches_helm() {
    let table = [
        ("a=1\nb=\"x\"\nc=[1,2.5,\"y\"]", "{\"a\":1,\"b\":\"x\",\"c\":[1,2.5,\"y\"]}", "{\"a\":1,\"b\":\"x\",\"c\":[1,2.5,\"y\"]}"),
        ("[t]\na=1\n[t.u]\nb=2", "{\"t\":{\"a\":1,\"u\":{\"b\":2}}}", "{\"t\":{\"a\":1,\"u\":{\"b\":2}}}"),
        ("[[x]]\na=1\n[[x]]\na=2", "{\"x\":[{\"a\":1},{\"a\":2}]}", "{\"x\":[{\"a\":1},{\"a\":2}]}"),
        ("a.b.c=1\na.b.d=2", "{\"a\":{\"b\":{\"c\":1,\"d\":2}}}", "{\"a\":{\"b\":{\"c\":1,\"d\":2}}}"),
        ("a={b=1,c={d=\"e\"}}", "{\"a\":{\"b\":1,\"c\":{\"d\":\"e\"}}}", "{\"a\":{\"b\":1,\"c\":{\"d\":\"e\"}}}"),
        ("a=[{b=1},{b=2}]", "{\"a\":[{\"b\":1},{\"b\":2}]}", "{\"a\":[{\"b\":1},{\"b\":2}]}"),
        ("a='raw\\n'\nb='''\nx\n'y''''", "{\"a\":\"raw\\\\n\",\"b\":\"x\\n'y'\"}", "{\"a\":\"raw\\\\n\",\"b\":\"x\\n'y'\"}"),
        ("a=\"\"\"\nx\\\n  y\"\"\"\"\"", "{\"a\":\"xy\\\"\\\"\"}", "{\"a\":\"xy\\\"\\\"\"}"),
        ("a=\"\\u00e9\\n\\t\\\"\\\\\"", "{\"a\":\"\u{e9}\\n\\t\\\"\\\\\"}", "{\"a\":\"\u{e9}\\n\\t\\\"\\\\\"}"),
        ("a=0x1F\nb=0o17\nc=0b11\nd=1_000", "{\"a\":31,\"b\":15,\"c\":3,\"d\":1000}", "{\"a\":31,\"b\":15,\"c\":3,\"d\":1000}"),
        ("a=-1.5E-3\nb=-0.0", "{\"a\":-0.0015,\"b\":-0}", "{\"a\":-0.0015,\"b\":-0}"),
        ("\"a b\"=1\n'c.d'=2", "{\"a b\":1,\"c.d\":2}", "{\"a b\":1,\"c.d\":2}"),
        ("a=[\n1,\n# c\n2,\n]", "{\"a\":[1,2]}", "{\"a\":[1,2]}"),
        ("a=2020-01-02T03:04:05.5Z\nb=2020-01-02\nc=03:04:05\nd=2020-01-02 03:04:05+01:00", "{\"a\":\"2020-01-02T03:04:05.5Z\",\"b\":\"2020-01-02T00:00:00Z\",\"c\":\"0000-01-01T03:04:05Z\",\"d\":\"2020-01-02T03:04:05+01:00\"}", "{\"a\":\"2020-01-02T03:04:05.5Z\",\"b\":\"2020-01-02T00:00:00Z\",\"c\":\"0000-01-01T03:04:05Z\",\"d\":\"2020-01-02T03:04:05+01:00\"}"),
        ("a", "toml: line 0: unexpected EOF; expected key separator '='", "toml: line 1: unexpected EOF; expected key separator '='"),
        ("a=", "toml: line 0 (last key \"a\"): unexpected EOF; expected value", "toml: line 1 (last key \"a\"): unexpected EOF; expected value"),
        ("=1", "toml: line 1: unexpected '=': key name appears blank", "toml: line 1: unexpected '=': key name appears blank"),
        ("a=1 b=2", "toml: line 1: expected a top-level item to end with a newline, comment, or EOF, but got 'b' instead", "toml: line 1: expected a top-level item to end with a newline, comment, or EOF, but got 'b' instead"),
        ("[a", "toml: line 0: expected '.' or ']' to end table name, but got '\\x00' instead", "toml: line 1: expected '.' or ']' to end table name, but got '\\x00' instead"),
        ("[]", "toml: line 1: unexpected end of table name (table names cannot be empty)", "toml: line 1: unexpected end of table name (table names cannot be empty)"),
        ("a=[1 2]", "toml: line 1 (last key \"a\"): expected a comma (',') or array terminator (']'), but got '2'", "toml: line 1 (last key \"a\"): expected a comma (',') or array terminator (']'), but got '2'"),
        ("a={b=1,}", "toml: line 1 (last key \"a.b\"): trailing comma not allowed in inline tables", "{\"a\":{\"b\":1}}"),
        ("a={\nb=1}", "toml: line 1 (last key \"a\"): newlines not allowed within inline tables", "{\"a\":{\"b\":1}}"),
        ("a=\"x", "toml: line 0 (last key \"a\"): unexpected EOF; expected '\"'", "toml: line 1 (last key \"a\"): unexpected EOF; expected '\"'"),
        ("a=\"x\ny\"", "toml: line 1 (last key \"a\"): strings cannot contain newlines", "toml: line 1 (last key \"a\"): strings cannot contain newlines"),
        ("a=\"\\q\"", "toml: line 1 (last key \"a\"): invalid escape in string '\\q'", "toml: line 1 (last key \"a\"): invalid escape in string '\\q'"),
        ("a=\"\\e\"", "toml: line 1 (last key \"a\"): invalid escape in string '\\e'", "{\"a\":\"\\u001b\"}"),
        ("a=01", "toml: line 1 (last key \"a\"): Invalid integer \"01\": cannot have leading zeroes", "toml: line 1 (last key \"a\"): Invalid integer \"01\": cannot have leading zeroes"),
        ("a=1__0", "toml: line 1 (last key \"a\"): Invalid integer \"1__0\": underscores must be surrounded by digits", "toml: line 1 (last key \"a\"): Invalid integer \"1__0\": underscores must be surrounded by digits"),
        ("a=1.", "toml: line 1 (last key \"a\"): Invalid float \"1.\": '.' must be followed by one or more digits", "toml: line 1 (last key \"a\"): Invalid float \"1.\": '.' must be followed by one or more digits"),
        ("a=.5", "toml: line 1 (last key \"a\"): floats must start with a digit, not '.'", "toml: line 1 (last key \"a\"): floats must start with a digit, not '.'"),
        ("a=1e400", "toml: line 1 (last key \"a\"): 1e400 is out of range for float64", "toml: line 1 (last key \"a\"): 1e400 is out of range for float64"),
        ("a=99999999999999999999", "toml: line 1 (last key \"a\"): 99999999999999999999 is out of range for int64", "toml: line 1 (last key \"a\"): 99999999999999999999 is out of range for int64"),
        ("a=+0x1", "toml: line 1 (last key \"a\"): cannot use sign with non-decimal numbers: '+0x'", "toml: line 1 (last key \"a\"): cannot use sign with non-decimal numbers: '+0x'"),
        ("a=foo", "toml: line 1 (last key \"a\"): expected value but found \"foo\" instead", "toml: line 1 (last key \"a\"): expected value but found \"foo\" instead"),
        ("a=@", "toml: line 1 (last key \"a\"): expected value but found '@' instead", "toml: line 1 (last key \"a\"): expected value but found '@' instead"),
        ("x=1\n[t]\na=1\na=2", "toml: line 4 (last key \"t.a\"): Key 't.a' has already been defined.", "toml: line 4 (last key \"t.a\"): Key 't.a' has already been defined."),
        ("[a]\n[a]", "toml: line 2: Key 'a' has already been defined.", "toml: line 2: Key 'a' has already been defined."),
        ("a=2020-13-01", "toml: line 1 (last key \"a\"): invalid datetime: \"2020-13-01\"", "toml: line 1 (last key \"a\"): invalid datetime: \"2020-13-01\""),
        ("a=12:30", "toml: line 1 (last key \"a\"): invalid datetime: \"12:30\"", "{\"a\":\"0000-01-01T12:30:00Z\"}"),
        ("a=\"\"\"x", "toml: line 0 (last key \"a\"): unexpected EOF; expected '\"\"\"'", "toml: line 1 (last key \"a\"): unexpected EOF; expected '\"\"\"'"),
    ];
    for (toml, three, four) in table {
        assert_eq!((decode(toml, Helm3).as_str(), decode(toml, Helm4).as_str()), (three, four), "{toml}");
    }
}

#[test]
fn integers_decode_as_int64() {
    let map = parse(b"a = 1\nb = 1.0", Helm4, &NullEnv, &Budget::default()).unwrap();
    assert_eq!(map.get("a").unwrap().type_name(), "int64");
    assert_eq!(map.get("b").unwrap().type_name(), "float64");
}

#[test]
fn deep_nesting_is_rejected() {
    let deep = format!("a = {}", "[".repeat(100_000));
    assert_eq!(decode(&deep, Helm4), "toml: line 1 (last key \"a\"): nested more than 200 deep");
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "[ab1=\"'\\[\\]{}.,# \n\\\\_+e:TZ-]{0,40}") {
        let _ = parse(text.as_bytes(), Helm3, &NullEnv, &Budget::default());
        let _ = parse(text.as_bytes(), Helm4, &NullEnv, &Budget::default());
    }

    #[test]
    fn what_is_written_comes_back(keys in prop::collection::btree_map(".{0,9}", ".{0,20}", 0..6)) {
        let data = crate::data::Data::Map(
            keys.into_iter().map(|(key, text)| (key.into(), crate::data::Data::string(text))).collect(),
        );
        let text = write(&Value::from(&data), Helm4).unwrap();
        let back = Value::from(parse(text.as_bytes(), Helm4, &NullEnv, &Budget::default()).unwrap());
        prop_assert_eq!(crate::data::Data::try_from(&back).unwrap(), data);
    }
}

#[test]
fn line_numbers_are_counted_incrementally() {
    let text = "a = 1\n\nb = \"\"\"\nx\n\"\"\"\nc = 1\nc = 2\n";
    assert_eq!(decode(text, Helm4), "toml: line 7 (last key \"c\"): Key 'c' has already been defined.");
    assert_eq!(decode(&("[[a]]\n".repeat(1_000) + "b"), Helm4).split(' ').nth(2), Some("1001"));
}

/// Each pair walks the path of its table.
#[test]
fn long_key_paths_are_charged() {
    let budget = Budget::new(RenderLimits { steps: 1_000_000, ..RenderLimits::default() }, &Unlimited);
    let pairs: Vec<String> = (0..10_000).map(|n| format!("k{n}=1")).collect();
    let text = format!("[{}]\n{}\n", vec!["a"; 150].join("."), pairs.join("\n"));
    let error = parse(text.as_bytes(), Helm4, &NullEnv, &budget).err().expect("the budget is spent");
    assert!(error.contains("too much work"), "{error}");
}
