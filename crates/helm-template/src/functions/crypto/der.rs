//! The subset of DER that keys and certificates use.

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BITS: u8 = 0x03;
pub const OCTETS: u8 = 0x04;
pub const NULL: u8 = 0x05;
pub const OID: u8 = 0x06;
pub const UTF8_STRING: u8 = 0x0c;
pub const PRINTABLE_STRING: u8 = 0x13;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// The tag of an explicitly tagged field, which contains a complete element.
pub const fn explicit(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of an implicitly tagged field, which contains bare bytes.
pub const fn implicit(number: u8) -> u8 {
    0x80 | number
}

/// An element: tag, length, and the concatenated parts.
pub fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 6);
    out.push(tag);
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let bytes = significant(&bytes);
            // A length has eight bytes at most.
            out.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
            out.extend_from_slice(bytes);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, parts)
}

/// A non-negative INTEGER from big-endian bytes.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = significant(bytes);
    match bytes.first() {
        // A leading zero keeps the number non-negative; zero itself has one byte.
        None | Some(0x80..) => element(INTEGER, &[&[0], bytes]),
        Some(_) => element(INTEGER, &[bytes]),
    }
}

/// A BIT STRING without unused bits.
pub fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BITS, &[&[0], bytes])
}

fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

/// Tag and length of the first element, and the offset of its content.
pub fn header(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&tag, after) = bytes.split_first()?;
    if tag & 0x1f == 0x1f {
        return None; // multi-byte tags are not used here
    }
    let (&first, after) = after.split_first()?;
    match first {
        0..=0x7f => Some((tag, usize::from(first), 2)),
        0x81..=0x84 => {
            let more = usize::from(first & 0x7f);
            let length = after.get(..more)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
            // DER allows only the shortest form.
            (after.first() != Some(&0) && length >= 0x80).then_some((tag, length, 2 + more))
        }
        _ => None,
    }
}

/// Reads consecutive elements.
#[derive(Clone, Copy)]
pub struct Reader<'d>(pub &'d [u8]);

/// A decoded element.
#[derive(Clone, Copy)]
pub struct Element<'d> {
    /// Including tag and length.
    pub encoded: &'d [u8],
    pub content: &'d [u8],
}

impl<'d> Reader<'d> {
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next element of any tag.
    pub fn any(&mut self) -> Option<Element<'d>> {
        let (_, length, start) = header(self.0)?;
        let content = self.0.get(start..)?;
        let (content, rest) = content.split_at_checked(length)?;
        let whole = self.0.get(..self.0.len() - rest.len())?;
        self.0 = rest;
        Some(Element { encoded: whole, content })
    }

    /// The next element, if it has this tag.
    pub fn element(&mut self, tag: u8) -> Option<Element<'d>> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.any()
    }

    /// The content of the next element, if it has this tag.
    pub fn read(&mut self, tag: u8) -> Option<&'d [u8]> {
        self.element(tag).map(|element| element.content)
    }

    pub fn sequence(&mut self) -> Option<Reader<'d>> {
        self.read(SEQUENCE).map(Reader)
    }

    /// The content of the next element if it has this tag; otherwise consumes nothing.
    pub fn optional(&mut self, tag: u8) -> Option<&'d [u8]> {
        let mut ahead = *self;
        let content = ahead.read(tag)?;
        *self = ahead;
        Some(content)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_are_encoded_minimally() {
        assert_eq!(integer(&[]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(content in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let written = element(OCTETS, &[&content]);
            let mut reader = Reader(&written);
            let read = reader.element(OCTETS).unwrap();
            prop_assert_eq!(read.content, content);
            prop_assert_eq!(read.encoded, written.as_slice());
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut reader = Reader(&bytes);
            while reader.any().is_some() {}
        }
    }
}
