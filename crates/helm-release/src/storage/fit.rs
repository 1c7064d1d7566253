//! Whether a record fits into a Secret, and what is done if it does not.
//!
//! First the templates and files of the chart are left out, with a mark: nobody needs them to list, upgrade, roll back or
//! uninstall. Only a manifest that is too large by itself is split. Then the record says in the place of its manifest
//! where the parts are, in a text that is no YAML, so that a Helm that knows nothing of parts can list and show the
//! release and refuses to do anything with it that needs the manifest.
//!
//! Always true: a record has its whole manifest, or a text that cannot be taken for one.

use std::fmt::Write;

use super::StorageError;
use crate::record::{self, MAX_UNPACKED, Record};

/// What a Secret holds.
const SECRET: usize = 1 << 20;
/// What is left free, because hooks that ran and reasons of failures are still to be written.
const SPARE: usize = 64 << 10;
/// The size of a part.
const PART: usize = 896 << 10;
/// How many parts a manifest may have.
const MAX_PARTS: usize = 8;

/// A text in the place of a manifest begins so.
const KEPT: &str = "# longshore: this manifest is kept in ";

/// A record that cannot be kept.
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

/// How a record is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// As Helm would.
    Whole,
    /// Without the templates and files of the chart.
    WithoutFiles,
    /// And with the manifest in so many parts.
    Parts(usize),
}

/// A record as it is written.
pub(super) struct Fitted {
    pub plan: Plan,
    /// For the Secret of the record.
    pub text: String,
    pub parts: Parts,
}

/// A manifest in parts.
#[derive(Default)]
pub(super) struct Parts {
    pub digest: String,
    pub pieces: Vec<Vec<u8>>,
}

/// How `record` can be kept, before anything is done that it should tell of.
pub fn fits(record: &Record) -> Result<Plan, StorageError> {
    Ok(fit(record, true)?.plan)
}

/// `may_split`: anything but the whole record in one Secret is allowed.
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

/// Whether a text fits into a Secret, with something to spare, and whoever reads it agrees to unpack it.
fn is_enough(text: &str, unpacked: usize) -> bool {
    text.len() <= SECRET - SPARE && unpacked <= MAX_UNPACKED - SPARE
}

/// What stands in the place of a manifest in parts: nothing that any Helm takes for YAML.
fn instead(parts: usize, digest: &str) -> String {
    let mut text = String::from(KEPT);
    // Writing to a text does not fail.
    let _ = write!(
        text,
        "{parts} parts, sha256:{digest}\n# It is too large for one Secret.\n{{ use: [ longshore\n"
    );
    text
}

/// How many parts a manifest has, and its digest, if it has any.
pub(super) fn kept(manifest: &str) -> Option<(usize, &str)> {
    let line = manifest.strip_prefix(KEPT)?.lines().next()?;
    let (parts, digest) = line.split_once(" parts, sha256:")?;
    let parts = parts.parse().ok().filter(|parts| (1..=MAX_PARTS).contains(parts))?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some((parts, digest))
}

/// A manifest from its parts; nothing if they are not those.
pub(super) fn whole(pieces: &[Vec<u8>], digest: &str) -> Option<String> {
    let manifest = record::unpack(&pieces.concat()).ok()?;
    (helm_host::sha256(&manifest) == digest).then_some(())?;
    String::from_utf8(manifest).ok()
}

/// The name of a part.
pub(super) fn part_name(record: &Record, digest: &str, at: usize) -> String {
    format!("longshore.release.{}.v{}.{}.{at}", record.name, record.version, &digest[..16])
}
