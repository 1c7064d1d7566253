//! Builds a repository index as `helm repo index` does.

use std::collections::BTreeMap;

use helm_template::EncodeError;
use helm_template::data::{Data, Members};
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use helm_template::value::Str;
use helm_template::yaml;

use super::entry::ChartVersion;
use super::{Index, IndexError, newest_first};
use crate::metadata::{InvalidMetadata, Metadata};
use crate::path;

/// Builder of an index.
#[derive(Clone, Debug)]
pub struct IndexBuilder {
    profile: Profile,
    charts: BTreeMap<Str, Vec<ChartVersion>>,
}

impl IndexBuilder {
    pub fn new(profile: Profile) -> Self {
        Self { profile, charts: BTreeMap::new() }
    }

    /// Adds a packed chart: its file name, the URL of its folder (may be empty), the SHA-256 of its archive, and the
    /// current time.
    pub fn add(
        &mut self,
        mut metadata: Metadata,
        file: &str,
        base_url: &str,
        digest: &str,
        created: &str,
    ) -> Result<(), InvalidMetadata> {
        if metadata.api_version.is_empty() {
            metadata.api_version = "v1".into();
        }
        metadata.validate(self.profile)?;
        let url = if base_url.is_empty() {
            file.to_owned()
        } else {
            join_url(base_url, file.rsplit('/').next().unwrap_or(file))
        };
        self.push(ChartVersion {
            urls: Some(vec![url.into()]),
            created: created.into(),
            removed: false,
            digest: digest.into(),
            obsolete_fields: Members::new(),
            metadata,
        });
        Ok(())
    }

    fn push(&mut self, version: ChartVersion) {
        self.charts.entry(version.metadata.name.clone()).or_default().push(version);
    }

    /// Adds the entries of another index that are missing here.
    pub fn merge(&mut self, index: &Index) -> Result<(), IndexError> {
        for name in index.names() {
            for version in index.entries(name) {
                let version = version?;
                if !self.has_version(&version.metadata.name, &version.metadata.version) {
                    self.push(version);
                }
            }
        }
        Ok(())
    }

    /// Helm reads the version as a constraint here: `1.2` counts as present if any 1.2.x is.
    fn has_version(&self, name: &str, version: &str) -> bool {
        let Some(versions) = self.charts.get(name) else { return false };
        let Ok(constraints) = Constraints::parse(version, self.profile) else { return false };
        versions.iter().any(|had| {
            &*had.metadata.version == version
                || Version::parse(&had.metadata.version, self.profile)
                    .is_ok_and(|had| constraints.check(&had))
        })
    }

    /// Serializes the index, newest versions first. `generated` is the current time.
    pub fn write(mut self, generated: &str) -> Result<String, EncodeError> {
        let profile = self.profile;
        for versions in self.charts.values_mut() {
            versions.sort_by_cached_key(|version| {
                NewestFirst(Version::parse(&version.metadata.version, profile).ok())
            });
        }
        let charts = self
            .charts
            .into_iter()
            .map(|(name, versions)| (name, Data::List(versions.iter().map(ChartVersion::to_data).collect())));
        yaml::write(&Data::Map(Members::from([
            ("apiVersion".into(), Data::string("v1")),
            ("entries".into(), Data::Map(charts.collect())),
            ("generated".into(), Data::string(generated)),
        ])))
    }
}

/// Sort key that orders the newest version first.
struct NewestFirst(Option<Version>);

impl Ord for NewestFirst {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        newest_first(self.0.as_ref(), other.0.as_ref())
    }
}

impl PartialOrd for NewestFirst {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NewestFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for NewestFirst {}

/// Joins a file name to the URL of a folder.
pub fn join_url(base: &str, name: &str) -> String {
    let host = base.find("://").map_or(0, |at| {
        let authority = at + "://".len();
        base[authority..].find(['/', '?', '#']).map_or(base.len(), |end| authority + end)
    });
    let (host, rest) = base.split_at(host);
    let (folder, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    let joined = match (folder.is_empty(), name.is_empty()) {
        (true, true) => String::new(),
        (true, false) => path::clean(name),
        (false, true) => path::clean(folder),
        (false, false) => path::clean(&format!("{folder}/{name}")),
    };
    let slash = if host.is_empty() || joined.is_empty() || joined.starts_with('/') { "" } else { "/" };
    format!("{host}{slash}{}{query}", escape(&joined))
}

/// Percent-encodes characters that are invalid in a URL path. Existing escapes stay.
fn escape(path: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut escaped = String::with_capacity(path.len());
    let bytes = path.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let kept = byte.is_ascii_alphanumeric()
            || b"-_.~$&+,/:;=@".contains(byte)
            || (*byte == b'%'
                && matches!(bytes.get(at + 1..at + 3), Some(hex) if hex.iter().all(u8::is_ascii_hexdigit)));
        if kept {
            escaped.push(char::from(*byte));
        } else {
            escaped.push('%');
            escaped.extend([byte >> 4, byte & 15].map(|half| char::from(DIGITS[usize::from(half)])));
        }
    }
    escaped
}
