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
use kube_types::marks::{CHART_PACKAGE, MANAGED_BY, REQUEST, WORKSPACE};
use kube_types::release::{Options, Patch, Reference, ResolvedChart, RoleOverride, Source};
use kube_types::{FIELD_MANAGER, HelmRelease, HelmRequest, HelmRequestSpec, SYSTEM_NAMESPACE};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::Releases;
use crate::people::account_label;
use crate::requests::gone;
use crate::values::KEY;

/// The inputs of a version besides its values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub source: Source,
    pub chart: ResolvedChart,
    #[serde(default)]
    pub options: Options,
    /// `None` in versions saved before these fields existed.
    #[serde(default)]
    pub patches: Option<Vec<Patch>>,
    #[serde(default)]
    pub roles: Option<Vec<RoleOverride>>,
}

const KEPT: &str = "version.json";

/// The number of saved versions if `maxHistory` is not set.
const HISTORY: i64 = 10;

/// The label with the number of the request version, also on Helm's records.
pub(crate) const VERSION: &str = "longshore.dev/version";

/// The label with the size of a saved version in bytes.
const BYTES: &str = "longshore.dev/bytes";

/// Maximum bytes of the values of a release.
pub const VALUES_LIMIT: usize = 256 << 10;

/// Maximum number of requests of one workspace.
pub const MAX_REQUESTS: u32 = 500;

/// Maximum bytes of all saved versions of a workspace: values, patches and options.
pub const MAX_KEPT_BYTES: u64 = 64 << 20;

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

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Page size for lists of Secrets.
const PAGE: u32 = 500;

fn of_request(request: &str) -> ListParams {
    ListParams::default().labels(&format!("{REQUEST}={request}"))
}

impl Releases {
    fn kept(&self) -> Api<Secret> {
        Api::namespaced(self.parts().clients.own(), SYSTEM_NAMESPACE)
    }

    /// Fails if a workspace has reached its limit of requests.
    pub(super) async fn check_requests(&self, workspace: &WorkspaceName) -> Result<(), Error> {
        let own = ListParams::default().labels(&format!("{WORKSPACE}={workspace}")).limit(MAX_REQUESTS);
        let used = self.requests().list_metadata(&own).await?.items.len();
        let limit = MAX_REQUESTS as usize;
        if used >= limit {
            return Err(Error::TooManyRequests { workspace: workspace.to_string(), used, limit });
        }
        Ok(())
    }

    /// Fails if the saved versions of a workspace would exceed its quota. Versions from before sizes were recorded do not count.
    async fn check_values(&self, workspace: &str, wanted: u64) -> Result<(), Error> {
        let mut of_workspace =
            ListParams::default().labels(&format!("{WORKSPACE}={workspace},{BYTES}")).limit(PAGE);
        let bytes = |meta: &ObjectMeta| meta.labels.as_ref()?.get(BYTES)?.parse::<u64>().ok();
        let (mut used, limit) = (0_u64, MAX_KEPT_BYTES);
        loop {
            let page = self.kept().list_metadata(&of_workspace).await?;
            let sizes = page.items.iter().filter_map(|secret| bytes(&secret.metadata));
            used = sizes.fold(used, u64::saturating_add);
            of_workspace.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if of_workspace.continue_token.is_none() {
                break;
            }
        }
        if used.saturating_add(wanted) > limit {
            return Err(Error::OverValuesQuota { workspace: workspace.to_owned(), wanted, used, limit });
        }
        Ok(())
    }

