//! Tokens of Go's syntax: backslash escapes and repetition counts in braces.

use super::translate::RegexSyntaxError;

/// Parses a backslash escape. Returns its code point and the remaining text.
pub(super) fn escape(text: &str) -> Result<(u32, &str), RegexSyntaxError<'_>> {
    let after = &text[1..];
    let Some(c) = after.chars().next() else { return Err(RegexSyntaxError::TrailingBackslash) };
    let rest = &after[c.len_utf8()..];
    let code = match c {
        '0'..='7' => {
            let more = rest.bytes().take(2).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            if c != '0' && more == 0 {
                return Err(RegexSyntaxError::Escape(&text[..2]));
            }
            let digits = &after[..=more];
            return Ok((u32::from_str_radix(digits, 8).unwrap_or_default(), &rest[more..]));
        }
        'x' => return hexadecimal(text, rest),
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
        _ => return Err(RegexSyntaxError::Escape(&text[..text.len() - rest.len()])),
    };
    Ok((code, rest))
}

/// Parses `\x7F` or `\x{10FFFF}`; `digits` is the text after the `x`.
fn hexadecimal<'t>(text: &'t str, digits: &'t str) -> Result<(u32, &'t str), RegexSyntaxError<'t>> {
    // The reported part ends with the last character examined.
    let blame = |end: usize| RegexSyntaxError::Escape(&text[..end]);
    let mut at = 2;
    let (mut code, mut count) = (0_u32, 0);
    let braced = digits.starts_with('{');
    for c in digits.chars() {
        at += c.len_utf8();
        match c {
            '{' if braced && at == 3 => continue,
            '}' if braced && count > 0 => return Ok((code, &text[at..])),
            _ => {}
        }
        match c.to_digit(16) {
            Some(digit) => code = code * 16 + digit,
            // Go reads both digits before it checks either.
            None if !braced && count == 0 => code = u32::MAX >> 8,
            None => return Err(blame(at)),
        }
        count += 1;
        if braced && code > 0x10_FFFF {
            return Err(blame(at));
        }
        if !braced && count == 2 {
            return if code <= 0xFF { Ok((code, &text[at..])) } else { Err(blame(at)) };
        }
    }
    Err(blame(text.len()))
}

/// Parses `{2}`, `{2,}` or `{2,3}`: minimum, maximum (-1 if missing), and the remaining text. Returns `None` if the brace is a
/// literal.
pub(super) fn counted(text: &str) -> Option<(i64, i64, &str)> {
    let (mut min, rest) = number(&text[1..])?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (min, rest),
        Some(rest) if rest.starts_with('}') => (-1, rest),
        Some(rest) => {
            let (max, rest) = number(rest)?;
            if max < 0 {
                min = -1;
            }
            (max, rest)
        }
    };
    Some((min, max, rest.strip_prefix('}')?))
}

/// Parses a number without leading zeros; -1 if it is far too large.
fn number(text: &str) -> Option<(i64, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    if digits.is_empty() || (count > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((if count > 8 { -1 } else { digits.parse().unwrap_or(-1) }, rest))
}
