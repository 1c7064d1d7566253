//! Character classes: `[a-z]`, `\d`, `\pL`, `[[:alpha:]]`.

use std::fmt::Write;

use super::names;
use super::tokens::escape;
use super::translate::{RegexSyntaxError, Translator};

/// POSIX classes such as `[:alpha:]` and `[:^alpha:]`. They mean the same in Go and in the `regex` crate.
#[rustfmt::skip]
const POSIX: &[&str] = &[
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
    "word", "xdigit",
];

/// Classes that match no character, and any character.
const NONE: &str = r"[^\x{0}-\x{10FFFF}]";
const ANY: &str = r"[\x{0}-\x{10FFFF}]";

/// `\d`, `\s`, `\w` and their negations, ASCII only, as the content of a bracketed class; and the remaining text.
pub(super) fn perl(text: &str) -> Option<(&'static str, &str)> {
    let set = match text.as_bytes() {
        [b'\\', b'd', ..] => r"0-9",
        [b'\\', b'D', ..] => r"[^0-9]",
        [b'\\', b's', ..] => r"\t\n\x0C\r\x20",
        [b'\\', b'S', ..] => r"[^\t\n\x0C\r\x20]",
        [b'\\', b'w', ..] => r"0-9A-Z_a-z",
        [b'\\', b'W', ..] => r"[^0-9A-Z_a-z]",
        _ => return None,
    };
    Some((set, &text[2..]))
}

impl<'p> Translator<'p> {
    /// Parses `\pL`, `\p{Han}` or `\P{^Han}` at the start of `text`. Returns the content of a bracketed class and the remaining text.
    pub(super) fn unicode<'t>(
        &self,
        text: &'t str,
    ) -> Result<Option<(String, &'t str)>, RegexSyntaxError<'t>> {
        let mut negated = match text.as_bytes() {
            [b'\\', b'p', ..] => false,
            [b'\\', b'P', ..] => true,
            _ => return Ok(None),
        };
        let after = &text[2..];
        let length = match after.chars().next() {
            Some('{') => after.find('}').ok_or(RegexSyntaxError::Range(text))? + 1,
            Some(c) => c.len_utf8(),
            None => 0,
        };
        let (written, rest) = text.split_at(2 + length);
        let name = written[2..]
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
            .unwrap_or(&after[..length]);
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negated = !negated;
                name
            }
            None => name,
        };
        let set = names::named_set(name, self.profile).ok_or(RegexSyntaxError::Range(written))?;
        Ok(Some((format!("[{}{set}]", if negated { "^" } else { "" }), rest)))
    }

    /// Translates a bracketed class. Returns the remaining pattern.
    pub(super) fn class(&mut self, whole: &'p str) -> Result<&'p str, RegexSyntaxError<'p>> {
        let mut rest = &whole[1..];
        let negated = rest.starts_with('^');
        if negated {
            rest = &rest[1..];
        }
        let mut set = String::new();
        let mut first = true;
        while first || !rest.starts_with(']') {
            // A closing bracket in first position is a literal.
            first = false;
            if let Some((named, after)) = posix(rest)? {
                set.push_str(named);
                rest = after;
            } else if let Some((named, after)) = self.unicode(rest)? {
                set.push_str(&named);
                rest = after;
            } else if let Some((named, after)) = perl(rest) {
                set.push_str(named);
                rest = after;
            } else {
                let from = rest;
                let (low, after) = character(rest, whole)?;
                rest = after;
                let mut high = low;
                let range =
                    rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'));
                if let Some(after) = range {
                    (high, rest) = character(after, whole)?;
                    if high < low {
                        return Err(RegexSyntaxError::Range(&from[..from.len() - rest.len()]));
                    }
                }
                push_range(&mut set, low, high);
            }
        }
        let class = match (set.as_str(), negated) {
            ("", false) => NONE.to_owned(),
            ("", true) => ANY.to_owned(),
            (set, negated) => format!("[{}{set}]", if negated { "^" } else { "" }),
        };
        self.atom(&class);
        Ok(&rest[1..])
    }
}

fn posix(text: &str) -> Result<Option<(&str, &str)>, RegexSyntaxError<'_>> {
    let Some(inner) = text.strip_prefix("[:") else { return Ok(None) };
    let Some(end) = inner.find(":]") else { return Ok(None) };
    let (written, rest) = text.split_at(end + 4);
    let name = &inner[..end];
    if POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        Ok(Some((written, rest)))
    } else {
        Err(RegexSyntaxError::Range(written))
    }
}

fn character<'p>(text: &'p str, whole: &'p str) -> Result<(u32, &'p str), RegexSyntaxError<'p>> {
    match text.chars().next() {
        None => Err(RegexSyntaxError::MissingBracket(whole)),
        Some('\\') => escape(text),
        Some(c) => Ok((u32::from(c), &text[c.len_utf8()..])),
    }
}

/// Adds a range without its surrogates: no text contains them, and the `regex` crate rejects them.
fn push_range(set: &mut String, low: u32, high: u32) {
    for (low, high) in [(low, high.min(0xD7FF)), (low.max(0xE000), high)] {
        if low <= high {
            // Writing to a String cannot fail.
            let _ = write!(set, r"\x{{{low:X}}}-\x{{{high:X}}}");
        }
    }
}
