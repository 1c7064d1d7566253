//! The recorded public charts, and which of them generate keys.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use helm_chart::values::{ValuesSource, user_values};
use helm_engine::{Capabilities, Engine, EngineRequest, ParsedChart, Release};
use helm_host::Host;
use helm_template::data::Members;
use helm_template::env::{Crypto, KeyKind, PrivateKey, RenderEnv};
use helm_template::profile::Profile;
use helm_template::value::Str;

/// The measured Helm version: the default.
pub const PROFILE: Profile = Profile::Helm4;

/// A chart of the corpus.
pub struct CorpusChart {
    pub id: String,
    pub archive: PathBuf,
    pub values: Option<PathBuf>,
    pub templates: usize,
    /// Whether rendering generates private keys, whose cost is random and not the engine's.
    pub generates_keys: bool,
}

/// Charts of `INDEX.tsv` that can be rendered, in order.
pub fn read_corpus(corpus: &Path) -> Result<Vec<CorpusChart>> {
    let folder = corpus.join("charts/dev");
    let index = folder.join("INDEX.tsv");
    let text = fs::read_to_string(&index).with_context(|| format!("cannot read {}", index.display()))?;
    let mut lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = lines.next().unwrap_or_default();
    let column = |name: &str| {
        head.iter().position(|head| *head == name).with_context(|| format!("the corpus has no column {name}"))
    };
    let (id, values, templates) = (column("id")?, column("values")?, column("templates")?);
    let samples = lines
        .map(|line| {
            let cell = |at: usize| line.get(at).copied().context("a line of the corpus' table is cut short");
            let name = cell(id)?;
            let mut sample = CorpusChart {
                id: name.to_owned(),
                archive: folder.join(format!("{name}.tgz")),
                values: Some(cell(values)?).filter(|file| *file != "-").map(|file| folder.join(file)),
                templates: cell(templates)?.parse()?,
                generates_keys: false,
            };
            match LoadedChart::load(&sample).and_then(|loaded| loaded.generates_keys()) {
                Ok(makes_keys) => sample.generates_keys = makes_keys,
                Err(why) => {
                    println!("left out: {name}: {why:#}");
                    return Ok(None);
                }
            }
            Ok(Some(sample))
        })
        .filter_map(Result::transpose);
    samples.collect()
}

/// A prepared chart in memory.
pub struct LoadedChart {
    pub chart: ParsedChart,
    values: Members,
}

impl LoadedChart {
    pub fn load(sample: &CorpusChart) -> Result<Self> {
        let loaded = helm_host::load(&sample.archive, PROFILE);
        let chart = loaded.with_context(|| format!("cannot load {}", sample.id))?.chart;
        let sources = match &sample.values {
            Some(file) => {
                vec![ValuesSource::File { name: file.to_string_lossy().into(), text: fs::read(file)?.into() }]
            }
            None => Vec::new(),
        };
        let mut open = |name: &str| Err(format!("no file {name}").into());
        let values = user_values(&sources, PROFILE, &mut open)
            .map_err(|why| anyhow::anyhow!("{}: {why}", sample.id))?;
        Ok(Self { chart: ParsedChart::new(chart), values })
    }

    pub fn render(&self, engine: &Engine, outside: RenderEnv) -> Result<Release> {
        let capabilities = Capabilities::default_for(PROFILE);
        let request = EngineRequest::new("x", &self.values, &capabilities);
        Ok(engine.render(&self.chart, &request, outside)?)
    }

    fn generates_keys(&self) -> Result<bool> {
        let (host, asked) = (Host::new(), KeyRequestDetector::default());
        let rendered = self.render(&Engine::new(PROFILE), RenderEnv { crypto: &asked, ..host.render_env() });
        if asked.0.get() { Ok(true) } else { rendered.map(|_| false) }
    }
}

/// Generates no keys, but records that one was requested.
#[derive(Default)]
struct KeyRequestDetector(Cell<bool>);

impl Crypto for KeyRequestDetector {
    fn generate(&self, _: KeyKind) -> Result<PrivateKey, Str> {
        self.0.set(true);
        Err("no keys here".into())
    }

    fn public_key(&self, _: &PrivateKey) -> Result<Vec<u8>, Str> {
        Err("no keys here".into())
    }

    fn sign(&self, _: &PrivateKey, _: &[u8]) -> Result<Vec<u8>, Str> {
        Err("no keys here".into())
    }
}
