//! The charts of a repository, from its index.

use std::sync::Arc;

use chart_store::work::Work;
use chart_store::{ChartError, Reader};
use domain::Actor;
use helm_chart::index::{ChartVersion, Index, MAX_ENTRY};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Releases;
use crate::acts::Error;

/// One chart, by its newest version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RepoChart")]
pub struct ChartEntry {
    pub name: String,
    pub versions: usize,
    #[serde(flatten)]
    pub newest: VersionEntry,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RepoChartVersion")]
pub struct VersionEntry {
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

impl Releases {
    /// The charts of a repository, sorted by name.
    pub async fn repo_charts(&self, actor: &Actor, repo: &str) -> Result<Vec<ChartEntry>, Error> {
        let (index, work) = self.index(actor, repo).await?;
        let needed = memory(&index);
        let listed =
            work.run(needed, None, move |_| index.names().filter_map(|name| entry(&index, name)).collect());
        Ok(listed.await.map_err(ChartError::from)?)
    }

    /// The versions of a chart, newest first.
    pub async fn repo_chart(
        &self,
        actor: &Actor,
        repo: &str,
        chart: &str,
    ) -> Result<Vec<VersionEntry>, Error> {
        let (index, work) = self.index(actor, repo).await?;
        let (name, needed) = (chart.to_owned(), memory(&index));
        let versions = work.run(needed, None, move |_| {
            index.entries(&name).filter_map(Result::ok).map(|one| version(&one)).collect()
        });
        let versions: Vec<VersionEntry> = versions.await.map_err(ChartError::from)?;
        if versions.is_empty() {
            return Err(ChartError::NoChart { repo: repo.to_owned(), chart: chart.to_owned() }.into());
        }
        Ok(versions)
    }

    /// The index of a repository, and the pool for reading it. For a shared repository the caller's first workspace is charged.
    async fn index(&self, actor: &Actor, repo: &str) -> Result<(Arc<Index>, Work), Error> {
        let seen = self.seen_repo(actor, repo).await?;
        let own = actor.memberships.keys().next();
        let reader = match (seen.spec.workspace, own) {
            (workspace, _) if !workspace.is_empty() => Reader::Workspace(workspace),
            (_, Some(own)) => Reader::Workspace(own.to_string()),
            (_, None) => Reader::Platform,
        };
        let store = self.parts().charts.store();
        Ok((store.index(repo, &reader).await?, store.work(&reader)))
    }
}

/// An upper bound of the memory for listing an index, including one parsed entry.
fn memory(index: &Index) -> u64 {
    let list = index.text_len().saturating_add(index.len().saturating_mul(size_of::<ChartEntry>()));
    list.saturating_add(index.text_len().min(MAX_ENTRY).saturating_mul(32)) as u64
}

/// The entry of a chart. Charts whose newest version is unreadable are omitted.
fn entry(index: &Index, name: &str) -> Option<ChartEntry> {
    let newest = index.get(name, "").or_else(|_| index.get(name, ">0.0.0-0")).ok()?;
    Some(ChartEntry {
        name: name.to_owned(),
        versions: index.versions(name).count(),
        newest: version(&newest),
    })
}

fn version(entry: &ChartVersion) -> VersionEntry {
    VersionEntry {
        version: entry.metadata.version.to_string(),
        app_version: entry.metadata.app_version.to_string(),
        description: entry.metadata.description.to_string(),
        // Indexes without a time contain Go's zero time.
        created: Some(&*entry.created)
            .filter(|created| !created.starts_with("0001-"))
            .unwrap_or("")
            .to_owned(),
        digest: entry.digest.to_string(),
        deprecated: entry.metadata.deprecated,
    }
}
