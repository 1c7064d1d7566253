//! Certificates with the content that sprig chooses, byte-compatible with Go's `crypto/x509`.

use core::net::IpAddr;
use std::any::Any;
use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::der::{self, Reader};
use super::{keys, pem};
use crate::env::{Curve, PrivateKey, RenderEnv};
use crate::go;
use crate::profile::Profile;
use crate::value::{Field, Json, Object, Str, Value};

/// The certificate value that templates receive, with two fields.
pub struct Certificate {
    pub cert: Value,
    pub key: Value,
}

pub const CERTIFICATE_TYPE: &str = "sprig.certificate";

impl Object for Certificate {
    fn type_name(&self) -> &str {
        CERTIFICATE_TYPE
    }

    fn print(&self) -> Cow<'_, str> {
        format!("{{{} {}}}", go::print(&self.cert), go::print(&self.key)).into()
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(self.cert.clone()),
            "Key" => Some(self.key.clone()),
            _ => None,
        }
    }

    fn fields(&self) -> Vec<Field> {
        [("Cert", &self.cert), ("Key", &self.key)]
            .map(|(name, value)| Field { name, json: Json::Always(name), value: value.clone() })
            .into()
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| {
            self.cert.string_bytes() == other.cert.string_bytes()
                && self.key.string_bytes() == other.key.string_bytes()
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The subject and properties of a certificate to issue.
pub struct IssueRequest {
    /// The DER encoding of the subject name.
    subject: Vec<u8>,
    addresses: Vec<IpAddr>,
    dns_names: Vec<Value>,
    days: i64,
    is_ca: bool,
}

impl IssueRequest {
    /// `addresses` and `names` are lists, or nil.
    pub fn new(cn: &Value, addresses: &Value, names: &Value, days: i64) -> Result<Self, Str> {
        let items = |list: &Value| list.as_list().map(|list| list.to_vec()).unwrap_or_default();
        let address = |item: &Value| -> Result<IpAddr, Str> {
            let text = item
                .text()
                .ok_or_else(|| format!("error parsing ip: {} is not a string", go::print(item)))?;
            text.parse().map_err(|_| format!("error parsing ip: {text}").into())
        };
        let addresses = items(addresses).iter().map(address).collect::<Result<_, _>>()?;
        let names = items(names);
        if let Some(odd) = names.iter().find(|name| name.string_bytes().is_none()) {
            let odd = go::print(odd);
            return Err(format!("error processing alternate dns name: {odd} is not a string").into());
        }
        Ok(Self { subject: subject(cn)?, addresses, dns_names: names, days, is_ca: false })
    }

    /// A request for a CA certificate.
    pub fn authority(cn: &Value, days: i64) -> Result<Self, Str> {
        Ok(Self { is_ca: true, ..Self::new(cn, &Value::Null, &Value::Null, days)? })
    }
}

/// A subject name that holds the common name; empty if the common name is empty.
fn subject(cn: &Value) -> Result<Vec<u8>, Str> {
    const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
    let bytes = cn.string_bytes().unwrap_or_default();
    if bytes.is_empty() {
        return Ok(der::sequence(&[]));
    }
    if cn.as_str().is_none() {
        return Err("error creating certificate: asn1: string not valid UTF-8".into());
    }
    let printable = |byte: &u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(byte);
    let tag = if bytes.iter().all(printable) { der::PRINTABLE_STRING } else { der::UTF8_STRING };
    let name = der::sequence(&[&der::element(der::OID, &[COMMON_NAME]), &der::element(tag, &[bytes])]);
    Ok(der::sequence(&[&der::element(der::SET, &[&name])]))
}

/// The issuing CA: the parts of its certificate that go into issued certificates, and its key.
pub struct Signer {
    subject: Vec<u8>,
    key_id: Vec<u8>,
    public_key: Vec<u8>,
    key: PrivateKey,
}

impl Signer {
    /// Parses the certificate and the key of a CA.
    pub fn parse(authority: &Certificate) -> Result<Self, Str> {
        let bytes = authority.cert.string_bytes().unwrap_or_default();
        let block = pem::decode(bytes).ok_or("unable to decode certificate")?;
        let parsed = parse(&block.bytes)
            .map_err(|why| format!("error parsing certificate: decodedSignerCert.Bytes: {why}"))?;
        let key = keys::read(authority.key.string_bytes().unwrap_or_default())
            .map_err(|why| format!("error parsing private key: {why}"))?;
        Ok(Self {
            subject: parsed.subject.to_vec(),
            key_id: parsed.key_id.to_vec(),
            public_key: parsed.public_key.to_vec(),
            key,
        })
    }
}

/// Issues a certificate for `key`, signed by `signer` or self-signed.
pub fn issue(
    request: &IssueRequest,
    key: &PrivateKey,
    signer: Option<&Signer>,
    outside: RenderEnv<'_>,
    profile: Profile,
) -> Result<Certificate, Str> {
    let der = create(request, key, signer, outside, profile)
        .map_err(|why| format!("error creating certificate: {why}"))?;
    Ok(Certificate {
        cert: pem::encode("CERTIFICATE", &der).into(),
        key: keys::write(key, outside.crypto)?.into(),
    })
}

fn create(
    request: &IssueRequest,
    key: &PrivateKey,
    signer: Option<&Signer>,
    outside: RenderEnv<'_>,
    profile: Profile,
) -> Result<Vec<u8>, Str> {
    let signing = signer.map_or(key, |signer| &signer.key);
    let algorithm = signature_algorithm(signing)
        .ok_or("x509: certificate private key does not implement crypto.Signer")?;
    let unsupported = "x509: unsupported public key type: *dsa.PublicKey";
    let public_algorithm = public_algorithm(key).ok_or(unsupported)?;
    let public = outside.crypto.public_key(key)?;
    let public_key = der::sequence(&[&public_algorithm, &der::bits(&public)]);
    if let Some(signer) = signer {
        let public = outside.crypto.public_key(&signer.key)?;
        let algorithm = self::public_algorithm(&signer.key).unwrap_or_default();
        if signer.public_key != der::sequence(&[&algorithm, &der::bits(&public)]) {
            return Err("x509: provided PrivateKey doesn't match parent's PublicKey".into());
        }
    }
    let issuer = signer.map_or(&request.subject, |signer| &signer.subject);
    let authority_key = match signer {
        Some(signer) if signer.subject != request.subject => signer.key_id.as_slice(),
        _ => &[],
    };
    let mut serial = [0; 16];
    outside.random.fill(&mut serial);
    let body = der::sequence(&[
        &der::element(der::explicit(0), &[&der::integer(&[2])]), // version 3
        &der::integer(&serial),
        &algorithm,
        issuer,
        &validity(outside.clock.now(), request.days),
        &request.subject,
        &public_key,
        &der::element(der::explicit(3), &[&extensions(request, &public, authority_key, profile)?]),
    ]);
    let signature = outside.crypto.sign(signing, &body)?;
    Ok(der::sequence(&[&body, &algorithm, &der::bits(&signature)]))
}

/// The signature algorithm of a key. DSA keys cannot sign.
fn signature_algorithm(key: &PrivateKey) -> Option<Vec<u8>> {
    const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
    const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
    const ECDSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04];
    Some(match key {
        PrivateKey::Rsa(_) => algorithm(RSA_SHA256, &der::element(der::NULL, &[])),
        PrivateKey::Ecdsa { curve: Curve::P256, .. } => algorithm(ECDSA_SHA256, &[]),
        PrivateKey::Ecdsa { curve: Curve::P384, .. } => algorithm(ECDSA_SHA384, &[]),
        PrivateKey::Ecdsa { curve: Curve::P521, .. } => algorithm(ECDSA_SHA512, &[]),
        PrivateKey::Ed25519(_) => algorithm(keys::ED25519, &[]),
        PrivateKey::Dsa(_) => return None,
    })
}

/// The public key algorithm of a key. DSA keys are not certified.
fn public_algorithm(key: &PrivateKey) -> Option<Vec<u8>> {
    Some(match key {
        PrivateKey::Rsa(_) => algorithm(keys::RSA, &der::element(der::NULL, &[])),
        PrivateKey::Ecdsa { curve, .. } => algorithm(keys::ECDSA, &keys::curve_name(*curve)),
        PrivateKey::Ed25519(_) => algorithm(keys::ED25519, &[]),
        PrivateKey::Dsa(_) => return None,
    })
}

fn algorithm(name: &[u8], parameters: &[u8]) -> Vec<u8> {
    der::sequence(&[&der::element(der::OID, &[name]), parameters])
}

fn validity(now: Timestamp, days: i64) -> Vec<u8> {
    // Go counts durations in nanoseconds and lets them overflow.
    let span = days.wrapping_mul(24 * 3_600 * 1_000_000_000);
    let end = (now.as_nanosecond() + i128::from(span)).div_euclid(1_000_000_000);
    // The span is at most 292 years, well within the range of a timestamp.
    let end = i64::try_from(end).ok().and_then(|end| Timestamp::from_second(end).ok()).unwrap_or(now);
    der::sequence(&[&time(now), &time(end)])
}

fn time(at: Timestamp) -> Vec<u8> {
    let civil = at.to_zoned(TimeZone::UTC).datetime();
    if (1950..2050).contains(&civil.year()) {
        der::element(der::UTC_TIME, &[civil.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()])
    } else {
        der::element(der::GENERALIZED_TIME, &[civil.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes()])
    }
}

const SUBJECT_KEY_ID: u8 = 14;
const KEY_USAGE: u8 = 15;
const SUBJECT_NAMES: u8 = 17;
const BASIC_CONSTRAINTS: u8 = 19;
const AUTHORITY_KEY_ID: u8 = 35;
const EXTENDED_KEY_USAGE: u8 = 37;

fn extensions(
    request: &IssueRequest,
    public: &[u8],
    authority_key: &[u8],
    profile: Profile,
) -> Result<Vec<u8>, Str> {
    const SERVER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
    const CLIENT: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
    let truth = der::element(der::BOOLEAN, &[&[0xff]]);
    // The first byte is the number of unused bits. The bits: digital signature, key encipherment, certificate signing.
    let usage: &[u8] = if request.is_ca { &[2, 0b1010_0100] } else { &[5, 0b1010_0000] };
    let purposes = der::sequence(&[&der::element(der::OID, &[SERVER]), &der::element(der::OID, &[CLIENT])]);
    let constraints = der::sequence(&[if request.is_ca { &truth } else { &[] }]);
    let mut all = vec![
        extension(KEY_USAGE, true, &der::element(der::BITS, &[usage])),
        extension(EXTENDED_KEY_USAGE, false, &purposes),
        extension(BASIC_CONSTRAINTS, true, &constraints),
    ];
    if request.is_ca {
        // A subject key identifier. Later versions of Go use a different digest.
        let (sha1, sha256) = (Sha1::digest(public), Sha256::digest(public));
        let id = match profile {
            Profile::Helm3 => sha1.as_slice(),
            Profile::Helm4 => sha256.get(..20).unwrap_or_default(),
        };
        all.push(extension(SUBJECT_KEY_ID, false, &der::element(der::OCTETS, &[id])));
    }
    if !authority_key.is_empty() {
        let id = der::sequence(&[&der::element(der::implicit(0), &[authority_key])]);
        all.push(extension(AUTHORITY_KEY_ID, false, &id));
    }
    if !request.dns_names.is_empty() || !request.addresses.is_empty() {
        let nameless = request.subject == der::sequence(&[]);
        all.push(extension(SUBJECT_NAMES, nameless, &subject_names(request)?));
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    Ok(der::sequence(&all))
}

/// An extension; all of these have OIDs in the arc 2.5.29.
fn extension(number: u8, critical: bool, value: &[u8]) -> Vec<u8> {
    let name = der::element(der::OID, &[&[0x55, 0x1d, number]]);
    let value = der::element(der::OCTETS, &[value]);
    let critical = if critical { der::element(der::BOOLEAN, &[&[0xff]]) } else { Vec::new() };
    der::sequence(&[&name, &critical, &value])
}

fn subject_names(request: &IssueRequest) -> Result<Vec<u8>, Str> {
    let mut all = Vec::new();
    for name in &request.dns_names {
        let bytes = name.string_bytes().unwrap_or_default();
        if !bytes.is_ascii() {
            let name = go::quote_bytes(bytes);
            return Err(format!("x509: {name} cannot be encoded as an IA5String").into());
        }
        all.push(der::element(der::implicit(2), &[bytes]));
    }
    for address in &request.addresses {
        all.push(match address.to_canonical() {
            IpAddr::V4(address) => der::element(der::implicit(7), &[&address.octets()]),
            IpAddr::V6(address) => der::element(der::implicit(7), &[&address.octets()]),
        });
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    Ok(der::sequence(&all))
}

/// The parts of a certificate that are needed to sign with it.
struct ParsedCertificate<'d> {
    subject: &'d [u8],
    public_key: &'d [u8],
    key_id: &'d [u8],
}

/// Checks that the bytes are a certificate. Errors carry Go's message.
pub fn check(der: &[u8]) -> Result<(), Str> {
    parse(der).map(|_| ())
}

fn parse(der: &[u8]) -> Result<ParsedCertificate<'_>, Str> {
    let mut outer = Reader(der);
    let mut whole = outer.sequence().ok_or("x509: malformed certificate")?;
    let mut body = whole.sequence().ok_or("x509: malformed tbs certificate")?;
    let version = match body.optional(der::explicit(0)) {
        Some(version) => Reader(version).read(der::INTEGER).ok_or("x509: malformed version")?,
        None => &[0],
    };
    if !matches!(version, [0..=2]) {
        return Err("x509: invalid version".into());
    }
    let serial = body.read(der::INTEGER).ok_or("x509: malformed serial number")?;
    if serial.first().is_some_and(|byte| byte & 0x80 != 0) {
        return Err("x509: negative serial number".into());
    }
    let inner = body.read(der::SEQUENCE).ok_or("x509: malformed signature algorithm identifier")?;
    let outside = whole.read(der::SEQUENCE).ok_or("x509: malformed algorithm identifier")?;
    if inner != outside {
        return Err("x509: inner and outer signature algorithm identifiers don't match".into());
    }
    body.read(der::SEQUENCE).ok_or("x509: malformed issuer")?;
    body.read(der::SEQUENCE).ok_or("x509: malformed validity")?;
    let subject = body.element(der::SEQUENCE).ok_or("x509: malformed issuer")?.encoded;
    let public_key = body.element(der::SEQUENCE).ok_or("x509: malformed spki")?.encoded;
    let mut key_id: &[u8] = &[];
    body.optional(der::implicit(1));
    body.optional(der::implicit(2));
    if let Some(extensions) = body.optional(der::explicit(3)) {
        let mut extensions = Reader(extensions).sequence().ok_or("x509: malformed extensions")?;
        while !extensions.is_empty() {
            let mut extension = extensions.sequence().ok_or("x509: malformed extension")?;
            let name = extension.read(der::OID).ok_or("x509: malformed extension OID field")?;
            extension.optional(der::BOOLEAN);
            let value = extension.read(der::OCTETS).ok_or("x509: malformed extension value field")?;
            if name == [0x55, 0x1d, SUBJECT_KEY_ID] {
                key_id = Reader(value).read(der::OCTETS).ok_or("x509: invalid subject key identifier")?;
            }
        }
    }
    whole.read(der::BITS).ok_or("x509: malformed signature")?;
    if !outer.is_empty() {
        return Err("x509: trailing data".into());
    }
    Ok(ParsedCertificate { subject, public_key, key_id })
}
