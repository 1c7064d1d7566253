//! JSON decoding and encoding. Every expectation was compared with Helm 3.17.3 and 4.3.1.

use proptest::prelude::*;

use super::*;
use crate::data::Data;
use crate::value::Value;

#[test]
#[rustfmt::skip]
fn encoding_matches_helm() {
    let table = [
        ("\"a<b>&\\u2028\\u0001\\b\\f\\n\\t\\\"\\\\\\u007f\\u00e9\\ud83d\\ude00\"", JsonStyle::Plain, "\"a\\u003cb\\u003e\\u0026\\u2028\\u0001\\b\\f\\n\\t\\\"\\\\\u{7f}\u{e9}\u{1f600}\""),
        ("1e21", JsonStyle::Plain, "1e+21"),
        ("1e-7", JsonStyle::Plain, "1e-7"),
        ("0.000001", JsonStyle::Plain, "0.000001"),
        ("123456789.125", JsonStyle::Plain, "123456789.125"),
        ("-0", JsonStyle::Plain, "-0"),
        ("100000000000000000000", JsonStyle::Plain, "100000000000000000000"),
        ("{\"b\":[],\"a\":{},\"c\":[1,{\"d\":null}]}", JsonStyle::Plain, "{\"a\":{},\"b\":[],\"c\":[1,{\"d\":null}]}"),
        ("\"a<b>&\\u2028\\u0001\\b\\f\\n\\t\\\"\\\\\\u007f\\u00e9\\ud83d\\ude00\"", JsonStyle::Raw, "\"a<b>&\\u2028\\u0001\\b\\f\\n\\t\\\"\\\\\u{7f}\u{e9}\u{1f600}\""),
        ("{\"b\":[],\"a\":{},\"c\":[1,{\"d\":null}]}", JsonStyle::Raw, "{\"a\":{},\"b\":[],\"c\":[1,{\"d\":null}]}"),
        ("\"a<b>&\\u2028\\u0001\\b\\f\\n\\t\\\"\\\\\\u007f\\u00e9\\ud83d\\ude00\"", JsonStyle::Pretty, "\"a\\u003cb\\u003e\\u0026\\u2028\\u0001\\b\\f\\n\\t\\\"\\\\\u{7f}\u{e9}\u{1f600}\""),
        ("{\"b\":[],\"a\":{},\"c\":[1,{\"d\":null}]}", JsonStyle::Pretty, "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": null\n    }\n  ]\n}"),
    ];
    for (json, style, expected) in table {
        assert_eq!(write(&parse(json).unwrap(), style).unwrap(), expected, "{json}");
    }
    let raw = Value::string_from_bytes(b"a\xE2\x82<".to_vec());
    assert_eq!(write_value(&raw, JsonStyle::Raw).unwrap(), r#""a\ufffd\ufffd<""#);
}

#[test]
fn parse_errors_match_go() {
    let table = [
        ("", "unexpected end of JSON input"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("truex", "invalid character 'x' after top-level value"),
        ("-", "invalid character ' ' in numeric literal"),
        ("-a", "invalid character 'a' in numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1.a", "invalid character 'a' after decimal point in numeric literal"),
        ("1e+", "invalid character ' ' in exponent of numeric literal"),
        ("1ex", "invalid character 'x' in exponent of numeric literal"),
        ("\"a", "unexpected end of JSON input"),
        ("\"a\n\"", "invalid character '\\n' in string literal"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\u12", "invalid character ' ' in \\u hexadecimal character escape"),
        ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ("[", "unexpected end of JSON input"),
        ("[1", "unexpected end of JSON input"),
        ("[1,", "unexpected end of JSON input"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[] x", "invalid character 'x' after top-level value"),
        ("{", "unexpected end of JSON input"),
        ("{a", "invalid character 'a' looking for beginning of object key string"),
        ("{\"a\"", "unexpected end of JSON input"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":", "unexpected end of JSON input"),
        ("{\"a\":1", "unexpected end of JSON input"),
        ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{} {}", "invalid character '{' after top-level value"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("\u{e9}", "invalid character '\u{c3}' looking for beginning of value"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("[\u{1}]", "invalid character '\\x01' looking for beginning of value"),
        ("+1", "invalid character '+' looking for beginning of value"),
        ("<", "invalid character '<' looking for beginning of value"),
        ("\\", "invalid character '\\\\' looking for beginning of value"),
        ("\"\u{1}\"", "invalid character '\\x01' in string literal"),
        ("[1e400]", "json: cannot unmarshal number 1e400 into Go value of type float64"),
    ];
    for (json, expected) in table {
        assert_eq!(parse(json).unwrap_err().as_ref(), expected, "{json}");
    }
    assert_eq!(parse("[".repeat(20_000)).unwrap_err().as_ref(), "exceeded max depth");
}

#[test]
fn unpaired_surrogates_and_invalid_utf8_are_replaced() {
    let table: [(&[u8], &str); 5] = [
        (br#""\ud83d\ude00""#, "\u{1F600}"),
        (br#""\ud83dx""#, "\u{FFFD}x"),
        (br#""\ud83d\u0041""#, "\u{FFFD}A"),
        (br#""\ude00""#, "\u{FFFD}"),
        (b"\"a\xE2\x82\\n\"", "a\u{FFFD}\u{FFFD}\n"),
    ];
    for (json, expected) in table {
        assert_eq!(parse(json).unwrap(), Data::string(expected));
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in "[\\[\\]{}:,\"\\\\a-u0-9eE.+ \n-]{0,40}") {
        if let Ok(data) = parse(&text) {
            let written = write(&data, JsonStyle::Plain).unwrap();
            prop_assert_eq!(parse(written).unwrap(), data);
        }
    }

    #[test]
    fn texts_and_numbers_come_back(text in ".{0,40}", number in prop::num::f64::NORMAL) {
        let data = Data::List(vec![Data::string(text), Data::Float(number)]);
        for style in [JsonStyle::Plain, JsonStyle::Pretty, JsonStyle::Raw] {
            prop_assert_eq!(&parse(write(&data, style).unwrap()).unwrap(), &data);
        }
    }
}
