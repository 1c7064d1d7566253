//! Split manifests: each chunk in a Secret of its own next to the record's.
//!
//! The record's Secret owns the chunks, so that garbage collection deletes them with it, also when a Helm without
//! support for chunks deletes the record.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_types::FIELD_MANAGER;
use serde_json::json;

use super::layout::{self, ManifestChunks, chunk_name};
use super::{Storage, StorageError, error, secret_name};
use crate::record::Record;

const CHUNK_SECRET_TYPE: &str = "longshore.dev/release-part.v1";
const CHUNK_DATA_KEY: &str = "part";
/// Differs from Helm's owner label, so that Helm does not list chunks.
const OWNER: &str = "longshore";

impl Storage {
    /// Reads the split manifest of a record.
    pub(super) async fn read_manifest(
        &self,
        record: &Record,
        parts: usize,
        digest: &str,
    ) -> Result<String, StorageError> {
        let secret = secret_name(&record.name, record.version);
        let mut pieces = Vec::with_capacity(parts);
        for at in 0..parts {
            let part = chunk_name(record, digest, at);
            let found = self.secrets.get_opt(&part).await.map_err(StorageError::api_error("read"))?;
            let piece = found.and_then(|found| found.data).and_then(|mut data| data.remove(CHUNK_DATA_KEY));
            let Some(piece) = piece else { return Err(StorageError::Incomplete { secret, part }) };
            pieces.push(piece.0);
        }
        let (bytes, expected) = (pieces.iter().map(Vec::len).sum(), digest.to_owned());
        let whole = move || layout::join_chunks(&pieces, &expected);
        let whole = match &self.share {
            Some(share) => share.run(bytes, whole).await?,
            None => whole(),
        };
        whole.ok_or_else(|| StorageError::Incomplete { secret, part: chunk_name(record, digest, 0) })
    }

    /// Writes the missing chunks. The name of a chunk contains the digest of the manifest, so an existing chunk is reused.
    pub(super) async fn write_chunks(
        &self,
        record: &Record,
        parts: &ManifestChunks,
    ) -> Result<(), StorageError> {
        for (at, piece) in parts.chunks.iter().enumerate() {
            let part = Secret {
                metadata: ObjectMeta {
                    name: Some(chunk_name(record, &parts.digest, at)),
                    labels: Some(BTreeMap::from([
                        ("name".to_owned(), record.name.clone()),
                        ("owner".to_owned(), OWNER.to_owned()),
                        ("version".to_owned(), record.version.to_string()),
                    ])),
                    ..ObjectMeta::default()
                },
                type_: Some(CHUNK_SECRET_TYPE.to_owned()),
                data: Some(BTreeMap::from([(CHUNK_DATA_KEY.to_owned(), ByteString(piece.clone()))])),
                immutable: Some(true),
                ..Secret::default()
            };
            match self.secrets.create(&PostParams::default(), &part).await {
                Ok(_) => {}
                Err(error) if error::status_code(&error) == Some(409) => {}
                Err(error) => return Err(StorageError::api_error("write")(error)),
            }
        }
        Ok(())
    }

    /// Deletes chunks that an earlier failed attempt at this revision left behind.
    pub(super) async fn delete_stale_chunks(
        &self,
        record: &Record,
        parts: &ManifestChunks,
    ) -> Result<(), StorageError> {
        if parts.chunks.is_empty() {
            return Ok(());
        }
        let ours: Vec<_> = (0..parts.chunks.len()).map(|at| chunk_name(record, &parts.digest, at)).collect();
        let selector = format!("name={},owner={OWNER},version={}", record.name, record.version);
        let found = self.secrets.list_metadata(&ListParams::default().labels(&selector)).await;
        for part in found.map_err(StorageError::api_error("list"))?.items {
            let name = part.metadata.name.unwrap_or_default();
            if !ours.contains(&name) {
                match self.secrets.delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(error) if error::status_code(&error) == Some(404) => {}
                    Err(error) => return Err(StorageError::api_error("delete")(error)),
                }
            }
        }
        Ok(())
    }

    /// Sets the record's Secret as owner of its chunks.
    pub(super) async fn set_chunk_owner(
        &self,
        record: &Record,
        parts: &ManifestChunks,
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
        for at in 0..parts.chunks.len() {
            let name = chunk_name(record, &parts.digest, at);
            let written = self.secrets.patch_metadata(&name, &params, &patch).await;
            written.map_err(StorageError::api_error("write"))?;
        }
        Ok(())
    }
}
