//! Private keys in PEM: encoding, and decoding of keys that a chart supplies.

use super::der::{self, Reader};
use super::pem;
use crate::env::{Crypto, Curve, PrivateKey};
use crate::value::Str;

pub const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
pub const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
pub const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Supported curves: OID in DER, and the length of a secret in bytes.
const CURVES: &[(Curve, &[u8], usize)] = &[
    (Curve::P256, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 32),
    (Curve::P384, &[0x2b, 0x81, 0x04, 0x00, 0x22], 48),
    (Curve::P521, &[0x2b, 0x81, 0x04, 0x00, 0x23], 66),
];

/// The OID element of a curve.
pub fn curve_name(curve: Curve) -> Vec<u8> {
    let name = CURVES.iter().find(|row| row.0 == curve).map_or(&[][..], |row| row.1);
    der::element(der::OID, &[name])
}

/// Encodes as PEM in the conventional form for the key's kind.
pub fn write(key: &PrivateKey, crypto: &dyn Crypto) -> Result<String, Str> {
    Ok(match key {
        PrivateKey::Rsa(pkcs1) => pem::encode("RSA PRIVATE KEY", pkcs1),
        PrivateKey::Dsa(numbers) => {
            let numbers = numbers.each_ref().map(|number| der::integer(number)).concat();
            pem::encode("DSA PRIVATE KEY", &der::sequence(&[&der::integer(&[]), &numbers]))
        }
        PrivateKey::Ecdsa { curve, secret } => {
            let sec1 = der::sequence(&[
                &der::integer(&[1]),
                &der::element(der::OCTETS, &[secret]),
                &der::element(der::explicit(0), &[&curve_name(*curve)]),
                &der::element(der::explicit(1), &[&der::bits(&crypto.public_key(key)?)]),
            ]);
            pem::encode("EC PRIVATE KEY", &sec1)
        }
        PrivateKey::Ed25519(seed) => {
            let pkcs8 = der::sequence(&[
                &der::integer(&[]),
                &der::sequence(&[&der::element(der::OID, &[ED25519])]),
                &der::element(der::OCTETS, &[&der::element(der::OCTETS, &[seed])]),
            ]);
            pem::encode("PRIVATE KEY", &pkcs8)
        }
    })
}

/// Decodes the key in the first PEM block of a text.
pub fn read(text: &[u8]) -> Result<PrivateKey, Str> {
    let block = pem::decode(text).ok_or("no PEM data in input")?;
    let bytes = block.bytes.as_slice();
    if block.label == "PRIVATE KEY" {
        return pkcs8(bytes).map_err(|why| format!("decoding PEM as PKCS#8: {why}").into());
    }
    let Some(kind) = block.label.strip_suffix(" PRIVATE KEY") else {
        return Err(format!("no private key data in PEM block of type {}", block.label).into());
    };
    let read = match kind {
        "RSA" => pkcs1(bytes),
        "EC" => sec1(bytes, None),
        "DSA" => dsa(bytes),
        _ => return Err(format!("invalid private key type {}", block.label).into()),
    };
    read.map_err(|why| format!("parsing {kind} private key from PEM: {why}").into())
}

fn pkcs8(bytes: &[u8]) -> Result<PrivateKey, Str> {
    let Some((algorithm, mut parameters, secret)) = pkcs8_parts(bytes) else {
        return Err(if sec1_parts(bytes).is_some() {
            wrong_format_error("ParseECPrivateKey")
        } else if pkcs1_sequence(bytes).is_some() {
            wrong_format_error("ParsePKCS1PrivateKey")
        } else {
            asn1_error(bytes, "pkcs8")
        });
    };
    match algorithm {
        RSA => pkcs1(secret)
            .map_err(|why| format!("x509: failed to parse RSA private key embedded in PKCS#8: {why}").into()),
        ECDSA => sec1(secret, parameters.read(der::OID))
            .map_err(|why| format!("x509: failed to parse EC private key embedded in PKCS#8: {why}").into()),
        ED25519 if !parameters.is_empty() => Err("x509: invalid Ed25519 private key parameters".into()),
        ED25519 => {
            let seed = Reader(secret).read(der::OCTETS).ok_or("x509: invalid Ed25519 private key")?;
            let seed: [u8; 32] = seed.try_into().map_err(|_| -> Str {
                format!("x509: invalid Ed25519 private key length: {}", seed.len()).into()
            })?;
            Ok(PrivateKey::Ed25519(seed))
        }
        other => {
            let name = dotted_oid(other);
            Err(format!("x509: PKCS#8 wrapping contained private key with unknown algorithm: {name}").into())
        }
    }
}

