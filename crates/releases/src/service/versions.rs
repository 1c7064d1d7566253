//! Saved versions of a request: values and options. One immutable Secret each.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest::{SHA256, digest};
use domain::ids::WorkspaceName;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::ObjectMeta;
use kube_types::release::{
    ManifestPatch, ReleaseOptions, ReleaseSource, ResolvedChart, RoleOverride, ValuesSecretRef,
};
use kube_types::well_known::{CHART_PACKAGE, MANAGED_BY, REQUEST, WORKSPACE};
use kube_types::{FIELD_MANAGER, HelmRelease, HelmRequest, HelmRequestSpec, SYSTEM_NAMESPACE};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::Releases;
use crate::requests::ignore_not_found;
use crate::tenant_directory::account_label;
use crate::values::DEFAULT_KEY;

/// The inputs of a version besides its values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VersionSnapshot {
    pub source: ReleaseSource,
    pub chart: ResolvedChart,
    #[serde(default)]
    pub options: ReleaseOptions,
    /// `None` in versions saved before these fields existed.
    #[serde(default)]
    pub patches: Option<Vec<ManifestPatch>>,
    #[serde(default)]
    pub roles: Option<Vec<RoleOverride>>,
}

const VERSION_DATA_KEY: &str = "version.json";

/// The number of saved versions if `maxHistory` is not set.
const DEFAULT_HISTORY_LIMIT: i64 = 10;

/// The label with the number of the request version, also on Helm's records.
pub(crate) const VERSION_LABEL: &str = "longshore.dev/version";

/// The label with the size of a saved version in bytes.
const SIZE_LABEL: &str = "longshore.dev/bytes";

/// Maximum bytes of the values of a release.
pub const MAX_VALUES_BYTES: usize = 256 << 10;

/// Maximum number of requests of one workspace.
pub const MAX_REQUESTS: u32 = 500;

/// Maximum bytes of all saved versions of a workspace: values, patches and options.
pub const MAX_SAVED_VERSIONS_BYTES: u64 = 64 << 20;

/// The name of the request of a release. It is derived from the release, so that there is at most one.
pub(crate) fn request_name(cluster: &str, namespace: &str, name: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digest = digest(&SHA256, format!("{cluster}/{namespace}/{name}").as_bytes());
    let digest = digest.as_ref();
    #[cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "at is below 20"))]
    let letters = (0..20).map(|at| {
        let bits = at * 5;
        let pair = u16::from_be_bytes([digest[bits / 8], digest[bits / 8 + 1]]);
        char::from(LETTERS[usize::from(pair >> (11 - bits % 8) & 31)])
    });
    format!("req-{}", letters.collect::<String>())
}

fn to_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Page size for lists of Secrets.
const PAGE_SIZE: u32 = 500;

fn request_selector(request: &str) -> ListParams {
    ListParams::default().labels(&format!("{REQUEST}={request}"))
}

impl Releases {
    fn version_secrets(&self) -> Api<Secret> {
        Api::namespaced(self.inner().clients.platform(), SYSTEM_NAMESPACE)
    }

    /// Fails if a workspace has reached its limit of requests.
    pub(super) async fn check_request_limit(&self, workspace: &WorkspaceName) -> Result<(), Error> {
        let own = ListParams::default().labels(&format!("{WORKSPACE}={workspace}")).limit(MAX_REQUESTS);
        let used = self.request_api().list_metadata(&own).await?.items.len();
        let limit = MAX_REQUESTS as usize;
        if used >= limit {
            return Err(Error::TooManyRequests { workspace: workspace.to_string(), used, limit });
        }
        Ok(())
    }

    /// Fails if the saved versions of a workspace would exceed its quota. Versions from before sizes were recorded do not count.
    async fn check_values_quota(&self, workspace: &str, wanted: u64) -> Result<(), Error> {
        let mut list_params =
            ListParams::default().labels(&format!("{WORKSPACE}={workspace},{SIZE_LABEL}")).limit(PAGE_SIZE);
        let bytes = |meta: &ObjectMeta| meta.labels.as_ref()?.get(SIZE_LABEL)?.parse::<u64>().ok();
        let (mut used, limit) = (0_u64, MAX_SAVED_VERSIONS_BYTES);
        loop {
            let page = self.version_secrets().list_metadata(&list_params).await?;
            let sizes = page.items.iter().filter_map(|secret| bytes(&secret.metadata));
            used = sizes.fold(used, u64::saturating_add);
            list_params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if list_params.continue_token.is_none() {
                break;
            }
        }
        if used.saturating_add(wanted) > limit {
            return Err(Error::OverValuesQuota { workspace: workspace.to_owned(), wanted, used, limit });
        }
        Ok(())
    }

