//! Storage of records: Secrets in the namespace of the release, with Helm's names, type and labels.
//!
//! Every write carries the `resourceVersion` that was read, so a client that lost the release lock cannot overwrite
//! newer records.
//!
//! Modules:
//!
//! - [`labels`]: labels of the Secrets
//! - [`fit`]: layout of records that are too large
//! - [`list`]: lists releases by label
//!
//! See also: the encoding (`crate::record`).

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod error;
pub mod fit;
pub mod labels;
mod list;
mod parts;
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

use crate::hold::lease_name;
use crate::record::{self, Record, Status};
use crate::render::share::{INLINE_BYTES, Share};

pub use error::StorageError;
use fit::Fitted;
pub use fit::{Plan, TooLarge, fits};
pub use list::{Scope, heads, newest, revision};

/// Helm's Secret type.
const TYPE: &str = "helm.sh/release.v1";
/// Key of the record in the Secret's data.
const KEY: &str = "release";
/// Annotation on a revision whose writer holds the release's Lease; its value names that Lease. The helm command
/// uses no Lease, and although it copies labels from revision to revision, it does not copy this annotation.
pub const HELD_BY: &str = "longshore.dev/held-by";
/// Page size of lists.
const PAGE: u32 = 250;

/// Records of one namespace.
#[derive(Clone)]
pub struct Storage {
    secrets: Api<Secret>,
    namespace: String,
    clock: Arc<dyn Clock>,
    may_split: bool,
    /// Pool share for encoding and decoding large records; on the caller's thread if `None`.
    share: Option<Share>,
}

/// A record as read or written.
#[derive(Clone, Debug)]
pub struct Stored {
    pub record: Record,
    /// Of the Secret; guards updates against concurrent changes.
    pub resource_version: String,
    uid: String,
    /// The `createdAt` label.
    created: Option<String>,
    /// Whether the revision was written under the release's Lease.
    pub held: bool,
}

