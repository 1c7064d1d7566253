//! `longshore dependency build`: fills `charts/`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use helm_chart::dependencies::{VersionMatch, match_version};
use helm_chart::values::ValuesWarning;
use helm_chart::{Chart, Dependency, Lock, lock};
use helm_host::Host;
use helm_template::go::quote;
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};

use super::DependencyBuildArgs;
use crate::helm::flags::go_io_error;
use crate::helm::save::{ArchiveTime, go_timestamp, save_archive};
use crate::helm::{CommandError, CommandResult};

pub(super) fn run(args: &DependencyBuildArgs) -> CommandResult {
    let archive_time = ArchiveTime::from_environment(&Host::new())?;
    let mut output = String::new();
    match build(&args.chart, args.helm.profile, archive_time, &mut output) {
        Ok(()) => Ok(output.into_bytes()),
        Err(why) => Err(CommandError::with_output(output, why)),
    }
}

/// Builds from the lock file, or from the chart's dependencies without one.
fn build(
    path: &Path,
    profile: Profile,
    archive_time: ArchiveTime,
    output: &mut String,
) -> Result<(), String> {
    let chart = load(path, profile)?;
    let Some(locked) = &chart.lock else { return update_chart(path, &chart, profile, archive_time, output) };
    let named = &chart.metadata.dependencies;
    check_paths(path, named)?;
    check_lock(&chart, named, locked, profile)?;
    reject_remote(&locked.dependencies)?;
    populate_charts_folder(path, &mut locked.dependencies.clone(), profile, archive_time, output)
}

/// Resolves all dependencies, fills `charts/` and writes the lock file.
pub fn update(path: &Path, profile: Profile, made: ArchiveTime, said: &mut String) -> Result<(), String> {
    let chart = load(path, profile)?;
    update_chart(path, &chart, profile, made, said)
}

fn update_chart(
    path: &Path,
    chart: &Chart,
    profile: Profile,
    archive_time: ArchiveTime,
    output: &mut String,
) -> Result<(), String> {
    let named = &chart.metadata.dependencies;
    if named.is_empty() {
        return Ok(());
    }
    check_paths(path, named)?;
    reject_remote(named)?;
    let mut found = resolve(path, named, profile)?;
    populate_charts_folder(path, &mut found, profile, archive_time, output)?;
    let digest = digest(named, &found)?;
    if chart.lock.as_ref().is_some_and(|lock| *lock.digest == *digest) {
        return Ok(());
    }
    let lock =
        Lock { generated: go_timestamp(&Host::new()).into(), digest: digest.into(), dependencies: found };
    write_lock(path, &lock, &chart.metadata.api_version)
}

fn load(path: &Path, profile: Profile) -> Result<Chart, String> {
    let found = fs::metadata(path).map_err(|error| {
        let path = path.display();
        format!("could not find {path}: stat {path}: {}", go_io_error(&error))
    })?;
    if !found.is_dir() {
        return Err("only unpacked charts can be updated".into());
    }
    let loaded = helm_host::load_without_detection(path, profile).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    Ok(loaded.chart)
}

/// Folder of a `file://` URL, relative to the chart's folder.
fn local_path(path: &Path, repository: &str) -> Result<PathBuf, String> {
    let place = repository.strip_prefix("file://").unwrap_or(repository);
    let folder = clean_path(&path.join(place));
    if folder.exists() { Ok(folder) } else { Err(format!("directory {} not found", folder.display())) }
}

/// Normalises the path as Go does.
fn clean_path(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    PathBuf::from(String::from_utf8_lossy(&helm_template::go::path::clean(text.as_bytes())).into_owned())
}

fn is_local(dependency: &Dependency) -> bool {
    dependency.repository.starts_with("file://")
}

fn check_paths(path: &Path, named: &[Dependency]) -> Result<(), String> {
    let mut locals = named.iter().filter(|dependency| is_local(dependency));
    locals.try_for_each(|dependency| local_path(path, &dependency.repository).map(drop))
}