    /// Saves a version and returns the reference to its values.
    pub(super) async fn save_version(
        &self,
        request: &str,
        spec: &HelmRequestSpec,
        values: &str,
    ) -> Result<ValuesSecretRef, Error> {
        if values.len() > MAX_VALUES_BYTES {
            return Err(Error::TooLarge {
                what: "the values document",
                size: values.len(),
                limit: MAX_VALUES_BYTES,
            });
        }
        let kept = VersionSnapshot {
            source: spec.source.clone(),
            chart: spec.chart.clone(),
            options: spec.options.clone(),
            patches: Some(spec.patches.clone()),
            roles: Some(spec.roles.clone()),
        };
        let kept = serde_json::to_vec(&kept).expect("what a request says can be written as JSON");
        let bytes = to_u64(values.len().saturating_add(kept.len()));
        self.check_values_quota(&spec.workspace, bytes).await?;
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let workspace = spec.workspace.parse::<WorkspaceName>().ok();
        let account = workspace.and_then(|workspace| account_label(&*self.inner().tenants, &workspace));
        let labels: BTreeMap<String, String> = [
            label(REQUEST, request),
            label(VERSION_LABEL, &spec.version.to_string()),
            label(CHART_PACKAGE, &spec.chart.package),
            label(WORKSPACE, &spec.workspace),
            label(MANAGED_BY, FIELD_MANAGER),
            label(SIZE_LABEL, &bytes.to_string()),
        ]
        .into_iter()
        .chain(account)
        .collect();
        // A process that crashed before it wrote the request leaves a Secret under another name.
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{request}.v{}.{}", spec.version, &unique[..8]);
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() },
            type_: Some("longshore.dev/values".to_owned()),
            immutable: Some(true),
            data: Some(
                [
                    (DEFAULT_KEY.to_owned(), ByteString(values.as_bytes().to_vec())),
                    (VERSION_DATA_KEY.to_owned(), ByteString(kept)),
                ]
                .into(),
            ),
            ..Secret::default()
        };
        self.version_secrets().create(&PostParams::default(), &secret).await?;
        Ok(ValuesSecretRef { name, key: None })
    }

    /// Loads a saved version: the reference to its values, and its inputs.
    pub(super) async fn load_version(
        &self,
        request: &str,
        version: i64,
    ) -> Result<Option<(ValuesSecretRef, VersionSnapshot)>, Error> {
        let this_one =
            ListParams::default().labels(&format!("{REQUEST}={request},{VERSION_LABEL}={version}"));
        for secret in self.version_secrets().list(&this_one).await?.items {
            let kept = secret
                .data
                .as_ref()
                .and_then(|data| serde_json::from_slice(&data.get(VERSION_DATA_KEY)?.0).ok());
            if let (Some(name), Some(kept)) = (secret.metadata.name, kept) {
                return Ok(Some((ValuesSecretRef { name, key: None }, kept)));
            }
        }
        Ok(None)
    }

    /// Deletes a saved version whose request was not written.
    pub(super) async fn delete_version(&self, kept: &ValuesSecretRef) {
        if let Err(error) = self.version_secrets().delete(&kept.name, &DeleteParams::default()).await {
            tracing::warn!(%error, "cannot delete unused values");
        }
    }

    /// Deletes versions beyond the history limit, except versions with a revision in the history: a rollback restores those,
    /// regardless of the number of later versions without a revision. The status lists the revisions. Labels of Helm records are
    /// ignored, because tenants write them.
    pub(super) async fn prune_versions(&self, request: &HelmRequest) -> Result<(), Error> {
        let (spec, name) = (&request.spec, request.name_any());
        let newest = spec.version;
        // The version being deployed may be the one before the latest.
        let oldest = newest.saturating_sub(spec.options.max_history.unwrap_or(DEFAULT_HISTORY_LIMIT).max(2));
        if oldest < 1 {
            return Ok(());
        }
        let number = |labels: &BTreeMap<String, String>| labels.get(VERSION_LABEL)?.parse::<i64>().ok();
        let mut old = Vec::new();
        for secret in self.version_secrets().list_metadata(&request_selector(&name)).await?.items {
            let version = secret.metadata.labels.as_ref().and_then(number).unwrap_or(newest);
            old.extend(secret.metadata.name.filter(|_| version <= oldest).map(|name| (name, version)));
        }
        if old.is_empty() {
            return Ok(());
        }
        let releases = Api::<HelmRelease>::namespaced(self.inner().clients.platform(), &spec.namespace);
        let status = releases.get_opt(&spec.release_name).await?.and_then(|release| release.status);
        let revisions = status.into_iter().flat_map(|status| status.revisions);
        let used: BTreeSet<i64> = revisions.map(|revision| revision.version).collect();
        for (name, _) in old.iter().filter(|(_, version)| !used.contains(version)) {
            ignore_not_found(self.version_secrets().delete(name, &DeleteParams::default()).await.map(drop))?;
        }
        Ok(())
    }

    /// The values of a request as text.
    pub(super) async fn load_values(&self, reference: Option<&ValuesSecretRef>) -> Result<String, Error> {
        let Some(reference) = reference else { return Ok(String::new()) };
        let secret = self.version_secrets().get(&reference.name).await?;
        let text =
            secret.data.and_then(|mut data| data.remove(DEFAULT_KEY)).map(|text| text.0).unwrap_or_default();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_name_is_stable_and_unique() {
        let name = request_name("host", "shop", "web");
        assert_eq!(name.len(), 24);
        assert_eq!(name, request_name("host", "shop", "web"));
        assert_ne!(name, request_name("host", "shop", "web2"));
        assert_ne!(name, request_name("edge", "shop", "web"));
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
    }
}
