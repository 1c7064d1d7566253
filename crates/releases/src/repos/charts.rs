//! The charts of a repository, from its index.

use std::sync::Arc;

use chart_store::work::WorkBudget;
use chart_store::{ChartError, ChartReader};
use domain::Actor;
use helm_chart::index::{ChartVersion, Index, MAX_ENTRY_LEN};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Releases;
use crate::service::Error;

/// Chart, with the metadata of its newest version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RepoChart")]
pub struct RepoChart {
    pub name: String,
    pub versions: usize,
    #[serde(flatten)]
    pub newest: RepoChartVersion,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RepoChartVersion")]
pub struct RepoChartVersion {
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
    pub async fn repo_charts(&self, actor: &Actor, repo: &str) -> Result<Vec<RepoChart>, Error> {
        let (index, work) = self.repo_index(actor, repo).await?;
        let needed = listing_memory(&index);
        let listed = work
            .run(needed, None, move |_| index.names().filter_map(|name| chart_entry(&index, name)).collect());
        Ok(listed.await.map_err(ChartError::from)?)
    }

    /// The versions of a chart, newest first.
    pub async fn repo_chart(
        &self,
        actor: &Actor,
        repo: &str,
        chart: &str,
    ) -> Result<Vec<RepoChartVersion>, Error> {
        let (index, work) = self.repo_index(actor, repo).await?;
        let (name, needed) = (chart.to_owned(), listing_memory(&index));
        let versions = work.run(needed, None, move |_| {
            index.entries(&name).filter_map(Result::ok).map(|one| version_entry(&one)).collect()
        });
        let versions: Vec<RepoChartVersion> = versions.await.map_err(ChartError::from)?;
        if versions.is_empty() {
            return Err(ChartError::NoChart { repo: repo.to_owned(), chart: chart.to_owned() }.into());
        }
        Ok(versions)
    }

    /// The index of a repository, and the pool for reading it. For a shared repository the caller's first workspace is charged.
    async fn repo_index(&self, actor: &Actor, repo: &str) -> Result<(Arc<Index>, WorkBudget), Error> {
        let seen = self.visible_repo(actor, repo).await?;
        let own = actor.memberships.keys().next();
        let reader = match (seen.spec.workspace, own) {
            (workspace, _) if !workspace.is_empty() => ChartReader::Workspace(workspace),
            (_, Some(own)) => ChartReader::Workspace(own.to_string()),
            (_, None) => ChartReader::Platform,
        };
        let store = self.inner().charts.store();
        Ok((store.index(repo, &reader).await?, store.work(&reader)))
    }
}

/// An upper bound of the memory for listing an index, including one parsed entry.
fn listing_memory(index: &Index) -> u64 {
    let list = index.text_len().saturating_add(index.len().saturating_mul(size_of::<RepoChart>()));
    list.saturating_add(index.text_len().min(MAX_ENTRY_LEN).saturating_mul(32)) as u64
}

/// The entry of a chart. Charts whose newest version is unreadable are omitted.
fn chart_entry(index: &Index, name: &str) -> Option<RepoChart> {
    let newest = index.get(name, "").or_else(|_| index.get(name, ">0.0.0-0")).ok()?;
    Some(RepoChart {
        name: name.to_owned(),
        versions: index.versions(name).count(),
        newest: version_entry(&newest),
    })
}

fn version_entry(entry: &ChartVersion) -> RepoChartVersion {
    RepoChartVersion {
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
