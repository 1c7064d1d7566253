//! Base32 with the standard alphabet, compatible with Go's encoder and decoder.

use super::CorruptInputError;

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub fn base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for group in bytes.chunks(5) {
        let mut padded = [0; 8];
        padded[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(padded);
        let letters = (group.len() * 8).div_ceil(5);
        for at in 0..8 {
            let letter = ALPHABET[(bits >> (35 - 5 * at) & 31) as usize];
            out.push(if at < letters { char::from(letter) } else { '=' });
        }
    }
    out
}

/// Decodes base32. Line breaks are skipped and not counted in error offsets.
pub fn base32_decode(text: &[u8]) -> Result<Vec<u8>, CorruptInputError> {
    decode(text).map_err(|at| CorruptInputError { base: 32, offset: at })
}

fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5 + 5);
    for (start, group) in text.chunks(8).enumerate().map(|(n, group)| (n * 8, group)) {
        let left = text.len() - start;
        let mut bits: u64 = 0;
        let mut letters = 0;
        for at in 0..8 {
            let Some(&byte) = group.get(at) else {
                return Err(start);
            };
            // Padding ends the text and fills its last group.
            if byte == b'=' && at >= 2 && left <= at + 8 {
                if left < 8 {
                    return Err(text.len());
                }
                if let Some(odd) = group[at + 1..].iter().position(|&byte| byte != b'=') {
                    return Err(start + at + odd);
                }
                if matches!(at, 3 | 6) {
                    return Err(start + at);
                }
                break;
            }
            bits |= u64::from(quintet(byte).ok_or(start + at)?) << (35 - 5 * at);
            letters += 1;
        }
        out.extend_from_slice(&bits.to_be_bytes()[3..3 + letters * 5 / 8]);
        if letters < 8 {
            break;
        }
    }
    Ok(out)
}

fn quintet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'2'..=b'7' => Some(byte - b'2' + 26),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>) {
            prop_assert_eq!(base32_decode(base32(&bytes).as_bytes()), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in "[A-C2=\n]{0,24}") {
            let _ = base32_decode(text.as_bytes());
        }
    }
}
