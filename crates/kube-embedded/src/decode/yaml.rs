//! A YAML parser with the interpretation of Kubernetes.
//!
//! Used by [`super::body`]. Only the first document is read; plain `yes`, `on` and `y` are booleans and `0644` is octal, as in YAML 1.1;
//! number and boolean keys become strings; unknown tags are ignored.
//!
//! The grammar is that of `serde_norway`. It does not report whether a scalar was quoted, but borrows strings from the input, so that the
//! preceding byte shows it.
//!
//! Invariant: depth and repetition by aliases are bounded.

use std::fmt;

use serde::de::{self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{MAX_DEPTH, MAX_FINDINGS, json};

/// Limits of the additional values and text of a document with its aliases expanded. Without aliases a document has at most half as many
/// values as bytes, and no more text than bytes.
const MAX_EXPANDED_VALUES: usize = 100_000;
const MAX_EXPANDED_TEXT: usize = 1 << 20;
/// Up to this many open brackets the scanner takes about as long as for a flat document.
const CHEAP_DEPTH: usize = 16;

/// A parsed document.
#[derive(Debug, PartialEq)]
pub struct YamlDocument {
    pub value: Value,
    /// `line 5: key "data" already set in map`
    pub duplicates: Vec<String>,
}

pub fn parse(bytes: &[u8]) -> Result<YamlDocument, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if nests_too_deep(text) {
        return Err(format!("yaml: exceeded max depth of {MAX_DEPTH}"));
    }
    let Some(document) = serde_norway::Deserializer::from_str(text).next() else {
        return Ok(YamlDocument { value: Value::Null, duplicates: Vec::new() });
    };
    let values_left = text.len() / 2 + MAX_EXPANDED_VALUES;
    let mut state =
        ParserState { text, values_left, text_left: text.len() + MAX_EXPANDED_TEXT, duplicates: Vec::new() };
    let value =
        NodeSeed { state: &mut state, depth: 0 }.deserialize(document).map_err(|e| error_message(&e))?;
    Ok(YamlDocument { value, duplicates: state.duplicates })
}

/// Whether the document is refused before scanning, because the scanner's work grows with depth times length. The limit is far above any
/// valid document with unbalanced brackets in text.
fn nests_too_deep(text: &str) -> bool {
    const MAX_UNBALANCED: usize = 1_000;
    flow_depth(text.as_bytes()) > MAX_UNBALANCED
}