/// Metadata of a record, from the labels of its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
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
pub struct Entry {
    pub head: Head,
    created: Option<String>,
    held: bool,
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
        Self { secrets, namespace: namespace.to_owned(), clock, may_split: true, share: None }
    }

    /// Rejects records that do not fit into one Secret in Helm's format.
    #[must_use]
    pub fn whole_only(self) -> Self {
        Self { may_split: false, ..self }
    }

    /// Encodes and decodes large records on this share of a pool.
    #[must_use]
    pub fn sharing(self, share: Share) -> Self {
        Self { share: Some(share), ..self }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Storage layout of a record; an error if it exceeds the limits.
    pub async fn plan(&self, record: &Record) -> Result<Plan, StorageError> {
        check_revision(record)?;
        Ok(self.fitted(record).await?.plan)
    }

    /// Encodes a record. It describes objects that are already in the cluster, so a busy pool must not reject it.
    async fn fitted(&self, record: &Record) -> Result<Fitted, StorageError> {
        let may_split = self.may_split;
        let Some(share) = &self.share else { return fit::fit(record, may_split) };
        let (bytes, record) = (record.bytes(), record.clone());
        share.finish(bytes, move || fit::fit(&record, may_split)).await?
    }

    /// Lists all revisions of a release, oldest first.
    pub async fn entries(&self, name: &str) -> Result<Vec<Entry>, StorageError> {
        check_name(name)?;
        let mut found = Vec::new();
        let mut params = ListParams::default().labels(&labels::selector(Some(name))).limit(PAGE);
        loop {
            let page = self.secrets.list(&params).await.map_err(StorageError::call("list"))?;
            found.extend(page.items.into_iter().filter_map(|secret| self.entry(secret)));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
        found.sort_by_key(|entry: &Entry| entry.head.revision);
        Ok(found)
    }

    /// Fetches one revision without decoding it.
    pub async fn fetch(&self, name: &str, revision: i64) -> Result<Option<Entry>, StorageError> {
        check_name(name)?;
        let secret = self.secrets.get_opt(&secret_name(name, revision)).await;
        let secret = secret.map_err(StorageError::call("read"))?;
        Ok(secret.and_then(|secret| self.entry(secret)))
    }

    /// Decodes a record and fetches its parts, if any.
    pub async fn open(&self, entry: &Entry) -> Result<Stored, StorageError> {
        self.unpack(entry, false).await
    }

    /// Like [`Storage::open`], for a record that is updated after objects were written: a busy pool does not reject
    /// it.
    pub(crate) async fn open_to_finish(&self, entry: &Entry) -> Result<Stored, StorageError> {
        self.unpack(entry, true).await
    }

    async fn unpack(&self, entry: &Entry, finish: bool) -> Result<Stored, StorageError> {
        let mut record = match &self.share {
            Some(share) => {
                let (bytes, entry) = (record::unpacked_bytes(&entry.text, INLINE_BYTES), entry.clone());
                let peek = move || entry.peek();
                if finish { share.finish(bytes, peek).await } else { share.run(bytes, peek).await }??
            }
            None => entry.peek()?,
        };
        if let Some((parts, digest)) = fit::kept(&record.manifest) {
            record.manifest = self.manifest(&record, parts, digest).await?;
        }
        let Entry { head, created, .. } = entry;
        Ok(Stored {
            record,
            resource_version: head.resource_version.clone(),
            uid: head.uid.clone(),
            created: created.clone(),
            held: entry.held,
        })
    }

    /// Reads one revision.
    pub async fn get(&self, name: &str, revision: i64) -> Result<Option<Stored>, StorageError> {
        self.open_some(self.fetch(name, revision).await?.as_ref()).await
    }

    /// Reads and decodes all revisions, oldest first.
    pub async fn history(&self, name: &str) -> Result<Vec<Stored>, StorageError> {
        let mut history = Vec::new();
        for entry in self.entries(name).await? {
            history.push(self.open(&entry).await?);
        }
        Ok(history)
    }

    /// Reads the newest revision.
    pub async fn last(&self, name: &str) -> Result<Option<Stored>, StorageError> {
        self.open_some(self.entries(name).await?.last()).await
    }

    /// Reads the newest deployed revision.
    pub async fn deployed(&self, name: &str) -> Result<Option<Stored>, StorageError> {
        self.open_some(deployed(&self.entries(name).await?)).await
    }

    async fn open_some(&self, entry: Option<&Entry>) -> Result<Option<Stored>, StorageError> {
        match entry {
            Some(entry) => Ok(Some(self.open(entry).await?)),
            None => Ok(None),
        }
    }

    /// Writes a new revision. Fails with [`StorageError::Exists`] if it exists.
    pub async fn create(&self, record: &Record) -> Result<Stored, StorageError> {
        check_name(&record.name)?;
        check_revision(record)?;
        if !labels::are_free(&record.labels) {
            return Err(StorageError::SystemLabel { system: labels::SYSTEM });
        }
        let mut record = record.clone();
        record.settle_moments();
        let record = &record;
        let created = self.clock.now().as_second().to_string();
        let fitted = self.fitted(record).await?;
        // Parts are written before the record, so that no reader sees a record without its parts.
        self.write_parts(record, &fitted.parts).await?;
        let mut secret = self.secret(record, fitted.text, true);
        secret.metadata.labels.get_or_insert_default().insert(labels::CREATED.into(), created.clone());
        let written = match self.write(&secret).await {
            Ok(written) => written,
            Err(error) if error::code(&error) == Some(409) => {
                return Err(StorageError::Exists { name: record.name.clone(), revision: record.version });
            }
            Err(error) => return Err(StorageError::call("write")(error)),
        };
        self.own_parts(record, &fitted.parts, &written).await?;
        self.clear_parts(record, &fitted.parts).await?;
        Ok(stored(record.clone(), written, Some(created)))
    }

    /// Updates a revision. Fails if another client changed it.
    pub async fn update(&self, stored: &Stored) -> Result<Stored, StorageError> {
        let record = &stored.record;
        let fitted = self.fitted(record).await?;
        self.write_parts(record, &fitted.parts).await?;
        let mut secret = self.secret(record, fitted.text, stored.held);
        secret.metadata.resource_version = Some(stored.resource_version.clone());
        secret.metadata.uid = Some(stored.uid.clone());
        let labels = secret.metadata.labels.get_or_insert_default();
        labels.insert(labels::MODIFIED.into(), self.clock.now().as_second().to_string());
        if let Some(created) = &stored.created {
            labels.insert(labels::CREATED.into(), created.clone());
        }
        let (name, revision) = (record.name.clone(), record.version);
        match self.write(&secret).await {
            Ok(written) => {
                self.own_parts(record, &fitted.parts, &written).await?;
                Ok(self::stored(record.clone(), written, stored.created.clone()))
            }
            Err(error) => Err(match error::code(&error) {
                Some(409) => StorageError::Changed { name, revision },
                Some(404) => StorageError::Gone { name, revision },
                _ => StorageError::call("write")(error),
            }),
        }
    }

    /// Deletes a revision if it is unchanged. Succeeds if it no longer exists.
    pub async fn delete(&self, head: &Head) -> Result<(), StorageError> {
        let (name, revision) = (head.name.clone(), head.revision);
        let seen = Preconditions {
            resource_version: Some(head.resource_version.clone()),
            uid: Some(head.uid.clone()),
        };
        let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
        match self.secrets.delete(&secret_name(&name, revision), &params).await {
            Ok(_) => Ok(()),
            Err(error) => match error::code(&error) {
                Some(404) => Ok(()),
                Some(409) => Err(StorageError::Changed { name, revision }),
                _ => Err(StorageError::call("delete")(error)),
            },
        }
    }

    fn secret(&self, record: &Record, text: String, held: bool) -> Secret {
        let held_by = || (HELD_BY.to_owned(), lease_name(&record.name));
        Secret {
            metadata: ObjectMeta {
                name: Some(secret_name(&record.name, record.version)),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels::of(record)),
                annotations: held.then(|| [held_by()].into()),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(text.into_bytes()))])),
            ..Secret::default()
        }
    }

    fn entry(&self, secret: Secret) -> Option<Entry> {
        let head = list::head(&secret.metadata, &self.namespace)?;
        let by_lease = is_held(&secret.metadata);
        let created = secret.metadata.labels.and_then(|mut labels| labels.remove(labels::CREATED));
        let text = secret.data.and_then(|mut data| data.remove(KEY)).unwrap_or_default().0;
        Some(Entry { head, created, held: by_lease, text })
    }
}

