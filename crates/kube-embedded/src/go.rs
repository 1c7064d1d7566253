//! Go's formatting and naming of values, which Kubernetes' messages contain.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// `%T`
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The name of a value's type in decoding errors: `cannot unmarshal array into ...`.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The message of invalid JSON. Only the most common one is worded as in Go.
pub fn syntax_error(error: &serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

/// `%v`: `map[a:b c:[1 2]]`
pub fn format_v(value: &Value) -> String {
    let mut out = String::new();
    write_v(value, &mut out);
    out
}

fn write_v(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&number(n)),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_v(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push_str("map[");
            for (i, (key, item)) in fields.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_v(item, out);
            }
            out.push(']');
        }
    }
}

/// `%#v`: `map[string]interface {}{"a":"b"}`
pub fn format_sharp_v(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(s) => quote(s),
        Value::Bool(_) | Value::Number(_) => format_v(value),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(format_sharp_v).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(k, v)| format!("{}:{}", quote(k), format_sharp_v(v))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// `%s` of a value of any type.
pub fn format_s(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("%!s({}={})", type_name(value), format_v(value)),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(format_s).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<_> = fields.iter().map(|(k, v)| format!("{k}:{}", format_s(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// `%q`
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)).expect("a String takes all"),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes all"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Compact JSON as `encoding/json` writes it: `<`, `>` and `&` are escaped.
pub fn json(value: &Value) -> String {
    let raw = value.to_string();
    if !raw.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return raw;
    }
    let mut out = String::with_capacity(raw.len() + 16);
    for c in raw.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("a String takes all");
            }
            c => out.push(c),
        }
    }
    out
}

/// Go formats a float with an exponent below -4 or from 21 on.
fn number(n: &Number) -> String {
    let Some(float) = n.as_f64().filter(|_| n.is_f64()) else { return n.to_string() };
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        return format!("{float}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A label selector as Go's generated `String` method formats it.
pub fn label_selector(selector: &Value) -> String {
    let mut out = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let _ = write!(out, "{key}: {},", format_v(value));
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values = Value::Array(expression["values"].as_array().cloned().unwrap_or_default());
        let (key, operator) = (format_v(&expression["key"]), format_v(&expression["operator"]));
        let values = format_v(&values);
        let _ = write!(out, "LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:{values},}},");
    }
    out.push_str("},}");
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_formatted_as_in_go() {
        let value = json!({"a": "b", "c": [1, 2.5, null, true, 1e21, 1e-7]});
        assert_eq!(format_v(&value), "map[a:b c:[1 2.5 <nil> true 1e+21 1e-07]]");
        assert_eq!(
            format_sharp_v(&json!(["a", 1, null, {"x": null}])),
            r#"[]interface {}{"a", 1, interface {}(nil), map[string]interface {}{"x":interface {}(nil)}}"#
        );
        assert_eq!(quote("a\"\n\u{1}é"), r#""a\"\n\x01é""#);
        assert_eq!(json(&json!("<&>")), r#""\u003c\u0026\u003e""#);
        assert_eq!(format_s(&json!(5)), "%!s(int64=5)");
    }
}
