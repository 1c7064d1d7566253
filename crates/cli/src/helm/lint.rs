//! `longshore lint`: checks charts.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{ArgAction, Args};
use helm_chart::File;
use helm_chart::archive::ArchiveLimits;
use helm_chart::lint::{DirContent, LintMessage, LintSubject, Severity};
use helm_engine::{Engine, KubeVersion, LintRequest, LintResult};
use helm_host::Host;
use helm_host::disk::{self, UnpackedChart};
use helm_template::data::Members;
use helm_template::exec::RenderLimits;
use helm_template::profile::Profile;

use super::flags::{HelmArg, Switch, ValuesArgs, go_io_error, switch};
use super::{CommandError, CommandResult};

#[derive(Clone, Debug, Args)]
pub struct LintArgs {
    /// Directories or archives of charts
    #[arg(value_name = "PATH", action = ArgAction::Append)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub helm: HelmArg,
    #[command(flatten)]
    pub values: ValuesArgs,
    /// Namespace for rendering
    #[arg(short, long, env = "HELM_NAMESPACE", default_value = "default", hide_env = true)]
    pub namespace: String,
    /// Fail on warnings
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub strict: Switch,
    /// Print warnings and errors only
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub quiet: Switch,
    /// Also lint the charts in `charts/`
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub with_subcharts: Switch,
    /// Kubernetes version for rendering and for deprecation checks
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,
    /// Skip validation of values against JSON schemas
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub skip_schema_validation: Switch,
}

pub fn run(args: &LintArgs) -> CommandResult {
    let profile = args.helm.profile;
    let mut paths = args.paths.clone();
    if paths.is_empty() {
        if profile == Profile::Helm4 {
            return Err("\"helm lint\" requires at least 1 argument\n\nUsage:  helm lint PATH [flags]".into());
        }
        paths.push(".".into());
    }
    let given = args.kube_version.as_deref().filter(|version| !version.is_empty());
    let kube_version = given
        .map(|version| {
            KubeVersion::parse(version, profile)
                .map_err(|why| format!("invalid kube version '{version}': {why}"))
        })
        .transpose()?;
    if args.with_subcharts.0 {
        for path in paths.clone() {
            subcharts(&path.join("charts"), &mut paths);
        }
    }
    let values = args.values.read(profile)?;
    let linter = Linter { args, values, kube_version, engine: Engine::new(profile), host: Host::new() };
    linter.run(&paths)
}

/// Subcharts in a folder, including archives.
fn subcharts(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if path.file_name().is_some_and(|name| name == "Chart.yaml") {
            found.push(folder.to_owned());
        } else if is_archive(&path) {
            found.push(path.clone());
        }
        if path.is_dir() && !is_link {
            subcharts(&path, found);
        }
    }
}

fn is_archive(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".tgz") || name.ends_with(".tar.gz")
}

struct Linter<'l> {
    args: &'l LintArgs,
    values: Members,
    kube_version: Option<KubeVersion>,
    engine: Engine,
    host: Host,
}

