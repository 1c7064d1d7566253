//! YAML encoding of JSON values in the style of Kubernetes: sorted keys, block style, and quotes only where a plain scalar would be parsed
//! as another type.

use std::fmt::Write;

use serde_json::Value;

/// Returns the document with a trailing line break.
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_value(&mut out, value, 0, false),
        Value::Array(list) if !list.is_empty() => write_value(&mut out, value, 0, false),
        _ => {
            write_scalar(&mut out, value, 0);
            out.push('\n');
        }
    }
    out
}

/// `inline`: the first line continues after `- `.
fn write_value(out: &mut String, value: &Value, indent: usize, inline: bool) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, child)) in map.iter().enumerate() {
                if at > 0 || !inline {
                    write_indent(out, indent);
                }
                write_text(out, key, indent, true);
                out.push(':');
                write_child(out, child, indent, false);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (at, child) in list.iter().enumerate() {
                if at > 0 || !inline {
                    write_indent(out, indent);
                }
                out.push('-');
                write_child(out, child, indent, true);
            }
        }
        _ => {
            write_scalar(out, value, indent);
            out.push('\n');
        }
    }
}

/// Writes the value after a key or a dash. Lists in maps are not indented further.
fn write_child(out: &mut String, child: &Value, indent: usize, in_list: bool) {
    match child {
        Value::Object(map) if !map.is_empty() => {
            if in_list {
                out.push(' ');
                write_value(out, child, indent + 2, true);
            } else {
                out.push('\n');
                write_value(out, child, indent + 2, false);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            if in_list {
                out.push(' ');
                write_value(out, child, indent + 2, true);
            } else {
                out.push('\n');
                write_value(out, child, indent, false);
            }
        }
        _ => {
            out.push(' ');
            write_scalar(out, child, indent);
            out.push('\n');
        }
    }
}

fn write_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write_scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(string) => write_text(out, string, indent, false),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => {
            let _ = write!(out, "{other}"); // writing to a String cannot fail
        }
    }
}

fn write_text(out: &mut String, string: &str, indent: usize, key: bool) {
    if !key && string.contains('\n') && can_be_literal(string) {
        let body = string.trim_end_matches('\n');
        let breaks = string.len() - body.len();
        out.push_str(match breaks {
            0 => "|-",
            1 => "|",
            _ => "|+",
        });
        for line in body.split('\n').chain(std::iter::repeat_n("", breaks.saturating_sub(1))) {
            out.push('\n');
            if !line.is_empty() {
                write_indent(out, indent + 2);
                out.push_str(line);
            }
        }
        return;
    }
    if string.chars().any(|c| c.is_control() || c == '\u{feff}') {
        let _ = write!(out, "{}", Value::from(string)); // a JSON string is a YAML double-quoted scalar
    } else if needs_quotes(string) {
        if is_ambiguous(string) {
            let _ = write!(out, "\"{}\"", string.replace('\\', "\\\\").replace('"', "\\\""));
        } else {
            let _ = write!(out, "'{}'", string.replace('\'', "''"));
        }
    } else {
        out.push_str(string);
    }
}

/// Whether a block scalar is possible: no control characters, and no leading white space, which needs an indicator.
fn can_be_literal(string: &str) -> bool {
    !string.starts_with([' ', '\n', '\t']) && !string.chars().any(|c| c.is_control() && c != '\n')
}

/// Whether the plain scalar would be parsed as a number, a boolean, a timestamp or null.
fn is_ambiguous(string: &str) -> bool {
    let lower = string.to_ascii_lowercase();
    if matches!(
        lower.as_str(),
        "" | "~"
            | "null"
            | "true"
            | "false"
            | "yes"
            | "no"
            | "on"
            | "off"
            | "y"
            | "n"
            | ".nan"
            | ".inf"
            | "-.inf"
            | "+.inf"
            | "<<"
            | "="
    ) {
        return true;
    }
    let body = lower.trim_start_matches(['-', '+']);
    let number = body.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && (body.replace('_', "").parse::<f64>().is_ok()
            || body.starts_with("0x")
            || body.starts_with("0o")
            || body.starts_with("0b"));
    let time = string.len() >= 8
        && string.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && string.bytes().all(|b| {
            b.is_ascii_digit() || matches!(b, b'-' | b':' | b'T' | b't' | b'Z' | b'z' | b'.' | b'+' | b' ')
        })
        && (string.matches('-').count() >= 2 || string.contains(':'));
    number || time
}

fn needs_quotes(string: &str) -> bool {
    is_ambiguous(string)
        || string.starts_with(|c: char| "!&*?|>@`\"'%#,[]{}: ".contains(c))
        || string == "-"
        || string.starts_with("- ")
        || string.starts_with("---")
        || string.ends_with([' ', ':'])
        || string.contains(": ")
        || string.contains(" #")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn config_map_is_printed_as_by_kubectl() {
        let value = json!({"kind": "ConfigMap", "data": {"k": "1", "t": "true", "s": "a: b", "l": "x\ny\n", "e": ""},
            "list": [{"a": 1, "b": [true, null]}, "z"], "when": "2026-01-02T03:04:05Z", "empty": {}, "none": []});
        let expected = "data:\n  e: \"\"\n  k: \"1\"\n  l: |\n    x\n    y\n  s: 'a: b'\n  t: \"true\"\nempty: {}\nkind: ConfigMap\n\
            list:\n- a: 1\n  b:\n  - true\n  - null\n- z\nnone: []\nwhen: \"2026-01-02T03:04:05Z\"\n";
        assert_eq!(print(&value), expected);
    }

    #[test]
    fn printed_yaml_parses_to_the_same_value() {
        for text in [
            "- a",
            "-a",
            "a\nb",
            " lead",
            "tab\there",
            "#c",
            "a #b",
            "0x1f",
            "1e3",
            "null",
            "é",
            "a:",
            "'q'",
            "\"d\"",
            "|",
            "a\n\n",
            "12:30",
        ] {
            let value = json!({"k": text});
            let read: Value = serde_norway::from_str(&print(&value)).unwrap();
            assert_eq!(read, value, "{}", print(&value));
        }
    }
}