fn reject_remote(dependencies: &[Dependency]) -> Result<(), String> {
    let remote =
        dependencies.iter().find(|dependency| !dependency.repository.is_empty() && !is_local(dependency));
    remote.map_or(Ok(()), |Dependency { name, repository, .. }| {
        Err(format!(
            "dependency {name} cannot be fetched from {repository}: put it into charts/, or use a file:// repository"
        ))
    })
}

fn check_lock(chart: &Chart, named: &[Dependency], locked: &Lock, profile: Profile) -> Result<(), String> {
    if digest(named, &locked.dependencies)? == *locked.digest {
        return Ok(());
    }
    if &*chart.metadata.api_version != "v1" {
        let advice = match profile {
            Profile::Helm3 => "",
            Profile::Helm4 => " with 'helm dependency update'",
        };
        return Err(format!(
            "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the dependencies{advice}"
        ));
    }
    let text = "warning: a valid Helm v3 hash was not found. Checking against Helm v2 hash...";
    eprintln!("{}", ValuesWarning::from_text(profile, "manager.go:122", text).line());
    let text = lock::helm2_digest_text(named).map_err(|error| error.to_string())?;
    if format!("sha256:{}", helm_host::sha256(text.as_bytes())) == *locked.digest {
        return Ok(());
    }
    Err("the lock file (requirements.lock) is out of sync with the dependencies file (requirements.yaml). Please update the dependencies".into())
}

fn digest(named: &[Dependency], found: &[Dependency]) -> Result<String, String> {
    let text = lock::digest_text(named, found).map_err(|error| error.to_string())?;
    Ok(format!("sha256:{}", helm_host::sha256(text.as_bytes())))
}

/// Resolves a version for every dependency, for the lock file.
fn resolve(path: &Path, named: &[Dependency], profile: Profile) -> Result<Vec<Dependency>, String> {
    let mut found = Vec::with_capacity(named.len());
    let mut missing = Vec::new();
    for dependency in named {
        let Dependency { name, version, repository, .. } = dependency;
        let constraints = Constraints::parse(version, profile).map_err(|why| {
            format!("dependency {} has an invalid version/constraint format: {why}", quote(name))
        })?;
        let mut fixed = Dependency {
            name: name.clone(),
            version: version.clone(),
            repository: repository.clone(),
            ..Dependency::default()
        };
        if repository.is_empty() {
            local_path(path, &format!("charts/{name}"))?;
        } else {
            let chart = load_quietly(&local_path(path, repository)?, profile)?;
            let given = Version::parse(&chart.metadata.version, profile).map_err(|why| why.to_string())?;
            if !constraints.check(&given) {
                missing.push(format!(
                    "{} (repository {}, version {})",
                    quote(name),
                    quote(repository),
                    quote(version)
                ));
            }
            fixed.version = chart.metadata.version;
        }
        found.push(fixed);
    }
    if missing.is_empty() {
        return Ok(found);
    }
    Err(format!(
        "can't get a valid version for {} subchart(s): {}. Make sure a matching chart version exists in the repo, or change the version constraint in Chart.yaml",
        missing.len(),
        missing.join(", ")
    ))
}

fn load_quietly(path: &Path, profile: Profile) -> Result<Chart, String> {
    Ok(helm_host::load_without_detection(path, profile).map_err(|error| error.to_string())?.chart)
}

/// Packs dependencies from other folders into `charts/`, checks the dependencies that are already there, and deletes
/// all other archives. Sets the versions of the dependencies to the versions of the packed charts.
fn populate_charts_folder(
    path: &Path,
    dependencies: &mut [Dependency],
    profile: Profile,
    archive_time: ArchiveTime,
    output: &mut String,
) -> Result<(), String> {
    let charts = path.join("charts");
    if charts.exists() && !charts.is_dir() {
        return Err(format!("{} is not a directory", quote(&charts.to_string_lossy())));
    }
    fs::create_dir_all(&charts)
        .map_err(|error| format!("mkdir {}: {}", charts.display(), go_io_error(&error)))?;
    let _ = writeln!(output, "Saving {} charts", dependencies.len());
    let mut packed = Vec::new();
    for dependency in dependencies.iter_mut() {
        if dependency.repository.is_empty() {
            let _ = writeln!(
                output,
                "Dependency {} did not declare a repository. Assuming it exists in the charts directory",
                dependency.name
            );
            check_present(&charts, dependency, profile, output)?;
            continue;
        }
        match load_local_dependency(path, dependency, profile) {
            Ok(chart) => {
                dependency.version = chart.metadata.version.clone();
                packed.push(chart);
            }
            Err(why) => return Err(report_save_error(why, output)),
        }
    }
    // Nothing is written before all dependencies are found.
    let before = list_files(&charts)?;
    let mut written = BTreeSet::new();
    for chart in &mut packed {
        written.insert(
            save_archive(chart, &charts, profile, archive_time)
                .map_err(|why| report_save_error(why, output))?,
        );
    }
    output.push_str("Deleting outdated charts\n");
    for file in before.iter().filter(|file| !written.contains(*file)) {
        remove_outdated_archive(file, dependencies, profile, output);
    }
    Ok(())
}

