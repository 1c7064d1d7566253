//! SHA-256 digests of charts and packages.

use std::fmt::{self, Write};
use std::str::FromStr;

use kube_types::package::PACKAGE_NAME_PREFIX;

/// Algorithm prefix of a digest.
const KIND: &str = "sha256:";
/// Number of base32 characters of a digest in the name of a package.
pub(crate) const PACKAGE_NAME_LEN: usize = 20;
/// Alphabet of RFC 4648 in lower case, which is valid in Kubernetes names.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: it must be `sha256:` and 64 lower-case hexadecimal digits")]
pub struct ParseDigestError(String);

impl Digest {
    pub fn sha256(bytes: &[u8]) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// The digest in hexadecimal, as in a repository index.
    pub fn hex(&self) -> String {
        let mut digits = String::with_capacity(64);
        for byte in self.0 {
            write!(digits, "{byte:02x}").expect("writing to a text does not fail");
        }
        digits
    }

    /// The name of the package with this digest.
    pub fn package_name(&self) -> String {
        let bit = |at: usize| usize::from(self.0[at / 8] >> (7 - at % 8) & 1);
        let letter = |place: usize| (0..5).fold(0, |letter, at| letter << 1 | bit(place * 5 + at));
        PACKAGE_NAME_PREFIX
            .chars()
            .chain((0..PACKAGE_NAME_LEN).map(|place| char::from(BASE32[letter(place)])))
            .collect()
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    /// Parses hexadecimal digits, with or without `sha256:`.
    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let bad = || ParseDigestError(domain::ids::truncate_for_error(text));
        let digits = text.strip_prefix(KIND).unwrap_or(text).as_bytes();
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(bad());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            *byte = digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low).ok_or_else(bad)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND}{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_parses_its_own_display() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::sha256(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::sha256(b"")));
        assert_eq!(empty.trim_start_matches(KIND).parse(), Ok(Digest::sha256(b"")));
        for wrong in ["", "sha256:", "sha512:00", &empty[..70], &empty.to_uppercase()] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn package_name_encodes_the_first_100_bits() {
        // `e3b0c44298fc1c149afbf4c899` in base32.
        assert_eq!(Digest::sha256(b"").package_name(), "pkg-4oymiquy7qobjgx36tej");
    }
}
