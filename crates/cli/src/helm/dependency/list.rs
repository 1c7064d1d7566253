//! `longshore dependency list`: a chart's dependencies, as a table.

use std::fs;
use std::path::{Path, PathBuf};

use helm_chart::dependencies::{VersionMatch, match_version};
use helm_chart::{Chart, Dependency, File};
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::semver::Version;
use helm_template::yaml;

use super::DependencyListArgs;
use crate::helm::{CommandResult, table};

pub(super) fn run(args: &DependencyListArgs) -> CommandResult {
    let profile = args.helm.profile;
    let loaded =
        helm_host::load_without_detection(&args.chart, profile).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    let chart = loaded.chart;
    let charts = args.chart.join("charts");
    if !has_dependencies(&chart) {
        return Ok(format!("WARNING: no dependencies at {}\n", charts.display()).into_bytes());
    }
    let mut rows = vec![["NAME", "VERSION", "REPOSITORY", "STATUS"].map(String::from)];
    for dependency in &chart.metadata.dependencies {
        let Dependency { name, version, repository, .. } = dependency;
        let status = dependency_status(&charts, dependency, &chart, profile);
        rows.push([name.to_string(), version.to_string(), repository.to_string(), status.to_owned()]);
    }
    let mut said = table::render_table(&rows, args.max_col_width);
    said.push('\n');
    for path in list_folder(&charts) {
        said.push_str(&unlisted_entry_warning(&path, &chart, profile).unwrap_or_default());
    }
    Ok(said.into_bytes())
}

/// Whether the chart has a list of dependencies, even an empty one.
fn has_dependencies(chart: &Chart) -> bool {
    let is_list = |file: &File| {
        let data = yaml::parse(&file.data).unwrap_or_default();
        data.get("dependencies").is_some_and(|list| list.as_list().is_some())
    };
    let mut files = chart.raw.iter().filter(|file| matches!(&*file.name, "Chart.yaml" | "requirements.yaml"));
    !chart.metadata.dependencies.is_empty() || files.any(is_list)
}

/// Status of a dependency. Archives are checked first, then charts loaded with the parent.
fn dependency_status(
    charts: &Path,
    dependency: &Dependency,
    parent: &Chart,
    profile: Profile,
) -> &'static str {
    let prefix = format!("{}-", dependency.name);
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix(&prefix)?.strip_suffix(".tgz").map(str::to_owned)
    };
    let mut archives = list_folder(charts);
    archives.retain(|path| named(path).is_some());
    if archives.len() > 1 {
        let is_version = |version: String| Version::parse_strict(&version, profile).is_ok();
        archives.retain(|path| named(path).is_some_and(is_version));
    }
    match archives.as_slice() {
        [] => {}
        [archive] => return archive_status(archive, dependency, profile),
        _ => return "too many matches",
    }
    let found = parent.dependencies.iter().rev().find(|chart| chart.metadata.name == dependency.name);
    let Some(found) = found else { return "missing" };
    version_problem(&found.metadata.version, dependency, profile).unwrap_or("unpacked")
}

fn archive_status(archive: &Path, dependency: &Dependency, profile: Profile) -> &'static str {
    match helm_host::load_without_detection(archive, profile) {
        Err(_) => "corrupt",
        Ok(loaded) if loaded.chart.metadata.name != dependency.name => "misnamed",
        Ok(loaded) => version_problem(&loaded.chart.metadata.version, dependency, profile).unwrap_or("ok"),
    }
}

/// Problem with the version, if any.
fn version_problem(version: &str, dependency: &Dependency, profile: Profile) -> Option<&'static str> {
    if *version == *dependency.version {
        return None;
    }
    match match_version(&dependency.version, version, profile) {
        VersionMatch::Satisfied => None,
        VersionMatch::Unsatisfied => Some("wrong version"),
        VersionMatch::InvalidConstraint(_) | VersionMatch::InvalidVersion(_) => Some("invalid version"),
    }
}

/// Warning about an entry of `charts/` that is not a dependency.
fn unlisted_entry_warning(path: &Path, chart: &Chart, profile: Profile) -> Option<String> {
    if !path.is_dir() && path.extension().is_none_or(|end| end != "tgz") {
        return None;
    }
    let shown = quote(&path.to_string_lossy());
    let Ok(loaded) = helm_host::load_without_detection(path, profile) else {
        return Some(format!("WARNING: {shown} is not a chart.\n"));
    };
    let name = loaded.chart.metadata.name;
    let is_named = chart.metadata.dependencies.iter().any(|dependency| dependency.name == name);
    (!is_named).then(|| format!("WARNING: {shown} is not in Chart.yaml.\n"))
}

/// Entries of a folder, sorted by name; empty if there is no folder.
fn list_folder(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}
