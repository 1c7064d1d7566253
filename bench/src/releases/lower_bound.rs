//! Lower bound for installing releases: a client that only writes their objects and records.
//!
//! It renders nothing, reads nothing and acts as administrator, so no installer that leaves the same objects can be
//! faster on this machine. The cluster's own reactions to the objects are included, as in the other rows.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http::Request;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};

use super::cluster::BenchCluster;
use super::install::PlatformInstaller;
use crate::platform_server::BenchUser;

/// The release whose objects and record are copied: the first of its prefix.
const TEMPLATE_PREFIX: &str = "pattern";
const TEMPLATE_RELEASE: &str = "pattern-0";

/// API paths of the chart's kinds.
const KINDS: &[(&str, &str, &str)] = &[
    ("ServiceAccount", "/api/v1", "serviceaccounts"),
    ("Service", "/api/v1", "services"),
    ("Deployment", "/apis/apps/v1", "deployments"),
    ("Ingress", "/apis/networking.k8s.io/v1", "ingresses"),
];

pub struct BareInstaller {
    client: Client,
    record: Secret,
    /// API group path, resource and manifest, in which [`TEMPLATE_RELEASE`] is replaced.
    objects: Vec<(&'static str, &'static str, String)>,
}

impl BareInstaller {
    /// Copies objects and record from one release.
    pub async fn capture(
        ours: &PlatformInstaller,
        cluster: &BenchCluster,
        longshore: &Path,
        archive: &Path,
    ) -> Result<Self> {
        let printed = Command::new(longshore).args(["template", TEMPLATE_RELEASE]).arg(archive).output()?;
        ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let objects = String::from_utf8(printed.stdout)?;
        let objects = objects.split("---\n").filter(|text| !text.trim().is_empty()).map(|text| {
            let kind = text.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap_or_default();
            let known = KINDS.iter().find(|(known, ..)| *known == kind);
            let (_, group, resource) = known.with_context(|| format!("the chart has a `{kind}`"))?;
            anyhow::Ok((*group, *resource, text.to_owned()))
        });
        let objects: Vec<_> = objects.collect::<Result<_>>()?;
        ensure!(objects.len() == KINDS.len(), "the chart has {} objects", objects.len());

        ours.install_sequentially(cluster, TEMPLATE_PREFIX, 1).await?;
        let records: Api<Secret> = Api::namespaced(cluster.client.clone(), &ours.people[0].id);
        let record = records.get(&record_name(TEMPLATE_RELEASE)).await?;
        ours.remove(TEMPLATE_PREFIX, 1).await?;
        Ok(Self { client: cluster.client.clone(), record, objects })
    }

    /// Writes `each` releases per user sequentially, for all users concurrently.
    pub async fn write_sequentially(
        &self,
        people: &[BenchUser],
        prefix: &str,
        each: usize,
    ) -> Result<Duration> {
        let began = Instant::now();
        try_join_all(people.iter().map(async |person| {
            for number in 0..each {
                self.write(&person.id, &format!("{prefix}-{number}")).await?;
            }
            anyhow::Ok(())
        }))
        .await?;
        Ok(began.elapsed())
    }

    async fn write(&self, namespace: &str, name: &str) -> Result<()> {
        let records: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let record = records.create(&PostParams::default(), &self.record(name, "pending-install")).await?;
        try_join_all(self.objects.iter().map(|(group, resource, text)| {
            let path = format!("{group}/namespaces/{namespace}/{resource}/{name}-web");
            self.apply(path, text.replace(TEMPLATE_RELEASE, name))
        }))
        .await?;
        let mut deployed = self.record(name, "deployed");
        deployed.metadata.resource_version = record.metadata.resource_version;
        records.replace(&record_name(name), &PostParams::default(), &deployed).await?;
        Ok(())
    }

    async fn apply(&self, path: String, text: String) -> Result<()> {
        let request = Request::patch(format!("{path}?fieldManager=helm"))
            .header("content-type", "application/apply-patch+yaml")
            .body(text.into_bytes())?;
        self.client.request_text(request).await.with_context(|| path)?;
        Ok(())
    }

    fn record(&self, name: &str, status: &str) -> Secret {
        let mut record = self.record.clone();
        let labels = record.metadata.labels.get_or_insert_default();
        labels.insert("name".to_owned(), name.to_owned());
        labels.insert("status".to_owned(), status.to_owned());
        record.metadata = kube::core::ObjectMeta {
            name: Some(record_name(name)),
            labels: record.metadata.labels.take(),
            ..kube::core::ObjectMeta::default()
        };
        record
    }

    /// Deletes everything that was written.
    pub async fn remove(&self, people: &[BenchUser], prefix: &str, each: usize) -> Result<()> {
        try_join_all(people.iter().map(async |person| {
            for number in 0..each {
                let name = format!("{prefix}-{number}");
                for (group, resource, _) in &self.objects {
                    let path = format!("{group}/namespaces/{}/{resource}/{name}-web", person.id);
                    let request = Request::delete(format!("{path}?propagationPolicy=Background"));
                    self.client.request_text(request.body(Vec::new())?).await.with_context(|| path)?;
                }
            }
            let records: Api<Secret> = Api::namespaced(self.client.clone(), &person.id);
            let ours = ListParams::default().labels("owner=helm");
            let names: Vec<_> =
                records.list_metadata(&ours).await?.iter().map(ResourceExt::name_any).collect();
            for name in names.iter().filter(|name| name.contains(&format!(".{prefix}-"))) {
                records.delete(name, &DeleteParams::default()).await?;
            }
            anyhow::Ok(())
        }))
        .await
        .map(drop)
    }
}

fn record_name(release: &str) -> String {
    format!("sh.helm.release.v1.{release}.v1")
}
