//! A repository as callers see it.

use kube::ResourceExt;
use kube_types::HelmRepo;
use schemars::JsonSchema;
use serde::Serialize;

use crate::service::view::etag;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepoView {
    /// Key of the repository: `WORKSPACE.NAME`, or `NAME` for a public repository.
    pub key: String,
    pub name: String,
    /// Workspace that owns the repository; absent for a public repository.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub workspace: String,
    pub url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether credentials are configured. They are never returned.
    pub credentials: bool,
    pub insecure: bool,
    pub suspended: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    pub created: String,
    /// Version, for `If-Match`.
    pub v: String,
}

impl RepoView {
    pub(super) fn from_repo(repo: &HelmRepo) -> Self {
        let spec = &repo.spec;
        let created = repo.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        Self {
            key: repo.name_any(),
            name: if spec.name.is_empty() { repo.name_any() } else { spec.name.clone() },
            workspace: spec.workspace.clone(),
            url: spec.url.clone(),
            description: spec.description.clone(),
            credentials: spec.credential_ref.is_some() || !spec.credential.username.is_empty(),
            insecure: spec.insecure,
            suspended: spec.suspend,
            state: repo.status.as_ref().map(|status| status.state.clone()).unwrap_or_default(),
            created: created.unwrap_or_default(),
            v: etag(repo),
        }
    }
}
