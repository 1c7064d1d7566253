//! A large repository's `index.yaml`: generated and loaded.
//!
//! Helm loads it for `helm search repo` with a term that matches nothing; the cost with an empty index is subtracted.
//! Longshore's loading runs in a separate process, `bench index`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::{Args, ValueEnum};
use helm_chart::index::Index;

use super::corpus::PROFILE;

const CHARTS: usize = 300;
const VERSIONS: usize = 50;
const REPOSITORY: &str = "bench";

#[derive(Args)]
pub struct IndexArgs {
    file: PathBuf,
    #[arg(long)]
    by: ReadMethod,
}

/// Method of reading an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadMethod {
    /// Scanner of the layout that Helm writes.
    Scan,
    /// Full parser, entry by entry: for an index in another block layout.
    Entries,
    /// Full parser over the complete text: for an index in flow style or with anchors.
    Whole,
}

impl ReadMethod {
    fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Entries => "entries",
            Self::Whole => "whole",
        }
    }

    fn load(self, text: &Bytes) -> Result<Index> {
        match self {
            Self::Scan => match Index::scan(text, PROFILE) {
                Some(index) => Ok(index?),
                None => bail!("the index is not in Helm's layout"),
            },
            Self::Entries => match Index::parse_entries(text, PROFILE) {
                Some(index) => Ok(index?),
                None => bail!("the index cannot be cut into entries"),
            },
            Self::Whole => Ok(Index::parse_fully(text, PROFILE)?),
        }
    }
}

/// `bench index FILE --by WAY`.
pub fn run(args: &IndexArgs) -> Result<()> {
    let index = args.by.load(&read(&args.file)?)?;
    println!("{}", index.names().count());
    Ok(())
}

fn read(file: &Path) -> Result<Bytes> {
    Ok(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into())
}

/// The index and an empty one, each as the cache of a Helm home.
pub struct IndexHomes {
    pub full: HelmHome,
    pub empty: HelmHome,
    /// Size of the full index.
    pub mebibytes: f64,
}

pub struct HelmHome {
    pub folder: PathBuf,
    file: PathBuf,
}

impl IndexHomes {
    pub fn generate(folder: &Path) -> Result<Self> {
        let full = HelmHome::create(&folder.join("full"), &index_text(CHARTS, VERSIONS))?;
        let empty = HelmHome::create(&folder.join("none"), &index_text(0, 0))?;
        let text = read(&full.file)?;
        check_methods_agree(&text, CHARTS * VERSIONS)?;
        Ok(Self { full, empty, mebibytes: text.len() as f64 / f64::from(1 << 20) })
    }
}

impl HelmHome {
    fn create(folder: &Path, index: &str) -> Result<Self> {
        let cache = folder.join("repository");
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        let file = cache.join(format!("{REPOSITORY}-index.yaml"));
        fs::write(&file, index)?;
        let repositories = format!(
            "apiVersion: \"\"\ngenerated: \"0001-01-01T00:00:00Z\"\nrepositories:\n\
             - name: {REPOSITORY}\n  url: https://charts.example.com\n"
        );
        fs::write(folder.join("repositories.yaml"), repositories)?;
        Ok(Self { folder: folder.to_owned(), file })
    }

    /// Command line of Longshore's loading.
    pub fn longshore_command(&self, way: ReadMethod) -> Result<Vec<OsString>> {
        let program = std::env::current_exe()?;
        let words = ["index".into(), self.file.clone().into(), "--by".into(), way.name().into()];
        Ok(std::iter::once(program.into()).chain(words).collect())
    }
}

/// Command line of Helm's loading.
pub fn helm_command(program: &Path) -> Vec<OsString> {
    vec![program.into(), "search".into(), "repo".into(), "a-word-that-is-nowhere".into()]
}

/// Checks that all methods find the same charts.
fn check_methods_agree(text: &Bytes, all: usize) -> Result<()> {
    let parsed = ReadMethod::Whole.load(text)?;
    for way in [ReadMethod::Scan, ReadMethod::Entries] {
        let found = way.load(text)?;
        ensure!(found.names().eq(parsed.names()), "{way:?} and the full parser find other charts");
        for name in parsed.names() {
            ensure!(found.versions(name).eq(parsed.versions(name)), "other versions of {name} are found");
        }
    }
    let entries: usize = parsed.names().map(|name| parsed.versions(name).count()).sum();
    ensure!(entries == all, "{entries} of {all} entries are found");
    Ok(())
}

/// An index as `helm repo index` writes it, with metadata typical of large repositories.
fn index_text(charts: usize, versions: usize) -> String {
    let mut text = String::from("apiVersion: v1\n");
    text.push_str(if charts == 0 { "entries: {}\n" } else { "entries:\n" });
    for chart in 0..charts {
        writeln!(text, "  chart-{chart:03}:").expect("writing to a String cannot fail");
        for version in (0..versions).rev() {
            push_entry(&mut text, chart, version);
        }
    }
    text.push_str("generated: \"2026-11-01T12:00:00.123456789Z\"\n");
    text
}

fn push_entry(text: &mut String, chart: usize, version: usize) {
    // Begins with a letter: Helm would quote text that looks like a number.
    let digest = (chart * 1_000_003 + version).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4;
    let digest = format!("a{digest:015x}").repeat(4);
    let name = format!("chart-{chart:03}");
    write!(
        text,
        "  - annotations:
      category: Infrastructure
      licenses: Apache-2.0
    apiVersion: v2
    appVersion: {version}.4.2
    created: \"2026-10-{day:02}T08:15:{second:02}.123456789Z\"
    dependencies:
    - name: common
      repository: https://charts.example.com/library
      tags:
      - common
      version: 2.x.x
    - condition: postgresql.enabled
      name: postgresql
      repository: https://charts.example.com/databases
      version: 16.x.x
    description: The {name} application, with everything that it takes to run it on a
      cluster, to watch it, to keep copies of its data and to bring it up to date
    digest: {digest}
    home: https://www.example.com/applications/{name}
    icon: https://www.example.com/applications/{name}/icon-220x234.png
    keywords:
    - infrastructure
    - {name}
    - database
    kubeVersion: '>= 1.25.0-0'
    maintainers:
    - email: charts@example.com
      name: The maintainers
      url: https://www.example.com/charts
    name: {name}
    sources:
    - https://git.example.com/charts/tree/main/{name}
    urls:
    - https://charts.example.com/archives/{name}-{version}.3.1.tgz
    version: {version}.3.1
",
        day = version % 28 + 1,
        second = chart % 60,
    )
    .expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_index_has_helm_layout_and_size() {
        check_methods_agree(&Bytes::from(index_text(3, 4)), 12).unwrap();
        let size = index_text(CHARTS, VERSIONS).len();
        assert!((17_000_000..20_000_000).contains(&size), "{size}");
    }
}
