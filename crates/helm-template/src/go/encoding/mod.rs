//! Go's `encoding/base32` and `encoding/base64`: [`base32`] and [`base64`].

mod base32;
mod base64;

pub use base32::{base32, base32_decode};
pub use base64::{base64, base64_decode};

/// The offset of the first invalid byte: Go's `CorruptInputError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorruptInputError {
    base: u8,
    offset: usize,
}

impl std::fmt::Display for CorruptInputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "illegal base{} data at input byte {}", self.base, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of Go's `DecodeString` for each text: the bytes, or the offset of the first invalid byte.
    type Table = [(&'static str, Result<&'static str, usize>)];

    fn check(decode: fn(&[u8]) -> Result<Vec<u8>, CorruptInputError>, table: &Table) {
        for (text, expected) in table {
            let got = decode(text.as_bytes()).map_err(|corrupt| corrupt.offset);
            assert_eq!(got, expected.map(|text| text.as_bytes().to_vec()), "{text:?}");
        }
    }

    #[test]
    fn base32_error_offsets_match_go() {
        check(
            base32_decode,
            &[
                ("", Ok("")),
                ("NBSWY3DP", Ok("hello")),
                ("NBSW\nY3DP\r\n", Ok("hello")),
                ("ME======", Ok("a")),
                ("MF======", Ok("a")),
                ("ME", Err(0)),
                ("ME=", Err(3)),
                ("ME=====", Err(7)),
                ("M=======", Err(1)),
                ("MEA=====", Err(3)),
                ("ME==A===", Err(3)),
                ("ME======A", Ok("a")),
                ("nbswy3dp", Err(0)),
                ("NBSWY3DPA", Err(8)),
                ("NBSW13DP", Err(4)),
            ],
        );
    }

    #[test]
    fn base64_error_offsets_match_go() {
        check(
            base64_decode,
            &[
                ("", Ok("")),
                ("aGVsbG8=", Ok("hello")),
                ("aGVs\nbG8=\r\n", Ok("hello")),
                ("a\nGVsbG8\n=", Ok("hello")),
                ("aGVsbG9=", Ok("hello")),
                ("aGVsbG8", Err(4)),
                ("aGVsb", Err(4)),
                ("a", Err(0)),
                ("a\n", Err(1)),
                ("=", Err(0)),
                ("a===", Err(1)),
                ("aG=", Err(3)),
                ("aG=x", Err(2)),
                ("aG==x", Err(4)),
                ("aGV=\nx", Err(5)),
                ("aGVs!", Err(4)),
                ("hello world", Err(5)),
                ("é", Err(0)),
            ],
        );
    }
}
