//! Split manifests: each part in a Secret of its own next to the record's.
//!
//! The record's Secret owns the parts, so that garbage collection deletes them with it, also when a Helm without
//! support for parts deletes the record.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_types::FIELD_MANAGER;
use serde_json::json;

use super::fit::{self, Parts, part_name};
use super::{Storage, StorageError, error, secret_name};
use crate::record::Record;

const TYPE: &str = "longshore.dev/release-part.v1";
const KEY: &str = "part";
/// Differs from Helm's owner label, so that Helm does not list parts.
const OWNER: &str = "longshore";

impl Storage {
    /// Reads the split manifest of a record.
    pub(super) async fn manifest(
        &self,
        record: &Record,
        parts: usize,
        digest: &str,
    ) -> Result<String, StorageError> {
        let secret = secret_name(&record.name, record.version);
        let mut pieces = Vec::with_capacity(parts);
        for at in 0..parts {
            let part = part_name(record, digest, at);
            let found = self.secrets.get_opt(&part).await.map_err(StorageError::call("read"))?;
            let piece = found.and_then(|found| found.data).and_then(|mut data| data.remove(KEY));
            let Some(piece) = piece else { return Err(StorageError::Incomplete { secret, part }) };
            pieces.push(piece.0);
        }
        let (bytes, expected) = (pieces.iter().map(Vec::len).sum(), digest.to_owned());
        let whole = move || fit::whole(&pieces, &expected);
        let whole = match &self.share {
            Some(share) => share.run(bytes, whole).await?,
            None => whole(),
        };
        whole.ok_or_else(|| StorageError::Incomplete { secret, part: part_name(record, digest, 0) })
    }

    /// Writes the missing parts. The name of a part contains the digest of the manifest, so an existing part is reused.
    pub(super) async fn write_parts(&self, record: &Record, parts: &Parts) -> Result<(), StorageError> {
        for (at, piece) in parts.pieces.iter().enumerate() {
            let part = Secret {
                metadata: ObjectMeta {
                    name: Some(part_name(record, &parts.digest, at)),
                    labels: Some(BTreeMap::from([
                        ("name".to_owned(), record.name.clone()),
                        ("owner".to_owned(), OWNER.to_owned()),
                        ("version".to_owned(), record.version.to_string()),
                    ])),
                    ..ObjectMeta::default()
                },
                type_: Some(TYPE.to_owned()),
                data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(piece.clone()))])),
                immutable: Some(true),
                ..Secret::default()
            };
            match self.secrets.create(&PostParams::default(), &part).await {
                Ok(_) => {}
                Err(error) if error::code(&error) == Some(409) => {}
                Err(error) => return Err(StorageError::call("write")(error)),
            }
        }
        Ok(())
    }

    /// Deletes parts that an earlier failed attempt at this revision left behind.
    pub(super) async fn clear_parts(&self, record: &Record, parts: &Parts) -> Result<(), StorageError> {
        if parts.pieces.is_empty() {
            return Ok(());
        }
        let ours: Vec<_> = (0..parts.pieces.len()).map(|at| part_name(record, &parts.digest, at)).collect();
        let selector = format!("name={},owner={OWNER},version={}", record.name, record.version);
        let found = self.secrets.list_metadata(&ListParams::default().labels(&selector)).await;
        for part in found.map_err(StorageError::call("list"))?.items {
            let name = part.metadata.name.unwrap_or_default();
            if !ours.contains(&name) {
                match self.secrets.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(error) if error::code(&error) == Some(404) => {}
                    Err(error) => return Err(StorageError::call("delete")(error)),
                }
            }
        }
        Ok(())
    }

    /// Sets the record's Secret as owner of its parts.
    pub(super) async fn own_parts(
        &self,
        record: &Record,
        parts: &Parts,
        owner: &Secret,
    ) -> Result<(), StorageError> {
        let owner = OwnerReference {
            api_version: "v1".into(),
            kind: "Secret".into(),
            name: secret_name(&record.name, record.version),
            uid: owner.metadata.uid.clone().unwrap_or_default(),
            ..OwnerReference::default()
        };
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        for at in 0..parts.pieces.len() {
            let name = part_name(record, &parts.digest, at);
            let written = self.secrets.patch_metadata(&name, &params, &patch).await;
            written.map_err(StorageError::call("write"))?;
        }
        Ok(())
    }
}
