//! The cluster for releases, with an administrator's client: capacity, deployed records, and request counts.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Client, ResourceExt};
use kube_access::{CacheEvent, Clients, WatchCache};
use kube_types::Workspace;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::platform_server::BenchUser;

/// Enough nodes for all pods of all rows, at 110 pods per node.
const NODES: usize = 16;
/// More than any row uses.
const RAISED_QUOTA: &str = "1P";
const WAIT_TIMEOUT: Duration = Duration::from_mins(5);

pub struct BenchCluster {
    pub client: Client,
    deployed_records: watch::Receiver<HashSet<String>>,
    _following: AbortOnDropHandle<()>,
}

impl BenchCluster {
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let clients = Clients::new(client.clone());
        let deployed = Config::default().labels("owner=helm,status=deployed");
        let feed: WatchCache<PartialObjectMeta<Secret>> =
            WatchCache::start_metadata(Api::all(clients.platform()), deployed, |record| record);
        feed.wait_until_synced().await;
        let (tell, told) = watch::channel(HashSet::new());
        let following = async move {
            let mut changes = feed.subscribe();
            while let Some(change) = changes.next().await {
                tell.send_modify(|deployed| match change {
                    CacheEvent::Applied(mark) => drop(deployed.insert(object_key(&mark))),
                    CacheEvent::Deleted(mark) => drop(deployed.remove(&object_key(&mark))),
                });
            }
        };
        let following = AbortOnDropHandle::new(tokio::spawn(following));
        Ok(Self { client, deployed_records: told, _following: following })
    }

    /// Creates the nodes.
    pub async fn add_nodes(&self) -> Result<()> {
        let amounts = json!({"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "256Gi"});
        for number in 0..NODES {
            let name = format!("bench-{number}");
            let node: Node = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
                "status": {"capacity": amounts, "allocatable": amounts},
            }))?;
            match Api::all(self.client.clone()).create(&PostParams::default(), &node).await {
                Err(kube::Error::Api(status)) if !status.is_already_exists() => bail!("{}", status.message),
                _ => {}
            }
        }
        Ok(())
    }

    /// Raises the users' quotas; returns when the quotas are in effect.
    pub async fn raise_quotas(&self, people: &[BenchUser]) -> Result<()> {
        let workspaces: Api<Workspace> = Api::all(self.client.clone());
        for person in people {
            let workspace = workspaces.get(&person.id).await?;
            let quota: BTreeMap<_, _> =
                workspace.spec.quota.keys().map(|name| (name, RAISED_QUOTA)).collect();
            let patch = Patch::Merge(json!({"spec": {"quota": quota}}));
            workspaces.patch(&person.id, &PatchParams::default(), &patch).await?;
        }
        for person in people {
            let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &person.id);
            tokio::time::timeout(WAIT_TIMEOUT, async {
                while !quotas.list(&ListParams::default()).await?.items.iter().all(has_raised_quota) {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                anyhow::Ok(())
            })
            .await
            .with_context(|| format!("{} did not get what it may have", person.id))??;
        }
        Ok(())
    }

    /// Resolves when the first record of a release is `deployed`.
    pub async fn wait_until_deployed(&self, namespace: &str, release: &str) -> Result<()> {
        let wanted = format!("{namespace}/sh.helm.release.v1.{release}.v1");
        self.wait_for_deployed(|deployed| deployed.contains(&wanted)).await
    }

    /// Resolves when the first records of all releases are `deployed`.
    pub async fn wait_until_all_deployed(&self, releases: &[(String, String)]) -> Result<()> {
        let wanted: Vec<String> =
            releases.iter().map(|(ns, name)| format!("{ns}/sh.helm.release.v1.{name}.v1")).collect();
        self.wait_for_deployed(|deployed| {
            deployed.len() >= wanted.len() && wanted.iter().all(|one| deployed.contains(one))
        })
        .await
    }

    /// Resolves when the users' namespaces have no pods: pods that terminate would still load the cluster.
    pub async fn wait_until_no_pods(&self, people: &[BenchUser]) -> Result<()> {
        for person in people {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &person.id);
            tokio::time::timeout(WAIT_TIMEOUT, async {
                while !pods.list_metadata(&ListParams::default().limit(1)).await?.items.is_empty() {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                anyhow::Ok(())
            })
            .await
            .with_context(|| format!("the pods of {} do not go", person.id))??;
        }
        Ok(())
    }

    async fn wait_for_deployed(&self, condition: impl FnMut(&HashSet<String>) -> bool) -> Result<()> {
        let mut deployed = self.deployed_records.clone();
        let waited = tokio::time::timeout(WAIT_TIMEOUT, deployed.wait_for(condition)).await;
        waited.context("not everything was deployed in time")??;
        Ok(())
    }

    /// Number of write requests handled so far, by resource.
    pub async fn write_counts(&self) -> Result<BTreeMap<String, u64>> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        Ok(parse_write_counts(&self.client.request_text(request).await?))
    }
}

