//! Decoding of the byte stream: its encoding, and the characters that YAML rejects.
//!
//! go-yaml reads blocks of 512 bytes and rejects a character as soon as its block is read, which may precede an earlier error in
//! the text. Where this is observable, [`ReadBlocks`] tracks how far the text has been read.

use std::borrow::Cow;

use super::problem::YamlSyntaxError;

/// Block size of go-yaml's reader.
const BLOCK_SIZE: usize = 512;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A decoded stream.
pub struct YamlSource<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) read_blocks: Option<ReadBlocks>,
}

/// A text whose reading must be simulated: it contains a byte order mark, or ends in a rejected character.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadBlocks {
    /// The end offset of each block in the text.
    ends: Vec<usize>,
    /// The error after the last block, if that is not the end of the stream.
    final_error: Option<&'static str>,
    read: usize,
    /// The start of the buffer when it was last filled.
    start: usize,
    /// How often the end of the stream was read.
    ends_read: usize,
}

impl<'a> YamlSource<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        let bare = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let wide = bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF");
        if !wide
            && let Ok(text) = std::str::from_utf8(bare)
            && is_plain(text)
        {
            return Self { text: Cow::Borrowed(text), read_blocks: None };
        }
        let (text, pieces) = decode(bytes);
        Self { text: Cow::Owned(text), read_blocks: Some(pieces) }
    }
}

impl ReadBlocks {
    /// Ensures that `count` characters from `at` on have been read.
    pub(super) fn require(&mut self, text: &str, at: usize, count: usize) -> Result<(), YamlSyntaxError> {
        let mut unread = self.unread_len(text, at, count);
        if unread >= count {
            return Ok(());
        }
        self.start = at;
        while unread < count {
            if self.read < self.ends.len() {
                self.read += 1;
                unread = self.unread_len(text, at, count);
            } else if let Some(refusal) = self.final_error {
                return Err(YamlSyntaxError { line: 0, text: refusal });
            } else {
                self.ends_read += 1;
                break;
            }
        }
        Ok(())
    }

    fn unread_len(&self, text: &str, at: usize, count: usize) -> usize {
        let end = self.read.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or(0);
        text.get(at..end).map_or(0, |unread| unread.chars().take(count).count()) + self.ends_read
    }

    /// Whether the buffer starts with a byte order mark, wherever the scanner is in it.
    pub(super) fn starts_with_byte_order_mark(&self, text: &str) -> bool {
        text.as_bytes().get(self.start..).is_some_and(|buffer| buffer.starts_with(BYTE_ORDER_MARK))
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
enum DecodedChar {
    Char(char, usize),
    /// The sequence is incomplete: an error only at the end of the stream.
    Incomplete(&'static str),
    Invalid(&'static str),
}

fn decode(bytes: &[u8]) -> (String, ReadBlocks) {
    let (encoding, mut at) = if bytes.starts_with(b"\xFF\xFE") {
        (Encoding::Utf16 { low: 0 }, 2)
    } else if bytes.starts_with(b"\xFE\xFF") {
        (Encoding::Utf16 { low: 1 }, 2)
    } else {
        (Encoding::Utf8, if bytes.starts_with(BYTE_ORDER_MARK) { 3 } else { 0 })
    };
    let (mut text, mut pieces) = (String::with_capacity(bytes.len()), ReadBlocks::default());
    let mut end = bytes.len().min(BLOCK_SIZE);
    loop {
        let begun = text.len();
        while at < end {
            let step = match encoding {
                Encoding::Utf8 => utf8(&bytes[at..end]),
                Encoding::Utf16 { low } => utf16(&bytes[at..end], low),
            };
            match step {
                DecodedChar::Char(c, width) => {
                    text.push(c);
                    at += width;
                }
                DecodedChar::Incomplete(_) if end < bytes.len() => break,
                DecodedChar::Incomplete(problem) => {
                    // The end is noticed only when it is read, except in streams so short that the check for a byte order mark reaches it.
                    if bytes.len() < 3 {
                        text.truncate(begun);
                    } else {
                        pieces.ends.push(text.len());
                    }
                    pieces.final_error = Some(problem);
                    return (text, pieces);
                }
                DecodedChar::Invalid(problem) => {
                    text.truncate(begun);
                    pieces.final_error = Some(problem);
                    return (text, pieces);
                }
            }
        }
        pieces.ends.push(text.len());
        if end == bytes.len() {
            return (text, pieces);
        }
        end = bytes.len().min(at + BLOCK_SIZE);
    }
}

fn utf8(bytes: &[u8]) -> DecodedChar {
    let first = bytes.first().copied().unwrap_or_default();
    let (width, bits) = match first {
        0..=0x7F => (1, first & 0x7F),
        0xC0..=0xDF => (2, first & 0x1F),
        0xE0..=0xEF => (3, first & 0x0F),
        0xF0..=0xF7 => (4, first & 0x07),
        _ => return DecodedChar::Invalid("invalid leading UTF-8 octet"),
    };
    let Some(rest) = bytes.get(1..width) else {
        return DecodedChar::Incomplete("incomplete UTF-8 octet sequence");
    };
    let mut value = u32::from(bits);
    for octet in rest {
        if octet & 0xC0 != 0x80 {
            return DecodedChar::Invalid("invalid trailing UTF-8 octet");
        }
        value = (value << 6) + u32::from(octet & 0x3F);
    }
    let least = [0, 0, 0x80, 0x800, 0x10000][width];
    if value < least {
        return DecodedChar::Invalid("invalid length of a UTF-8 sequence");
    }
    match char::from_u32(value) {
        Some(c) => allowed(c, width),
        None => DecodedChar::Invalid("invalid Unicode character"),
    }
}

fn utf16(bytes: &[u8], low: usize) -> DecodedChar {
    let unit = |at: usize| {
        let pair = bytes.get(at..at + 2)?;
        Some(u32::from(pair[low]) | u32::from(pair[1 - low]) << 8)
    };
    let Some(value) = unit(0) else { return DecodedChar::Incomplete("incomplete UTF-16 character") };
    if value & 0xFC00 == 0xDC00 {
        return DecodedChar::Invalid("unexpected low surrogate area");
    }
    if value & 0xFC00 != 0xD800 {
        return char::from_u32(value)
            .map_or(DecodedChar::Invalid("invalid Unicode character"), |c| allowed(c, 2));
    }
    let Some(second) = unit(2) else { return DecodedChar::Incomplete("incomplete UTF-16 surrogate pair") };
    if second & 0xFC00 != 0xDC00 {
        return DecodedChar::Invalid("expected low surrogate area");
    }
    let value = 0x10000 + ((value & 0x3FF) << 10) + (second & 0x3FF);
    char::from_u32(value).map_or(DecodedChar::Invalid("invalid Unicode character"), |c| allowed(c, 4))
}

fn allowed(c: char, width: usize) -> DecodedChar {
    if is_allowed(c) {
        DecodedChar::Char(c, width)
    } else {
        DecodedChar::Invalid("control characters are not allowed")
    }
}
