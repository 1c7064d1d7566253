//! Cache of Helm's release records per release: revisions and their statuses, from labels only.
//!
//! Fed by a metadata watch, so that a reconcile needs no API call and is triggered when another client, such as the `helm` command,
//! changes a record. Own writes are entered at once ([`Records::learn`]); an older state that the watch delivers later is ignored.

use std::collections::{BTreeMap, HashMap};

use domain::release::operation;
use helm_release::storage::{is_held, revision};
use helm_release::{Record, Status};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube_access::Change;
use kube_types::marks::{OPERATION, SPEC_HASH};
use parking_lot::Mutex;

use crate::key::Key;

/// The type and label selector of the Secrets that hold records.
pub(crate) const TYPE: &str = "helm.sh/release.v1";
pub(crate) const OWNED: &str = "owner=helm";

/// The latest revision of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub revision: i64,
    pub status: Status,
    /// The time of the last write of the record.
    pub since: Option<Timestamp>,
    /// The spec hash of our own revision. The `helm` command copies it from the revision before.
    pub hash: Option<Box<str>>,
    /// The operation that created the revision. The `helm` command copies it from the revision before.
    pub operation: Option<Box<str>>,
    /// Whether the platform created the revision.
    pub ours: bool,
}

impl Newest {
    /// Whether the platform created this revision from a spec with this hash.
    pub fn is_made_of(&self, spec_hash: &str) -> bool {
        self.ours && self.hash.as_deref() == Some(short(spec_hash))
    }
}

#[derive(Default)]
pub(crate) struct Records(Mutex<HashMap<Key, BTreeMap<i64, Known>>>);

/// Parsed labels of one record.
pub(crate) struct Mark {
    key: Key,
    revision: i64,
    status: Status,
    hash: Option<Box<str>>,
    operation: Option<Box<str>>,
    ours: bool,
    since: Option<Timestamp>,
}

impl Mark {
    /// Returns `None` for a Secret that is not a record.
    pub fn of(record: &PartialObjectMeta<Secret>) -> Option<Self> {
        let label = |name: &str| record.labels().get(name);
        let text = |name: &str| label(name).map(|text| text.as_str().into());
        let moment = |name: &str| Timestamp::from_second(label(name)?.parse().ok()?).ok();
        Some(Self {
            key: Key::new(record.metadata.namespace.as_deref()?, label("name")?),
            revision: revision(&record.metadata)?,
            status: Status::read(label("status")?),
            hash: text(SPEC_HASH),
            operation: text(OPERATION),
            ours: is_held(&record.metadata),
            since: moment("modifiedAt").or_else(|| moment("createdAt")),
        })
    }
}

struct Known {
    status: Status,
    hash: Option<Box<str>>,
    operation: Option<Box<str>>,
    ours: bool,
    since: Option<Timestamp>,
    /// Entered by an own write that the watch has not delivered yet.
    learnt: bool,
}

