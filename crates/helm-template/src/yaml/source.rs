//! The bytes of a stream as text: its encoding, and the characters that YAML refuses.
//!
//! go-yaml reads by 512 bytes, and refuses a character when the piece that holds it is read, which may be before an
//! error that stands in front of it. Where that can be seen, [`Pieces`] says how far the text has been read.

use std::borrow::Cow;

use super::problem::Problem;

/// What go-yaml reads at once.
const PIECE: usize = 512;
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A stream, decoded.
pub struct Source<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) pieces: Option<Pieces>,
}

/// A text that cannot be taken as a whole: it holds a byte order mark inside, or something refused at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// Where each piece ends in the text.
    ends: Vec<usize>,
    /// Why there is no further piece, where it is not the end of the stream.
    refusal: Option<&'static str>,
    read: usize,
    /// Where the buffer began when it was last filled.
    start: usize,
    /// How often the end of the stream has been read.
    ends_read: usize,
}

impl<'a> Source<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let bare = bytes.strip_prefix(MARK).unwrap_or(bytes);
        let wide = bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF");
        if !wide
            && let Ok(text) = std::str::from_utf8(bare)
            && is_plain(text)
        {
            return Self { text: Cow::Borrowed(text), pieces: None };
        }
        let (text, pieces) = decode(bytes);
        Self { text: Cow::Owned(text), pieces: Some(pieces) }
    }
}

impl Pieces {
    /// Makes sure that `count` characters from `at` on have been read.
    pub(super) fn need(&mut self, text: &str, at: usize, count: usize) -> Result<(), Problem> {
        let mut unread = self.unread(text, at, count);
        if unread >= count {
            return Ok(());
        }
        self.start = at;
        while unread < count {
            if self.read < self.ends.len() {
                self.read += 1;
                unread = self.unread(text, at, count);
            } else if let Some(refusal) = self.refusal {
                return Err(Problem { line: 0, text: refusal });
            } else {
                self.ends_read += 1;
                break;
            }
        }
        Ok(())
    }

    fn unread(&self, text: &str, at: usize, count: usize) -> usize {
        let end = self.read.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        text.get(at..end).map_or(0, |unread| unread.chars().take(count).count()) + self.ends_read
    }

    /// Whether the buffer begins with a byte order mark, wherever the scanner stands in it.
    pub(super) fn begin_with_mark(&self, text: &str) -> bool {
        text.as_bytes().get(self.start..).is_some_and(|buffer| buffer.starts_with(MARK))
    }
}

/// Nothing refused, and no byte order mark.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    // All bytes of a piece are looked at, whatever the first ones are: so the compiler takes many at a time.
    let refused = |found: u8, byte: &u8| {
        let control = u8::from(*byte < 0x20) & u8::from(*byte != b'\t') & u8::from(*byte != b'\n');
        found | (control & u8::from(*byte != b'\r')) | u8::from(*byte == 0x7F)
    };
    if bytes.chunks(4096).any(|chunk| chunk.iter().fold(0, refused) != 0) {
        return false;
    }
    text.is_ascii() || text.chars().all(|c| c.is_ascii() || (is_allowed(c) && c != '\u{FEFF}'))
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{FFFD}' | '\u{10000}'..)
}

#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Utf8,
    Utf16 { low: usize },
}

/// One character, or what is wrong with it.
enum Step {
    Char(char, usize),
    /// More bytes are needed than there are: an error only when no more come.
    Cut(&'static str),
    Refused(&'static str),
}

fn decode(bytes: &[u8]) -> (String, Pieces) {
    let (encoding, mut at) = if bytes.starts_with(b"\xFF\xFE") {
        (Encoding::Utf16 { low: 0 }, 2)
    } else if bytes.starts_with(b"\xFE\xFF") {
        (Encoding::Utf16 { low: 1 }, 2)
    } else {
        (Encoding::Utf8, if bytes.starts_with(MARK) { 3 } else { 0 })
    };
    let (mut text, mut pieces) = (String::with_capacity(bytes.len()), Pieces::default());
    let mut end = bytes.len().min(PIECE);
    loop {
        let begun = text.len();
        while at < end {
            let step = match encoding {
                Encoding::Utf8 => utf8(&bytes[at..end]),
                Encoding::Utf16 { low } => utf16(&bytes[at..end], low),
            };
            match step {
                Step::Char(c, width) => {
                    text.push(c);
                    at += width;
                }
                Step::Cut(_) if end < bytes.len() => break,
                Step::Cut(problem) => {
                    // The end is seen only when it is read, unless it already was on looking for a mark.
                    if bytes.len() < 3 {
                        text.truncate(begun);
                    } else {
                        pieces.ends.push(text.len());
                    }
                    pieces.refusal = Some(problem);
                    return (text, pieces);
                }
                Step::Refused(problem) => {
                    text.truncate(begun);
                    pieces.refusal = Some(problem);
                    return (text, pieces);
                }
            }
        }
        pieces.ends.push(text.len());
        if end == bytes.len() {
            return (text, pieces);
        }
        end = bytes.len().min(at + PIECE);
    }
}

fn utf8(bytes: &[u8]) -> Step {
    let first = bytes.first().copied().unwrap_or_default();
    let (width, bits) = match first {
        0..=0x7F => (1, first & 0x7F),
        0xC0..=0xDF => (2, first & 0x1F),
        0xE0..=0xEF => (3, first & 0x0F),
        0xF0..=0xF7 => (4, first & 0x07),
        _ => return Step::Refused("invalid leading UTF-8 octet"),
    };
    let Some(rest) = bytes.get(1..width) else {
        return Step::Cut("incomplete UTF-8 octet sequence");
    };
    let mut value = u32::from(bits);
    for octet in rest {
        if octet & 0xC0 != 0x80 {
            return Step::Refused("invalid trailing UTF-8 octet");
        }
        value = (value << 6) + u32::from(octet & 0x3F);
    }
    let least = [0, 0, 0x80, 0x800, 0x10000][width];
    if value < least {
        return Step::Refused("invalid length of a UTF-8 sequence");
    }
    match char::from_u32(value) {
        Some(c) => allowed(c, width),
        None => Step::Refused("invalid Unicode character"),
    }
}

fn utf16(bytes: &[u8], low: usize) -> Step {
    let unit = |at: usize| {
        let pair = bytes.get(at..at + 2)?;
        Some(u32::from(pair[low]) | u32::from(pair[1 - low]) << 8)
    };
    let Some(value) = unit(0) else { return Step::Cut("incomplete UTF-16 character") };
    if value & 0xFC00 == 0xDC00 {
        return Step::Refused("unexpected low surrogate area");
    }
    if value & 0xFC00 != 0xD800 {
        return char::from_u32(value).map_or(Step::Refused("invalid Unicode character"), |c| allowed(c, 2));
    }
    let Some(second) = unit(2) else { return Step::Cut("incomplete UTF-16 surrogate pair") };
    if second & 0xFC00 != 0xDC00 {
        return Step::Refused("expected low surrogate area");
    }
    let value = 0x10000 + ((value & 0x3FF) << 10) + (second & 0x3FF);
    char::from_u32(value).map_or(Step::Refused("invalid Unicode character"), |c| allowed(c, 4))
}

fn allowed(c: char, width: usize) -> Step {
    if is_allowed(c) { Step::Char(c, width) } else { Step::Refused("control characters are not allowed") }
}