/// The algorithm, its parameters, and the key.
fn pkcs8_parts(bytes: &[u8]) -> Option<(&[u8], Reader<'_>, &[u8])> {
    let mut whole = Reader(bytes).sequence()?;
    whole.read(der::INTEGER)?;
    let mut algorithm = whole.sequence()?;
    Some((algorithm.read(der::OID)?, algorithm, whole.read(der::OCTETS)?))
}

fn pkcs1(bytes: &[u8]) -> Result<PrivateKey, Str> {
    let Some(whole) = pkcs1_sequence(bytes) else {
        return Err(if sec1_parts(bytes).is_some() {
            wrong_format_error("ParseECPrivateKey")
        } else if pkcs8_parts(bytes).is_some() {
            wrong_format_error("ParsePKCS8PrivateKey")
        } else {
            asn1_error(bytes, "pkcs1PrivateKey")
        });
    };
    if whole.len() < bytes.len() {
        return Err("asn1: syntax error: trailing data".into());
    }
    Ok(PrivateKey::Rsa(bytes.to_vec()))
}

/// The sequence, if it holds the nine numbers of an RSA key: version, n, e, d, p, q, and the CRT values.
fn pkcs1_sequence(bytes: &[u8]) -> Option<&[u8]> {
    let element = Reader(bytes).element(der::SEQUENCE)?;
    let mut numbers = Reader(element.content);
    for _ in 0..9 {
        numbers.read(der::INTEGER)?;
    }
    Some(element.encoded)
}

/// `curve` is the OID from PKCS#8, where the key itself may omit it.
fn sec1(bytes: &[u8], curve: Option<&[u8]>) -> Result<PrivateKey, Str> {
    let Some((version, secret, own)) = sec1_parts(bytes) else {
        return Err(if pkcs8_parts(bytes).is_some() {
            wrong_format_error("ParsePKCS8PrivateKey")
        } else if pkcs1_sequence(bytes).is_some() {
            wrong_format_error("ParsePKCS1PrivateKey")
        } else {
            let why = asn1_error(bytes, "ecPrivateKey");
            format!("x509: failed to parse EC private key: {why}").into()
        });
    };
    if version != [1] {
        let version = version.last().copied().unwrap_or_default();
        return Err(format!("x509: unknown EC private key version {version}").into());
    }
    let name = curve.or(own).unwrap_or_default();
    let &(curve, _, size) = CURVES.iter().find(|row| row.1 == name).ok_or("x509: unknown elliptic curve")?;
    // Some encoders add leading zeros, and some omit them.
    let extra = secret.len().saturating_sub(size);
    let (zeros, secret) = secret.split_at(extra);
    if zeros.iter().any(|&byte| byte != 0) {
        return Err("x509: invalid private key length".into());
    }
    let mut padded = vec![0; size - secret.len()];
    padded.extend_from_slice(secret);
    Ok(PrivateKey::Ecdsa { curve, secret: padded })
}

/// Version, secret, and the OID of the curve if present.
type Sec1<'d> = (&'d [u8], &'d [u8], Option<&'d [u8]>);

fn sec1_parts(bytes: &[u8]) -> Option<Sec1<'_>> {
    let mut whole = Reader(bytes).sequence()?;
    let version = whole.read(der::INTEGER)?;
    let secret = whole.read(der::OCTETS)?;
    let curve = whole.optional(der::explicit(0)).and_then(|curve| Reader(curve).read(der::OID));
    Some((version, secret, curve))
}

