//! Word functions: case conversion, initials, word wrapping.
//!
//! `initials`, `nospace`, `wrap` and `abbrev` work on bytes, as in Go, and so break up characters outside ASCII.

use memchr::{memchr, memrchr};

use super::arguments::{FunctionResult, bytes, int};
use super::strings::substring;
use crate::exec::Machine;
use crate::go::unicode::{
    is_digit, is_letter, is_lower, is_number, is_punctuation, is_title, is_upper, to_lower, to_title,
    to_upper,
};
use crate::value::Value;

/// Capitalises every word.
pub(super) fn title(text: &str) -> String {
    let inside = |c: char| {
        if c.is_ascii() {
            c.is_ascii_alphanumeric() || c == '_'
        } else {
            is_letter(c) || is_digit(c) || !c.is_whitespace()
        }
    };
    let mut previous = ' ';
    let mut case = |c| if inside(std::mem::replace(&mut previous, c)) { c } else { to_title(c) };
    text.chars().map(&mut case).collect()
}

/// Lower-cases the first letter of every word.
pub(super) fn untitle(text: &str) -> String {
    let mut first = true;
    let case = |c: char| {
        if c.is_whitespace() {
            first = true;
            c
        } else if std::mem::take(&mut first) {
            to_lower(c)
        } else {
            c
        }
    };
    text.chars().map(case).collect()
}

pub(super) fn swap_case(text: &str) -> String {
    let mut first = true;
    let case = |c: char| {
        if is_upper(c) || is_title(c) {
            first = false;
            to_lower(c)
        } else if is_lower(c) {
            if std::mem::take(&mut first) { to_title(c) } else { to_upper(c) }
        } else {
            first = c.is_whitespace();
            c
        }
    };
    text.chars().map(case).collect()
}

fn is_space(byte: u8) -> bool {
    char::from(byte).is_whitespace()
}

pub(super) fn initials(text: &[u8]) -> String {
    let mut gap = true;
    let first = |byte: &u8| {
        if is_space(*byte) {
            gap = true;
            false
        } else {
            std::mem::take(&mut gap)
        }
    };
    text.iter().copied().filter(first).map(char::from).collect()
}

pub(super) fn without_space(value: &Value) -> Value {
    let text = bytes(value);
    if !text.iter().copied().any(is_space) {
        return value.clone();
    }
    text.iter().filter(|byte| !is_space(**byte)).map(|byte| char::from(*byte)).collect::<String>().into()
}

pub(super) fn abbrev(args: &[Value]) -> FunctionResult {
    Ok(if int(&args[0]) < 4 { args[1].clone() } else { abbreviated(&args[1], 0, int(&args[0])) })
}

pub(super) fn abbrev_both(args: &[Value]) -> FunctionResult {
    let (left, right) = (int(&args[0]), int(&args[1]));
    let too_narrow = right < 4 || (left > 0 && right < 7);
    Ok(if too_narrow { args[2].clone() } else { abbreviated(&args[2], left, right) })
}

/// At most `width` bytes of a string, including the dots and the byte at `offset`.
fn abbreviated(value: &Value, offset: i64, width: i64) -> Value {
    const DOTS: &[u8] = b"...";
    const WIDTH: i64 = 3;
    let text = bytes(value);
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if length <= width {
        return value.clone();
    }
    let cut = |from: i64, to: i64| {
        let place = |at: i64| usize::try_from(at).unwrap_or_default();
        text.get(place(from)..place(to)).unwrap_or_default()
    };
    let room = width - WIDTH;
    let offset = offset.min(length);
    let offset = if length - offset.max(0) < room { length - room } else { offset };
    Value::string_from_bytes(if offset <= 4 {
        [cut(0, room), DOTS].concat()
    } else if offset + room < length {
        [DOTS, cut(offset, offset + room - WIDTH), DOTS].concat()
    } else {
        [DOTS, cut(length - room, length)].concat()
    })
}

