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
use kube_access::{Change, Clients, Feed};
use kube_types::Workspace;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::door::Person;

/// Enough nodes for all pods of all rows, at 110 pods per node.
const NODES: usize = 16;
/// More than any row uses.
const PLENTY: &str = "1P";
const WITHIN: Duration = Duration::from_mins(5);

pub struct Cluster {
    pub client: Client,
    deployed: watch::Receiver<HashSet<String>>,
    _following: AbortOnDropHandle<()>,
}

impl Cluster {
    pub async fn reach(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let clients = Clients::new(client.clone());
        let deployed = Config::default().labels("owner=helm,status=deployed");
        let feed: Feed<PartialObjectMeta<Secret>> =
            Feed::of_metadata(Api::all(clients.own()), deployed, |record| record);
        feed.synced().await;
        let (tell, told) = watch::channel(HashSet::new());
        let following = async move {
            let mut changes = feed.changes();
            while let Some(change) = changes.next().await {
                tell.send_modify(|deployed| match change {
                    Change::Applied(mark) => drop(deployed.insert(key(&mark))),
                    Change::Deleted(mark) => drop(deployed.remove(&key(&mark))),
                });
            }
        };
        let following = AbortOnDropHandle::new(tokio::spawn(following));
        Ok(Self { client, deployed: told, _following: following })
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
    pub async fn allow(&self, people: &[Person]) -> Result<()> {
        let workspaces: Api<Workspace> = Api::all(self.client.clone());
        for person in people {
            let workspace = workspaces.get(&person.id).await?;
            let quota: BTreeMap<_, _> = workspace.spec.quota.keys().map(|name| (name, PLENTY)).collect();
            let patch = Patch::Merge(json!({"spec": {"quota": quota}}));
            workspaces.patch(&person.id, &PatchParams::default(), &patch).await?;
        }
        for person in people {
            let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &person.id);
            tokio::time::timeout(WITHIN, async {
                while !quotas.list(&ListParams::default()).await?.items.iter().all(has_plenty) {
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
    pub async fn deployed(&self, namespace: &str, release: &str) -> Result<()> {
        let wanted = format!("{namespace}/sh.helm.release.v1.{release}.v1");
        self.until(|deployed| deployed.contains(&wanted)).await
    }

    /// Resolves when the first records of all releases are `deployed`.
    pub async fn all_deployed(&self, releases: &[(String, String)]) -> Result<()> {
        let wanted: Vec<String> =
            releases.iter().map(|(ns, name)| format!("{ns}/sh.helm.release.v1.{name}.v1")).collect();
        self.until(|deployed| {
            deployed.len() >= wanted.len() && wanted.iter().all(|one| deployed.contains(one))
        })
        .await
    }

    /// Resolves when the users' namespaces have no pods: pods that terminate would still load the cluster.
    pub async fn emptied(&self, people: &[Person]) -> Result<()> {
        for person in people {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &person.id);
            tokio::time::timeout(WITHIN, async {
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

    async fn until(&self, holds: impl FnMut(&HashSet<String>) -> bool) -> Result<()> {
        let mut deployed = self.deployed.clone();
        let waited = tokio::time::timeout(WITHIN, deployed.wait_for(holds)).await;
        waited.context("not everything was deployed in time")??;
        Ok(())
    }

    /// Number of write requests handled so far, by resource.
    pub async fn writes(&self) -> Result<BTreeMap<String, u64>> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        Ok(writes_in(&self.client.request_text(request).await?))
    }
}

fn key(mark: &PartialObjectMeta<Secret>) -> String {
    format!("{}/{}", mark.namespace().unwrap_or_default(), mark.name_any())
}

fn has_plenty(quota: &ResourceQuota) -> bool {
    let hard = quota.status.as_ref().and_then(|status| status.hard.as_ref());
    hard.is_some_and(|hard| hard.values().all(|amount| amount.0 == PLENTY))
}

/// Verbs of write requests, as named in the metrics of kube-apiserver and of the embedded server.
const WRITES: &[&str] = &[
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
pub fn writes_in(metrics: &str) -> BTreeMap<String, u64> {
    let mut writes = BTreeMap::new();
    for (line, count) in requests_in(metrics) {
        if WRITES.contains(&label(line, "verb")) && !line.contains(r#"dry_run="All""#) {
            *writes.entry(label(line, "resource").to_owned()).or_default() += count;
        }
    }
    writes
}

/// Requests without a resource, such as discovery, from Longshore's metrics.
pub fn others_in(metrics: &str) -> u64 {
    requests_in(metrics).filter(|(line, _)| label(line, "verb") == "other").map(|(_, count)| count).sum()
}

fn requests_in(metrics: &str) -> impl Iterator<Item = (&str, u64)> {
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
pub fn since(before: &BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
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
    fn only_what_writes_is_counted() {
        let writes = writes_in(METRICS);
        assert_eq!(writes, [("secrets".to_owned(), 9)].into());
        assert_eq!(
            since(&[("secrets".to_owned(), 8)].into(), writes.clone()),
            [("secrets".to_owned(), 1)].into()
        );
        assert!(since(&writes.clone(), writes).is_empty());
        assert_eq!(others_in(METRICS), 4);
    }
}
