//! Uploaded chart archives.

use bytes::Bytes;
use chart_store::Reader;
use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{Actor, Place, Refusal};
use schemars::JsonSchema;
use serde::Serialize;

use super::Error;
use super::view::ChartView;
use crate::Releases;

/// What was found in an archive, and what it is called here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Package")]
pub struct PackageReport {
    /// By this name a release can be asked for of it. It is kept for an hour or so, and for as long as a release needs it.
    pub package: String,
    pub chart: ChartView,
    /// The bytes of the archive.
    pub size: usize,
    /// `application` or `library`; the latter cannot be installed.
    pub kind: String,
    pub description: String,
    pub templates: usize,
    pub files: usize,
    pub dependencies: Vec<String>,
    /// Its values are checked by a schema.
    pub has_schema: bool,
    pub deprecated: bool,
}

impl Releases {
    /// Stores an archive for a workspace or, if none is given, for all workspaces in which the caller may change releases. For an
    /// administrator without a workspace it is stored for everyone.
    pub async fn keep_package(
        &self,
        actor: &Actor,
        workspace: Option<&str>,
        archive: Bytes,
    ) -> Result<PackageReport, Error> {
        let readers = self.staying(readers(actor, workspace)?).await?;
        let size = archive.len();
        let found = self.parts().charts.upload(archive, &readers).await?;
        let chart = found.ready.chart();
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
    async fn staying(&self, readers: Vec<Reader>) -> Result<Vec<Reader>, Error> {
        let (mut staying, mut leaving) = (Vec::new(), None);
        for reader in readers {
            let checked = match &reader {
                Reader::Workspace(name) => self.check_stays(name).await,
                _ => Ok(()),
            };
            match checked {
                Ok(()) => staying.push(reader),
                Err(error @ Error::Leaving(_)) => leaving = Some(error),
                Err(error) => return Err(error),
            }
        }
        leaving.filter(|_| staying.is_empty()).map_or(Ok(staying), Err)
    }
}

/// The readers of an uploaded archive, who are charged for it.
fn readers(actor: &Actor, workspace: Option<&str>) -> Result<Vec<Reader>, Error> {
    let may = |workspace: &WorkspaceName| actor.may(Capability::ChangeReleases, Place::Workspace(workspace));
    if let Some(name) = workspace {
        let workspace = name.parse().map_err(|_| Error::NoWorkspace(name.to_owned()))?;
        may(&workspace).map_err(|refusal| match refusal {
            Refusal::Unseen(name) => Error::NoWorkspace(name.to_string()),
            other => other.into(),
        })?;
        return Ok(vec![Reader::Workspace(name.to_owned())]);
    }
    let platform = actor.may(Capability::ChangeReleases, Place::Platform);
    if platform.is_ok() {
        return Ok(vec![Reader::Everyone]);
    }
    let own = actor.memberships.keys().filter(|workspace| may(workspace).is_ok());
    let own: Vec<Reader> = own.map(|workspace| Reader::Workspace(workspace.to_string())).collect();
    if own.is_empty() { Err(platform.err().map_or(Error::NoPerson, Error::from)) } else { Ok(own) }
}
