//! Provenance files: the signed content of a chart, and whether an archive matches it.
//!
//! A `.prov` file is a clear-signed `OpenPGP` message with the chart's metadata and the digest of its archive. This
//! module parses and builds that message and compares digests. It neither creates nor verifies signatures: the caller
//! passes [`Provenance::message`] and [`Provenance::signature`] to a program that holds the keys.

use std::collections::BTreeMap;
use std::fmt::Write;

use helm_template::EncodeError;
use helm_template::data::{Data, Members};
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::value::Str;
use helm_template::yaml;
use sha2::{Digest, Sha256};

use crate::metadata::{Metadata, MetadataDraft};
use crate::typed::{self, KeyMode, Shape, Struct, structure};

/// A parsed provenance file.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// The signed `Chart.yaml`, decoded but not validated.
    pub chart: Data,
    /// Digests (`sha256:...`) by file name.
    pub files: BTreeMap<Str, Str>,
    /// The signed text.
    pub message: String,
    /// The armoured signature, including its first and last line.
    pub signature: String,
}

/// Error of a provenance file or of the archive check. Messages are Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvenanceError {
    #[error("signature block not found")]
    NoSignature,
    #[error("message block must have at least two parts")]
    MissingPart,
    #[error("{0}")]
    Text(Str),
    #[error("provenance does not contain a SHA for a file named {}", quote(.0))]
    UnknownFile(Str),
    #[error("sha256 sum does not match for {name}: {} != {}", quote(.signed), quote(.found))]
    Mismatch { name: Str, signed: Str, found: Str },
}

static SUM_COLLECTION: Struct = structure! {Provenance "SumCollection" {
    "files": Shape::Map(&Shape::Text),
    "images": Shape::Map(&Shape::Text),
}};

const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";
const END: &str = "-----END PGP SIGNATURE-----";
/// Separator of the parts of a message. `---` would be read as part of the armour.
const PART_SEPARATOR: &str = "\n...\n";

impl Provenance {
    pub fn parse(text: &str, profile: Profile) -> Result<Self, ProvenanceError> {
        let (message, signature) = split_clear_signed(text).ok_or(ProvenanceError::NoSignature)?;
        let mut parts = message.split(PART_SEPARATOR);
        let (Some(chart), Some(sums)) = (parts.next(), parts.next()) else {
            return Err(ProvenanceError::MissingPart);
        };
        let chart = MetadataDraft::decode(chart.as_bytes(), profile).map_err(ProvenanceError::Text)?;
        let sums = typed::read(sums.as_bytes(), &SUM_COLLECTION, profile, KeyMode::Any)
            .map_err(ProvenanceError::Text)?;
        let files = sums.get("files").and_then(Data::as_map).into_iter().flatten();
        let files = files.filter_map(|(name, sum)| Some((name.clone(), sum.as_str()?.into())));
        Ok(Self { chart, files: files.collect(), signature, message })
    }

    /// Checks that an archive of this name was signed. Returns its digest.
    pub fn check(&self, name: &str, archive: &[u8]) -> Result<String, ProvenanceError> {
        let found = format!("sha256:{}", digest(archive));
        let signed = self.files.get(name).ok_or_else(|| ProvenanceError::UnknownFile(name.into()))?;
        if **signed != *found {
            return Err(ProvenanceError::Mismatch {
                name: name.into(),
                signed: signed.clone(),
                found: found.into(),
            });
        }
        Ok(found)
    }
}

/// The text to sign for an archive.
pub fn message(metadata: &Metadata, name: &str, archive: &[u8]) -> Result<String, EncodeError> {
    let mut text = yaml::write(&metadata.to_data())?;
    text.push_str(PART_SEPARATOR);
    let sum = Data::string(format!("sha256:{}", digest(archive)));
    let files = Data::Map(Members::from([(name.into(), sum)]));
    text.push_str(&yaml::write(&Data::Map(Members::from([("files".into(), files)])))?);
    Ok(text)
}

