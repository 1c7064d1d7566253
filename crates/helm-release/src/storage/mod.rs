//! Storage of records: Secrets in the namespace of the release, with Helm's names, type and labels.
//!
//! Every write carries the `resourceVersion` that was read, so a client that lost the release lock cannot overwrite
//! newer records.
//!
//! Modules:
//!
//! - [`labels`]: labels of the Secrets
//! - [`layout`]: layout of records that are too large
//! - [`list`]: lists releases by label
//!
//! See also: the encoding (`crate::record`).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod chunks;
mod error;
pub mod labels;
pub mod layout;
mod list;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::clock::Clock;
use helm_engine::names;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Preconditions};

use crate::lock::lease_name;
use crate::record::{self, Record, Status};
use crate::render::share::{INLINE_BYTES, PoolShare};

pub use error::StorageError;
use layout::EncodedLayout;
pub use layout::{RecordTooLarge, StorageLayout, layout_of};
pub use list::{ListScope, list_metadata, newest_revisions, parse_revision};

/// Helm's Secret type.
const SECRET_TYPE: &str = "helm.sh/release.v1";
/// Key of the record in the Secret's data.
const DATA_KEY: &str = "release";
/// Annotation on a revision whose writer holds the release's Lease; its value names that Lease. The helm command
/// uses no Lease, and although it copies labels from revision to revision, it does not copy this annotation.
pub const HELD_BY_ANNOTATION: &str = "longshore.dev/held-by";
/// Page size of lists.
const PAGE_SIZE: u32 = 250;

/// Records of one namespace.
#[derive(Clone)]
pub struct Storage {
    secrets: Api<Secret>,
    namespace: String,
    clock: Arc<dyn Clock>,
    can_split: bool,
    /// Pool share for encoding and decoding large records; on the caller's thread if `None`.
    share: Option<PoolShare>,
}

/// A record as read or written.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    pub record: Record,
    /// Of the Secret; guards updates against concurrent changes.
    pub resource_version: String,
    uid: String,
    /// The `createdAt` label.
    created_at: Option<String>,
    /// Whether the revision was written under the release's Lease.
    pub has_lease: bool,
}

/// Metadata of a record, from the labels of its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordMeta {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub status: Status,
    /// User labels.
    pub labels: BTreeMap<String, String>,
    pub resource_version: String,
    pub uid: String,
}

/// A fetched record that is not decoded yet.
#[derive(Clone)]
pub struct EncodedRecord {
    pub meta: RecordMeta,
    created_at: Option<String>,
    has_lease: bool,
    text: Vec<u8>,
}

/// Maximum revision number. Helm stores it in an `int`; Helm 2 used 32 bits.
pub const MAX_REVISION: i64 = i32::MAX as i64;

/// Name of the Secret of a revision.
pub fn secret_name(name: &str, revision: i64) -> String {
    format!("sh.helm.release.v1.{name}.v{revision}")
}

impl Storage {
    /// `clock` provides the times in labels.
    pub fn new(client: Client, namespace: &str, clock: Arc<dyn Clock>) -> Self {
        let secrets = Api::namespaced(client, namespace);
        Self { secrets, namespace: namespace.to_owned(), clock, can_split: true, share: None }
    }

    /// Rejects records that do not fit into one Secret in Helm's format.
    #[must_use]
    pub fn single_secret_only(self) -> Self {
        Self { can_split: false, ..self }
    }

