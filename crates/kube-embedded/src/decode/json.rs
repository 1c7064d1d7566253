//! A JSON parser that reports duplicate keys, which `serde_json` does not.
//!
//! Used by [`super::body`]. Error messages match Go's parser. Bytes that are not UTF-8 become U+FFFD inside strings, as
//! in Go; numbers are `i64` if they fit and `f64` otherwise.
//!
//! Invariant: any input takes at most linear time and [`super::MAX_DEPTH`] nested calls.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Number, Value};

use super::{MAX_DEPTH, MAX_FINDINGS};

/// A parsed document.
#[derive(Debug, PartialEq)]
pub struct JsonDocument {
    pub value: Value,
    /// Duplicate keys: `data.a`, `spec.containers[0].image`; each path once, in document order.
    pub duplicates: Vec<String>,
}

pub fn parse(bytes: &[u8]) -> Result<JsonDocument, String> {
    parse_with_fields(bytes, &mut |_, _| {})
}

/// Returns the rank in document order of each of these fields: the position of its duplicate, or else its last
/// position. Very long paths are skipped: finding them could take quadratic time.
pub fn field_positions<'p>(bytes: &[u8], paths: &[&'p str]) -> HashMap<&'p str, usize> {
    const MAX_PATH_LEN: usize = 1_000;
    let wanted: HashSet<&'p str> = paths.iter().copied().filter(|path| path.len() <= MAX_PATH_LEN).collect();
    let mut places = HashMap::new();
    let mut repeated = HashSet::new();
    let mut rank = 0;
    let read = parse_with_fields(bytes, &mut |path, again| {
        rank += 1;
        if let Some(path) = (path.len() <= MAX_PATH_LEN).then(|| wanted.get(path)).flatten()
            && !repeated.contains(path)
        {
            places.insert(*path, rank);
            if again {
                repeated.insert(*path);
            }
        }
    });
    if read.is_ok() { places } else { HashMap::new() }
}

fn parse_with_fields(bytes: &[u8], on_field: &mut dyn FnMut(&str, bool)) -> Result<JsonDocument, String> {
    let mut reader =
        JsonParser { bytes, at: 0, depth: 0, path: String::new(), duplicates: Vec::new(), note: on_field };
    let value = reader.value()?;
    match reader.peek() {
        None => Ok(JsonDocument { value, duplicates: reader.duplicates }),
        Some(_) => Err(reader.unexpected("after top-level value")),
    }
}

struct JsonParser<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// The current path, as Kubernetes formats it.
    path: String,
    duplicates: Vec<String>,
    /// Called for each field, with whether it is a duplicate.
    note: &'a mut dyn FnMut(&str, bool),
}

