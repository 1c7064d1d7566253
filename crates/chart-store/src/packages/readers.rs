//! Readers of a package: the workspaces that uploaded it, or that fetched its bytes from a source themselves.
//!
//! They are recorded as annotations of the `HelmPackage`, one for each workspace under the UID of the Workspace, so that adding one
//! is a single merge patch and a new workspace under a former name is not a reader. Tenants have no verb on `HelmPackages`.
//!
//! Invariant: a reader has received the bytes. The account of every reader is charged for the package, once.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::package::HelmPackage;
use kube_types::well_known::{READER_PREFIX, READERS_RECORDED};

use crate::digest::Digest;

/// Maximum number of readers of a package. A new one replaces the least recently used.
pub const MAX_READERS: usize = 1_000;

/// Key of the entry for all workspaces.
const EVERYONE: &str = "everyone";

/// User of packages; workspaces are identified by UID.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The platform itself: reads all packages and is charged for none.
    Platform,
    /// All workspaces, for uploads by an administrator to no particular workspace.
    Everyone,
    Workspace {
        name: String,
        /// `None` if there is no such Workspace: it is then identified by name, and never equals one with a UID.
        uid: Option<String>,
    },
}

/// Recorded reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderEntry {
    pub key: String,
    pub workspace: String,
    pub last_use: Timestamp,
}

impl Subject {
    /// Annotation key of this reader; `None` for the platform, which is not recorded.
    pub fn annotation_key(&self) -> Option<String> {
        let key = match self {
            Self::Platform => return None,
            Self::Everyone => EVERYONE.to_owned(),
            Self::Workspace { uid: Some(uid), .. } => uid.clone(),
            Self::Workspace { name, uid: None } => {
                format!("name.{}", Digest::sha256(name.as_bytes()).package_name())
            }
        };
        Some(format!("{READER_PREFIX}{key}"))
    }

    /// Name of the workspace, for messages and references by name.
    pub fn workspace(&self) -> &str {
        match self {
            Self::Workspace { name, .. } => name,
            Self::Platform | Self::Everyone => "",
        }
    }

    /// Whether the subject may read the package.
    pub fn may_read(&self, package: &HelmPackage) -> bool {
        let has = |key: &str| package.annotations().contains_key(key);
        match self.annotation_key() {
            None => true,
            Some(own) => has(&own) || has(&format!("{READER_PREFIX}{EVERYONE}")),
        }
    }
}

impl ReaderEntry {
    pub fn annotation_value(workspace: &str, at: Timestamp) -> String {
        format!("{workspace} {at}")
    }

    pub fn is_everyone(&self) -> bool {
        self.key.ends_with(&format!("/{EVERYONE}"))
    }

    /// UID of the workspace; `None` for an entry by name and for all workspaces.
    pub fn uid(&self) -> Option<&str> {
        let key = self.key.strip_prefix(READER_PREFIX)?;
        (key != EVERYONE && !key.starts_with("name.")).then_some(key)
    }
}

/// Whether the package has recorded readers.
pub fn has_recorded_readers(package: &HelmPackage) -> bool {
    package.annotations().contains_key(READERS_RECORDED)
}

/// Annotations of a new package.
pub fn initial_annotations(subject: &Subject, at: Timestamp) -> BTreeMap<String, String> {
    let own =
        subject.annotation_key().map(|key| (key, ReaderEntry::annotation_value(subject.workspace(), at)));
    [(READERS_RECORDED.to_owned(), "true".to_owned())].into_iter().chain(own).collect()
}

/// Recorded readers of a package.
pub fn entries(package: &HelmPackage) -> impl Iterator<Item = ReaderEntry> {
    package.annotations().iter().filter(|(key, _)| key.starts_with(READER_PREFIX)).map(|(key, value)| {
        let (workspace, at) = value.split_once(' ').unwrap_or((value, ""));
        let last_use = Timestamp::from_str(at).unwrap_or(Timestamp::UNIX_EPOCH);
        ReaderEntry { key: key.clone(), workspace: workspace.to_owned(), last_use }
    })
}

/// The subject's own entry, if any.
pub fn entry(package: &HelmPackage, subject: &Subject) -> Option<ReaderEntry> {
    let own = subject.annotation_key()?;
    entries(package).find(|entry| entry.key == own)
}

/// Keys to remove so that one more reader fits: the least recently used.
pub fn surplus_keys(package: &HelmPackage) -> Vec<String> {
    let mut all: Vec<ReaderEntry> = entries(package).filter(|entry| !entry.is_everyone()).collect();
    all.sort_by_key(|entry| entry.last_use);
    let count = (all.len() + 1).saturating_sub(MAX_READERS);
    all.into_iter().take(count).map(|entry| entry.key).collect()
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::*;

    fn package(annotations: impl IntoIterator<Item = (String, String)>) -> HelmPackage {
        let metadata =
            ObjectMeta { annotations: Some(annotations.into_iter().collect()), ..ObjectMeta::default() };
        HelmPackage { metadata, ..HelmPackage::new("pkg-a", kube_types::package::HelmPackageSpec::default()) }
    }

    fn workspace(name: &str, uid: Option<&str>) -> Subject {
        Subject::Workspace { name: name.to_owned(), uid: uid.map(str::to_owned) }
    }

    #[test]
    fn reader_is_identified_by_uid_and_not_by_name() {
        let acme = workspace("acme", Some("u-1"));
        let kept = package(initial_annotations(&acme, Timestamp::UNIX_EPOCH));
        assert!(acme.may_read(&kept) && Subject::Platform.may_read(&kept));
        for other in [workspace("acme", Some("u-2")), workspace("acme", None), Subject::Everyone] {
            assert!(!other.may_read(&kept), "{other:?}");
        }
        let nameless = package(initial_annotations(&workspace("acme", None), Timestamp::UNIX_EPOCH));
        assert!(workspace("acme", None).may_read(&nameless) && !acme.may_read(&nameless));
        let shared = package(initial_annotations(&Subject::Everyone, Timestamp::UNIX_EPOCH));
        assert!(acme.may_read(&shared));
        assert!(!acme.may_read(&package([])) && !has_recorded_readers(&package([])));
    }

    #[test]
    fn surplus_keys_evicts_the_least_recent_reader() {
        let at = |second: usize| Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
        let many = (0..MAX_READERS).map(|n| {
            (
                workspace("w", Some(&format!("u-{n}"))).annotation_key().unwrap(),
                ReaderEntry::annotation_value("w", at(9_999 - n)),
            )
        });
        let last = format!("{READER_PREFIX}u-{}", MAX_READERS - 1);
        assert_eq!(surplus_keys(&package(many)), [last]);
        assert!(surplus_keys(&package(initial_annotations(&Subject::Everyone, at(1)))).is_empty());
    }
}
