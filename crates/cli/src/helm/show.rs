//! `longshore show`: prints parts of a chart.

use clap::{Args, Subcommand};
use helm_chart::{Chart, File};
use helm_template::profile::Profile;
use helm_template::yaml;

use super::flags::HelmArg;
use super::remote::RemoteArgs;
use super::{Outcome, locate};

#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// All of it
    All(ChartArgs),
    /// `Chart.yaml`
    Chart(ChartArgs),
    /// `values.yaml`
    Values(ChartArgs),
    /// The README
    Readme(ChartArgs),
    /// Custom resource definitions
    Crds(ChartArgs),
}

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct ChartArgs {
    /// The chart: a folder, an archive, REPO/CHART, an address or an OCI reference
    pub chart: String,
    #[command(flatten)]
    pub helm: HelmArg,
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// Parts of a chart, in the order in which they are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Chart,
    Values,
    Readme,
    Crds,
}

impl What {
    fn parts(&self) -> (&ChartArgs, &'static [Part]) {
        match self {
            Self::All(args) => (args, &[Part::Chart, Part::Values, Part::Readme, Part::Crds]),
            Self::Chart(args) => (args, &[Part::Chart]),
            Self::Values(args) => (args, &[Part::Values]),
            Self::Readme(args) => (args, &[Part::Readme]),
            Self::Crds(args) => (args, &[Part::Crds]),
        }
    }
}

pub fn run(args: &ShowArgs) -> Outcome {
    let (args, parts) = args.what.parts();
    let path = locate::chart(&args.chart, &args.remote, args.helm.profile)?;
    let loaded = helm_host::load_unasked(&path, args.helm.profile).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    text(&loaded.chart, parts, args.helm.profile)
}

fn text(chart: &Chart, parts: &[Part], profile: Profile) -> Outcome {
    let is_all = parts.len() > 1;
    let mut text = Vec::new();
    let mut say = |data: &[u8]| {
        text.extend_from_slice(data);
        text.push(b'\n');
    };
    for part in parts {
        match part {
            Part::Chart => {
                let data = yaml::write(&chart.metadata.to_data()).map_err(|error| error.to_string())?;
                say(data.as_bytes());
            }
            Part::Values => {
                let mut files = chart.raw.iter().filter(|file| &*file.name == "values.yaml").peekable();
                if is_all && files.peek().is_some() {
                    say(b"---");
                }
                files.for_each(|file| say(&file.data));
            }
            Part::Readme => {
                let Some(readme) = readme(chart) else { continue };
                if is_all {
                    say(b"---");
                }
                say(&readme.data);
            }
            Part::Crds => {
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
