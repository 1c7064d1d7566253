//! Cache of Helm's release records per release: revisions and their statuses, from labels only.
//!
//! Fed by a metadata watch, so that a reconcile needs no API call and is triggered when another client, such as the `helm` command,
//! changes a record. Own writes are entered at once ([`HelmRecordCache::record_own_write`]); an older state that the watch delivers later
//! is ignored.

use std::collections::{BTreeMap, HashMap};

use domain::release::operation;
use helm_release::storage::{is_held, parse_revision};
use helm_release::{Record, Status};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube_access::CacheEvent;
use kube_types::well_known::{OPERATION, SPEC_HASH};
use parking_lot::Mutex;

use crate::key::ReleaseKey;

/// The type and label selector of the Secrets that hold records.
pub(crate) const RECORD_SECRET_TYPE: &str = "helm.sh/release.v1";
pub(crate) const RECORD_SELECTOR: &str = "owner=helm";

/// The latest revision of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LatestRevision {
    pub revision: i64,
    pub status: Status,
    /// The time of the last write of the record.
    pub modified_at: Option<Timestamp>,
    /// The spec hash of our own revision. The `helm` command copies it from the revision before.
    pub spec_hash: Option<Box<str>>,
    /// The operation that created the revision. The `helm` command copies it from the revision before.
    pub operation: Option<Box<str>>,
    /// Whether the platform created the revision.
    pub is_own: bool,
}

impl LatestRevision {
    /// Whether the platform created this revision from a spec with this hash.
    pub fn has_spec_hash(&self, spec_hash: &str) -> bool {
        self.is_own && self.spec_hash.as_deref() == Some(label_hash(spec_hash))
    }
}

#[derive(Default)]
pub(crate) struct HelmRecordCache(Mutex<HashMap<ReleaseKey, BTreeMap<i64, CachedRecord>>>);

/// Parsed labels of one record.
pub(crate) struct RecordLabels {
    key: ReleaseKey,
    revision: i64,
    status: Status,
    spec_hash: Option<Box<str>>,
    operation: Option<Box<str>>,
    is_own: bool,
    modified_at: Option<Timestamp>,
}

impl RecordLabels {
    /// Returns `None` for a Secret that is not a record.
    pub fn from_metadata(record: &PartialObjectMeta<Secret>) -> Option<Self> {
        let label = |name: &str| record.labels().get(name);
        let text = |name: &str| label(name).map(|text| text.as_str().into());
        let timestamp = |name: &str| Timestamp::from_second(label(name)?.parse().ok()?).ok();
        Some(Self {
            key: ReleaseKey::new(record.metadata.namespace.as_deref()?, label("name")?),
            revision: parse_revision(&record.metadata)?,
            status: Status::parse(label("status")?),
            spec_hash: text(SPEC_HASH),
            operation: text(OPERATION),
            is_own: is_held(&record.metadata),
            modified_at: timestamp("modifiedAt").or_else(|| timestamp("createdAt")),
        })
    }
}

struct CachedRecord {
    status: Status,
    spec_hash: Option<Box<str>>,
    operation: Option<Box<str>>,
    is_own: bool,
    modified_at: Option<Timestamp>,
    /// Entered by an own write that the watch has not delivered yet.
    is_own_write: bool,
}

impl HelmRecordCache {
    /// Applies a watch event and returns the key of the record's release.
    pub fn apply_event(&self, change: &CacheEvent<Option<RecordLabels>>) -> Option<ReleaseKey> {
        let (mark, gone) = match change {
            CacheEvent::Applied(mark) => (mark, false),
            CacheEvent::Deleted(mark) => (mark, true),
        };
        let RecordLabels {
            key,
            revision,
            status,
            spec_hash: hash,
            operation,
            is_own: ours,
            modified_at: since,
        } = mark.as_ref().as_ref()?;
        let (hash, operation) = (hash.clone(), operation.clone());
        let known = CachedRecord {
            status: *status,
            spec_hash: hash,
            operation,
            is_own: *ours,
            modified_at: *since,
            is_own_write: false,
        };
        let mut all = self.0.lock();
        let revisions = all.entry(key.clone()).or_default();
        let ended = revisions.get(revision).is_some_and(|before| before.is_own_write);
        if gone {
            revisions.remove(revision);
        } else if !(ended && known.status.is_pending()) {
            revisions.insert(*revision, known);
        }
        if revisions.is_empty() {
            all.remove(key);
        }
        Some(key.clone())
    }

    /// Records the result of an own operation.
    pub fn record_own_write(&self, key: &ReleaseKey, record: &Record, ours: bool, now: Timestamp) {
        let label = |name: &str| record.labels.get(name).map(|text| text.as_str().into());
        let (hash, operation) = (label(SPEC_HASH), label(OPERATION));
        let known = CachedRecord {
            status: record.info.status,
            spec_hash: hash,
            operation,
            is_own: ours,
            modified_at: Some(now),
            is_own_write: true,
        };
        let revision = record.version;
        self.0.lock().entry(key.clone()).or_default().insert(revision, known);
    }

    /// Removes a release whose records an own operation has deleted.
    pub fn remove(&self, key: &ReleaseKey) {
        self.0.lock().remove(key);
    }

