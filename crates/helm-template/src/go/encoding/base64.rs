//! Base64 with the standard alphabet, compatible with Go's encoder and decoder.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

use super::CorruptInputError;

/// Go ignores trailing bits.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Decodes base64. Line breaks are skipped wherever they occur.
pub fn base64_decode(text: &[u8]) -> Result<Vec<u8>, CorruptInputError> {
    // Well-formed single-line input takes the fast path. Other input takes the slow path, which computes error offsets as Go does.
    LENIENT
        .decode(text)
        .or_else(|_| decode_slow(text))
        .map_err(|at| CorruptInputError { base: 64, offset: at })
}

fn decode_slow(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut at = 0;
    let past_newlines = |mut at: usize| {
        while matches!(text.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    loop {
        let mut sextets = [0; 4];
        let mut filled = 0;
        while filled < 4 {
            let Some(&byte) = text.get(at) else {
                return if filled == 0 { Ok(out) } else { Err(at - filled) };
            };
            at += 1;
            match (sextet(byte), byte) {
                (Some(value), _) => {
                    sextets[filled] = value;
                    filled += 1;
                }
                (None, b'\n' | b'\r') => {}
                (None, b'=') if filled >= 2 => {
                    if filled == 2 {
                        at = past_newlines(at);
                        match text.get(at) {
                            None => return Err(text.len()),
                            Some(b'=') => at += 1,
                            Some(_) => return Err(at - 1),
                        }
                    }
                    at = past_newlines(at);
                    if at < text.len() {
                        return Err(at);
                    }
                    break;
                }
                (None, _) => return Err(at - 1),
            }
        }
        let [a, b, c, d] = sextets;
        let bytes = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        out.extend_from_slice(&bytes[..filled - 1]);
        if filled < 4 {
            return Ok(out);
        }
    }
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_slow_way_and_the_fast_agree(text in "[A-Da-d0-9+/=]{0,12}") {
            if let Ok(bytes) = LENIENT.decode(&text) {
                prop_assert_eq!(decode_slow(text.as_bytes()), Ok(bytes));
            } else {
                prop_assert!(decode_slow(text.as_bytes()).is_err());
            }
        }

        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>) {
            prop_assert_eq!(decode_slow(base64(&bytes).as_bytes()), Ok(bytes));
        }
    }
}
