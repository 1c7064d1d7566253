//! Reads lines of bounded length from a stream.

use std::io;

use futures::{AsyncBufRead, AsyncBufReadExt};

/// Maximum length of a shown line.
pub const LONGEST: usize = 16 << 10;
/// Maximum bytes read of a line. Secrets are masked in all of them before the line is cut, so that no part of a
/// secret remains.
const READ: usize = 2 * LONGEST;
/// Suffix of a cut line.
const CUT: &str = " [cut]";

/// A line as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    text: String,
    /// The rest was discarded.
    cut: bool,
}

impl Line {
    /// The masked line, cut to [`LONGEST`].
    pub fn shown(&self, mask: impl FnOnce(&str) -> String) -> String {
        let masked = mask(&self.text);
        if !self.cut && masked.len() <= LONGEST {
            return masked;
        }
        // The last bytes may be the beginning of a secret.
        let known = if self.cut { masked.len().saturating_sub(READ - LONGEST) } else { masked.len() };
        let end = masked.floor_char_boundary(known.min(LONGEST));
        format!("{}{CUT}", &masked[..end])
    }
}

/// Reads the next line; `None` at the end. Bytes beyond the limit are discarded.
pub async fn next(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Line>> {
    let (mut bytes, mut cut, mut begun) = (Vec::new(), false, false);
    loop {
        let read = reader.fill_buf().await?;
        if read.is_empty() {
            return Ok(begun.then(|| line(&bytes, cut)));
        }
        begun = true;
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        let room = READ - bytes.len();
        cut |= part.len() > room;
        bytes.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(read.len(), |end| end + 1);
        reader.consume_unpin(used);
        if end.is_some() {
            return Ok(Some(line(&bytes, cut)));
        }
    }
}

fn line(bytes: &[u8], cut: bool) -> Line {
    let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned();
    Line { text, cut }
}

#[cfg(test)]
mod tests {
    use futures::io::{BufReader, Cursor};

    use super::*;

    async fn all(text: &[u8], piece: usize) -> Vec<Line> {
        let mut reader = BufReader::with_capacity(piece, Cursor::new(text));
        let mut lines = Vec::new();
        while let Some(line) = next(&mut reader).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_come_whole_whatever_the_pieces() {
        for piece in [1, 3, 100] {
            let shown: Vec<String> = all(b"one\r\n\ntwo\xff\nlast", piece)
                .await
                .iter()
                .map(|line| line.shown(str::to_owned))
                .collect();
            assert_eq!(shown, ["one", "", "two\u{fffd}", "last"], "{piece}");
        }
        assert!(all(b"", 8).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_and_shows_no_half_of_a_secret() {
        let secret = "s3cr3t".repeat(500);
        let mask = |text: &str| text.replace(&secret, "[masked]");
        for before in [0, LONGEST - 1, LONGEST, READ - 10, READ] {
            let text = format!("{}{secret}{}\nnext", "x".repeat(before), "y".repeat(3 * READ));
            let lines = all(text.as_bytes(), 1000).await;
            assert_eq!(lines.len(), 2);
            let shown = lines[0].shown(mask);
            assert!(shown.len() <= LONGEST + CUT.len() && shown.ends_with(CUT), "{before}");
            assert!(!shown.contains("s3cr3t"), "{before}: {}", &shown[shown.len() - 50..]);
            assert_eq!(lines[1].shown(mask), "next");
        }
        // Only secrets, which masking shortens to little.
        let lines = all(secret.repeat(100).as_bytes(), 1000).await;
        assert!(!lines[0].shown(mask).contains("s3cr3t"));
    }
}
