//! `longshore show`: prints parts of a chart.

use clap::{Args, Subcommand};
use helm_chart::{Chart, File};
use helm_template::profile::Profile;
use helm_template::yaml;

use super::flags::HelmArg;
use super::remote::RemoteArgs;
use super::{CommandResult, locate};

#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    #[command(subcommand)]
    pub what: ShowCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum ShowCommand {
    /// Show all information
    All(ChartArgs),
    /// Show `Chart.yaml`
    Chart(ChartArgs),
    /// Show `values.yaml`
    Values(ChartArgs),
    /// Show the README
    Readme(ChartArgs),
    /// Show the custom resource definitions
    Crds(ChartArgs),
}

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct ChartArgs {
    /// Chart: directory, archive, REPO/CHART, URL or OCI reference
    pub chart: String,
    #[command(flatten)]
    pub helm: HelmArg,
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// Parts of a chart, in the order in which they are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChartPart {
    Chart,
    Values,
    Readme,
    Crds,
}

impl ShowCommand {
    fn parts(&self) -> (&ChartArgs, &'static [ChartPart]) {
        match self {
            Self::All(args) => {
                (args, &[ChartPart::Chart, ChartPart::Values, ChartPart::Readme, ChartPart::Crds])
            }
            Self::Chart(args) => (args, &[ChartPart::Chart]),
            Self::Values(args) => (args, &[ChartPart::Values]),
            Self::Readme(args) => (args, &[ChartPart::Readme]),
            Self::Crds(args) => (args, &[ChartPart::Crds]),
        }
    }
}

pub fn run(args: &ShowArgs) -> CommandResult {
    let (args, parts) = args.what.parts();
    let path = locate::find_blocking(&args.chart, &args.remote, args.helm.profile)?;
    let loaded =
        helm_host::load_without_detection(&path, args.helm.profile).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    render_parts(&loaded.chart, parts, args.helm.profile)
}

fn render_parts(chart: &Chart, parts: &[ChartPart], profile: Profile) -> CommandResult {
    let is_all = parts.len() > 1;
    let mut text = Vec::new();
    let mut say = |data: &[u8]| {
        text.extend_from_slice(data);
        text.push(b'\n');
    };
    for part in parts {
        match part {
            ChartPart::Chart => {
                let data = yaml::write(&chart.metadata.to_data()).map_err(|error| error.to_string())?;
                say(data.as_bytes());
            }
            ChartPart::Values => {
                let mut files = chart.raw.iter().filter(|file| &*file.name == "values.yaml").peekable();
                if is_all && files.peek().is_some() {
                    say(b"---");
                }
                files.for_each(|file| say(&file.data));
            }
            ChartPart::Readme => {
                let Some(readme) = readme(chart) else { continue };
                if is_all {
                    say(b"---");
                }
                say(&readme.data);
            }
            ChartPart::Crds => {
                for (number, crd) in crds(chart).into_iter().enumerate() {
                    // Helm 3 separates CRDs from preceding output, but not from each other.
                    let is_separated = profile == Profile::Helm4 || (is_all && number == 0);
                    if is_separated && !crd.data.starts_with(b"---") {
                        say(b"---");
                    }
                    say(&crd.data);
                }
            }
        }
    }
    Ok(text)
}

fn readme(chart: &Chart) -> Option<&File> {
    const NAMES: [&str; 3] = ["readme.md", "readme.txt", "readme"];
    chart.files.iter().find(|file| NAMES.iter().any(|name| name.eq_ignore_ascii_case(&file.name)))
}

fn crds(chart: &Chart) -> Vec<&File> {
    let mut found: Vec<_> = chart.crds().collect();
    for dependency in &chart.dependencies {
        found.extend(crds(dependency));
    }
    found
}
