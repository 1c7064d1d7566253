//! Locating charts.

use std::path::{Path, PathBuf};

use helm_template::go::quote;
use helm_template::profile::Profile;

use super::remote::{RemoteArgs, block_on};

/// Blocking variant of [`find`], for commands without a runtime.
pub fn find_blocking(name: &str, remote: &RemoteArgs, profile: Profile) -> Result<PathBuf, String> {
    block_on(find(name, remote, profile))?
}

/// Path of a chart's folder or archive. Remote charts are fetched into the cache.
pub async fn find(name: &str, remote: &RemoteArgs, profile: Profile) -> Result<PathBuf, String> {
    let name = name.trim();
    if remote.repo.is_empty() {
        let path = Path::new(name);
        if path.exists() {
            return std::path::absolute(path).map_err(|error| format!("cannot locate chart {name}: {error}"));
        }
        if path.is_absolute() || name.starts_with('.') {
            return Err(format!("path {} not found", quote(name)));
        }
    }
    let pulled = remote.fetch(name, profile).await?;
    // Named by digest, because two repositories may have different charts of the same name.
    let file = format!("{}.tgz", pulled.fetched.digest.hex());
    remote.places.resolve()?.save_file(&file, &pulled.fetched.bytes)
}