/// Wraps text at spaces into lines of at most `width` bytes.
pub(super) fn wrap(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    wrapped(machine, &args[1], int(&args[0]), b"\n", false)
}

/// Like [`wrap`], with a custom line separator; long words are cut.
pub(super) fn wrap_with(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let between = if bytes(&args[1]).is_empty() { b"\n" } else { bytes(&args[1]) };
    wrapped(machine, &args[2], int(&args[0]), between, true)
}

fn wrapped(
    machine: &mut Machine<'_>,
    value: &Value,
    width: i64,
    between: &[u8],
    cut: bool,
) -> FunctionResult {
    let text = bytes(value);
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    if text.len() <= width {
        return Ok(substring(value, 0..text.len()));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while rest.len() > width {
        if rest[0] == b' ' {
            rest = &rest[1..];
            continue;
        }
        // The end of this line and the start of the next.
        let (end, next) = match memrchr(b' ', &rest[..=width]) {
            Some(space) => (space, space + 1),
            None if cut => (width, width),
            None => {
                let Some(space) = memchr(b' ', &rest[width..]) else { break };
                (width + space, width + space + 1)
            }
        };
        machine.check_memory(out.len() + end + between.len())?;
        out.extend_from_slice(&rest[..end]);
        out.extend_from_slice(between);
        rest = &rest[next..];
    }
    out.extend_from_slice(rest);
    Ok(Value::string_from_bytes(out))
}

fn is_separator(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// `SomeWords`, from words joined by spaces, hyphens or underscores.
pub(super) fn camel(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    let Some(mut current) = rest.next() else { return out };
    // Leading joiners are kept. A text of joiners only gets its last one doubled, as in sprig.
    while is_separator(current) {
        out.push(current);
        let Some(next) = rest.next() else {
            out.push(current);
            return out;
        };
        current = next;
    }
    let mut capitals = is_upper(current);
    current = to_upper(current);
    for mut next in rest {
        if is_separator(next) && is_separator(current) {
            out.push(current);
        } else if is_separator(current) {
            capitals = is_upper(next);
            next = to_upper(next);
        } else {
            capitals &= is_upper(next);
            if capitals {
                next = to_lower(next);
            }
            out.push(current);
        }
        current = next;
    }
    out.push(current);
    out
}

/// The class of a token in `snakecase`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenClass {
    Nothing,
    Number,
    Upper,
    Letters,
    Joint,
    Punctuation,
    Other,
}

/// `some_words` or `some-words`, from a text in any case.
pub(super) fn join_tokens(text: &str, joint: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut kind, mut word, mut rest) = next_token(text);
    while !rest.is_empty() {
        if kind != TokenClass::Joint {
            push_token(&mut out, kind, word, joint);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_token(rest);
        match before {
            TokenClass::Number => {
                while matches!(kind, TokenClass::Letters | TokenClass::Number) {
                    push_token(&mut out, kind, word, joint);
                    (kind, word, rest) = next_token(rest);
                }
                if !matches!(kind, TokenClass::Nothing | TokenClass::Punctuation | TokenClass::Joint) {
                    out.push(joint);
                }
            }
            TokenClass::Joint => push_token(&mut out, before, last, joint),
            TokenClass::Punctuation => {}
            _ if kind == TokenClass::Number => {
                if rest.is_empty() {
                    continue;
                }
                let number = word;
                (kind, word, rest) = next_token(rest);
                if kind != TokenClass::Letters {
                    // The number belongs to the preceding word: `bld4_floor`.
                    push_token(&mut out, TokenClass::Number, number, joint);
                    if !matches!(kind, TokenClass::Joint | TokenClass::Punctuation) {
                        out.push(joint);
                    }
                    continue;
                }
                // The number belongs to the following lower-case letters: `http_2xx`.
                out.push(joint);
                push_token(&mut out, TokenClass::Number, number, joint);
                while matches!(kind, TokenClass::Letters | TokenClass::Number) {
                    push_token(&mut out, kind, word, joint);
                    (kind, word, rest) = next_token(rest);
                }
                if !matches!(kind, TokenClass::Nothing | TokenClass::Joint | TokenClass::Punctuation) {
                    out.push(joint);
                }
            }
            _ if !matches!(kind, TokenClass::Joint | TokenClass::Punctuation) => out.push(joint),
            _ => {}
        }
    }
    push_token(&mut out, kind, word, joint);
    out
}

fn push_token(out: &mut String, kind: TokenClass, word: &str, joint: char) {
    if !matches!(kind, TokenClass::Upper | TokenClass::Joint) {
        out.push_str(word);
        return;
    }
    out.extend(word.chars().map(|c| match c {
        c if is_separator(c) => joint,
        c if is_upper(c) => to_lower(c),
        c => c,
    }));
}

/// The first token of a text: class, text and remainder.
fn next_token(text: &str) -> (TokenClass, &str, &str) {
    let (first, size) = next_character(text, char::REPLACEMENT_CHARACTER);
    if first == char::REPLACEMENT_CHARACTER {
        return (TokenClass::Nothing, &text[..size], &text[size..]);
    }
    let small = |c| alphabetic(c) && !is_upper(c);
    let (kind, end) = if is_separator(first) {
        (TokenClass::Joint, run_end(text, first, size, is_separator))
    } else if is_punctuation(first) {
        (TokenClass::Punctuation, run_end(text, first, size, is_punctuation))
    } else if is_upper(first) {
        (TokenClass::Upper, capitalized_end(text, first, size))
    } else if alphabetic(first) {
        (TokenClass::Letters, run_end(text, first, size, small))
    } else if is_number(first) {
        (TokenClass::Number, run_end(text, first, size, is_number))
    } else {
        let other = |c| !(is_separator(c) || alphabetic(c) || is_number(c) || is_punctuation(c));
        (TokenClass::Other, run_end(text, first, size, other))
    };
    (kind, &text[..end], &text[end..])
}

/// The end of a run of characters of one class, starting at `at`.
fn run_end(text: &str, mut last: char, mut at: usize, same: impl Fn(char) -> bool) -> usize {
    while at < text.len() {
        let (next, size) = next_character(&text[at..], last);
        if !same(next) {
            break;
        }
        last = next;
        at += size;
    }
    at
}

/// The end of a word that starts with a capital. The word ends with its lower-case letters. Of several capitals, the last one
/// belongs to the lower-case letter that follows.
fn capitalized_end(text: &str, first: char, at: usize) -> usize {
    if at >= text.len() {
        return at;
    }
    let (second, size) = next_character(&text[at..], first);
    if !is_upper(second) {
        let small = |c| alphabetic(c) && !is_upper(c);
        return if alphabetic(second) { run_end(text, second, at + size, small) } else { at };
    }
    let (mut end, mut last, mut last_size) = (at + size, second, size);
    while end < text.len() {
        let (next, size) = next_character(&text[end..], last);
        if !is_upper(next) {
            return if alphabetic(next) { end - last_size } else { end };
        }
        (last, last_size) = (next, size);
        end += size;
    }
    end
}

/// The next character other than U+FFFD, and the bytes consumed up to its end. At the end of the text, `before`.
fn next_character(text: &str, before: char) -> (char, usize) {
    let valid = text.char_indices().find(|(_, c)| *c != char::REPLACEMENT_CHARACTER);
    valid.map_or((before, text.len()), |(at, c)| (c, at + c.len_utf8()))
}

/// A letter, except CJK ideographs.
fn alphabetic(c: char) -> bool {
    is_letter(c)
        && !matches!(c, '\u{3400}'..='\u{4D85}' | '\u{4E00}'..='\u{9FCC}' | '\u{20000}'..='\u{2B81D}')
}
