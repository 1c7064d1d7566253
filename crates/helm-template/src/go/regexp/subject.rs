//! The text that an expression is matched against.

use std::borrow::Cow;

/// Bytes decoded as Go does: each invalid byte is one U+FFFD.
pub struct Subject<'s> {
    bytes: &'s [u8],
    text: Cow<'s, str>,
    /// Offsets in `text` of characters that replace one invalid byte.
    invalid_offsets: Vec<usize>,
}

/// Extra length of U+FFFD compared with the byte that it replaces.
const GROWTH: usize = char::REPLACEMENT_CHARACTER.len_utf8() - 1;

impl<'s> Subject<'s> {
    pub fn new(bytes: &'s [u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Self { bytes, text: text.into(), invalid_offsets: Vec::new() };
        }
        let (mut text, mut stray) = (String::with_capacity(bytes.len()), Vec::new());
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for _ in chunk.invalid() {
                stray.push(text.len());
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        Self { bytes, text: text.into(), invalid_offsets: stray }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The original bytes between two offsets in the text.
    pub fn bytes(&self, from: usize, to: usize) -> &'s [u8] {
        self.bytes.get(self.byte_offset(from)..self.byte_offset(to)).unwrap_or_default()
    }

    fn byte_offset(&self, at: usize) -> usize {
        at - GROWTH * self.invalid_offsets.partition_point(|stray| *stray < at)
    }
}
