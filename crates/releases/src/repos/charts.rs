//! The charts of a repository, as its index has them.

use std::sync::Arc;

use chart_store::{ChartError, Reader};
use domain::Actor;
use helm_chart::index::{ChartVersion, Index};
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
    /// The charts of a repository, by name.
    pub async fn repo_charts(&self, actor: &Actor, repo: &str) -> Result<Vec<ChartEntry>, Error> {
        let index = self.index(actor, repo).await?;
        beside(move || index.names().filter_map(|name| entry(&index, name)).collect()).await
    }

    /// The versions of a chart, the newest first.
    pub async fn repo_chart(
        &self,
        actor: &Actor,
        repo: &str,
        chart: &str,
    ) -> Result<Vec<VersionEntry>, Error> {
        let index = self.index(actor, repo).await?;
        let name = chart.to_owned();
        let versions: Vec<VersionEntry> =
            beside(move || index.entries(&name).filter_map(Result::ok).map(|one| version(&one)).collect())
                .await?;
        if versions.is_empty() {
            return Err(ChartError::NoChart { repo: repo.to_owned(), chart: chart.to_owned() }.into());
        }
        Ok(versions)
    }

    async fn index(&self, actor: &Actor, repo: &str) -> Result<Arc<Index>, Error> {
        let seen = self.seen_repo(actor, repo).await?;
        let reader = match seen.spec.workspace {
            workspace if workspace.is_empty() => Reader::Platform,
            workspace => Reader::Workspace(workspace),
        };
        Ok(self.parts().charts.store().index(repo, &reader).await?)
    }
}

/// Beside the runtime: an index is read as it is asked for, and can be large.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ChartError::Interrupted.into())
}

/// A chart whose newest version cannot be read is left out.
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
        // An index that does not say when has Go's first moment there.
        created: Some(&*entry.created)
            .filter(|created| !created.starts_with("0001-"))
            .unwrap_or("")
            .to_owned(),
        digest: entry.digest.to_string(),
        deprecated: entry.metadata.deprecated,
    }
}
