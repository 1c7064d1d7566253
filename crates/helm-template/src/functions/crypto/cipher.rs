//! sprig's AES: a 256-bit key from the zero-padded or truncated password, CBC mode, and a random IV as the first block.

use aes::Aes256;
use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use crate::env::Random;
use crate::go;
use crate::value::Str;

const BLOCK_SIZE: usize = 16;

fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    let known = password.len().min(key.len());
    key[..known].copy_from_slice(&password[..known]);
    Aes256::new(&Array::from(key))
}

fn xor_blocks(a: [u8; BLOCK_SIZE], b: &[u8; BLOCK_SIZE]) -> [u8; BLOCK_SIZE] {
    let mut out = a;
    out.iter_mut().zip(b).for_each(|(a, b)| *a ^= b);
    out
}

/// Encrypts to base64. Empty input gives an empty result.
pub fn encrypt(password: &[u8], plain: &[u8], random: &dyn Random) -> String {
    if plain.is_empty() {
        return String::new();
    }
    let cipher = cipher(password);
    let padding = BLOCK_SIZE - plain.len() % BLOCK_SIZE;
    let mut padded = plain.to_vec();
    // The padding is 16 at most.
    padded.resize(plain.len() + padding, u8::try_from(padding).unwrap_or_default());
    let mut last = [0; BLOCK_SIZE];
    random.fill(&mut last);
    let mut out = last.to_vec();
    for block in padded.as_chunks::<BLOCK_SIZE>().0 {
        let mut block = Array::from(xor_blocks(last, block));
        cipher.encrypt_block(&mut block);
        last = block.into();
        out.extend_from_slice(&last);
    }
    go::base64(&out)
}

/// Decrypts. Out-of-range accesses in Go fail with the message of Go's runtime.
pub fn decrypt(password: &[u8], encrypted: &[u8]) -> Result<Vec<u8>, Str> {
    if encrypted.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = go::base64_decode(encrypted).map_err(|corrupt| corrupt.to_string())?;
    let room = encrypted.len() / 4 * 3;
    if room < BLOCK_SIZE {
        return Err(format!("runtime error: slice bounds out of range [:16] with capacity {room}").into());
    }
    let Some((first, rest)) = bytes.split_first_chunk::<BLOCK_SIZE>() else {
        return Err(format!("runtime error: slice bounds out of range [16:{}]", bytes.len()).into());
    };
    let (blocks, []) = rest.as_chunks::<BLOCK_SIZE>() else {
        return Err("crypto/cipher: input not full blocks".into());
    };
    let cipher = cipher(password);
    let mut last = first;
    let mut out = Vec::with_capacity(rest.len());
    for block in blocks {
        let mut plain = Array::from(*block);
        cipher.decrypt_block(&mut plain);
        out.extend_from_slice(&xor_blocks(plain.into(), last));
        last = block;
    }
    let padding = usize::from(*out.last().ok_or("runtime error: index out of range [-1]")?);
    match out.len().checked_sub(padding) {
        Some(length) => {
            out.truncate(length);
            Ok(out)
        }
        None => Err(format!("runtime error: slice bounds out of range [:-{}]", padding - out.len()).into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::env::NullEnv;

    #[test]
    fn decrypt_matches_go() {
        // (password, text, result of Helm's decryptAES)
        let table: &[(&str, &str, Result<&str, &str>)] = &[
            ("a", "", Ok("")),
            ("secretkey", "uTkbSGFz7yBaF/1jZElldiludMv1Ul4Bq5C3HIrxniw=", Ok("plaintext")),
            ("", "5n367lD8TaNhe70g0ZqtUb+UDFlbzK9r3fKVnlbmNuA=", Ok("x")),
            (
                "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
                "gG88MFpmGDwR76mQzHLxaYDLUmrTRF3/uit8w+tso9SKy77F/2e04OFjqyCBdc43",
                Ok("sixteen bytes!!!"),
            ),
            ("a", "!", Err("illegal base64 data at input byte 0")),
            ("a", "YQ==", Err("runtime error: slice bounds out of range [:16] with capacity 3")),
            ("a", "YWFhYWFhYWFhYWFhYWFhYQ==", Err("runtime error: index out of range [-1]")),
            ("a", "YWFhYWFhYWFhYWFhYWFhYWFh", Err("crypto/cipher: input not full blocks")),
            (
                "a",
                "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=",
                Err("runtime error: slice bounds out of range [:-36]"),
            ),
        ];
        for (password, text, expected) in table {
            let got = decrypt(password.as_bytes(), text.as_bytes());
            let got = got.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(got.as_deref().map_err(AsRef::as_ref), *expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encrypted_is_decrypted(password: Vec<u8>, plain: Vec<u8>) {
            let encrypted = encrypt(&password, &plain, &NullEnv);
            prop_assert_eq!(decrypt(&password, encrypted.as_bytes()), Ok(plain));
        }

        #[test]
        fn no_text_panics(password: Vec<u8>, bytes: Vec<u8>) {
            let _ = decrypt(&password, go::base64(&bytes).as_bytes());
        }
    }
}
