//! `longshore show`: what is in a chart.

use clap::{Args, Subcommand};
use helm_chart::{Chart, File};
use helm_template::profile::Profile;
use helm_template::yaml;

use super::flags::HelmArg;
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
pub struct ChartArgs {
    /// The chart: a folder or an archive
    pub chart: String,
    #[command(flatten)]
    pub helm: HelmArg,
}

/// Which parts are printed.
#[derive(Clone, Copy)]
struct Parts {
    all: bool,
    chart: bool,
    values: bool,
    readme: bool,
    crds: bool,
}

const NONE: Parts = Parts { all: false, chart: false, values: false, readme: false, crds: false };

impl What {
    fn parts(&self) -> (&ChartArgs, Parts) {
        match self {
            Self::All(args) => {
                (args, Parts { all: true, chart: true, values: true, readme: true, crds: true })
            }
            Self::Chart(args) => (args, Parts { chart: true, ..NONE }),
            Self::Values(args) => (args, Parts { values: true, ..NONE }),
            Self::Readme(args) => (args, Parts { readme: true, ..NONE }),
            Self::Crds(args) => (args, Parts { crds: true, ..NONE }),
        }
    }
}

pub fn run(args: &ShowArgs) -> Outcome {
    let (args, parts) = args.what.parts();
    let path = locate::chart(&args.chart)?;
    let loaded = helm_host::load_unasked(&path, args.helm.profile).map_err(|error| error.to_string())?;
    loaded.warnings.iter().for_each(|line| eprintln!("{line}"));
    text(&loaded.chart, parts, args.helm.profile)
}

fn text(chart: &Chart, parts: Parts, profile: Profile) -> Outcome {
    let mut text = Vec::new();
    let mut say = |data: &[u8]| {
        text.extend_from_slice(data);
        text.push(b'\n');
    };
    let separated = |say: &mut dyn FnMut(&[u8])| {
        if parts.all {
            say(b"---");
        }
    };
    if parts.chart {
        let data = yaml::write(&chart.metadata.to_data()).map_err(|error| error.to_string())?;
        say(data.as_bytes());
    }
    let mut values = chart.raw.iter().filter(|file| &*file.name == "values.yaml").peekable();
    if parts.values && values.peek().is_some() {
        separated(&mut say);
        values.for_each(|file| say(&file.data));
    }
    if parts.readme
        && let Some(readme) = readme(chart)
    {
        separated(&mut say);
        say(&readme.data);
    }
    if parts.crds {
        for (number, crd) in crds(chart).into_iter().enumerate() {
            // Helm 3 separates them from what comes before, and not from each other.
            let wanted = profile == Profile::Helm4 || (parts.all && number == 0);
            if wanted && !crd.data.starts_with(b"---") {
                say(b"---");
            }
            say(&crd.data);
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
