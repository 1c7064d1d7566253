//! `longshore package`: packs charts into archives.

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use helm_chart::dependencies;
use helm_host::Host;
use helm_template::profile::Profile;
use helm_template::semver::Version;

use super::flags::{HelmArg, Switch, go_io_error, switch};
use super::save::{ArchiveTime, save_archive};
use super::{CommandError, CommandResult, dependency};

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct PackageArgs {
    /// Directories of the charts
    #[arg(value_name = "CHART", action = ArgAction::Append)]
    pub charts: Vec<String>,
    #[command(flatten)]
    pub helm: HelmArg,
    /// Set the version of the chart
    #[arg(
        long = "version",
        id = "chart-version",
        value_name = "VERSION",
        default_value = "",
        hide_default_value = true
    )]
    pub chart_version: String,
    /// Set the application version of the chart
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    pub app_version: String,
    /// Directory to write the archive to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub destination: PathBuf,
    /// Update dependencies from `Chart.yaml` to `charts/` first
    #[arg(short = 'u', long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub dependency_update: Switch,
}

pub fn run(args: &PackageArgs) -> CommandResult {
    if args.charts.is_empty() {
        return Err("need at least one argument, the path to the chart".into());
    }
    let archive_time = ArchiveTime::from_environment(&Host::new())?;
    let mut said = String::new();
    for chart in &args.charts {
        match package(args, Path::new(chart), archive_time) {
            Ok(archive) => {
                said.push_str("Successfully packaged chart and saved it to: ");
                said.push_str(&archive.to_string_lossy());
                said.push('\n');
            }
            Err(why) => return Err(CommandError::with_output(said, why)),
        }
    }
    Ok(said.into_bytes())
}

fn package(args: &PackageArgs, path: &Path, made: ArchiveTime) -> Result<PathBuf, String> {
    let profile = args.helm.profile;
    let found = std::fs::metadata(path)
        .map_err(|error| format!("stat {}: {}", path.display(), go_io_error(&error)))?;
    let whole = std::path::absolute(path).map_err(|error| error.to_string())?;
    if !found.is_dir() {
        return Err(not_a_folder_message(&whole, profile));
    }
    if args.dependency_update.0 {
        dependency::build::update(&whole, profile, made, &mut String::new())?;
    }
    let loaded = helm_host::load(&whole, profile).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    let mut chart = loaded.chart;
    if !args.chart_version.is_empty() {
        chart.metadata.version = args.chart_version.as_str().into();
    }
    Version::parse(&chart.metadata.version, profile).map_err(|why| why.to_string())?;
    if !args.app_version.is_empty() {
        chart.metadata.app_version = args.app_version.as_str().into();
    }
    if !chart.metadata.dependencies.is_empty() {
        dependencies::check_present(&chart).map_err(|why| why.to_string())?;
    }
    let destination = match args.destination.as_os_str().to_str() {
        Some(".") => std::env::current_dir().map_err(|error| go_io_error(&error))?,
        _ => args.destination.clone(),
    };
    save_archive(&mut chart, &destination, profile, made).map_err(|why| format!("failed to save: {why}"))
}

fn not_a_folder_message(path: &Path, profile: Profile) -> String {
    let path = path.display();
    match profile {
        Profile::Helm3 => "Chart.yaml file is missing".into(),
        Profile::Helm4 => {
            format!("unable to detect chart at {path}/Chart.yaml: open {path}/Chart.yaml: not a directory")
        }
    }
}