    pub fn latest(&self, key: &ReleaseKey) -> Option<LatestRevision> {
        let all = self.0.lock();
        let (revision, known) = all.get(key)?.last_key_value()?;
        Some(LatestRevision {
            revision: *revision,
            status: known.status,
            modified_at: known.modified_at,
            spec_hash: known.spec_hash.clone(),
            operation: known.operation.clone(),
            is_own: known.is_own,
        })
    }

    /// The state of the history. `ours`: an operation of the platform was in progress.
    pub fn history_state(&self, key: &ReleaseKey, ours: bool) -> operation::HistoryState {
        let all = self.0.lock();
        let statuses: Vec<Status> =
            all.get(key).into_iter().flatten().map(|(_, known)| known.status).collect();
        history_state(&statuses, ours)
    }
}

/// The prefix of a hash that fits into a label.
pub(crate) fn label_hash(spec_hash: &str) -> &str {
    spec_hash.get(..40).unwrap_or(spec_hash)
}

/// The state of a history from its statuses, oldest first.
pub(crate) fn history_state(statuses: &[Status], ours: bool) -> operation::HistoryState {
    let Some((newest, before)) = statuses.split_last() else { return operation::HistoryState::NotInstalled };
    let good = |status: &Status| matches!(status, Status::Deployed | Status::Superseded);
    match newest {
        Status::Uninstalled => operation::HistoryState::NotInstalled,
        Status::Deployed => operation::HistoryState::Deployed,
        Status::Failed if before.iter().any(good) => operation::HistoryState::FailedUpgrade,
        Status::Failed => operation::HistoryState::FailedInstall,
        pending if pending.is_pending() && ours => operation::HistoryState::Pending,
        pending if pending.is_pending() => operation::HistoryState::PendingExternal,
        Status::Uninstalling => operation::HistoryState::Uninstalling,
        _ => operation::HistoryState::Unrecognized,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helm_release::storage::HELD_BY_ANNOTATION;
    use serde_json::json;

    use super::*;

    fn record(revision: i64, status: &str) -> PartialObjectMeta<Secret> {
        let record = json!({"metadata": {
            "name": format!("sh.helm.release.v1.web.v{revision}"), "namespace": "shop",
            "labels": {"owner": "helm", "name": "web", "version": revision.to_string(), "status": status, "createdAt": "1767323045"},
        }});
        serde_json::from_value(record).unwrap()
    }

    fn record_event(revision: i64, status: &str) -> CacheEvent<Option<RecordLabels>> {
        CacheEvent::Applied(Arc::new(RecordLabels::from_metadata(&record(revision, status))))
    }

    #[test]
    fn own_write_wins_over_older_watch_event() {
        let (records, key) = (HelmRecordCache::default(), ReleaseKey::new("shop", "web"));
        assert_eq!(records.apply_event(&record_event(1, "pending-install")), Some(key.clone()));
        assert_eq!(records.history_state(&key, true), operation::HistoryState::Pending);
        assert_eq!(records.history_state(&key, false), operation::HistoryState::PendingExternal);
        let mut record = Record { version: 1, ..Record::default() };
        record.set_status(Status::Deployed, "");
        records.record_own_write(&key, &record, true, Timestamp::UNIX_EPOCH);
        records.apply_event(&record_event(1, "pending-install"));
        assert_eq!(records.history_state(&key, false), operation::HistoryState::Deployed);
        records.apply_event(&record_event(2, "failed"));
        assert_eq!(records.history_state(&key, false), operation::HistoryState::FailedUpgrade);
        assert_eq!(records.latest(&key).unwrap().modified_at.unwrap().as_second(), 1_767_323_045);
        let CacheEvent::Applied(gone) = record_event(2, "failed") else { unreachable!() };
        records.apply_event(&CacheEvent::Deleted(gone));
        assert_eq!(records.latest(&key).unwrap().revision, 1);
        records.remove(&key);
        assert_eq!(records.history_state(&key, false), operation::HistoryState::NotInstalled);
    }

    #[test]
    fn spec_hash_copied_by_the_helm_cli_is_ignored() {
        let (records, key, hash) =
            (HelmRecordCache::default(), ReleaseKey::new("shop", "web"), "0123456789".repeat(5));
        let made = |revision: i64, annotations: serde_json::Value| {
            let mut record = record(revision, "deployed");
            record.labels_mut().insert(SPEC_HASH.to_owned(), label_hash(&hash).to_owned());
            record.metadata.annotations = serde_json::from_value(annotations).unwrap();
            records.apply_event(&CacheEvent::Applied(Arc::new(RecordLabels::from_metadata(&record))));
            records.latest(&key).unwrap()
        };
        let ours = made(1, json!({HELD_BY_ANNOTATION: "helm-web"}));
        assert!(ours.has_spec_hash(&hash) && !ours.has_spec_hash("other"));
        let theirs = made(2, json!(null));
        assert!(!theirs.has_spec_hash(&hash));
    }

    #[test]
    fn failed_first_install_differs_from_failed_upgrade() {
        use Status::*;
        assert_eq!(history_state(&[Failed, Failed], false), operation::HistoryState::FailedInstall);
        assert_eq!(history_state(&[Superseded, Failed], false), operation::HistoryState::FailedUpgrade);
        assert_eq!(history_state(&[Deployed, Uninstalled], false), operation::HistoryState::NotInstalled);
        assert_eq!(history_state(&[Superseded], false), operation::HistoryState::Unrecognized);
    }
}
