//! The ledger of a release: which Helm records the platform created, in `HelmRelease.status.revisions`.
//!
//! Tenants can edit Helm records, which are Secrets in their namespace; they cannot write the status. An entry holds the digest of the
//! record's content, the identity that rendered it, and which of its values are sensitive.
//!
//! Invariant: an entry is written before its record, and only for content that was rendered here. Objects written with an administrator's
//! rights are listed in the same write.

use std::sync::Arc;

use chart_store::error::tenant_message;
use futures::FutureExt;
use futures::future::BoxFuture;
use helm_release::{Ledger, LedgerError, Origin, Record};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use kube_apply::ReservedObjects;
use kube_types::HelmRelease;
use kube_types::release::RevisionRecord;
use kube_types::release::status::MAX_REVISIONS;
use parking_lot::Mutex;

use super::administrator_objects;

/// Limit on conflict retries when an entry is written.
const MAX_CONFLICT_RETRIES: usize = 10;

/// The entry of a record, if the digest of its content matches.
pub(crate) fn find_entry<'r>(release: &'r HelmRelease, record: &Record) -> Option<&'r RevisionRecord> {
    let revisions = release.status.as_ref()?.revisions.iter();
    let mut same = revisions.filter(|entry| entry.revision == record.version).peekable();
    same.peek()?;
    let digest = record.digest();
    same.find(|entry| entry.digest == digest)
}

/// The origin of a record's content, relative to the identity that will execute it.
pub(crate) fn record_origin(release: Option<&HelmRelease>, record: &Record, by: &str) -> Origin {
    match release.and_then(|release| find_entry(release, record)) {
        Some(entry) if entry.by == by => Origin::Own,
        Some(_) => Origin::Other,
        None => Origin::Foreign,
    }
}

/// A ledger that looks up records and accepts no new ones.
pub(crate) struct ReadOnlyLedger {
    pub release: Option<Arc<HelmRelease>>,
    pub by: String,
}

impl Ledger for ReadOnlyLedger {
    fn origin(&self, record: &Record) -> Origin {
        record_origin(self.release.as_deref(), record, &self.by)
    }

    fn insert<'a>(
        &'a self,
        _: &'a Record,
        _: Option<i64>,
        _: &'a [i64],
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        let why = "this operation creates no revisions".to_owned();
        futures::future::ready(Err(LedgerError::Unavailable(why))).boxed()
    }
}

/// The ledger of one operation.
pub(crate) struct OperationLedger {
    api: Api<HelmRelease>,
    /// The operation that the status must name.
    operation: String,
    by: String,
    /// JSON pointers of the sensitive values of this deployment.
    sensitive: Vec<String>,
    /// The objects written as an administrator in this operation, or skipped.
    reserved: ReservedObjects,
    latest: Mutex<Arc<HelmRelease>>,
}

impl OperationLedger {
    pub fn new(
        api: Api<HelmRelease>,
        begun: Arc<HelmRelease>,
        operation: &str,
        by: &str,
        sensitive: Vec<String>,
        reserved: ReservedObjects,
    ) -> Self {
        let (operation, by) = (operation.to_owned(), by.to_owned());
        Self { api, operation, by, sensitive, reserved, latest: Mutex::new(begun) }
    }

    /// The release as last written, with all entries.
    pub fn latest(&self) -> Arc<HelmRelease> {
        self.latest.lock().clone()
    }

    async fn write_entry(&self, revision: RevisionRecord, kept: &[i64]) -> Result<(), LedgerError> {
        let latest = self.latest();
        let mut release = HelmRelease::clone(&latest);
        let unavailable = |error: kube::Error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                release = latest.name_any(),
                namespace = latest.namespace(),
                "cannot write the ledger of a release"
            );
            LedgerError::Unavailable(tenant_message(&error).to_owned())
        };
        for _ in 0..MAX_CONFLICT_RETRIES {
            let status = release.status.get_or_insert_default();
            // Listed before they are written, so that a crash leaves no unlisted object of an administrator.
            status.administered = administrator_objects::inventory_entries(&self.reserved.ids());
            let revisions = &mut status.revisions;
            revisions.retain(|entry| kept.contains(&entry.revision) && entry.revision != revision.revision);
            revisions.push(revision.clone());
            let surplus = revisions.len().saturating_sub(MAX_REVISIONS);
            revisions.drain(..surplus);
            let name = release.name_any();
            match self.api.replace_status(&name, &PostParams::default(), &release).await {
                Ok(written) => {
                    *self.latest.lock() = Arc::new(written);
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    return Err(LedgerError::Superseded);
                }
                Err(error) => return Err(unavailable(error)),
            }
            let now = self.api.get_opt(&name).await.map_err(unavailable)?.ok_or(LedgerError::Superseded)?;
            let operation = now.status.as_ref().and_then(|status| status.operation.as_ref());
            if now.uid() != release.uid() || operation.is_none_or(|now| now.id != self.operation) {
                return Err(LedgerError::Superseded);
            }
            release = now;
        }
        Err(LedgerError::Unavailable("too many conflicts on the status of the release".to_owned()))
    }
}

impl Ledger for OperationLedger {
    fn origin(&self, record: &Record) -> Origin {
        record_origin(Some(&self.latest()), record, &self.by)
    }

    fn insert<'a>(
        &'a self,
        record: &'a Record,
        restored: Option<i64>,
        kept: &'a [i64],
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        let revision = match restored {
            Some(restored) => self.restored_entry(record, restored),
            None => RevisionRecord {
                revision: record.version,
                version: self.latest().spec.version,
                digest: record.digest(),
                by: self.by.clone(),
                as_administrator: self.reserved.client().is_some(),
                sensitive: self.sensitive.clone(),
            },
        };
        async move { self.write_entry(revision, kept).await }.boxed()
    }
}

impl OperationLedger {
    /// The entry of a revision that repeats the content of the revision `restored`. Its version and sensitive values come from the entry
    /// of that revision. Without such an entry all values count as sensitive.
    fn restored_entry(&self, record: &Record, restored: i64) -> RevisionRecord {
        let latest = self.latest();
        let mut entries = latest.status.iter().flat_map(|status| &status.revisions);
        let source = entries.find(|entry| entry.revision == restored).cloned();
        let source = source.unwrap_or_else(|| RevisionRecord {
            sensitive: vec![String::new()],
            ..RevisionRecord::default()
        });
        RevisionRecord { revision: record.version, digest: record.digest(), by: self.by.clone(), ..source }
    }
}
