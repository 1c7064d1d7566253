//! Rows with goals and how each is measured.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::corpus::{self, CorpusChart};
use super::cost::{Cost, MeasuredCommand};
use super::index::{HelmHome, IndexHomes, ReadMethod, helm_command};
use super::{cached, umbrella};
use crate::report::{self, Column, Figures, Goal, Line, Measured, Unit, median};

use Goal::{AtMost, Times, Unset};
use HelmWorkload::*;
use Unit::{Mebibytes, Millis};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HelmWorkload {
    Empty,
    /// Median of charts with few templates.
    Small,
    One(&'static str),
    Umbrella,
    /// All charts, sequentially.
    Corpus,
    /// Charts that generate keys.
    Keys,
    Cached,
    Memory(&'static str),
    Index(ReadMethod),
    IndexMemory,
}

pub struct HelmRow {
    name: &'static str,
    description: &'static str,
    workload: HelmWorkload,
    unit: Unit,
    goal: Goal,
}

const STACK: &str = "prometheus-community__kube-prometheus-stack";
const AIRFLOW: &str = "apache-airflow__airflow";
const KYVERNO: &str = "kyverno__kyverno";

/// Rows of the table, in order. The memory goal of an index is twice its size, which is set when it is generated.
#[rustfmt::skip]
const ROWS: &[HelmRow] = &[
    row("empty",          "a chart with nothing in it",                        Empty,              Millis,    Unset),
    row("small",          "charts with fewer than 100 templates, median of 50", Small,             Millis,    Times(10.0)),
    row("stack",          "kube-prometheus-stack",                             One(STACK),         Millis,    Times(5.0)),
    row("airflow",        "apache-airflow/airflow",                            One(AIRFLOW),       Millis,    Times(10.0)),
    row("umbrella",       "an umbrella of 30 charts",                          Umbrella,           Millis,    Times(10.0)),
    row("kyverno",        "kyverno, 6 MB of CRDs",                             One(KYVERNO),       Millis,    Times(4.0)),
    row("corpus",         "all charts that make no keys, one by one",          Corpus,             Millis,    Times(8.0)),
    row("keys",           "all charts that make keys, one by one",             Keys,               Millis,    Unset),
    row("cached",         "in a running process, chart parsed, median",        Cached,             Millis,    AtMost(1.5)),
    row("stack-memory",   "peak memory, kube-prometheus-stack",                Memory(STACK),      Mebibytes, Times(2.0)),
    row("kyverno-memory", "peak memory, kyverno",                              Memory(KYVERNO),    Mebibytes, Times(2.0)),
    row("index",          "index.yaml of 15,000 entries, scanned",             Index(ReadMethod::Scan),   Millis,    Times(20.0)),
    row("index-entries",  "the same by the full parser, entry by entry",       Index(ReadMethod::Entries), Millis,   Times(3.0)),
    row("index-whole",    "the same by the full parser, all at once",          Index(ReadMethod::Whole),  Millis,    Times(3.0)),
    row("index-memory",   "peak memory, index.yaml scanned",                   IndexMemory,        Mebibytes, Unset),
];

/// Columns of the table.
pub const COLUMNS: &[Column] = &[
    ("work", report::description),
    ("ours", report::ours),
    ("Helm 4.3.1", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
    ("Helm 3.17.3", report::second_peer),
];

/// Number of small charts, and the limit of templates for them.
const SMALL_CHARTS: usize = 50;
const SMALL_CHART_TEMPLATES: usize = 100;
/// The complete corpus takes each Helm half a minute or more, and more rounds would add little.
const CORPUS_ROUNDS: usize = 3;

const fn row(name: &'static str, says: &'static str, work: HelmWorkload, unit: Unit, goal: Goal) -> HelmRow {
    HelmRow { name, description: says, workload: work, unit, goal }
}

/// Rows of these names, or all.
pub fn select_rows(only: &[String]) -> Result<Vec<&'static HelmRow>> {
    if let Some(unknown) = only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{unknown}`; there are {}", known.join(", "));
    }
    let is_asked = |row: &&HelmRow| only.is_empty() || only.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(is_asked).collect())
}

/// Results of the turns: Longshore, Helm 4, Helm 3.
type SideValues = [Vec<f64>; 3];

/// Programs to compare, and their inputs.
pub struct HelmBench {
    /// The first, Longshore, is always present.
    sides: [Option<PathBuf>; 3],
    samples: Vec<CorpusChart>,
    home: PathBuf,
    umbrella: Result<PathBuf>,
    empty: PathBuf,
    indexes: Result<IndexHomes>,
}

impl HelmBench {
    pub fn new(
        longshore: PathBuf,
        helm4: Option<PathBuf>,
        helm3: Option<PathBuf>,
        corpus: &Path,
        folder: &Path,
    ) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        println!("reading the corpus");
        let samples = corpus::read_corpus(corpus)?;
        let with_keys = samples.iter().filter(|sample| sample.generates_keys).count();
        println!("{} charts, of which {with_keys} make keys", samples.len());
        let home = folder.join("home");
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        Ok(Self {
            sides: [Some(longshore), helm4, helm3],
            umbrella: umbrella::write_umbrella(folder, &samples),
            empty: umbrella::write_empty_chart(folder)?,
            indexes: IndexHomes::generate(&folder.join("index")),
            samples,
            home,
        })
    }

    /// Measures rows sequentially.
    pub fn measure(&self, rows: &[&HelmRow], rounds: usize) -> Measured {
        let (mut lines, mut failed) = (Vec::new(), Vec::new());
        for row in rows {
            match self.measure_rounds(row, rounds).and_then(|turns| self.line(row, &turns)) {
                Ok(line) => lines.push(line),
                Err(why) => failed.push(format!("{}: {why:#}", row.description)),
            }
        }
        Measured { lines, failures: failed }
    }

    fn line(&self, row: &HelmRow, turns: &SideValues) -> Result<Line> {
        let figures = |side: &Vec<f64>| {
            let samples: Vec<_> = side.iter().map(|&value| report::Sample { value, wall: None }).collect();
            Figures::from_samples(&samples)
        };
        let HelmRow { name, description: says, unit, mut goal, workload: work } = *row;
        if work == IndexMemory {
            goal = AtMost(2.0 * input(&self.indexes)?.mebibytes);
        }
        let ours = figures(&turns[0]).context("ours was not measured")?;
        Ok(Line {
            name,
            description: says,
            unit,
            goal,
            ours,
            peer: figures(&turns[1]),
            second_peer: figures(&turns[2]),
        })
    }

    fn measure_rounds(&self, row: &HelmRow, rounds: usize) -> Result<SideValues> {
        let rounds = match row.workload {
            Corpus => rounds.min(CORPUS_ROUNDS),
            Keys => 1,
            _ => rounds,
        };
        if row.workload == Corpus {
            self.report_different_output()?;
        }
        let mut turns = SideValues::default();
        for round in 0..rounds {
            let values = self.measure_round(row.workload)?;
            println!("{:<16}round {}: {values:.1?}", row.name, round + 1);
            for (side, value) in turns.iter_mut().zip(values) {
                side.extend(value);
            }
        }
        Ok(turns)
    }

    /// One turn of each side.
    fn measure_round(&self, work: HelmWorkload) -> Result<[Option<f64>; 3]> {
        match work {
            Empty => {
                self.for_each_side(|side| Ok(self.template_command(side, &self.empty, None).cost()?.millis))
            }
            Umbrella => self.for_each_side(|side| {
                Ok(self.template_command(side, input(&self.umbrella)?, None).cost()?.millis)
            }),
            One(id) => {
                self.for_each_side(|side| Ok(self.sample_command(side, self.chart_by_id(id)?).cost()?.millis))
            }
            Memory(id) => self.for_each_side(|side| {
                Ok(self.sample_command(side, self.chart_by_id(id)?).cost()?.peak_mebibytes)
            }),
            Small => self.fold_samples(&self.small_charts(), median),
            Corpus => self.fold_samples(&self.charts_by_keys(false), sum),
            Keys => self.fold_samples(&self.charts_by_keys(true), sum),
            Cached => {
                Ok([Some(cached::median_render_millis(self.charts_by_keys(false).into_iter())?), None, None])
            }
            Index(way) => self.for_each_side(|side| {
                let (full, empty) = (
                    self.index_cost(side, way, &input(&self.indexes)?.full)?,
                    self.index_cost(side, way, &input(&self.indexes)?.empty)?,
                );
                Ok(full.millis - empty.millis)
            }),
            IndexMemory => self.for_each_side(|side| {
                Ok(self.index_cost(side, ReadMethod::Scan, &input(&self.indexes)?.full)?.peak_mebibytes)
            }),
        }
    }

    fn for_each_side(&self, turn: impl Fn(usize) -> Result<f64>) -> Result<[Option<f64>; 3]> {
        let mut values = [None; 3];
        for (side, value) in values.iter_mut().enumerate().filter(|(side, _)| self.sides[*side].is_some()) {
            *value = Some(turn(side)?);
        }
        Ok(values)
    }

    /// Several charts, each in turns.
    fn fold_samples(
        &self,
        samples: &[&CorpusChart],
        fold: fn(&[f64]) -> Option<f64>,
    ) -> Result<[Option<f64>; 3]> {
        let mut costs = SideValues::default();
        for sample in samples {
            let values = self.for_each_side(|side| Ok(self.sample_command(side, sample).cost()?.millis))?;
            for (side, value) in costs.iter_mut().zip(values) {
                side.extend(value);
            }
        }
        Ok(costs.map(|side| fold(&side)))
    }

    /// Reports charts for which Longshore and Helm 4 print different numbers of lines: their times would not be
    /// comparable.
    fn report_different_output(&self) -> Result<()> {
        if self.sides[1].is_none() {
            return Ok(());
        }
        let lines = |run: MeasuredCommand| Ok(run.output()?.split(|byte| *byte == b'\n').count());
        let count =
            |side: usize, sample: &CorpusChart| -> Result<usize> { lines(self.sample_command(side, sample)) };
        let samples = self.charts_by_keys(false);
        let mut others = Vec::new();
        for sample in &samples {
            if count(0, sample)? != count(1, sample)? {
                others.push(sample.id.as_str());
            }
        }
        println!("{} of {} charts come to another number of lines: {others:?}", others.len(), samples.len());
        Ok(())
    }

    fn small_charts(&self) -> Vec<&CorpusChart> {
        let few: Vec<_> = self
            .charts_by_keys(false)
            .into_iter()
            .filter(|sample| sample.templates < SMALL_CHART_TEMPLATES)
            .collect();
        // Spread over the corpus.
        (0..SMALL_CHARTS.min(few.len())).map(|at| few[at * few.len() / SMALL_CHARTS.min(few.len())]).collect()
    }

    fn charts_by_keys(&self, makes_keys: bool) -> Vec<&CorpusChart> {
        self.samples.iter().filter(|sample| sample.generates_keys == makes_keys).collect()
    }

    fn chart_by_id(&self, id: &str) -> Result<&CorpusChart> {
        let found = self.samples.iter().find(|sample| sample.id == id);
        found.with_context(|| format!("the corpus has no chart {id}"))
    }

    fn sample_command(&self, side: usize, sample: &CorpusChart) -> MeasuredCommand<'_> {
        self.template_command(side, &sample.archive, sample.values.as_deref())
    }

    fn template_command(&self, side: usize, chart: &Path, values: Option<&Path>) -> MeasuredCommand<'_> {
        let mut command: Vec<OsString> = self.sides[side].iter().map(Into::into).collect();
        command.extend(["template".into(), "x".into(), chart.into()]);
        command.extend(values.into_iter().flat_map(|file| ["-f".into(), file.into()]));
        MeasuredCommand { command, home: &self.home }
    }

    fn index_cost(&self, side: usize, way: ReadMethod, home: &HelmHome) -> Result<Cost> {
        let command = match (&self.sides[side], side) {
            (_, 0) => home.longshore_command(way)?,
            (Some(helm), _) => helm_command(helm),
            (None, _) => bail!("there is no such side"),
        };
        MeasuredCommand { command, home: &home.folder }.cost()
    }
}

/// An input that could not be generated fails only the rows that need it.
fn input<T>(what: &Result<T>) -> Result<&T> {
    what.as_ref().map_err(|why| anyhow!("{why:#}"))
}

#[expect(clippy::unnecessary_wraps, reason = "as `median` is")]
fn sum(values: &[f64]) -> Option<f64> {
    Some(values.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn select_rows_by_name() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            select_rows(&only).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["stack", "small"]).unwrap(), ["small", "stack"]);
        assert_eq!(names(&[]).unwrap().len(), ROWS.len());
        assert!(names(&["nothing"]).unwrap_err().to_string().contains("there is no row `nothing`"));
    }
}
