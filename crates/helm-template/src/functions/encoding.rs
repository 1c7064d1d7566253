//! Base64, base32 and digests.

use std::fmt::Write;

use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use crate::exec::{FunctionBody, FunctionRow};
use crate::go;
use crate::value::{Type, Value};

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("b64enc",     &[Type::String], false, FunctionBody::Plain(|of| Ok(go::base64(bytes(of)).into()))),
    ("b64dec",     &[Type::String], false, FunctionBody::Plain(|of| Ok(decoded(go::base64_decode(bytes(of)))))),
    ("b32enc",     &[Type::String], false, FunctionBody::Plain(|of| Ok(go::base32(bytes(of)).into()))),
    ("b32dec",     &[Type::String], false, FunctionBody::Plain(|of| Ok(decoded(go::base32_decode(bytes(of)))))),
    ("sha1sum",    &[Type::String], false, FunctionBody::Plain(|of| Ok(digest::<Sha1>(of)))),
    ("sha256sum",  &[Type::String], false, FunctionBody::Plain(|of| Ok(digest::<Sha256>(of)))),
    ("sha512sum",  &[Type::String], false, FunctionBody::Plain(|of| Ok(digest::<Sha512>(of)))),
    ("adler32sum", &[Type::String], false, FunctionBody::Plain(|of| Ok(adler32(bytes(of)).to_string().into()))),
];

/// The bytes of the first argument, a string.
fn bytes(arguments: &[Value]) -> &[u8] {
    arguments.first().and_then(Value::string_bytes).unwrap_or_default()
}

/// The decoded bytes. A decoding error becomes the result text, as in sprig.
fn decoded(bytes: Result<Vec<u8>, go::CorruptInputError>) -> Value {
    bytes.map_or_else(|corrupt| corrupt.to_string().into(), Value::string_from_bytes)
}

fn digest<D: Digest>(arguments: &[Value]) -> Value {
    hex(&D::digest(bytes(arguments))).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}"); // writing to a String cannot fail
        out
    })
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    // The longest run whose sums stay below 2^32 without reduction.
    const RUN: usize = 5552;
    let (mut a, mut b) = (1, 0);
    for run in bytes.chunks(RUN) {
        for &byte in run {
            a += u32::from(byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_functions_match_helm() {
        // Every expectation was compared with Helm.
        let table: &[(&str, &str, &str)] = &[
            ("sha1sum", "hello", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
            ("sha256sum", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (
                "sha512sum",
                "é",
                "9e2ad28633f24451bd4f3c1cb20586a21a44c3aeedbdc01b9cc8fa72917ea7bd\
                 689c82b8bf1fef89b911cf8cc46fa2c1ccc10087b2094fd4d3350ecd88526a2c",
            ),
            ("adler32sum", "hello", "103547413"),
            ("b64dec", "aGVsbG8", "illegal base64 data at input byte 4"),
            ("b32dec", "a", "illegal base32 data at input byte 0"),
        ];
        for (name, input, expected) in table {
            let Some((.., FunctionBody::Plain(run))) = FUNCTIONS.iter().find(|row| row.0 == *name) else {
                panic!("no {name}");
            };
            assert_eq!(run(&[(*input).into()]).unwrap().as_str(), Some(*expected), "{name} {input:?}");
        }
    }

    #[test]
    fn decoded_binary_is_kept() {
        let raw = Value::string_from_bytes(vec![0xff, 0xfe, 0x00]);
        let encoded = go::base64(bytes(std::slice::from_ref(&raw)));
        let Value::Raw(back) = decoded(go::base64_decode(encoded.as_bytes())) else {
            panic!("bytes that are not UTF-8 came back as text");
        };
        assert_eq!(back.as_ref(), [0xff, 0xfe, 0x00]);
    }

    #[test]
    fn adler32_does_not_overflow() {
        assert_eq!(adler32(&vec![0xff; 1 << 20]), 0x8e88_ef11);
    }
}
