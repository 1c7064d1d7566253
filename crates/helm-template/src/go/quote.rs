//! String literals in Go syntax, as in Go's `strconv`.

use std::borrow::Cow;
use std::fmt::Write;

/// Not a valid literal.
#[derive(Debug, PartialEq, Eq)]
pub struct QuoteSyntaxError;

/// The value of a literal: bytes, because escapes can denote single bytes.
pub type Quoted<'l> = Result<Cow<'l, [u8]>, QuoteSyntaxError>;

impl std::fmt::Display for QuoteSyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("invalid syntax")
    }
}

/// Whether the text can be a single-line back-quoted literal without control characters (`strconv.CanBackquote`).
pub fn can_backquote(text: &str) -> bool {
    text.chars().all(|c| !matches!(c, '`' | '\u{FEFF}' | '\u{7F}') && (c >= ' ' || c == '\t'))
}

/// Parses a literal in double, single or back quotes.
pub fn unquote(literal: &str) -> Quoted<'_> {
    let quote = literal.chars().next().ok_or(QuoteSyntaxError)?;
    let inner = literal.get(1..).and_then(|rest| rest.strip_suffix(quote)).ok_or(QuoteSyntaxError)?;
    match quote {
        '`' if inner.contains('`') => Err(QuoteSyntaxError),
        '`' if inner.contains('\r') => Ok(inner.replace('\r', "").into_bytes().into()),
        '`' => Ok(inner.as_bytes().into()),
        '"' if memchr::memchr3(b'\\', b'"', b'\n', inner.as_bytes()).is_none() => Ok(inner.as_bytes().into()),
        '"' => unescape(inner, quote),
        '\'' => {
            let text = unescape(inner, quote)?;
            match std::str::from_utf8(&text).map(|text| text.chars().count()) {
                Ok(1) => Ok(text),
                _ => Err(QuoteSyntaxError),
            }
        }
        _ => Err(QuoteSyntaxError),
    }
}

fn unescape(inner: &str, quote: char) -> Quoted<'_> {
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == quote || c == '\n' {
            return Err(QuoteSyntaxError);
        }
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next().ok_or(QuoteSyntaxError)?;
        rest = &rest[escape.len_utf8()..];
        let digits = |count: usize, radix: u32| {
            let digits =
                rest.get(..count).filter(|d| d.chars().all(|c| c.is_digit(radix))).ok_or(QuoteSyntaxError)?;
            u32::from_str_radix(digits, radix).map_err(|_| QuoteSyntaxError)
        };
        let (taken, byte) = match escape {
            'a' => (0, 7),
            'b' => (0, 8),
            'f' => (0, 12),
            'n' => (0, b'\n'),
            'r' => (0, b'\r'),
            't' => (0, b'\t'),
            'v' => (0, 11),
            '\\' => (0, b'\\'),
            '\'' | '"' if escape == quote => (0, u8::try_from(escape).map_err(|_| QuoteSyntaxError)?),
            'x' => (2, u8::try_from(digits(2, 16)?).map_err(|_| QuoteSyntaxError)?),
            '0'..='7' => {
                let tail = digits(2, 8)?;
                let head = escape.to_digit(8).ok_or(QuoteSyntaxError)?;
                (2, u8::try_from(head * 64 + tail).map_err(|_| QuoteSyntaxError)?)
            }
            'u' | 'U' => {
                let count = if escape == 'u' { 4 } else { 8 };
                let c = char::from_u32(digits(count, 16)?).ok_or(QuoteSyntaxError)?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[count..];
                continue;
            }
            _ => return Err(QuoteSyntaxError),
        };
        if quote == '\'' {
            // A character constant is a code point, so it is encoded as UTF-8.
            bytes.extend_from_slice(char::from(byte).encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            bytes.push(byte);
        }
        rest = &rest[taken..];
    }
    Ok(bytes.into())
}

/// Quotes a text with double quotes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| escape(&mut out, c, '"', false));
    out.push('"');
    out
}

/// Like [`quote`], for bytes. Invalid UTF-8 is escaped byte by byte.
pub fn quote_bytes(text: &[u8]) -> String {
    quote_as(text, false)
}

/// Like [`quote_bytes`]. With `ascii`, all other characters are escaped.
pub(super) fn quote_as(text: &[u8], ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for chunk in text.utf8_chunks() {
        chunk.valid().chars().for_each(|c| escape(&mut out, c, '"', ascii));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// Quotes a character with single quotes.
pub(super) fn quote_char(c: char, ascii: bool) -> String {
    let mut out = String::from("'");
    escape(&mut out, c, '\'', ascii);
    out.push('\'');
    out
}

/// Writes one character, escaped if necessary within this kind of quotes.
fn escape(out: &mut String, c: char, quote: char, ascii: bool) {
    let short = match c {
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{b}' => 'v',
        '\\' => '\\',
        c if c == quote => quote,
        c if is_printable(c) && (c.is_ascii() || !ascii) => return out.push(c),
        c => {
            let code = u32::from(c);
            // Writing to a String cannot fail.
            let _ = match code {
                0..0x20 | 0x7f => write!(out, "\\x{code:02x}"),
                ..0x1_0000 => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
            return;
        }
    };
    out.push('\\');
    out.push(short);
}

/// `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // The standard library has the same table but exposes it only through `escape_debug`, which escapes a combining mark only at
    // the start of a string.
    let mut after_a_letter = String::from("a");
    after_a_letter.push(c);
    after_a_letter.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquote_matches_go() {
        let table = [
            (r#""a\tb\n""#, Ok("a\tb\n".as_bytes())),
            (r#""\x41\101\u00e9\U0001F600""#, Ok("AA\u{e9}\u{1F600}".as_bytes())),
            (r#""\xc3\xa9""#, Ok("\u{e9}".as_bytes())),
            (r#""\xff""#, Ok(b"\xff")),
            (r"'\xff'", Ok("\u{ff}".as_bytes())),
            (r"'\xc3\xa9'", Err(QuoteSyntaxError)),
            ("`a\\n\r\n`", Ok("a\\n\n".as_bytes())),
            (r#""\'""#, Err(QuoteSyntaxError)),
            (r"'\''", Ok("'".as_bytes())),
            ("'ab'", Err(QuoteSyntaxError)),
            (r#""\q""#, Err(QuoteSyntaxError)),
            (r#""\400""#, Err(QuoteSyntaxError)),
            ("\"", Err(QuoteSyntaxError)),
        ];
        for (literal, expected) in table {
            assert_eq!(unquote(literal), expected.map(Cow::from), "{literal}");
        }
    }

    #[test]
    fn quote_escapes_unprintable_characters() {
        assert_eq!(quote_bytes(b"a\xc3\x00\xc3\xa9\xff"), "\"a\\xc3\\x00\u{e9}\\xff\"");
        assert_eq!(
            quote("a\"\\\n\u{1}\u{7f}\u{e9}\u{301}\u{ad}\u{200b}\u{1F600}"),
            "\"a\\\"\\\\\\n\\x01\\x7f\u{e9}\u{301}\\u00ad\\u200b\u{1F600}\""
        );
    }
}