impl Linter<'_> {
    fn run(&self, paths: &[PathBuf]) -> CommandResult {
        let quiet = self.args.quiet.0;
        let worst = if self.args.strict.0 { Severity::Warning } else { Severity::Error };
        let mut said = String::new();
        let (mut failed, mut noted) = (0, 0);
        for path in paths {
            let found = self.lint(path);
            let is_clean =
                matches!(&found, Ok(messages) if messages.iter().all(|one| one.severity == Severity::Info));
            noted += usize::from(!is_clean);
            if quiet && is_clean {
                continue;
            }
            let _ = writeln!(said, "==> Linting {}", path.display());
            match found {
                Err(why) => {
                    failed += 1;
                    let _ = writeln!(said, "Error {why}");
                }
                Ok(messages) => {
                    failed += usize::from(messages.iter().any(|message| message.severity >= worst));
                    for message in messages.iter().filter(|one| !quiet || one.severity > Severity::Info) {
                        let _ = writeln!(said, "{message}");
                    }
                }
            }
            said.push('\n');
        }
        let summary = format!("{} chart(s) linted, {failed} chart(s) failed", paths.len());
        if failed > 0 {
            return Err(CommandError::with_output(said, summary));
        }
        if !quiet || noted > 0 {
            said.push_str(&summary);
            said.push('\n');
        }
        Ok(said.into_bytes())
    }

    fn lint(&self, path: &Path) -> Result<Vec<LintMessage>, String> {
        let profile = self.args.helm.profile;
        let shown = std::path::absolute(path).map_err(|error| error.to_string())?;
        let shown = shown.to_string_lossy();
        let subject = if is_archive(path) {
            archive_subject(path, &shown, profile)?
        } else {
            folder_subject(path, &shown, profile)?
        };
        let request = LintRequest {
            namespace: &self.args.namespace,
            values: &self.values,
            kube_version: self.kube_version.clone(),
            check_schema: !self.args.skip_schema_validation.0,
            limits: RenderLimits::default(),
        };
        let LintResult { messages, warnings } = self.engine.lint(&subject, &request, self.host.render_env());
        for line in warnings {
            eprintln!("{line}");
        }
        Ok(messages)
    }
}

/// A chart in a folder.
fn folder_subject<'s>(path: &Path, shown: &'s str, profile: Profile) -> Result<LintSubject<'s>, String> {
    fs::metadata(path.join("Chart.yaml")).map_err(|error| {
        let file = path.join("Chart.yaml");
        format!("unable to check Chart.yaml file in chart: stat {}: {}", file.display(), go_io_error(&error))
    })?;
    let entry = |name: &str| {
        let place = Path::new(shown).join(name);
        match fs::metadata(&place) {
            Err(_) => DirContent::Missing,
            Ok(found) if found.is_dir() => DirContent::Directory,
            Ok(_) => match fs::read(&place) {
                Ok(content) => DirContent::File(Bytes::from(content)),
                Err(error) => {
                    DirContent::Unreadable(format!("open {}: {}", place.display(), go_io_error(&error)))
                }
            },
        }
    };
    let loaded = helm_host::load_without_detection(Path::new(shown), profile);
    if let Ok(loaded) = &loaded {
        loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    }
    Ok(new_subject(shown, entry, loaded.map(|loaded| loaded.chart).map_err(|error| error.to_string())))
}

/// A chart in an archive.
fn archive_subject<'s>(path: &Path, shown: &'s str, profile: Profile) -> Result<LintSubject<'s>, String> {
    let failed = |why: String| format!("unable to extract tarball: {why}");
    let limit = ArchiveLimits::for_profile(profile).packed;
    fs::metadata(path).map_err(|error| {
        format!("unable to open tarball: open {}: {}", path.display(), go_io_error(&error))
    })?;
    let bytes = disk::read_archive(path, limit).map_err(|error| failed(error.to_string()))?;
    let UnpackedChart { files, chart } =
        disk::load_unpacked(&bytes, profile).map_err(|error| failed(error.to_string()))?;
    if !files.iter().any(|file| &*file.name == "Chart.yaml") {
        return Err(failed("chart name not specified".into()));
    }
    let entry = |name: &str| {
        let is_below = |file: &File| file.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
        match files.iter().find(|file| &*file.name == name) {
            Some(file) => DirContent::File(file.data.clone()),
            None if files.iter().any(is_below) => DirContent::Directory,
            None => DirContent::Missing,
        }
    };
    Ok(new_subject(shown, entry, chart.map_err(|error| error.to_string())))
}

fn new_subject(
    shown: &str,
    entry: impl Fn(&str) -> DirContent,
    chart: Result<helm_chart::Chart, String>,
) -> LintSubject<'_> {
    LintSubject {
        dir_name: shown,
        chart_yaml: entry("Chart.yaml"),
        values_yaml: entry("values.yaml"),
        schema: entry("values.schema.json"),
        templates: entry("templates"),
        crds: entry("crds"),
        chart,
    }
}