fn report_save_error(why: String, output: &mut String) -> String {
    let _ = writeln!(output, "Save error occurred:  {why}");
    why
}

fn check_present(
    charts: &Path,
    dependency: &Dependency,
    profile: Profile,
    output: &mut String,
) -> Result<(), String> {
    let Dependency { name, version, .. } = dependency;
    let path = charts.join(&**name);
    let chart = load_quietly(&path, profile)
        .map_err(|why| format!("unable to load chart '{}': {why}", path.display()))?;
    let found = &chart.metadata.version;
    match match_version(version, found, profile) {
        VersionMatch::Satisfied => Ok(()),
        VersionMatch::InvalidConstraint(why) => {
            Err(format!("dependency {name} has an invalid version/constraint format: {why}"))
        }
        VersionMatch::InvalidVersion(why) => {
            Err(format!("invalid version {version} for dependency {name}: {why}"))
        }
        VersionMatch::Unsatisfied => {
            let why =
                format!("dependency {name} at version {found} does not satisfy the constraint {version}");
            Err(report_save_error(why, output))
        }
    }
}

fn load_local_dependency(path: &Path, dependency: &Dependency, profile: Profile) -> Result<Chart, String> {
    let Dependency { name, version, repository, .. } = dependency;
    let chart = load_quietly(&local_path(path, repository)?, profile)?;
    match match_version(version, &chart.metadata.version, profile) {
        VersionMatch::Satisfied => Ok(chart),
        VersionMatch::InvalidConstraint(why) => {
            Err(format!("dependency {name} has an invalid version/constraint format: {why}"))
        }
        VersionMatch::InvalidVersion(why) => Err(why.to_string()),
        VersionMatch::Unsatisfied => Err(format!("can't get a valid version for dependency {name}")),
    }
}

/// Files of a folder, sorted by name.
fn list_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("open {}: {}", folder.display(), go_io_error(&error));
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_dir() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Deletes an archive unless it belongs to a dependency without a repository.
fn remove_outdated_archive(file: &Path, dependencies: &[Dependency], profile: Profile, output: &mut String) {
    let shown = file.display();
    let chart = match helm_host::load_without_detection(file, profile) {
        Ok(loaded) => loaded.chart,
        Err(why) => {
            let _ = writeln!(output, "Could not verify {shown} for deletion: {why} (Skipping)");
            return;
        }
    };
    let name = &chart.metadata.name;
    let is_kept = dependencies.iter().any(|one| one.repository.is_empty() && one.name == *name);
    if !is_kept && let Err(error) = fs::remove_file(file) {
        let _ =
            write!(output, "Could not delete {shown}: remove {shown}: {} (Skipping)", go_io_error(&error));
    }
}

fn write_lock(path: &Path, lock: &Lock, api_version: &str) -> Result<(), String> {
    let name = if api_version == "v1" { "requirements.lock" } else { "Chart.lock" };
    let file = path.join(name);
    // A symbolic link would redirect the write.
    if let Ok(target) = fs::read_link(&file) {
        return Err(format!("the {name} file is a symlink to {}", quote(&target.to_string_lossy())));
    }
    let text = lock.to_yaml().map_err(|error| error.to_string())?;
    fs::write(&file, text).map_err(|error| format!("open {}: {}", file.display(), go_io_error(&error)))
}
