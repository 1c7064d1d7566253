//! Reads lines of bounded length from a stream.

use std::io;

use futures::{AsyncBufRead, AsyncBufReadExt};

/// Maximum length of a shown line.
pub const MAX_LINE_LEN: usize = 16 << 10;
/// Maximum bytes read of a line. Secrets are masked in all of them before the line is cut, so that no part of a
/// secret remains.
const MAX_READ_LEN: usize = 2 * MAX_LINE_LEN;
/// Suffix of a cut line.
const TRUNCATED_SUFFIX: &str = " [cut]";

/// A line as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLogLine {
    text: String,
    /// The rest was discarded.
    is_truncated: bool,
}

impl RawLogLine {
    /// The masked line, cut to [`MAX_LINE_LEN`].
    pub fn masked(&self, mask: impl FnOnce(&str) -> String) -> String {
        let masked = mask(&self.text);
        if !self.is_truncated && masked.len() <= MAX_LINE_LEN {
            return masked;
        }
        // The last bytes may be the beginning of a secret.
        let known = if self.is_truncated {
            masked.len().saturating_sub(MAX_READ_LEN - MAX_LINE_LEN)
        } else {
            masked.len()
        };
        let end = masked.floor_char_boundary(known.min(MAX_LINE_LEN));
        format!("{}{TRUNCATED_SUFFIX}", &masked[..end])
    }
}

/// Reads the next line; `None` at the end. Bytes beyond the limit are discarded.
pub async fn read_line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<RawLogLine>> {
    let (mut bytes, mut cut, mut begun) = (Vec::new(), false, false);
    loop {
        let read = reader.fill_buf().await?;
        if read.is_empty() {
            return Ok(begun.then(|| decode_line(&bytes, cut)));
        }
        begun = true;
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        let room = MAX_READ_LEN - bytes.len();
        cut |= part.len() > room;
        bytes.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(read.len(), |end| end + 1);
        reader.consume_unpin(used);
        if end.is_some() {
            return Ok(Some(decode_line(&bytes, cut)));
        }
    }
}

fn decode_line(bytes: &[u8], cut: bool) -> RawLogLine {
    let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned();
    RawLogLine { text, is_truncated: cut }
}

#[cfg(test)]
mod tests {
    use futures::io::{BufReader, Cursor};

    use super::*;

    async fn read_all(text: &[u8], piece: usize) -> Vec<RawLogLine> {
        let mut reader = BufReader::with_capacity(piece, Cursor::new(text));
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut reader).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_joined_across_reads() {
        for piece in [1, 3, 100] {
            let shown: Vec<String> = read_all(b"one\r\n\ntwo\xff\nlast", piece)
                .await
                .iter()
                .map(|line| line.masked(str::to_owned))
                .collect();
            assert_eq!(shown, ["one", "", "two\u{fffd}", "last"], "{piece}");
        }
        assert!(read_all(b"", 8).await.is_empty());
    }

    #[tokio::test]
    async fn long_line_is_truncated_without_partial_secret() {
        let secret = "s3cr3t".repeat(500);
        let mask = |text: &str| text.replace(&secret, "[masked]");
        for before in [0, MAX_LINE_LEN - 1, MAX_LINE_LEN, MAX_READ_LEN - 10, MAX_READ_LEN] {
            let text = format!("{}{secret}{}\nnext", "x".repeat(before), "y".repeat(3 * MAX_READ_LEN));
            let lines = read_all(text.as_bytes(), 1000).await;
            assert_eq!(lines.len(), 2);
            let shown = lines[0].masked(mask);
            assert!(
                shown.len() <= MAX_LINE_LEN + TRUNCATED_SUFFIX.len() && shown.ends_with(TRUNCATED_SUFFIX),
                "{before}"
            );
            assert!(!shown.contains("s3cr3t"), "{before}: {}", &shown[shown.len() - 50..]);
            assert_eq!(lines[1].masked(mask), "next");
        }
        // Only secrets, which masking shortens to little.
        let lines = read_all(secret.repeat(100).as_bytes(), 1000).await;
        assert!(!lines[0].masked(mask).contains("s3cr3t"));
    }
}