fn object_key(metadata: &PartialObjectMeta<Secret>) -> String {
    format!("{}/{}", metadata.namespace().unwrap_or_default(), metadata.name_any())
}

fn has_raised_quota(quota: &ResourceQuota) -> bool {
    let hard = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    hard.is_some_and(|hard| hard.values().all(|amount| amount.0 == RAISED_QUOTA))
}

/// Verbs of write requests, as named in the metrics of kube-apiserver and of the embedded server.
const WRITE_VERBS: &[&str] = &[
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
];

/// Write requests by resource, from a server's metrics. Dry runs are not counted.
pub fn parse_write_counts(metrics: &str) -> BTreeMap<String, u64> {
    let mut writes = BTreeMap::new();
    for (line, count) in parse_requests(metrics) {
        if WRITE_VERBS.contains(&label(line, "verb")) && !line.contains(r#"dry_run="All""#) {
            *writes.entry(label(line, "resource").to_owned()).or_default() += count;
        }
    }
    writes
}

/// Requests without a resource, such as discovery, from Longshore's metrics.
pub fn parse_other_requests(metrics: &str) -> u64 {
    parse_requests(metrics).filter(|(line, _)| label(line, "verb") == "other").map(|(_, count)| count).sum()
}

fn parse_requests(metrics: &str) -> impl Iterator<Item = (&str, u64)> {
    metrics.lines().filter_map(|line| {
        let counted = line.strip_prefix("longshore_").unwrap_or(line);
        let (labels, count) = counted.strip_prefix("apiserver_request_total")?.rsplit_once(' ')?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        Some((labels, count.parse::<f64>().ok()? as u64))
    })
}

fn label<'l>(line: &'l str, name: &str) -> &'l str {
    let found = line.split([',', '{', '}']).find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\""));
    found.and_then(|value| value.strip_suffix('"')).unwrap_or_default()
}

/// Counters that increased, with their increase.
pub fn increase_since(before: &BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = after.into_iter().map(|(name, count)| {
        let grown = count - before.get(&name).copied().unwrap_or_default();
        (name, grown)
    });
    grown.filter(|(_, grown)| *grown > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# HELP apiserver_request_total x
apiserver_request_total{code="200",dry_run="",group="",resource="secrets",subresource="",verb="PUT",version="v1"} 7
apiserver_request_total{code="201",dry_run="",group="",resource="secrets",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",dry_run="All",group="apps",resource="deployments",verb="APPLY",version="v1"} 3
longshore_apiserver_request_total{verb="get",group="",resource="secrets",code="200"} 5
longshore_apiserver_request_total{verb="other",group="",resource="",code="200"} 4
"#;

    #[test]
    fn parse_write_counts_ignores_reads_and_dry_runs() {
        let writes = parse_write_counts(METRICS);
        assert_eq!(writes, [("secrets".to_owned(), 9)].into());
        assert_eq!(
            increase_since(&[("secrets".to_owned(), 8)].into(), writes.clone()),
            [("secrets".to_owned(), 1)].into()
        );
        assert!(increase_since(&writes.clone(), writes).is_empty());
        assert_eq!(parse_other_requests(METRICS), 4);
    }
}