/// Returns the maximum number of open brackets, including brackets inside quoted text.
fn flow_depth(bytes: &[u8]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in bytes {
        match byte {
            b'[' | b'{' => open = open.saturating_add(1),
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Estimates the cost of parsing beyond the document's size, in bytes of a document without aliases. The scanner's time uses no memory and
/// counts no more than the aliases.
pub fn amplification(bytes: &[u8]) -> usize {
    let repeated = if may_have_aliases(bytes) { MAX_EXPANDED_TEXT } else { 0 };
    let scanned = bytes.len().saturating_mul(flow_depth(bytes) / CHEAP_DEPTH).min(MAX_EXPANDED_TEXT);
    repeated.saturating_add(scanned)
}

/// Whether a document may contain an anchor and an alias. Text that looks like them counts as well.
fn may_have_aliases(bytes: &[u8]) -> bool {
    let has = |sign: u8| {
        let names = |pair: &[u8]| pair[1].is_ascii_alphanumeric() || matches!(pair[1], b'_' | b'-');
        bytes.windows(2).any(|pair| pair[0] == sign && names(pair))
    };
    has(b'&') && has(b'*')
}

fn error_message(error: &serde_norway::Error) -> String {
    match error.to_string() {
        text if text.contains("repetition limit exceeded") || text.contains("excessive aliasing") => {
            "yaml: document contains excessive aliasing".to_owned()
        }
        text if text.contains("recursion limit exceeded") => {
            format!("yaml: exceeded max depth of {MAX_DEPTH}")
        }
        text => format!("yaml: {text}"),
    }
}

struct ParserState<'de> {
    text: &'de str,
    values_left: usize,
    text_left: usize,
    duplicates: Vec<String>,
}

impl ParserState<'_> {
    /// Subtracts one value, or an amount of text, from a limit.
    fn charge<E: de::Error>(left: &mut usize, amount: usize) -> Result<(), E> {
        *left = left.checked_sub(amount).ok_or_else(|| E::custom("document contains excessive aliasing"))?;
        Ok(())
    }

    /// Returns the offset of a borrowed string in the text.
    fn offset(&self, borrowed: &str) -> Option<usize> {
        let offset = (borrowed.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        (offset + borrowed.len() <= self.text.len()).then_some(offset)
    }

    fn is_plain(&self, borrowed: &str) -> bool {
        self.offset(borrowed).is_some_and(|at| {
            let before = at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
            let after = self.text.as_bytes().get(at + borrowed.len());
            !(matches!(before, Some(b'"' | b'\'')) && before == after)
        })
    }
}

/// A position in the document that becomes one value.
struct NodeSeed<'s, 'de> {
    state: &'s mut ParserState<'de>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_, 'de> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        ParserState::charge(&mut self.state.values_left, 1)?;
        deserializer.deserialize_any(self)
    }
}

impl NodeSeed<'_, '_> {
    fn child_depth<E: de::Error>(&self) -> Result<usize, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_, 'de> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        if let Some(whole) = json::exact_integer(value) {
            return Ok(whole.into());
        }
        let number = Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom(format!("json: unsupported value: {value}")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        ParserState::charge(&mut self.state.text_left, text.len())?;
        Ok(text.into())
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Value, E> {
        ParserState::charge(&mut self.state.text_left, text.len())?;
        Ok(if self.state.is_plain(text) { parse_plain_scalar(text) } else { text.into() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let depth = self.child_depth()?;
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(NodeSeed { state: &mut *self.state, depth })? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.child_depth()?;
        let mut map = Map::new();
        let mut merged = Vec::new();
        while let Some(key) = entries.next_key_seed(KeySeed(&mut *self.state))? {
            let value = entries.next_value_seed(NodeSeed { state: &mut *self.state, depth })?;
            if key.is_merge {
                merged.push(value);
                continue;
            }
            if map.contains_key(&key.text) && self.state.duplicates.len() < MAX_FINDINGS {
                let line = key.at.map_or(0, |at| 1 + self.state.text[..at].matches('\n').count());
                let duplicate = format!("line {line}: key {:?} already set in map", key.text);
                self.state.duplicates.push(duplicate);
            }
            map.insert(key.text, value);
        }
        for value in merged {
            merge(&mut map, value).map_err(de::Error::custom)?;
        }
        Ok(Value::Object(map))
    }

    /// The value has a tag that serde does not support.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        let (_tag, value) = tagged.variant::<String>()?;
        value.newtype_variant_seed(self)
    }
}

struct MapKey {
    text: String,
    at: Option<usize>,
    /// Whether the key is `<<`.
    is_merge: bool,
}

struct KeySeed<'s, 'de>(&'s mut ParserState<'de>);

impl<'de> DeserializeSeed<'de> for KeySeed<'_, 'de> {
    type Value = MapKey;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<MapKey, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeySeed<'_, 'de> {
    type Value = MapKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map key: text, a number or a boolean")
    }

    fn visit_bool<E>(self, value: bool) -> Result<MapKey, E> {
        Ok(key(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<MapKey, E> {
        Ok(key(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<MapKey, E> {
        Ok(key(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<MapKey, E> {
        Ok(key(value.to_string()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MapKey, E> {
        ParserState::charge(&mut self.0.text_left, text.len())?;
        Ok(key(text.to_owned()))
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<MapKey, E> {
        let state = self.0;
        ParserState::charge(&mut state.text_left, text.len())?;
        let at = state.offset(text);
        if !state.is_plain(text) {
            return Ok(MapKey { at, ..key(text.to_owned()) });
        }
        let resolved = match parse_plain_scalar(text) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(MapKey { at, is_merge: text == "<<", text: resolved })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<MapKey, A::Error> {
        let (_tag, value) = tagged.variant::<String>()?;
        value.newtype_variant_seed(self)
    }
}

fn key(text: String) -> MapKey {
    MapKey { text, at: None, is_merge: false }
}

/// Merges `<<: *defaults`: existing keys take precedence.
fn merge(map: &mut Map<String, Value>, value: Value) -> Result<(), &'static str> {
    match value {
        Value::Object(other) => {
            for (key, value) in other {
                map.entry(key).or_insert(value);
            }
            Ok(())
        }
        Value::Array(list) if list.iter().all(Value::is_object) => {
            list.into_iter().try_for_each(|other| merge(map, other))
        }
        _ => Err("map merge requires map or sequence of maps as the value"),
    }
}

/// Interprets an unquoted scalar that `serde_norway` returned as a string.
fn parse_plain_scalar(text: &str) -> Value {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return true.into(),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return false.into(),
        _ => {}
    }
    parse_number(text).unwrap_or_else(|| text.into())
}

/// Parses numbers of YAML 1.1 that YAML 1.2 does not have: `0644`, `1_000`, `0b11`.
fn parse_number(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        b'0'..=b'9' => (false, text),
        _ => return None,
    };
    let digits = digits.replace('_', "");
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let parsed = if let Some(binary) = digits.strip_prefix("0b") {
        i64::from_str_radix(binary, 2)
    } else if let Some(hex) = digits.strip_prefix("0x") {
        i64::from_str_radix(hex, 16)
    } else if let Some(octal) = digits.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        i64::from_str_radix(octal, 8)
    } else {
        digits.parse::<i64>()
    };
    if let Ok(number) = parsed {
        return Some(Value::from(if negative { -number } else { number }));
    }
    let float = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let float = float.then(|| digits.parse::<f64>().ok()).flatten()?;
    Number::from_f64(if negative { -float } else { float }).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn amplification_of_documents_with_aliases_or_many_open_brackets() {
        for plain in [
            "",
            "a: b",
            "a: \"*\"",
            "a: |\n  a && b * c & d\n",
            "a: &x 1",
            "{a: [[b], [c]]}",
            "- - - - - - - - - - a",
        ] {
            assert_eq!(amplification(plain.as_bytes()), 0, "{plain}");
        }
        for aliases in ["[&a b, *a]", "a: &1 b\nc: *1", "&_ a: *_", "- &-a b\n- *-a"] {
            assert!(amplification(aliases.as_bytes()) >= MAX_EXPANDED_TEXT, "{aliases}");
        }
        let nested = "[".repeat(80) + &"a,".repeat(1_000);
        assert_eq!(amplification(nested.as_bytes()), 5 * nested.len());
    }

    #[test]
    fn plain_scalars_are_interpreted_as_in_kubernetes() {
        #[rustfmt::skip]
        let table = [
            ("a: yes", json!({"a": true})), ("a: 'yes'", json!({"a": "yes"})), ("a: \"no\"", json!({"a": "no"})),
            ("[on, off, y, 'on']", json!([true, false, true, "on"])), ("{yes: a, 1: b, 1.5: c}", json!({"true": "a", "1": "b", "1.5": "c"})),
            ("a: 0644", json!({"a": 420})), ("a: 1_000", json!({"a": 1000})), ("a: 2020-01-01", json!({"a": "2020-01-01"})),
            ("a: !foo c", json!({"a": "c"})), ("a: ~\nb:", json!({"a": null, "b": null})), ("", json!(null)),
            ("{<<: {a: b, c: d}, a: x}", json!({"a": "x", "c": "d"})), ("a: &x [1]\nb: *x", json!({"a": [1], "b": [1]})),
            ("---\na: 1\n---\n}{", json!({"a": 1})), ("a: |\n  yes\n", json!({"a": "yes\n"})), ("a: 1.2.3", json!({"a": "1.2.3"})),
        ];
        for (text, expected) in table {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn duplicate_key_is_reported_with_line() {
        let read = parse(b"kind: X\ndata: {a: b}\ndata: {a: c}\n").unwrap();
        assert_eq!(read.duplicates, ["line 3: key \"data\" already set in map"]);
    }

    #[test]
    fn exploding_documents_are_rejected_quickly() {
        let mut laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for (before, this) in ('a'..'i').zip('b'..'j') {
            let nine = vec![format!("*{before}"); 9].join(",");
            laughs = format!("{laughs}{this}: &{this} [{nine}]\n");
        }
        assert_eq!(parse(laughs.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        let long = format!("a: &a '{}'\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 20_000].join(","));
        assert_eq!(parse(long.as_bytes()).unwrap_err(), "yaml: document contains excessive aliasing");
        for deep in [MAX_DEPTH + 1, 500, 10_000, 3_000_000] {
            assert!(parse("[".repeat(deep).as_bytes()).is_err());
        }
        let wide = format!("{}{}", "[".repeat(990), "a,".repeat(10_000));
        assert!(parse(wide.as_bytes()).is_err());
        let deep = "- ".repeat(20_000);
        assert!(parse(deep.as_bytes()).unwrap_err().contains("exceeded max depth"));
        assert_eq!(parse(b"a: \xff").unwrap_err(), "yaml: invalid leading UTF-8 octet");
    }

    proptest! {
        #[test]
        fn no_text_stops_it(text in "[\\[\\]{}\"':,&*!|>\\-a0 \n#<?%@~]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
