//! Decoding of the byte stream: its encoding, and the characters that YAML rejects.
//!
//! go-yaml reads blocks of 512 bytes and rejects a character as soon as its block is read, which may precede an earlier error in
//! the text. Where this is observable, [`Pieces`] tracks how far the text has been read.

use std::borrow::Cow;

use super::problem::Problem;

/// Block size of go-yaml's reader.
const PIECE: usize = 512;
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A decoded stream.
pub struct Source<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) pieces: Option<Pieces>,
}

/// A text whose reading must be simulated: it contains a byte order mark, or ends in a rejected character.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// The end offset of each block in the text.
    ends: Vec<usize>,
    /// The error after the last block, if that is not the end of the stream.
    refusal: Option<&'static str>,
    read: usize,
    /// The start of the buffer when it was last filled.
    start: usize,
    /// How often the end of the stream was read.
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
    /// Ensures that `count` characters from `at` on have been read.
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

    /// Whether the buffer starts with a byte order mark, wherever the scanner is in it.
    pub(super) fn begin_with_mark(&self, text: &str) -> bool {
        text.as_bytes().get(self.start..).is_some_and(|buffer| buffer.starts_with(MARK))
    }
}

/// Whether the text has no rejected character and no byte order mark.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    // Branch-free over each chunk, so that the compiler vectorises it.
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

/// The encoding of a stream; `low` is the index of the low byte of a code unit.
#[derive(Clone, Copy, PartialEq)]
enum Encoding {
    Utf8,
    Utf16 { low: usize },
}

/// One decoded character, or an error.
enum Step {
    Char(char, usize),
    /// The sequence is incomplete: an error only at the end of the stream.
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
                    // The end is noticed only when it is read, except in streams so short that the check for a byte order mark reaches it.
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