impl Records {
    /// Applies a watch event and returns the key of the record's release.
    pub fn enter(&self, change: &Change<Option<Mark>>) -> Option<Key> {
        let (mark, gone) = match change {
            Change::Applied(mark) => (mark, false),
            Change::Deleted(mark) => (mark, true),
        };
        let Mark { key, revision, status, hash, operation, ours, since } = mark.as_ref().as_ref()?;
        let (hash, operation) = (hash.clone(), operation.clone());
        let known = Known { status: *status, hash, operation, ours: *ours, since: *since, learnt: false };
        let mut all = self.0.lock();
        let revisions = all.entry(key.clone()).or_default();
        let ended = revisions.get(revision).is_some_and(|before| before.learnt);
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
    pub fn learn(&self, key: &Key, record: &Record, ours: bool, now: Timestamp) {
        let label = |name: &str| record.labels.get(name).map(|text| text.as_str().into());
        let (hash, operation) = (label(SPEC_HASH), label(OPERATION));
        let known =
            Known { status: record.info.status, hash, operation, ours, since: Some(now), learnt: true };
        let revision = record.version;
        self.0.lock().entry(key.clone()).or_default().insert(revision, known);
    }

    /// Removes a release whose records an own operation has deleted.
    pub fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    pub fn newest(&self, key: &Key) -> Option<Newest> {
        let all = self.0.lock();
        let (revision, known) = all.get(key)?.last_key_value()?;
        Some(Newest {
            revision: *revision,
            status: known.status,
            since: known.since,
            hash: known.hash.clone(),
            operation: known.operation.clone(),
            ours: known.ours,
        })
    }

    /// The state of the history. `ours`: an operation of the platform was in progress.
    pub fn standing(&self, key: &Key, ours: bool) -> operation::Record {
        let all = self.0.lock();
        let statuses: Vec<Status> =
            all.get(key).into_iter().flatten().map(|(_, known)| known.status).collect();
        standing(&statuses, ours)
    }
}

/// The prefix of a hash that fits into a label.
pub(crate) fn short(spec_hash: &str) -> &str {
    spec_hash.get(..40).unwrap_or(spec_hash)
}

/// The state of a history from its statuses, oldest first.
pub(crate) fn standing(statuses: &[Status], ours: bool) -> operation::Record {
    let Some((newest, before)) = statuses.split_last() else { return operation::Record::None };
    let good = |status: &Status| matches!(status, Status::Deployed | Status::Superseded);
    match newest {
        Status::Uninstalled => operation::Record::None,
        Status::Deployed => operation::Record::Deployed,
        Status::Failed if before.iter().any(good) => operation::Record::FailedLater,
        Status::Failed => operation::Record::FailedFirst,
        pending if pending.is_pending() && ours => operation::Record::Pending,
        pending if pending.is_pending() => operation::Record::PendingElsewhere,
        Status::Uninstalling => operation::Record::Uninstalling,
        _ => operation::Record::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helm_release::storage::HELD_BY;
    use serde_json::json;

    use super::*;

    fn record(revision: i64, status: &str) -> PartialObjectMeta<Secret> {
        let record = json!({"metadata": {
            "name": format!("sh.helm.release.v1.web.v{revision}"), "namespace": "shop",
            "labels": {"owner": "helm", "name": "web", "version": revision.to_string(), "status": status, "createdAt": "1767323045"},
        }});
        serde_json::from_value(record).unwrap()
    }

    fn mark(revision: i64, status: &str) -> Change<Option<Mark>> {
        Change::Applied(Arc::new(Mark::of(&record(revision, status))))
    }

    #[test]
    fn what_is_older_than_what_we_wrote_is_not_heeded() {
        let (records, key) = (Records::default(), Key::new("shop", "web"));
        assert_eq!(records.enter(&mark(1, "pending-install")), Some(key.clone()));
        assert_eq!(records.standing(&key, true), operation::Record::Pending);
        assert_eq!(records.standing(&key, false), operation::Record::PendingElsewhere);
        let mut record = Record { version: 1, ..Record::default() };
        record.set_status(Status::Deployed, "");
        records.learn(&key, &record, true, Timestamp::UNIX_EPOCH);
        records.enter(&mark(1, "pending-install"));
        assert_eq!(records.standing(&key, false), operation::Record::Deployed);
        records.enter(&mark(2, "failed"));
        assert_eq!(records.standing(&key, false), operation::Record::FailedLater);
        assert_eq!(records.newest(&key).unwrap().since.unwrap().as_second(), 1_767_323_045);
        let Change::Applied(gone) = mark(2, "failed") else { unreachable!() };
        records.enter(&Change::Deleted(gone));
        assert_eq!(records.newest(&key).unwrap().revision, 1);
        records.forget(&key);
        assert_eq!(records.standing(&key, false), operation::Record::None);
    }

    #[test]
    fn a_hash_that_the_helm_command_took_over_is_not_what_it_made() {
        let (records, key, hash) = (Records::default(), Key::new("shop", "web"), "0123456789".repeat(5));
        let made = |revision: i64, annotations: serde_json::Value| {
            let mut record = record(revision, "deployed");
            record.labels_mut().insert(SPEC_HASH.to_owned(), short(&hash).to_owned());
            record.metadata.annotations = serde_json::from_value(annotations).unwrap();
            records.enter(&Change::Applied(Arc::new(Mark::of(&record))));
            records.newest(&key).unwrap()
        };
        let ours = made(1, json!({HELD_BY: "helm-web"}));
        assert!(ours.is_made_of(&hash) && !ours.is_made_of("other"));
        let theirs = made(2, json!(null));
        assert!(!theirs.is_made_of(&hash));
    }

    #[test]
    fn a_failed_first_installation_is_told_from_a_failed_upgrade() {
        use Status::*;
        assert_eq!(standing(&[Failed, Failed], false), operation::Record::FailedFirst);
        assert_eq!(standing(&[Superseded, Failed], false), operation::Record::FailedLater);
        assert_eq!(standing(&[Deployed, Uninstalled], false), operation::Record::None);
        assert_eq!(standing(&[Superseded], false), operation::Record::Unclear);
    }
}
