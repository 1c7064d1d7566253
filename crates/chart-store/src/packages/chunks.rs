//! Bytes of a package, split into chunks that fit into ConfigMaps.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt};
use kube_types::FIELD_MANAGER;
use kube_types::package::HelmPackage;
use kube_types::well_known::{MANAGED_BY, PACKAGE};

use crate::error::ChartError;

/// Bytes per chunk. Encoded in base64 they stay below the size limit of a ConfigMap.
pub const CHUNK_LEN: usize = 768 << 10;
/// Maximum concurrent calls.
const MAX_CONCURRENT: usize = 4;
/// Key of the bytes in a ConfigMap.
const CHUNK_KEY: &str = "chunk";
/// Maximum attempts to replace a chunk that changes concurrently.
const MAX_CONFLICT_RETRIES: usize = 3;

/// Writes the missing chunks of a package.
pub async fn write(maps: &Api<ConfigMap>, package: &HelmPackage, bytes: &Bytes) -> Result<(), ChartError> {
    let pieces = (0..bytes.len().div_ceil(CHUNK_LEN)).map(|number| {
        let piece = bytes.slice(number * CHUNK_LEN..bytes.len().min((number + 1) * CHUNK_LEN));
        let map = chunk_config_map(package, number, &piece);
        async move { create_chunk(maps, map).await }
    });
    futures::stream::iter(pieces).buffer_unordered(MAX_CONCURRENT).try_collect().await
}

/// Reads the bytes of a package; `None` if chunks are missing.
pub async fn read(maps: &Api<ConfigMap>, package: &HelmPackage) -> Result<Option<Bytes>, ChartError> {
    let pieces = (0..package.spec.chunks).map(|number| async move {
        maps.get_opt(&chunk_name(package, number)).await.map_err(ChartError::from)
    });
    let mut pieces = futures::stream::iter(pieces).buffered(MAX_CONCURRENT);
    let mut bytes = Vec::with_capacity(usize::try_from(package.spec.size).unwrap_or_default());
    while let Some(piece) = pieces.try_next().await? {
        let Some(mut data) = piece.and_then(|map| map.binary_data) else { return Ok(None) };
        let Some(ByteString(data)) = data.remove(CHUNK_KEY) else { return Ok(None) };
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes.into()))
}

fn chunk_name(package: &HelmPackage, number: impl std::fmt::Display) -> String {
    format!("{}.{number}", package.name_any())
}

fn chunk_config_map(package: &HelmPackage, number: usize, piece: &[u8]) -> ConfigMap {
    let owner = OwnerReference {
        api_version: HelmPackage::api_version(&()).into_owned(),
        kind: HelmPackage::kind(&()).into_owned(),
        name: package.name_any(),
        uid: package.uid().unwrap_or_default(),
        ..OwnerReference::default()
    };
    let labels = [(MANAGED_BY, FIELD_MANAGER.to_owned()), (PACKAGE, package.name_any())];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(chunk_name(package, number)),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        binary_data: Some([(CHUNK_KEY.to_owned(), ByteString(piece.to_vec()))].into()),
        data: None,
    }
}

/// Creates one chunk. An existing one is kept if it has these bytes and this owner. Otherwise it belongs to a removed
/// package and is about to be deleted with it, so it is replaced.
async fn create_chunk(maps: &Api<ConfigMap>, map: ConfigMap) -> Result<(), ChartError> {
    let name = map.name_any();
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let mut refused = None;
    for _ in 0..MAX_CONFLICT_RETRIES {
        match maps.create(&params, &map).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => refused = Some(status),
            Err(error) => return Err(error.into()),
        }
        let Some(found) = maps.get_opt(&name).await? else { continue };
        let going = found.metadata.deletion_timestamp.is_some();
        if found.binary_data == map.binary_data
            && found.owner_references() == map.owner_references()
            && !going
        {
            return Ok(());
        }
        let preconditions = Preconditions { uid: found.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match maps.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            done => drop(done?),
        }
    }
    Err(kube::Error::Api(refused.expect("every try was refused")).into())
}
