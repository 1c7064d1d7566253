//! Chart sources in requests: a repository or registry that the platform reads, or an uploaded archive.

use helm_chart::archive;
use serde_json::{Value, json};
use std::path::Path;

use super::{RemoteReleases, str_at};
use crate::helm::CommandError;
use crate::helm::remote::RemoteArgs;
use crate::helm::repo::on_platform::{find_repo, list_repos, repo_key};
use crate::release::chart::{PROFILE, load_installable, locate};

/// Returns the chart source of a request.
///
/// Folders, archives, URLs and charts that need local credentials are read here and uploaded. `REPO/CHART` names a
/// repository of the platform, or a local one if the platform has none of that name.
pub async fn chart_source(
    platform: &RemoteReleases,
    name: &str,
    remote: &RemoteArgs,
) -> Result<Value, CommandError> {
    let version = Some(remote.version_range()).filter(|version| !version.is_empty());
    if !remote.requires_local_access() && !Path::new(name).exists() {
        if name.starts_with("oci://") {
            return Ok(json!({"oci": name, "version": version}));
        }
        if let Some((repo, chart)) =
            name.split_once('/').filter(|_| !name.contains("://") && !name.starts_with('.'))
            && let Some(repo) = find_repo(&list_repos(&platform.client).await?, repo)?
        {
            return Ok(json!({"repo": repo_key(repo), "name": chart, "version": version}));
        }
    }
    upload(platform, name, remote).await
}

/// Uploads the chart.
async fn upload(served: &RemoteReleases, name: &str, remote: &RemoteArgs) -> Result<Value, CommandError> {
    let (name, remote) = (name.to_owned(), remote.clone());
    let packed = tokio::task::spawn_blocking(move || pack(&name, &remote)).await;
    let archive = packed.unwrap_or_else(|broken| Err(format!("cannot load the chart: {broken}")))?;
    let kept = served.client.upload("packages", archive.into()).await?;
    Ok(json!({"package": str_at(&kept, "/package")}))
}

/// Reads an archive unchanged, or packs a folder reproducibly.
fn pack(name: &str, remote: &RemoteArgs) -> Result<Vec<u8>, String> {
    let path = locate(name, remote)?;
    let chart = load_installable(&path)?;
    if path.is_file() {
        return std::fs::read(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()));
    }
    archive::write(&chart, PROFILE, 0).map_err(|error| format!("cannot pack `{}`: {error}", path.display()))
}