    /// Saves a version and returns the reference to its values.
    pub(super) async fn keep_version(
        &self,
        request: &str,
        spec: &HelmRequestSpec,
        values: &str,
    ) -> Result<Reference, Error> {
        if values.len() > VALUES_LIMIT {
            return Err(Error::TooLarge {
                what: "the text of the values",
                size: values.len(),
                limit: VALUES_LIMIT,
            });
        }
        let kept = Kept {
            source: spec.source.clone(),
            chart: spec.chart.clone(),
            options: spec.options.clone(),
            patches: Some(spec.patches.clone()),
            roles: Some(spec.roles.clone()),
        };
        let kept = serde_json::to_vec(&kept).expect("what a request says can be written as JSON");
        let bytes = count(values.len().saturating_add(kept.len()));
        self.check_values(&spec.workspace, bytes).await?;
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let workspace = spec.workspace.parse::<WorkspaceName>().ok();
        let account = workspace.and_then(|workspace| account_label(&*self.parts().people, &workspace));
        let labels: BTreeMap<String, String> = [
            label(REQUEST, request),
            label(VERSION, &spec.version.to_string()),
            label(CHART_PACKAGE, &spec.chart.package),
            label(WORKSPACE, &spec.workspace),
            label(MANAGED_BY, FIELD_MANAGER),
            label(BYTES, &bytes.to_string()),
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
                    (KEY.to_owned(), ByteString(values.as_bytes().to_vec())),
                    (KEPT.to_owned(), ByteString(kept)),
                ]
                .into(),
            ),
            ..Secret::default()
        };
        self.kept().create(&PostParams::default(), &secret).await?;
        Ok(Reference { name, key: None })
    }

    /// Loads a saved version: the reference to its values, and its inputs.
    pub(super) async fn kept_version(
        &self,
        request: &str,
        version: i64,
    ) -> Result<Option<(Reference, Kept)>, Error> {
        let this_one = ListParams::default().labels(&format!("{REQUEST}={request},{VERSION}={version}"));
        for secret in self.kept().list(&this_one).await?.items {
            let kept = secret.data.as_ref().and_then(|data| serde_json::from_slice(&data.get(KEPT)?.0).ok());
            if let (Some(name), Some(kept)) = (secret.metadata.name, kept) {
                return Ok(Some((Reference { name, key: None }, kept)));
            }
        }
        Ok(None)
    }

    /// Deletes a saved version whose request was not written.
    pub(super) async fn drop_version(&self, kept: &Reference) {
        if let Err(error) = self.kept().delete(&kept.name, &DeleteParams::default()).await {
            tracing::warn!(%error, "cannot delete values that nobody needs");
        }
    }

    /// Deletes versions beyond the history limit, except those of a revision in the history: a rollback restores those, however many
    /// versions without a revision follow. The status lists the revisions. Labels of Helm records are ignored, because tenants write
    /// them.
    pub(super) async fn prune_versions(&self, request: &HelmRequest) -> Result<(), Error> {
        let (spec, name) = (&request.spec, request.name_any());
        let newest = spec.version;
        // The version being deployed may be the one before the latest.
        let oldest = newest.saturating_sub(spec.options.max_history.unwrap_or(HISTORY).max(2));
        if oldest < 1 {
            return Ok(());
        }
        let number = |labels: &BTreeMap<String, String>| labels.get(VERSION)?.parse::<i64>().ok();
        let mut old = Vec::new();
        for secret in self.kept().list_metadata(&of_request(&name)).await?.items {
            let version = secret.metadata.labels.as_ref().and_then(number).unwrap_or(newest);
            old.extend(secret.metadata.name.filter(|_| version <= oldest).map(|name| (name, version)));
        }
        if old.is_empty() {
            return Ok(());
        }
        let releases = Api::<HelmRelease>::namespaced(self.parts().clients.own(), &spec.namespace);
        let status = releases.get_opt(&spec.release_name).await?.and_then(|release| release.status);
        let revisions = status.into_iter().flat_map(|status| status.revisions);
        let used: BTreeSet<i64> = revisions.map(|revision| revision.version).collect();
        for (name, _) in old.iter().filter(|(_, version)| !used.contains(version)) {
            gone(self.kept().delete(name, &DeleteParams::default()).await.map(drop))?;
        }
        Ok(())
    }

    /// The values of a request as text.
    pub(super) async fn values_text(&self, reference: Option<&Reference>) -> Result<String, Error> {
        let Some(reference) = reference else { return Ok(String::new()) };
        let secret = self.kept().get(&reference.name).await?;
        let text = secret.data.and_then(|mut data| data.remove(KEY)).map(|text| text.0).unwrap_or_default();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_one_request_and_no_other_has_it() {
        let name = request_name("host", "shop", "web");
        assert_eq!(name.len(), 24);
        assert_eq!(name, request_name("host", "shop", "web"));
        assert_ne!(name, request_name("host", "shop", "web2"));
        assert_ne!(name, request_name("edge", "shop", "web"));
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'));
    }
}
