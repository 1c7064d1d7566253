//! Parses the JSON value at the beginning of a text.

use helm_template::data::Data;
use helm_template::json;
use helm_template::value::Str;

use super::cursor::Cursor;

/// Parses a value and advances past it.
pub fn take_value(rest: &mut Cursor) -> Result<Data, Str> {
    let text = rest.rest();
    let end = value_len(text.as_bytes());
    let value = json::parse(text.get(..end).unwrap_or(text))?;
    rest.advance(end);
    Ok(value)
}

/// Length of the value if it is valid; the parser reports errors.
fn value_len(text: &[u8]) -> usize {
    match text.first() {
        Some(b'{' | b'[') => balanced(text),
        Some(b'"') => string(text),
        Some(b't' | b'n') => 4,
        Some(b'f') => 5,
        _ => number(text),
    }
}

fn balanced(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                at += string(&text[at..]);
                continue;
            }
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

fn number(text: &[u8]) -> usize {
    let digits = |from: usize| text.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(text.first() == Some(&b'-'));
    at += if text.get(at) == Some(&b'0') { 1 } else { digits(at) };
    if text.get(at) == Some(&b'.') {
        at += 1 + digits(at + 1);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        at += digits(at);
    }
    at
}