/// SHA-256 in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}"); // writing to a string does not fail
        digits
    })
}

/// Splits a clear-signed message into text and signature.
fn split_clear_signed(text: &str) -> Option<(String, String)> {
    let start = match text.strip_prefix(BEGIN) {
        Some(rest) => rest,
        None => &text[text.find(&format!("\n{BEGIN}"))? + 1 + BEGIN.len()..],
    };
    let mut lines = start.split_inclusive('\n');
    // The rest of the first line, then headers up to an empty line.
    if !lines.next()?.trim().is_empty() {
        return None;
    }
    for header in lines.by_ref() {
        if header.trim().is_empty() {
            break;
        }
        header.split_once(':')?;
    }
    let mut message = String::new();
    for line in lines.by_ref() {
        let line = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        if line == SIGNATURE {
            let rest: String = lines.collect();
            let end = rest.find(END)?;
            return Some((message, format!("{SIGNATURE}\n{}{END}\n", &rest[..end])));
        }
        // Lines that begin with a dash are escaped by another one.
        message.push_str(line.strip_prefix("- ").unwrap_or(line));
        message.push('\n');
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARCHIVE: &[u8] = b"not really an archive";

    fn metadata() -> Metadata {
        Metadata {
            name: "c".into(),
            version: "1.2.3".into(),
            api_version: "v2".into(),
            ..Metadata::default()
        }
    }

    /// A message as a signing program writes it.
    fn signed(message: &str) -> String {
        let dashed: String = message
            .split_inclusive('\n')
            .map(|line| if line.starts_with('-') { format!("- {line}") } else { line.to_owned() })
            .collect();
        format!("{BEGIN}\nHash: SHA512\n\n{dashed}{SIGNATURE}\n\nwsBc\n=YgnR\n{END}\n")
    }

    #[test]
    fn message_round_trips() {
        let text = message(&metadata(), "c-1.2.3.tgz", ARCHIVE).unwrap();
        let sum = "484703de5611317b0f28952852ca1c227f3bbdd84c33ce8cfe167e6ab1592fb3";
        assert_eq!(
            text,
            format!("apiVersion: v2\nname: c\nversion: 1.2.3\n\n...\nfiles:\n  c-1.2.3.tgz: sha256:{sum}\n")
        );
        let read = Provenance::parse(&signed(&text), Profile::Helm4).unwrap();
        assert_eq!(read.message, text);
        assert_eq!(read.chart.get("name").and_then(Data::as_str), Some("c"));
        assert_eq!(read.signature, format!("{SIGNATURE}\n\nwsBc\n=YgnR\n{END}\n"));
        assert_eq!(read.check("c-1.2.3.tgz", ARCHIVE), Ok(format!("sha256:{}", digest(ARCHIVE))));
    }

    #[test]
    fn check_rejects_other_archive() {
        let text = signed(&message(&metadata(), "c-1.2.3.tgz", ARCHIVE).unwrap());
        let read = Provenance::parse(&text, Profile::Helm3).unwrap();
        let said = |name, archive| read.check(name, archive).unwrap_err().to_string();
        assert_eq!(said("d.tgz", ARCHIVE), "provenance does not contain a SHA for a file named \"d.tgz\"");
        let (signed, found) = (digest(ARCHIVE), digest(b"other"));
        assert_eq!(
            said("c-1.2.3.tgz", b"other"),
            format!("sha256 sum does not match for c-1.2.3.tgz: \"sha256:{signed}\" != \"sha256:{found}\"")
        );
    }

    #[test]
    fn parse_rejects_invalid_provenance() {
        let said = |text: &str| Provenance::parse(text, Profile::Helm3).unwrap_err().to_string();
        for text in ["", "apiVersion: v1\n", BEGIN, "-----BEGIN PGP SIGNED MESSAGE-----\n\nname: c\n"] {
            assert_eq!(said(text), "signature block not found", "{text:?}");
        }
        assert_eq!(said(&signed("name: c\n")), "message block must have at least two parts");
    }
}
