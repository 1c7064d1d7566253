//! Uploaded chart archives.

use bytes::Bytes;
use chart_store::ChartReader;
use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{AccessScope, Actor, AuthorizationError};
use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::view::ChartView;
use crate::Releases;

/// Stored package with the metadata of its chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Package")]
pub struct PackageReport {
    /// Name of the package, for the chart source of a release. A package is kept for about an hour, and as long as a
    /// release uses it.
    pub package: String,
    pub chart: ChartView,
    /// Size of the archive in bytes.
    pub size: usize,
    /// `application` or `library`; the latter cannot be installed.
    pub kind: String,
    pub description: String,
    pub templates: usize,
    pub files: usize,
    pub dependencies: Vec<String>,
    /// Whether the chart has a JSON schema for its values.
    pub has_schema: bool,
    pub deprecated: bool,
}

impl Releases {
    /// Stores an archive for a workspace or, if none is given, for all workspaces in which the caller may change releases. For an
    /// administrator without a workspace it is stored for everyone.
    pub async fn upload_package(
        &self,
        actor: &Actor,
        workspace: Option<&str>,
        archive: Bytes,
    ) -> Result<PackageReport, Error> {
        let readers = self.exclude_terminating(package_readers(actor, workspace)?).await?;
        let size = archive.len();
        let found = self.inner().charts.upload(archive, &readers).await?;
        let chart = found.prepared.chart();
        let metadata = &chart.metadata;
        let kind = if metadata.chart_type.is_empty() { "application" } else { &metadata.chart_type };
        Ok(PackageReport {
            package: found.resolved.package.clone(),
            chart: ChartView::from(&found.resolved),
            size,
            kind: kind.to_owned(),
            description: metadata.description.to_string(),
            templates: chart.templates.len(),
            files: chart.files.len(),
            dependencies: chart.dependencies.iter().map(|chart| chart.metadata.name.to_string()).collect(),
            has_schema: chart.schema.is_some(),
            deprecated: metadata.deprecated,
        })
    }

    /// Removes workspaces that are being deleted from the readers. Fails if none is left.
    async fn exclude_terminating(&self, readers: Vec<ChartReader>) -> Result<Vec<ChartReader>, Error> {
        let (mut staying, mut leaving) = (Vec::new(), None);
        for reader in readers {
            let checked = match &reader {
                ChartReader::Workspace(name) => self.check_not_terminating(name).await,
                _ => Ok(()),
            };
            match checked {
                Ok(()) => staying.push(reader),
                Err(error @ Error::WorkspaceTerminating(_)) => leaving = Some(error),
                Err(error) => return Err(error),
            }
        }
        leaving.filter(|_| staying.is_empty()).map_or(Ok(staying), Err)
    }
}

/// The readers of an uploaded archive, who are charged for it.
fn package_readers(actor: &Actor, workspace: Option<&str>) -> Result<Vec<ChartReader>, Error> {
    let may = |workspace: &WorkspaceName| {
        actor.authorize(Capability::ChangeReleases, AccessScope::Workspace(workspace))
    };
    if let Some(name) = workspace {
        let workspace = name.parse().map_err(|_| Error::WorkspaceNotAccessible(name.to_owned()))?;
        may(&workspace).map_err(|refusal| match refusal {
            AuthorizationError::WorkspaceNotFound(name) => Error::WorkspaceNotAccessible(name.to_string()),
            other => other.into(),
        })?;
        return Ok(vec![ChartReader::Workspace(name.to_owned())]);
    }
    let platform = actor.authorize(Capability::ChangeReleases, AccessScope::Platform);
    if platform.is_ok() {
        return Ok(vec![ChartReader::Everyone]);
    }
    let own = actor.memberships.keys().filter(|workspace| may(workspace).is_ok());
    let own: Vec<ChartReader> = own.map(|workspace| ChartReader::Workspace(workspace.to_string())).collect();
    if own.is_empty() { Err(platform.err().map_or(Error::UserRequired, Error::from)) } else { Ok(own) }
}
