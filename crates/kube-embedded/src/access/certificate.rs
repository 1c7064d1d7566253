//! Parses certificate signing requests (PKCS #10) and writes X.509 certificates.
//!
//! Certificates are encoded by hand because the subject must be exactly that of the request: several organizations are several groups, and
//! the library would keep only one of each attribute. Only the DER needed for this is implemented.
//!
//! Used by `super::csr` only.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{Issuer, KeyPair, SigningKey as _};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate};

/// The fields of a certificate signing request that are used.
pub(super) struct CertificateRequest {
    /// The subject, DER as in the request.
    subject: Vec<u8>,
    /// The public key, DER as in the request.
    public_key: Vec<u8>,
    /// The value of the subject alternative name extension, DER as in the request.
    alternative_names: Option<Vec<u8>>,
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: usize,
    pub addresses: usize,
    pub emails: usize,
    pub uris: usize,
}

impl CertificateRequest {
    /// Parses a PEM certificate signing request and verifies its signature.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem)
            .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
        let (_, request) = X509CertificationRequest::from_der(&der).map_err(|error| error.to_string())?;
        request.verify_signature().map_err(|_| "the signature of the request is not valid".to_owned())?;
        let info = &request.certification_request_info;
        let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).map_err(|error| error.to_string())
        };
        let mut read = Self {
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
            alternative_names: None,
            common_name: info.subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default(),
            organizations: info.subject.iter_organization().map(text).collect::<Result<_, _>>()?,
            dns_names: 0,
            addresses: 0,
            emails: 0,
            uris: 0,
        };
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
                continue;
            };
            for extension in &requested.extensions {
                let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
                    continue;
                };
                read.alternative_names = Some(extension.value.to_vec());
                for name in &names.general_names {
                    match name {
                        GeneralName::DNSName(_) => read.dns_names += 1,
                        GeneralName::IPAddress(_) => read.addresses += 1,
                        GeneralName::RFC822Name(_) => read.emails += 1,
                        GeneralName::URI(_) => read.uris += 1,
                        _ => {}
                    }
                }
            }
        }
        Ok(read)
    }
}

/// Certificates are valid from this long before they are issued, to tolerate clock skew.
pub(super) const BACKDATED_SECONDS: i64 = 5 * 60;

/// Returns the end of validity of a PEM certificate; `None` if it cannot be parsed.
pub(super) fn expires_at(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

/// Key usage bits by the values of `spec.usages`.
const KEY_USAGES: [(&str, u8); 2] = [("digital signature", 0x80), ("key encipherment", 0x20)];
/// `id-kp-serverAuth` and `id-kp-clientAuth`.
const EXTENDED_USAGES: [(&str, &[u8]); 2] =
    [("server auth", &[0x2b, 6, 1, 5, 5, 7, 3, 1]), ("client auth", &[0x2b, 6, 1, 5, 5, 7, 3, 2])];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

/// Issues a certificate for `request`, signed by the authority, as PEM.
pub(super) fn issue(
    request: &CertificateRequest,
    usages: &[String],
    authority_pem: &str,
    authority: &Issuer<'static, KeyPair>,
    now: Timestamp,
    validity: Duration,
) -> Result<String, String> {
    let authority_der =
        CertificateDer::from_pem_slice(authority_pem.as_bytes()).map_err(|e| e.to_string())?;
    let (_, issuer) = X509Certificate::from_der(&authority_der).map_err(|error| error.to_string())?;
    let key_id = issuer.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let seconds = i64::try_from(validity.as_secs()).unwrap_or(i64::MAX);
    let start = now.as_second().saturating_sub(BACKDATED_SECONDS);
    // A certificate never outlives its authority.
    let end = now.as_second().saturating_add(seconds).min(issuer.validity().not_after.timestamp());
    let mut serial = *uuid::Uuid::new_v4().as_bytes();
    // A first byte between 0x40 and 0x7f keeps the number positive and in its shortest form.
    serial[0] = serial[0] & 0x3f | 0x40;
    let algorithm = sequence(&[der_element(0x06, ECDSA_WITH_SHA256)]);
    let body = sequence(&[
        der_element(0xa0, &der_element(0x02, &[2])),
        der_element(0x02, &serial),
        algorithm.clone(),
        issuer.subject().as_raw().to_vec(),
        sequence(&[time(start)?, time(end)?]),
        request.subject.clone(),
        request.public_key.clone(),
        der_element(0xa3, &sequence(&extensions(request, usages, key_id))),
    ]);
    let signature = authority.key().sign(&body).map_err(|error| error.to_string())?;
    let signature = der_element(0x03, &[&[0], signature.as_slice()].concat());
    Ok(pem(&sequence(&[body, algorithm, signature])))
}

fn extensions(request: &CertificateRequest, usages: &[String], key_id: Option<&[u8]>) -> Vec<Vec<u8>> {
    let has = |word: &str| usages.iter().any(|usage| usage == word);
    let mut list = Vec::new();
    let bits = KEY_USAGES.iter().filter(|(word, _)| has(word)).fold(0, |bits, (_, bit)| bits | bit);
    if bits != 0 {
        let unused = u8::try_from(bits.trailing_zeros()).unwrap_or_default();
        list.push(extension(&[0x55, 0x1d, 15], true, &der_element(0x03, &[unused, bits])));
    }
    let extended = EXTENDED_USAGES.iter().filter(|(word, _)| has(word));
    let extended: Vec<Vec<u8>> = extended.map(|(_, id)| der_element(0x06, id)).collect();
    if !extended.is_empty() {
        list.push(extension(&[0x55, 0x1d, 37], false, &sequence(&extended)));
    }
    // Basic constraints: not a CA.
    list.push(extension(&[0x55, 0x1d, 19], true, &sequence(&[])));
    if let Some(id) = key_id {
        list.push(extension(&[0x55, 0x1d, 35], false, &sequence(&[der_element(0x80, id)])));
    }
    if let Some(names) = &request.alternative_names {
        list.push(extension(&[0x55, 0x1d, 17], false, names));
    }
    list
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let mut parts = vec![der_element(0x06, id)];
    if critical {
        parts.push(der_element(0x01, &[0xff]));
    }
    parts.push(der_element(0x04, value));
    sequence(&parts)
}

/// Encodes a time: `UTCTime` until 2049, `GeneralizedTime` after.
fn time(second: i64) -> Result<Vec<u8>, String> {
    let at = Timestamp::from_second(second).map_err(|error| error.to_string())?;
    let year = at.strftime("%Y").to_string();
    let (tag, format) =
        if year.as_str() < "2050" { (0x17, "%y%m%d%H%M%SZ") } else { (0x18, "%Y%m%d%H%M%SZ") };
    Ok(der_element(tag, at.strftime(format).to_string().as_bytes()))
}

/// Encodes a DER element: tag, length, content.
fn der_element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    match significant {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).expect("a length has at most eight bytes"));
            out.extend(long);
        }
    }
    out.extend(content);
    out
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    der_element(0x30, &parts.concat())
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}
