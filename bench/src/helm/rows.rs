//! Rows with goals and how each is measured.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::corpus::{self, Sample};
use super::index::{Home, Indexes, Way, helms};
use super::once::{Cost, Run};
use super::{cached, umbrella};
use crate::report::{self, Column, Figures, Goal, Line, Measured, Unit, median};

use Goal::{AtMost, Nothing, Times};
use Unit::{Mebibytes, Millis};
use Work::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
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
    Index(Way),
    IndexMemory,
}

pub struct Row {
    name: &'static str,
    says: &'static str,
    work: Work,
    unit: Unit,
    goal: Goal,
}

const STACK: &str = "prometheus-community__kube-prometheus-stack";
const AIRFLOW: &str = "apache-airflow__airflow";
const KYVERNO: &str = "kyverno__kyverno";

/// Rows of the table, in order. The memory goal of an index is twice its size, which is set when it is generated.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("empty",          "a chart with nothing in it",                        Empty,              Millis,    Nothing),
    row("small",          "charts with fewer than 100 templates, median of 50", Small,             Millis,    Times(10.0)),
    row("stack",          "kube-prometheus-stack",                             One(STACK),         Millis,    Times(5.0)),
    row("airflow",        "apache-airflow/airflow",                            One(AIRFLOW),       Millis,    Times(10.0)),
    row("umbrella",       "an umbrella of 30 charts",                          Umbrella,           Millis,    Times(10.0)),
    row("kyverno",        "kyverno, 6 MB of CRDs",                             One(KYVERNO),       Millis,    Times(4.0)),
    row("corpus",         "all charts that make no keys, one by one",          Corpus,             Millis,    Times(8.0)),
    row("keys",           "all charts that make keys, one by one",             Keys,               Millis,    Nothing),
    row("cached",         "in a running process, chart parsed, median",        Cached,             Millis,    AtMost(1.5)),
    row("stack-memory",   "peak memory, kube-prometheus-stack",                Memory(STACK),      Mebibytes, Times(2.0)),
    row("kyverno-memory", "peak memory, kyverno",                              Memory(KYVERNO),    Mebibytes, Times(2.0)),
    row("index",          "index.yaml of 15,000 entries, scanned",             Index(Way::Scan),   Millis,    Times(20.0)),
    row("index-entries",  "the same by the full parser, entry by entry",       Index(Way::Entries), Millis,   Times(3.0)),
    row("index-whole",    "the same by the full parser, all at once",          Index(Way::Whole),  Millis,    Times(3.0)),
    row("index-memory",   "peak memory, index.yaml scanned",                   IndexMemory,        Mebibytes, Nothing),
];

