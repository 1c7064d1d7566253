//! Layout of a record in Secrets, by its size.
//!
//! If a record is too large for one Secret, the templates and files of the chart are left out first, marked by an
//! annotation: they are not needed to list, upgrade, roll back or uninstall. Only a manifest that is still too large
//! is split into chunks. The record then contains a reference to the chunks in place of its manifest. That text is
//! invalid YAML, so a Helm without support for chunks can list and show the release but rejects every operation that
//! needs the manifest.
//!
//! Invariant: a record has its whole manifest, or a text that cannot be parsed as one.

use std::fmt::Write;

use super::StorageError;
use crate::record::{self, MAX_UNPACKED, Record};

/// Maximum size of a Secret.
const SECRET: usize = 1 << 20;
/// Spare bytes for updates of the record: hook results and failure messages.
const SPARE_BYTES: usize = 64 << 10;
/// Size of a chunk.
const CHUNK_BYTES: usize = 896 << 10;
/// Maximum number of chunks of a manifest.
const MAX_CHUNKS: usize = 8;

/// Prefix of the text in place of a split manifest.
const REFERENCE_PREFIX: &str = "# longshore: this manifest is kept in ";

/// The record exceeds the size limits.
#[derive(Debug, thiserror::Error)]
pub enum RecordTooLarge {
    #[error(
        "the record of release `{name}` has {size} bytes, more than the {SECRET} that fit into a Secret: the chart or its manifest is too large"
    )]
    Record { name: String, size: usize },
    #[error("the manifest of release `{name}` has {size} bytes, more than the limit of {MAX_UNPACKED}")]
    Manifest { name: String, size: usize },
    #[error(
        "the hooks, notes and values of release `{name}` have {size} bytes, more than the {SECRET} that fit into a Secret"
    )]
    WithoutManifest { name: String, size: usize },
}

/// Storage layout of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageLayout {
    /// One Secret with the whole record, as Helm writes it.
    SingleSecret,
    /// Without the templates and files of the chart.
    WithoutFiles,
    /// Also with the manifest split into this many chunks.
    Chunked(usize),
}

/// An encoded record.
pub(super) struct EncodedLayout {
    pub layout: StorageLayout,
    /// Content of the record's Secret.
    pub text: String,
    pub chunks: ManifestChunks,
}

/// A manifest split into chunks.
#[derive(Default)]
pub(super) struct ManifestChunks {
    pub digest: String,
    pub chunks: Vec<Vec<u8>>,
}

/// Layout of `record`. Called before an operation that must be recorded.
pub fn layout_of(record: &Record) -> Result<StorageLayout, StorageError> {
    Ok(encode(record, true)?.layout)
}

/// Encodes a record. `may_split` permits layouts other than [`StorageLayout::SingleSecret`].
pub(super) fn encode(record: &Record, may_split: bool) -> Result<EncodedLayout, StorageError> {
    let (text, unpacked) = record.encode_measured()?;
    if fits_in_secret(&text, unpacked) {
        return Ok(EncodedLayout {
            layout: StorageLayout::SingleSecret,
            text,
            chunks: ManifestChunks::default(),
        });
    }
    let name = || record.name.clone();
    if !may_split {
        return Err(RecordTooLarge::Record { name: name(), size: text.len() }.into());
    }
    let mut record = Record { chart: record.chart.without_files(), ..record.clone() };
    let (text, unpacked) = record.encode_measured()?;
    if fits_in_secret(&text, unpacked) {
        return Ok(EncodedLayout {
            layout: StorageLayout::WithoutFiles,
            text,
            chunks: ManifestChunks::default(),
        });
    }
    let manifest = std::mem::take(&mut record.manifest);
    let packed = record::gzip(&[manifest.as_bytes()]);
    if manifest.len() > MAX_UNPACKED || packed.len() > MAX_CHUNKS * CHUNK_BYTES {
        return Err(RecordTooLarge::Manifest { name: name(), size: manifest.len() }.into());
    }
    let digest = helm_host::sha256(manifest.as_bytes());
    let pieces: Vec<_> = packed.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
    record.manifest = manifest_reference(pieces.len(), &digest);
    let (text, unpacked) = record.encode_measured()?;
    if !fits_in_secret(&text, unpacked) {
        return Err(RecordTooLarge::WithoutManifest { name: name(), size: text.len() }.into());
    }
    Ok(EncodedLayout {
        layout: StorageLayout::Chunked(pieces.len()),
        text,
        chunks: ManifestChunks { digest, chunks: pieces },
    })
}

/// Whether a text fits into a Secret with spare bytes, and decoders accept its decompressed size.
fn fits_in_secret(text: &str, unpacked: usize) -> bool {
    text.len() <= SECRET - SPARE_BYTES && unpacked <= MAX_UNPACKED - SPARE_BYTES
}

/// Text in place of a split manifest. No Helm parses it as YAML.
fn manifest_reference(parts: usize, digest: &str) -> String {
    let mut text = String::from(REFERENCE_PREFIX);
    // Writing to a `String` cannot fail.
    let _ = write!(
        text,
        "{parts} parts, sha256:{digest}\n# It is too large for one Secret.\n{{ use: [ longshore\n"
    );
    text
}

/// Number of chunks and digest, if the manifest is split.
pub(super) fn parse_reference(manifest: &str) -> Option<(usize, &str)> {
    let line = manifest.strip_prefix(REFERENCE_PREFIX)?.lines().next()?;
    let (parts, digest) = line.split_once(" parts, sha256:")?;
    let parts = parts.parse().ok().filter(|parts| (1..=MAX_CHUNKS).contains(parts))?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some((parts, digest))
}

/// Joins the chunks of a manifest; `None` if they do not match the digest.
pub(super) fn join_chunks(pieces: &[Vec<u8>], digest: &str) -> Option<String> {
    let manifest = record::decompress(&pieces.concat()).ok()?;
    (helm_host::sha256(&manifest) == digest).then_some(())?;
    String::from_utf8(manifest).ok()
}

/// Name of the Secret of a chunk.
pub(super) fn chunk_name(record: &Record, digest: &str, at: usize) -> String {
    format!("longshore.release.{}.v{}.{}.{at}", record.name, record.version, &digest[..16])
}