impl JsonParser<'_> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// `invalid character 'x' <where>`, or unexpected end.
    fn unexpected(&self, place: &str) -> String {
        match self.bytes.get(self.at) {
            None => "unexpected end of JSON input".to_owned(),
            Some(b'\'') => format!("invalid character '\\'' {place}"),
            Some(b'"') => format!("invalid character '\"' {place}"),
            Some(&byte) if byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r') => {
                format!("invalid character '\\x{byte:02x}' {place}")
            }
            Some(b'\x7f') => format!("invalid character '\\x7f' {place}"),
            Some(&byte @ (0x80..=0xa0 | 0xad)) => format!("invalid character '\\u{byte:04x}' {place}"),
            Some(&byte) => format!("invalid character {:?} {place}", char::from(byte)),
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth == MAX_DEPTH {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut members = Map::new();
        let mut repeated = HashSet::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let outer = self.path.len();
            if outer > 0 {
                self.path.push('.');
            }
            self.path.push_str(&key);
            let again = members.contains_key(&key);
            (self.note)(&self.path, again);
            if again && repeated.insert(key.clone()) {
                self.report_duplicate();
            }
            let value = self.value()?;
            self.path.truncate(outer);
            insert(&mut members, key, value);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn report_duplicate(&mut self) {
        if self.duplicates.len() < MAX_FINDINGS && !self.duplicates.contains(&self.path) {
            self.duplicates.push(self.path.clone());
        }
    }

    fn array(&mut self) -> Result<Value, String> {
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(elements));
        }
        loop {
            let outer = self.path.len();
            self.path.push('[');
            self.path.push_str(&elements.len().to_string());
            self.path.push(']');
            elements.push(self.value()?);
            self.path.truncate(outer);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(elements));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for letter in word.bytes() {
            if self.bytes.get(self.at) != Some(&letter) {
                let place = format!("in literal {word} (expecting {:?})", char::from(letter));
                return Err(self.unexpected(&place));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected(place)) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        let mut whole = true;
        if self.bytes.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).expect("digits and signs are ASCII");
        if let (true, Ok(number)) = (whole, text.parse::<i64>()) {
            return Ok(number.into());
        }
        let float = text.parse::<f64>().ok().and_then(Number::from_f64);
        let float = float.ok_or_else(|| {
            format!("json: cannot unmarshal number {} into Go value of type float64", truncate_excerpt(text))
        })?;
        Ok(Value::Number(float))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let start = self.at;
            while self.bytes.get(self.at).is_some_and(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            text.extend_from_slice(&self.bytes[start..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8(text)
                        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()));
                }
                Some(b'\\') => {
                    let mut utf8 = [0; 4];
                    let escaped = self.escape()?;
                    text.extend_from_slice(escaped.encode_utf8(&mut utf8).as_bytes());
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 1;
        let plain = match self.bytes.get(self.at) {
            Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `\uXXXX`, with the second half of a surrogate pair; a lone half becomes U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, String> {
        let unit = self.code_unit()?;
        if (0xd800..0xdc00).contains(&unit) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 1;
            let second = self.code_unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let pair = 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// The four digits after a `u`, at the current position.
    fn code_unit(&mut self) -> Result<u32, String> {
        let mut unit = 0;
        self.at += 1;
        for _ in 0..4 {
            let digit = self.bytes.get(self.at).and_then(|&byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| self.unexpected("in \\u hexadecimal character escape"))?;
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }
}

/// A duplicate key merges objects; any other value is replaced.
fn insert(members: &mut Map<String, Value>, key: String, value: Value) {
    match (members.get_mut(&key), value) {
        (Some(Value::Object(before)), Value::Object(again)) => before.extend(again),
        (_, value) => {
            members.insert(key, value);
        }
    }
}

/// Converts whole floats to integers, `1.0` to `1`, as a number changes in Go's `float64`.
pub fn floats_to_integers(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(floats_to_integers),
        Value::Object(members) => members.values_mut().for_each(floats_to_integers),
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(exact_integer) {
                *number = whole.into();
            }
        }
        _ => {}
    }
}

/// The integer value of a float, if it is exact.
pub fn exact_integer(float: f64) -> Option<i64> {
    const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "below 2^53 and without fraction, it is exact")]
    let whole = float as i64;
    (float.fract() == 0.0 && float.abs() <= MAX_EXACT_FLOAT).then_some(whole)
}

fn truncate_excerpt(text: &str) -> &str {
    text.get(..60).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_keys_are_reported_once_with_paths() {
        let text = br#"{"data":{"a":"1","a":"2","a":"3"},"l":[{"x":1},{"x":1,"x":2}],"data":{"c":"d"}}"#;
        let read = parse(text).unwrap();
        assert_eq!(read.duplicates, ["data.a", "l[1].x", "data"]);
        assert_eq!(read.value, json!({"data": {"a": "3", "c": "d"}, "l": [{"x": 1}, {"x": 2}]}));
        let places = self::field_positions(br#"{"b":[{"c":1}],"a":2,"b":3}"#, &["a", "b", "b[0].c", "d"]);
        assert_eq!(places, HashMap::from([("b[0].c", 2), ("a", 3), ("b", 4)]));
        // A duplicate inside the first of two values comes before the duplicate itself.
        let nested = self::field_positions(br#"{"p":[{"q":1,"q":2}],"p":[{"q":3}]}"#, &["p", "p[0].q"]);
        assert_eq!(nested, HashMap::from([("p[0].q", 3), ("p", 4)]));
    }

    #[test]
    fn syntax_errors_have_go_messages() {
        #[rustfmt::skip]
        let table = [
            ("", "unexpected end of JSON input"), ("{\"a\": ", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e999", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        ];
        for (text, error) in table {
            assert_eq!(parse(text.as_bytes()), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_and_invalid_utf8_is_replaced() {
        let nested = |deep: usize| [vec![b'['; deep], vec![b']'; deep]].concat();
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&nested(3_000_000)).unwrap_err(), "invalid character '[' exceeded max depth");
        assert_eq!(parse(b"\"\xff\\ud83d\\ude00\\ud800x\"").unwrap().value, json!("\u{fffd}😀\u{fffd}x"));
        assert_eq!(parse(b"9223372036854775808").unwrap().value, json!(9_223_372_036_854_775_808.0));
    }

    proptest! {
        #[test]
        fn it_reads_what_serde_json_reads(text in "[\\[\\]{}\",:\\\\ute01.eE+\\- a]{0,24}") {
            let ours = parse(text.as_bytes());
            if let Ok(theirs) = serde_json::from_str::<Value>(&text) {
                prop_assert!(ours.is_ok());
                if ours.as_ref().unwrap().duplicates.is_empty() {
                    prop_assert_eq!(ours.unwrap().value.to_string(), theirs.to_string().replace("-0.0", "0"));
                }
            }
        }

        #[test]
        fn no_bytes_stop_it(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