    /// Encodes and decodes large records on this share of a pool.
    #[must_use]
    pub fn with_share(self, share: PoolShare) -> Self {
        Self { share: Some(share), ..self }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Storage layout of a record; an error if it exceeds the limits.
    pub async fn layout(&self, record: &Record) -> Result<StorageLayout, StorageError> {
        check_revision(record)?;
        Ok(self.encode(record).await?.layout)
    }

    /// Encodes a record. It describes objects that are already in the cluster, so a busy pool must not reject it.
    async fn encode(&self, record: &Record) -> Result<EncodedLayout, StorageError> {
        let may_split = self.can_split;
        let Some(share) = &self.share else { return layout::encode(record, may_split) };
        let (bytes, record) = (record.bytes(), record.clone());
        share.run_guaranteed(bytes, move || layout::encode(&record, may_split)).await?
    }

    /// Lists all revisions of a release, oldest first.
    pub async fn entries(&self, name: &str) -> Result<Vec<EncodedRecord>, StorageError> {
        check_name(name)?;
        let mut found = Vec::new();
        let mut params = ListParams::default().labels(&labels::selector(Some(name))).limit(PAGE_SIZE);
        loop {
            let page = self.secrets.list(&params).await.map_err(StorageError::api_error("list"))?;
            found.extend(page.items.into_iter().filter_map(|secret| self.parse_entry(secret)));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
        found.sort_by_key(|entry: &EncodedRecord| entry.meta.revision);
        Ok(found)
    }

    /// Fetches one revision without decoding it.
    pub async fn fetch(&self, name: &str, revision: i64) -> Result<Option<EncodedRecord>, StorageError> {
        check_name(name)?;
        let secret = self.secrets.get_opt(&secret_name(name, revision)).await;
        let secret = secret.map_err(StorageError::api_error("read"))?;
        Ok(secret.and_then(|secret| self.parse_entry(secret)))
    }

    /// Decodes a record and fetches its chunks, if any.
    pub async fn load(&self, entry: &EncodedRecord) -> Result<StoredRecord, StorageError> {
        self.load_entry(entry, false).await
    }

    /// Like [`Storage::load`], for a record that is updated after objects were written: a busy pool does not reject
    /// it.
    pub(crate) async fn load_guaranteed(&self, entry: &EncodedRecord) -> Result<StoredRecord, StorageError> {
        self.load_entry(entry, true).await
    }

    async fn load_entry(&self, entry: &EncodedRecord, finish: bool) -> Result<StoredRecord, StorageError> {
        let mut record = match &self.share {
            Some(share) => {
                let (bytes, entry) = (record::decompressed_bytes(&entry.text, INLINE_BYTES), entry.clone());
                let peek = move || entry.decode();
                if finish { share.run_guaranteed(bytes, peek).await } else { share.run(bytes, peek).await }??
            }
            None => entry.decode()?,
        };
        if let Some((parts, digest)) = layout::parse_reference(&record.manifest) {
            record.manifest = self.read_manifest(&record, parts, digest).await?;
        }
        let EncodedRecord { meta: head, created_at: created, .. } = entry;
        Ok(StoredRecord {
            record,
            resource_version: head.resource_version.clone(),
            uid: head.uid.clone(),
            created_at: created.clone(),
            has_lease: entry.has_lease,
        })
    }

    /// Reads one revision.
    pub async fn get(&self, name: &str, revision: i64) -> Result<Option<StoredRecord>, StorageError> {
        self.load_optional(self.fetch(name, revision).await?.as_ref()).await
    }

    /// Reads and decodes all revisions, oldest first.
    pub async fn history(&self, name: &str) -> Result<Vec<StoredRecord>, StorageError> {
        let mut history = Vec::new();
        for entry in self.entries(name).await? {
            history.push(self.load(&entry).await?);
        }
        Ok(history)
    }

    /// Reads the newest revision.
    pub async fn newest(&self, name: &str) -> Result<Option<StoredRecord>, StorageError> {
        self.load_optional(self.entries(name).await?.last()).await
    }

    /// Reads the newest deployed revision.
    pub async fn deployed(&self, name: &str) -> Result<Option<StoredRecord>, StorageError> {
        self.load_optional(deployed(&self.entries(name).await?)).await
    }

    async fn load_optional(
        &self,
        entry: Option<&EncodedRecord>,
    ) -> Result<Option<StoredRecord>, StorageError> {
        match entry {
            Some(entry) => Ok(Some(self.load(entry).await?)),
            None => Ok(None),
        }
    }

    /// Writes a new revision. Fails with [`StorageError::AlreadyExists`] if it exists.
    pub async fn create(&self, record: &Record) -> Result<StoredRecord, StorageError> {
        check_name(&record.name)?;
        check_revision(record)?;
        if !labels::has_no_system_labels(&record.labels) {
            return Err(StorageError::SystemLabel { system: labels::SYSTEM_LABELS });
        }
        let mut record = record.clone();
        record.normalize_times();
        let record = &record;
        let created = self.clock.now().as_second().to_string();
        let fitted = self.encode(record).await?;
        // Chunks are written before the record, so that no reader sees a record without its chunks.
        self.write_chunks(record, &fitted.chunks).await?;
        let mut secret = self.secret(record, fitted.text, true);
        secret.metadata.labels.get_or_insert_default().insert(labels::CREATED_AT.into(), created.clone());
        let written = match self.write(&secret).await {
            Ok(written) => written,
            Err(error) if error::status_code(&error) == Some(409) => {
                return Err(StorageError::AlreadyExists {
                    name: record.name.clone(),
                    revision: record.version,
                });
            }
            Err(error) => return Err(StorageError::api_error("write")(error)),
        };
        self.set_chunk_owner(record, &fitted.chunks, &written).await?;
        self.delete_stale_chunks(record, &fitted.chunks).await?;
        Ok(stored_record(record.clone(), written, Some(created)))
    }

    /// Updates a revision. Fails if another client changed it.
    pub async fn update(&self, stored: &StoredRecord) -> Result<StoredRecord, StorageError> {
        let record = &stored.record;
        let fitted = self.encode(record).await?;
        self.write_chunks(record, &fitted.chunks).await?;
        let mut secret = self.secret(record, fitted.text, stored.has_lease);
        secret.metadata.resource_version = Some(stored.resource_version.clone());
        secret.metadata.uid = Some(stored.uid.clone());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(labels::MODIFIED_AT.into(), self.clock.now().as_second().to_string());
        if let Some(created) = &stored.created_at {
            labels.insert(labels::CREATED_AT.into(), created.clone());
        }
        let (name, revision) = (record.name.clone(), record.version);
        match self.write(&secret).await {
            Ok(written) => {
                self.set_chunk_owner(record, &fitted.chunks, &written).await?;
                Ok(self::stored_record(record.clone(), written, stored.created_at.clone()))
            }
            Err(error) => Err(match error::status_code(&error) {
                Some(409) => StorageError::ChangedConcurrently { name, revision },
                Some(404) => StorageError::NotFound { name, revision },
                _ => StorageError::api_error("write")(error),
            }),
        }
    }

    /// Deletes a revision if it is unchanged. Succeeds if it no longer exists.
    pub async fn delete(&self, head: &RecordMeta) -> Result<(), StorageError> {
        let (name, revision) = (head.name.clone(), head.revision);
        let seen = Preconditions {
            resource_version: Some(head.resource_version.clone()),
            uid: Some(head.uid.clone()),
        };
        let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
        match self.secrets.delete(&secret_name(&name, revision), &params).await {
            Ok(_) => Ok(()),
            Err(error) => match error::status_code(&error) {
                Some(404) => Ok(()),
                Some(409) => Err(StorageError::ChangedConcurrently { name, revision }),
                _ => Err(StorageError::api_error("delete")(error)),
            },
        }
    }

    fn secret(&self, record: &Record, text: String, held: bool) -> Secret {
        let held_by = || (HELD_BY_ANNOTATION.to_owned(), lease_name(&record.name));
        Secret {
            metadata: ObjectMeta {
                name: Some(secret_name(&record.name, record.version)),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels::for_record(record)),
                annotations: held.then(|| [held_by()].into()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(BTreeMap::from([(DATA_KEY.to_owned(), ByteString(text.into_bytes()))])),
            ..Secret::default()
        }
    }

    fn parse_entry(&self, secret: Secret) -> Option<EncodedRecord> {
        let head = list::parse_metadata(&secret.metadata, &self.namespace)?;
        let by_lease = is_held(&secret.metadata);
        let created = secret.metadata.labels.and_then(|mut labels| labels.remove(labels::CREATED_AT));
        let text = secret.data.and_then(|mut data| data.remove(DATA_KEY)).unwrap_or_default().0;
        Some(EncodedRecord { meta: head, created_at: created, has_lease: by_lease, text })
    }
}

impl EncodedRecord {
    /// Decodes the record without fetching a split manifest, for display.
    pub fn decode(&self) -> Result<Record, StorageError> {
        let secret = || secret_name(&self.meta.name, self.meta.revision);
        let record = Record::decode(&self.text)
            .map_err(|source| StorageError::Undecodable { secret: secret(), source })?;
        if record.name != self.meta.name || record.version != self.meta.revision {
            return Err(StorageError::WrongRelease { secret: secret() });
        }
        Ok(Record { labels: self.meta.labels.clone(), ..record })
    }
}

/// The newest deployed entry.
fn deployed(entries: &[EncodedRecord]) -> Option<&EncodedRecord> {
    entries.iter().rev().find(|entry| entry.meta.status == Status::Deployed)
}

fn check_name(name: &str) -> Result<(), StorageError> {
    names::check(name).map_err(|why| StorageError::InvalidName { name: name.to_owned(), why })
}

/// Rejects a revision number that lists would ignore.
fn check_revision(record: &Record) -> Result<(), StorageError> {
    if (1..=MAX_REVISION).contains(&record.version) {
        return Ok(());
    }
    Err(StorageError::InvalidRevision { name: record.name.clone(), revision: record.version })
}

/// Whether the revision was written under the release's Lease.
pub fn is_held(metadata: &ObjectMeta) -> bool {
    metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(HELD_BY_ANNOTATION))
}

fn stored_record(record: Record, written: Secret, created: Option<String>) -> StoredRecord {
    StoredRecord {
        record,
        has_lease: is_held(&written.metadata),
        resource_version: written.metadata.resource_version.unwrap_or_default(),
        uid: written.metadata.uid.unwrap_or_default(),
        created_at: created,
    }
}

impl StoredRecord {
    pub fn meta(&self) -> RecordMeta {
        RecordMeta {
            name: self.record.name.clone(),
            namespace: self.record.namespace.clone(),
            revision: self.record.version,
            status: self.record.info.status,
            labels: self.record.labels.clone(),
            resource_version: self.resource_version.clone(),
            uid: self.uid.clone(),
        }
    }
}
