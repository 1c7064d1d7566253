//! Layout of a record in Secrets, by its size.
//!
//! If a record is too large for one Secret, the templates and files of the chart are left out first, marked by an
//! annotation: they are not needed to list, upgrade, roll back or uninstall. Only a manifest that is still too large
//! is split into parts. The record then contains a reference to the parts in place of its manifest. That text is
//! invalid YAML, so a Helm without support for parts can list and show the release but rejects every operation that
//! needs the manifest.
//!
//! Invariant: a record has its whole manifest, or a text that cannot be parsed as one.

use std::fmt::Write;

use super::StorageError;
use crate::record::{self, MAX_UNPACKED, Record};

/// Maximum size of a Secret.
const SECRET: usize = 1 << 20;
/// Spare bytes for updates of the record: hook results and failure messages.
const SPARE: usize = 64 << 10;
/// Size of a part.
const PART: usize = 896 << 10;
/// Maximum number of parts of a manifest.
const MAX_PARTS: usize = 8;

/// Prefix of the text in place of a split manifest.
const KEPT: &str = "# longshore: this manifest is kept in ";

/// The record exceeds the size limits.
#[derive(Debug, thiserror::Error)]
pub enum TooLarge {
    #[error(
        "the record of release `{name}` takes {size} bytes, and a Secret holds {SECRET}: the chart or its manifest is too large"
    )]
    Whole { name: String, size: usize },
    #[error("the manifest of release `{name}` takes {size} bytes, and no more than {MAX_UNPACKED} are kept")]
    Manifest { name: String, size: usize },
    #[error("the hooks, notes and values of release `{name}` take {size} bytes, and a Secret holds {SECRET}")]
    Rest { name: String, size: usize },
}

/// Storage layout of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// One Secret with the whole record, as Helm writes it.
    Whole,
    /// Without the templates and files of the chart.
    WithoutFiles,
    /// Also with the manifest split into this many parts.
    Parts(usize),
}

/// An encoded record.
pub(super) struct Fitted {
    pub plan: Plan,
    /// Content of the record's Secret.
    pub text: String,
    pub parts: Parts,
}

/// A manifest split into parts.
#[derive(Default)]
pub(super) struct Parts {
    pub digest: String,
    pub pieces: Vec<Vec<u8>>,
}

/// Layout of `record`. Called before an operation that must be recorded.
pub fn fits(record: &Record) -> Result<Plan, StorageError> {
    Ok(fit(record, true)?.plan)
}

/// Encodes a record. `may_split` permits layouts other than [`Plan::Whole`].
pub(super) fn fit(record: &Record, may_split: bool) -> Result<Fitted, StorageError> {
    let (text, unpacked) = record.encode_measured()?;
    if is_enough(&text, unpacked) {
        return Ok(Fitted { plan: Plan::Whole, text, parts: Parts::default() });
    }
    let name = || record.name.clone();
    if !may_split {
        return Err(TooLarge::Whole { name: name(), size: text.len() }.into());
    }
    let mut record = Record { chart: record.chart.without_files(), ..record.clone() };
    let (text, unpacked) = record.encode_measured()?;
    if is_enough(&text, unpacked) {
        return Ok(Fitted { plan: Plan::WithoutFiles, text, parts: Parts::default() });
    }
    let manifest = std::mem::take(&mut record.manifest);
    let packed = record::gzip(&[manifest.as_bytes()]);
    if manifest.len() > MAX_UNPACKED || packed.len() > MAX_PARTS * PART {
        return Err(TooLarge::Manifest { name: name(), size: manifest.len() }.into());
    }
    let digest = helm_host::sha256(manifest.as_bytes());
    let pieces: Vec<_> = packed.chunks(PART).map(<[u8]>::to_vec).collect();
    record.manifest = instead(pieces.len(), &digest);
    let (text, unpacked) = record.encode_measured()?;
    if !is_enough(&text, unpacked) {
        return Err(TooLarge::Rest { name: name(), size: text.len() }.into());
    }
    Ok(Fitted { plan: Plan::Parts(pieces.len()), text, parts: Parts { digest, pieces } })
}

/// Whether a text fits into a Secret with spare bytes, and decoders accept its decompressed size.
fn is_enough(text: &str, unpacked: usize) -> bool {
    text.len() <= SECRET - SPARE && unpacked <= MAX_UNPACKED - SPARE
}

/// Text in place of a split manifest. No Helm parses it as YAML.
fn instead(parts: usize, digest: &str) -> String {
    let mut text = String::from(KEPT);
    // Writing to a `String` cannot fail.
    let _ = write!(
        text,
        "{parts} parts, sha256:{digest}\n# It is too large for one Secret.\n{{ use: [ longshore\n"
    );
    text
}

/// Number of parts and digest, if the manifest is split.
pub(super) fn kept(manifest: &str) -> Option<(usize, &str)> {
    let line = manifest.strip_prefix(KEPT)?.lines().next()?;
    let (parts, digest) = line.split_once(" parts, sha256:")?;
    let parts = parts.parse().ok().filter(|parts| (1..=MAX_PARTS).contains(parts))?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some((parts, digest))
}

/// Joins the parts of a manifest; `None` if they do not match the digest.
pub(super) fn whole(pieces: &[Vec<u8>], digest: &str) -> Option<String> {
    let manifest = record::unpack(&pieces.concat()).ok()?;
    (helm_host::sha256(&manifest) == digest).then_some(())?;
    String::from_utf8(manifest).ok()
}

/// Name of the Secret of a part.
pub(super) fn part_name(record: &Record, digest: &str, at: usize) -> String {
    format!("longshore.release.{}.v{}.{}.{at}", record.name, record.version, &digest[..16])
}
