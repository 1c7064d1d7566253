//! Discovery: the kinds that a cluster serves.
//!
//! Read once per cluster and shared by all writers. Refreshed when an unknown kind is requested and after CRDs were
//! created. Concurrent refreshes are coalesced.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use kube::core::ApiResource;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use tokio::sync::Mutex;

use crate::object::{group, version};

/// Kinds of one cluster. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Discovery(Arc<DiscoveryInner>);

struct DiscoveryInner {
    version: Info,
    snapshot: ArcSwap<DiscoverySnapshot>,
    /// Held during a refresh.
    refresh_lock: Mutex<()>,
}

#[derive(Default)]
struct DiscoverySnapshot {
    /// Keyed by `apiVersion` and kind.
    kinds: HashMap<(String, String), ServedKind>,
    /// The preferred `apiVersion`, keyed by group and kind.
    preferred: HashMap<(String, String), String>,
    api_versions: BTreeSet<String>,
}

/// API resource and scope of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedKind {
    pub resource: ApiResource,
    pub is_namespaced: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum KindLookupError {
    #[error("the cluster serves no kind `{kind}` in `{api_version}`")]
    Unknown { api_version: String, kind: String },
    #[error("cannot read which kinds the cluster serves")]
    Read(#[source] kube::Error),
}

impl KindLookupError {
    pub fn kind(&self) -> domain::ErrorKind {
        match self {
            Self::Unknown { .. } => domain::ErrorKind::Invalid,
            Self::Read(error) => crate::error::api_error_kind(error),
        }
    }
}

impl Discovery {
    pub async fn read(client: &Client) -> Result<Self, kube::Error> {
        let version = client.apiserver_version().await?;
        let served = ArcSwap::from_pointee(DiscoverySnapshot::read(client).await?);
        Ok(Self(Arc::new(DiscoveryInner { version, snapshot: served, refresh_lock: Mutex::new(()) })))
    }

    /// Kubernetes version of the API server.
    pub fn version(&self) -> &Info {
        &self.0.version
    }

    /// Everything served, sorted: `v1`, `v1/Pod`, `apps/v1`, `apps/v1/Deployment`.
    pub fn api_versions(&self) -> Vec<String> {
        self.0.snapshot.load().api_versions.iter().cloned().collect()
    }

    /// Looks up a kind without calling the cluster.
    pub fn get_cached(&self, api_version: &str, kind: &str) -> Option<ServedKind> {
        self.0.snapshot.load().kinds.get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }

    /// Looks up a kind. Refreshes discovery if it is unknown.
    pub async fn find(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<ServedKind, KindLookupError> {
        if let Some(found) = self.get_cached(api_version, kind) {
            return Ok(found);
        }
        self.refresh(client).await.map_err(KindLookupError::Read)?;
        self.get_cached(api_version, kind).ok_or_else(|| KindLookupError::Unknown {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    /// Looks up a kind in the group's preferred version.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<ServedKind> {
        let served = self.0.snapshot.load();
        let preferred = served.preferred.get(&(group.to_owned(), kind.to_owned()))?;
        served.kinds.get(&(preferred.clone(), kind.to_owned())).cloned()
    }

    /// Looks up a kind in any served version: old manifests may use a version that is no longer served.
    pub fn find_any_version(&self, api_version: &str, kind: &str) -> Option<ServedKind> {
        self.get_cached(api_version, kind).or_else(|| self.preferred(group(api_version), kind))
    }

    /// Refreshes discovery, unless another task did while this one waited.
    pub async fn refresh(&self, client: &Client) -> Result<(), kube::Error> {
        let before = self.0.snapshot.load_full();
        let _turn = self.0.refresh_lock.lock().await;
        if Arc::ptr_eq(&before, &self.0.snapshot.load()) {
            self.0.snapshot.store(Arc::new(DiscoverySnapshot::read(client).await?));
        }
        Ok(())
    }
}

impl DiscoverySnapshot {
    async fn read(client: &Client) -> Result<Self, kube::Error> {
        let (core, groups) = tokio::try_join!(
            client.list_core_api_versions_aggregated(),
            client.list_api_groups_aggregated()
        )?;
        let mut served = Self::default();
        core.items.iter().chain(&groups.items).for_each(|group| served.add(group));
        Ok(served)
    }

    fn add(&mut self, discovered: &APIGroupDiscovery) {
        let name =
            discovered.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        for entry in &discovered.versions {
            let Some(version) = entry.version.as_deref() else { continue };
            let api_version = if name.is_empty() { version.to_owned() } else { format!("{name}/{version}") };
            self.api_versions.insert(api_version.clone());
            for resource in &entry.resources {
                let subresources = resource.subresources.iter().map(|sub| &sub.response_kind);
                for answer in subresources.chain([&resource.response_kind]) {
                    let kind = answer.as_ref().and_then(|answer| answer.kind.as_deref()).unwrap_or_default();
                    self.api_versions.insert(format!("{api_version}/{kind}"));
                }
                self.add_kind(&api_version, resource);
            }
        }
    }

    fn add_kind(&mut self, api_version: &str, served: &APIResourceDiscovery) {
        let (Some(plural), Some(answer)) = (&served.resource, &served.response_kind) else { return };
        let kind = answer.kind.clone().unwrap_or_default();
        let resource = ApiResource {
            group: group(api_version).to_owned(),
            version: version(api_version).to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.clone(),
            plural: plural.clone(),
        };
        let namespaced = served.scope.as_deref() == Some("Namespaced");
        self.preferred
            .entry((resource.group.clone(), kind.clone()))
            .or_insert_with(|| api_version.to_owned());
        // If several resources have one kind, the first one holds the objects.
        self.kinds
            .entry((api_version.to_owned(), kind))
            .or_insert(ServedKind { resource, is_namespaced: namespaced });
    }
}
