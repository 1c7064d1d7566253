//! Where a chart is.

use std::path::{Path, PathBuf};

use helm_template::go::quote;

/// The place of a chart on disk; what Helm would fetch is not fetched.
pub fn chart(name: &str) -> Result<PathBuf, String> {
    let name = name.trim();
    let path = Path::new(name);
    if path.exists() {
        return std::path::absolute(path)
            .map_err(|error| format!("cannot find out where {name} is: {error}"));
    }
    if path.is_absolute() || name.starts_with('.') {
        return Err(format!("path {} not found", quote(name)));
    }
    if name.contains("://") {
        return Err(format!("{name} would have to be fetched: give a folder or an archive"));
    }
    match name.split_once('/') {
        Some((repository, _)) => Err(format!("repo {repository} not found")),
        None => Err(format!("non-absolute URLs should be in form of repo_name/path_to_chart, got: {name}")),
    }
}