fn dsa(bytes: &[u8]) -> Result<PrivateKey, Str> {
    let numbers = || {
        let mut whole = Reader(bytes).sequence()?;
        whole.read(der::INTEGER)?;
        let mut numbers: [Vec<u8>; 5] = Default::default();
        for number in &mut numbers {
            *number = whole.read(der::INTEGER)?.to_vec();
        }
        Some(numbers)
    };
    numbers().map(PrivateKey::Dsa).ok_or_else(|| asn1_error(bytes, "DSAKeyFormat"))
}

fn wrong_format_error(parser: &str) -> Str {
    format!("x509: failed to parse private key (use {parser} instead for this key format)").into()
}

/// The error of Go's `encoding/asn1` for bytes that are not a sequence of this type, judged by their first element.
fn asn1_error(bytes: &[u8], wanted: &str) -> Str {
    if bytes.is_empty() {
        return "asn1: syntax error: sequence truncated".into();
    }
    match der::header(bytes) {
        None => "asn1: syntax error: truncated tag or length".into(),
        Some((tag, length, start)) if tag != der::SEQUENCE => format!(
            "asn1: structure error: tags don't match (16 vs {{class:{} tag:{} length:{length} isCompound:{}}}) \
             {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> \
             stringType:0 timeType:0 set:false omitEmpty:false}} {wanted} @{start}",
            tag >> 6,
            tag & 0x1f,
            tag & 0x20 != 0,
        )
        .into(),
        Some((_, length, start)) if length > bytes.len() - start => "asn1: syntax error: data truncated".into(),
        Some(_) => "asn1: syntax error: sequence truncated".into(),
    }
}

/// An OID in dotted notation.
fn dotted_oid(oid: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number: u64 = 0;
    for &byte in oid {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.extend([first, number - first * 40]);
            } else {
                numbers.push(number);
            }
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn read_errors_match_go() {
        // (label, base64, error of sprig)
        let table: &[(&str, &str, &str)] = &[
            ("PRIVATE KEY", "", "decoding PEM as PKCS#8: asn1: syntax error: sequence truncated"),
            ("PRIVATE KEY", "MAA=", "decoding PEM as PKCS#8: asn1: syntax error: sequence truncated"),
            ("PRIVATE KEY", "MIIB", "decoding PEM as PKCS#8: asn1: syntax error: truncated tag or length"),
            (
                "RSA PRIVATE KEY",
                "MAMCAQA=",
                "parsing RSA private key from PEM: asn1: syntax error: sequence truncated",
            ),
            (
                "EC PRIVATE KEY",
                "aGVsbG8=",
                "parsing EC private key from PEM: x509: failed to parse EC private key: asn1: structure error: tags \
                 don't match (16 vs {class:1 tag:8 length:101 isCompound:true}) {optional:false explicit:false \
                 application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false \
                 omitEmpty:false} ecPrivateKey @2",
            ),
            ("FOO PRIVATE KEY", "MAA=", "invalid private key type FOO PRIVATE KEY"),
            ("CERTIFICATE", "MAA=", "no private key data in PEM block of type CERTIFICATE"),
        ];
        for (label, body, expected) in table {
            let text = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
            let why = read(text.as_bytes()).err();
            assert_eq!(why.as_deref(), Some(*expected), "{label} {body}");
        }
        assert_eq!(read(b"").err().as_deref(), Some("no PEM data in input"));
    }

    #[test]
    fn dotted_oid_formats_components() {
        assert_eq!(dotted_oid(RSA), "1.2.840.113549.1.1.1");
        assert_eq!(dotted_oid(ED25519), "1.3.101.112");
        assert_eq!(dotted_oid(&[0x88, 0x37]), "2.999");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY"] {
                let _ = read(pem::encode(label, &bytes).as_bytes());
            }
        }
    }
}
