//! Keys and quoted strings.

use std::fmt::Write;

/// Whether the character needs no quotes in a key.
pub(super) fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

pub(super) fn write(out: &mut String, key: &str) {
    if !key.is_empty() && key.chars().all(is_bare) {
        out.push_str(key);
    } else {
        quote(out, key);
    }
}

/// A dotted key.
pub(super) fn path<S: AsRef<str>>(keys: &[S]) -> String {
    let mut out = String::new();
    for (at, key) in keys.iter().enumerate() {
        if at > 0 {
            out.push('.');
        }
        write(&mut out, key.as_ref());
    }
    out
}

pub(super) fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
