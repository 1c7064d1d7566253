//! Splitting of a text into YAML documents by lines, before parsing, like Kubernetes' YAML reader.

use crate::value::Str;

/// The unread rest of a text.
pub struct Documents<'a> {
    rest: &'a [u8],
}

/// Splits a text at lines that start with `---`. Each document ends with a line break, and line breaks are normalised to one byte. A
/// separator without a preceding document is the first line of the next document.
pub fn documents(text: &[u8]) -> Documents<'_> {
    Documents { rest: text }
}

impl Iterator for Documents<'_> {
    type Item = Result<Vec<u8>, Str>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut document = Vec::new();
        while !self.rest.is_empty() {
            let end = memchr::memchr(b'\n', self.rest).map_or(self.rest.len(), |end| end + 1);
            let (line, rest) = self.rest.split_at(end);
            self.rest = rest;
            // A carriage return belongs to the line break only before a line feed.
            let line = match line.strip_suffix(b"\n") {
                Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
                None => line,
            };
            if let Some(after) = line.strip_prefix(b"---") {
                let after = String::from_utf8_lossy(after);
                let after = after.trim();
                if !after.is_empty() && !after.starts_with('#') {
                    self.rest = &[];
                    return Some(Err(format!("invalid Yaml document separator: {after}").into()));
                }
                if !document.is_empty() {
                    return Some(Ok(document));
                }
            }
            document.extend_from_slice(line);
            document.push(b'\n');
        }
        (!document.is_empty()).then_some(Ok(document))
    }
}
