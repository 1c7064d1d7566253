//! PEM: base64 between a BEGIN line and an END line.

use memchr::memmem;

use crate::go;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";
const LINE_LEN: usize = 64;

/// A decoded PEM block.
pub struct PemBlock {
    /// The type of the content, such as `CERTIFICATE`.
    pub label: String,
    pub bytes: Vec<u8>,
}

/// Encodes bytes as a PEM block with lines of 64 characters.
pub fn encode(label: &str, bytes: &[u8]) -> String {
    let body = go::base64(bytes);
    let mut out = String::with_capacity(body.len() + body.len() / LINE_LEN + 2 * label.len() + 40);
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so every offset is a character boundary.
        let (line, after) = rest.split_at(rest.len().min(LINE_LEN));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

/// Decodes the first block of a text; text before and after it is ignored.
pub fn decode(text: &[u8]) -> Option<PemBlock> {
    let mut rest = text;
    loop {
        let end = memmem::find(rest, END)?;
        let (before, after) = rest.split_at_checked(end + 1)?;
        let after = after.get(END.len() - 1..)?;
        if let Some(begin) = memmem::rfind(before, BEGIN)
            && before[..begin].last().is_none_or(|&byte| byte == b'\n')
            && let Some(block) = parse_block(&before[begin + BEGIN.len()..], after)
        {
            return Some(block);
        }
        rest = after;
    }
}

/// Parses one block. `inside` is the text from the label to the last line break; `after` is the text after `-----END `.
fn parse_block(inside: &[u8], after: &[u8]) -> Option<PemBlock> {
    let (first, mut inside) = split_line(inside);
    let label = first.strip_suffix(DASHES)?;
    let mut has_headers = false;
    while let (header, next) = split_line(inside)
        && header.contains(&b':')
    {
        has_headers = true;
        inside = next;
    }
    // Headers end with an empty line.
    if has_headers && inside.is_empty() {
        return None;
    }
    let after = after.strip_prefix(label)?.strip_prefix(DASHES)?;
    if !split_line(after).0.is_empty() {
        return None;
    }
    let body: Vec<u8> = inside.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\t')).collect();
    let bytes = go::base64_decode(&body).ok()?;
    Some(PemBlock { label: String::from_utf8_lossy(label).into_owned(), bytes })
}

/// The first line, without trailing whitespace, and the remainder.
fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match memchr::memchr(b'\n', text) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, Default::default()),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blanks = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (&line[..line.len() - blanks], rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decode_accepts_and_rejects_blocks_like_go() {
        // Every expectation was compared with Go's encoding/pem.
        let table: &[(&str, Option<(&str, &str)>)] = &[
            ("", None),
            ("aGVsbG8=", None),
            ("-----BEGIN A-----\naGVsbG8=\n-----END A-----\n", Some(("A", "hello"))),
            ("-----BEGIN A-----\naGVsbG8=\n-----END A-----", Some(("A", "hello"))),
            ("x\r\n-----BEGIN A B-----\r\naGVs \tbG8=\r\n-----END A B----- \r\ny", Some(("A B", "hello"))),
            ("-----BEGIN A-----\nk: v\n\naGVsbG8=\n-----END A-----", Some(("A", "hello"))),
            ("-----BEGIN A-----\nk: v\n-----END A-----", None),
            ("-----BEGIN A-----\n-----END A-----", Some(("A", ""))),
            ("-----BEGIN A-----\naGVsbG8=\n-----END B-----\n", None),
            (
                "-----BEGIN A-----\n!\n-----END A-----\n-----BEGIN B-----\naGk=\n-----END B-----",
                Some(("B", "hi")),
            ),
            (" -----BEGIN A-----\naGVsbG8=\n-----END A-----\n", None),
            ("-----BEGIN A-----\naGVsbG8=\n-----END A-----x\n", None),
            ("-----BEGIN A----\naGVsbG8=\n-----END A-----\n", None),
        ];
        for (text, expected) in table {
            let got = decode(text.as_bytes());
            let got = got.map(|block| (block.label, String::from_utf8(block.bytes).unwrap()));
            assert_eq!(got, expected.map(|(label, text)| (label.to_owned(), text.to_owned())), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>) {
            let block = decode(encode("THING", &bytes).as_bytes()).unwrap();
            prop_assert_eq!((block.label.as_str(), block.bytes), ("THING", bytes));
        }

        #[test]
        fn no_text_panics(text in "(-----BEGIN |-----END |A|-----|\n|:|aGk=|\r| ){0,20}") {
            let _ = decode(text.as_bytes());
        }
    }
}