impl Entry {
    /// Decodes the record without fetching a split manifest, for display.
    pub fn peek(&self) -> Result<Record, StorageError> {
        let secret = || secret_name(&self.head.name, self.head.revision);
        let record = Record::decode(&self.text)
            .map_err(|source| StorageError::Damaged { secret: secret(), source })?;
        if record.name != self.head.name || record.version != self.head.revision {
            return Err(StorageError::Mistaken { secret: secret() });
        }
        Ok(Record { labels: self.head.labels.clone(), ..record })
    }
}

/// The newest deployed entry.
fn deployed(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().rev().find(|entry| entry.head.status == Status::Deployed)
}

fn check_name(name: &str) -> Result<(), StorageError> {
    names::check(name).map_err(|why| StorageError::Name { name: name.to_owned(), why })
}

/// Rejects a revision number that lists would ignore.
fn check_revision(record: &Record) -> Result<(), StorageError> {
    if (1..=MAX_REVISION).contains(&record.version) {
        return Ok(());
    }
    Err(StorageError::Revision { name: record.name.clone(), revision: record.version })
}

/// Whether the revision was written under the release's Lease.
pub fn is_held(metadata: &ObjectMeta) -> bool {
    metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(HELD_BY))
}

fn stored(record: Record, written: Secret, created: Option<String>) -> Stored {
    Stored {
        record,
        held: is_held(&written.metadata),
        resource_version: written.metadata.resource_version.unwrap_or_default(),
        uid: written.metadata.uid.unwrap_or_default(),
        created,
    }
}

impl Stored {
    pub fn head(&self) -> Head {
        Head {
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