/// Columns of the table.
pub const COLUMNS: &[Column] = &[
    ("work", report::work),
    ("ours", report::ours),
    ("Helm 4.3.1", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
    ("Helm 3.17.3", report::other),
];

/// Number of small charts, and the limit of templates for them.
const SMALL: usize = 50;
const FEW_TEMPLATES: usize = 100;
/// The complete corpus takes each Helm half a minute or more, and more rounds would add little.
const CORPUS_ROUNDS: usize = 3;

const fn row(name: &'static str, says: &'static str, work: Work, unit: Unit, goal: Goal) -> Row {
    Row { name, says, work, unit, goal }
}

/// Rows of these names, or all.
pub fn asked(only: &[String]) -> Result<Vec<&'static Row>> {
    if let Some(unknown) = only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{unknown}`; there are {}", known.join(", "));
    }
    let is_asked = |row: &&Row| only.is_empty() || only.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(is_asked).collect())
}

/// Results of the turns: Longshore, Helm 4, Helm 3.
type Turns = [Vec<f64>; 3];

/// Programs to compare, and their inputs.
pub struct Bench {
    /// The first, Longshore, is always present.
    sides: [Option<PathBuf>; 3],
    samples: Vec<Sample>,
    home: PathBuf,
    umbrella: Result<PathBuf>,
    empty: PathBuf,
    indexes: Result<Indexes>,
}

impl Bench {
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
        let samples = corpus::read(corpus)?;
        let with_keys = samples.iter().filter(|sample| sample.makes_keys).count();
        println!("{} charts, of which {with_keys} make keys", samples.len());
        let home = folder.join("home");
        fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
        Ok(Self {
            sides: [Some(longshore), helm4, helm3],
            umbrella: umbrella::make(folder, &samples),
            empty: umbrella::empty(folder)?,
            indexes: Indexes::make(&folder.join("index")),
            samples,
            home,
        })
    }

    /// Measures rows sequentially.
    pub fn measure(&self, rows: &[&Row], rounds: usize) -> Measured {
        let (mut lines, mut failed) = (Vec::new(), Vec::new());
        for row in rows {
            match self.turns(row, rounds).and_then(|turns| self.line(row, &turns)) {
                Ok(line) => lines.push(line),
                Err(why) => failed.push(format!("{}: {why:#}", row.says)),
            }
        }
        Measured { lines, failed }
    }

    fn line(&self, row: &Row, turns: &Turns) -> Result<Line> {
        let figures = |side: &Vec<f64>| {
            let samples: Vec<_> = side.iter().map(|&value| report::Sample { value, wall: None }).collect();
            Figures::of(&samples)
        };
        let Row { name, says, unit, mut goal, work } = *row;
        if work == IndexMemory {
            goal = AtMost(2.0 * made(&self.indexes)?.mebibytes);
        }
        let ours = figures(&turns[0]).context("ours was not measured")?;
        Ok(Line { name, work: says, unit, goal, ours, peer: figures(&turns[1]), other: figures(&turns[2]) })
    }

    fn turns(&self, row: &Row, rounds: usize) -> Result<Turns> {
        let rounds = match row.work {
            Corpus => rounds.min(CORPUS_ROUNDS),
            Keys => 1,
            _ => rounds,
        };
        if row.work == Corpus {
            self.compare()?;
        }
        let mut turns = Turns::default();
        for round in 0..rounds {
            let values = self.round(row.work)?;
            println!("{:<16}round {}: {values:.1?}", row.name, round + 1);
            for (side, value) in turns.iter_mut().zip(values) {
                side.extend(value);
            }
        }
        Ok(turns)
    }

    /// One turn of each side.
    fn round(&self, work: Work) -> Result<[Option<f64>; 3]> {
        match work {
            Empty => self.each(|side| Ok(self.template(side, &self.empty, None).cost()?.millis)),
            Umbrella => self.each(|side| Ok(self.template(side, made(&self.umbrella)?, None).cost()?.millis)),
            One(id) => self.each(|side| Ok(self.sample(side, self.of_id(id)?).cost()?.millis)),
            Memory(id) => self.each(|side| Ok(self.sample(side, self.of_id(id)?).cost()?.peak_mebibytes)),
            Small => self.over(&self.small(), median),
            Corpus => self.over(&self.with_keys(false), sum),
            Keys => self.over(&self.with_keys(true), sum),
            Cached => Ok([Some(cached::render(self.with_keys(false).into_iter())?), None, None]),
            Index(way) => self.each(|side| {
                let (full, empty) = (
                    self.index(side, way, &made(&self.indexes)?.full)?,
                    self.index(side, way, &made(&self.indexes)?.empty)?,
                );
                Ok(full.millis - empty.millis)
            }),
            IndexMemory => {
                self.each(|side| Ok(self.index(side, Way::Scan, &made(&self.indexes)?.full)?.peak_mebibytes))
            }
        }
    }

    fn each(&self, turn: impl Fn(usize) -> Result<f64>) -> Result<[Option<f64>; 3]> {
        let mut values = [None; 3];
        for (side, value) in values.iter_mut().enumerate().filter(|(side, _)| self.sides[*side].is_some()) {
            *value = Some(turn(side)?);
        }
        Ok(values)
    }

    /// Several charts, each in turns.
    fn over(&self, samples: &[&Sample], fold: fn(&[f64]) -> Option<f64>) -> Result<[Option<f64>; 3]> {
        let mut costs = Turns::default();
        for sample in samples {
            let values = self.each(|side| Ok(self.sample(side, sample).cost()?.millis))?;
            for (side, value) in costs.iter_mut().zip(values) {
                side.extend(value);
            }
        }
        Ok(costs.map(|side| fold(&side)))
    }

    /// Reports charts for which Longshore and Helm 4 print different numbers of lines: their times would not be
    /// comparable.
    fn compare(&self) -> Result<()> {
        if self.sides[1].is_none() {
            return Ok(());
        }
        let lines = |run: Run| Ok(run.output()?.split(|byte| *byte == b'\n').count());
        let count = |side: usize, sample: &Sample| -> Result<usize> { lines(self.sample(side, sample)) };
        let samples = self.with_keys(false);
        let mut others = Vec::new();
        for sample in &samples {
            if count(0, sample)? != count(1, sample)? {
                others.push(sample.id.as_str());
            }
        }
        println!("{} of {} charts come to another number of lines: {others:?}", others.len(), samples.len());
        Ok(())
    }

    fn small(&self) -> Vec<&Sample> {
        let few: Vec<_> =
            self.with_keys(false).into_iter().filter(|sample| sample.templates < FEW_TEMPLATES).collect();
        // Spread over the corpus.
        (0..SMALL.min(few.len())).map(|at| few[at * few.len() / SMALL.min(few.len())]).collect()
    }

    fn with_keys(&self, makes_keys: bool) -> Vec<&Sample> {
        self.samples.iter().filter(|sample| sample.makes_keys == makes_keys).collect()
    }

    fn of_id(&self, id: &str) -> Result<&Sample> {
        let found = self.samples.iter().find(|sample| sample.id == id);
        found.with_context(|| format!("the corpus has no chart {id}"))
    }

    fn sample(&self, side: usize, sample: &Sample) -> Run<'_> {
        self.template(side, &sample.archive, sample.values.as_deref())
    }

    fn template(&self, side: usize, chart: &Path, values: Option<&Path>) -> Run<'_> {
        let mut command: Vec<OsString> = self.sides[side].iter().map(Into::into).collect();
        command.extend(["template".into(), "x".into(), chart.into()]);
        command.extend(values.into_iter().flat_map(|file| ["-f".into(), file.into()]));
        Run { command, home: &self.home }
    }

    fn index(&self, side: usize, way: Way, home: &Home) -> Result<Cost> {
        let command = match (&self.sides[side], side) {
            (_, 0) => home.ours(way)?,
            (Some(helm), _) => helms(helm),
            (None, _) => bail!("there is no such side"),
        };
        Run { command, home: &home.folder }.cost()
    }
}

/// An input that could not be generated fails only the rows that need it.
fn made<T>(what: &Result<T>) -> Result<&T> {
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
    fn rows_are_asked_for_by_name() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            asked(&only).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["stack", "small"]).unwrap(), ["small", "stack"]);
        assert_eq!(names(&[]).unwrap().len(), ROWS.len());
        assert!(names(&["nothing"]).unwrap_err().to_string().contains("there is no row `nothing`"));
    }
}
