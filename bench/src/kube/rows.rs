//! Rows with goals, and the order of measuring.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::server::{KubeServer, Side};
use super::{idle, load, watch};
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};

use Goal::{AtMost, Times, Unset};
use KubeWorkload::*;
use Unit::{CpuMicros, Mebibytes, Micros, Millis, Percent};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeWorkload {
    Get,
    Create,
    Commit,
    Mark,
    ListFull,
    ListPages,
    Apply,
    Deliver,
    DeliverUnshared,
    Memory,
    StartEmpty,
    StartFull,
    Idle,
}

pub struct KubeRow {
    pub name: &'static str,
    pub description: &'static str,
    workload: KubeWorkload,
    unit: Unit,
    goal: Goal,
}

/// Rows of the table, in order.
#[rustfmt::skip]
pub const ROWS: &[KubeRow] = &[
    row("get",         "GET one object",                                    Get,        CpuMicros, Times(15.0)),
    row("create",      "durable create of a 2 KiB ConfigMap, 16 clients",   Create,     CpuMicros, Times(5.0)),
    row("commit",      "its commits: write and sync the store file, mean",  Commit,     Micros,    Unset),
    row("mark",        "its commits: sync the high-water mark, mean",      Mark,       Micros,    Unset),
    row("list",        "list 10,000 ConfigMaps, whole",                     ListFull,  CpuMicros, Times(8.0)),
    row("pages",       "list 10,000 ConfigMaps, pages of 500",              ListPages,  CpuMicros, Times(4.0)),
    row("apply",       "server-side apply of an unchanged Deployment",      Apply,      CpuMicros, Times(4.0)),
    row("watch",       "one change to 1,000 watchers, last delivery",       Deliver,    Millis,    Times(3.0)),
    row("watch-apart", "the same, each watcher on its own connection",      DeliverUnshared, Millis,  Times(3.0)),
    row("memory",      "resident, 10,000 ConfigMaps and 100 watchers",      Memory,     Mebibytes, Times(8.0)),
    row("start",       "start to ready, empty",                             StartEmpty, Millis,    AtMost(150.0)),
    row("start-full",  "start to ready, 10,000 ConfigMaps",                 StartFull,  Millis,    AtMost(400.0)),
    row("rest",        "10,000 simulated pods at rest, of one core",        Idle,     Percent,   AtMost(10.0)),
];

/// Histograms of the server.
const COMMIT_DURATION: &str = "kube_embedded_store_commit_duration_seconds";
const MARK_DURATION: &str = "kube_embedded_store_high_water_mark_sync_duration_seconds";

/// Columns of the table.
pub const COLUMNS: &[Column] = &[
    ("work", report::description),
    ("ours", report::ours),
    ("peer", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
    ("wall, ours", report::wall_ours),
    ("wall, peer", report::wall_peer),
];

/// Order of measuring: memory before lists are made, a restart before objects are added. Work after [`Create`] starts
/// new servers.
#[rustfmt::skip]
const MEASURING_ORDER: &[KubeWorkload] = &[
    Memory, ListFull, ListPages, StartFull, Get, Apply, Deliver, DeliverUnshared, Create, Commit, Mark,
    StartEmpty, Idle,
];

const fn row(name: &'static str, says: &'static str, work: KubeWorkload, unit: Unit, goal: Goal) -> KubeRow {
    KubeRow { name, description: says, workload: work, unit, goal }
}

/// Programs to compare, with their data folders.
pub struct Sides {
    sides: Vec<(Side, PathBuf)>,
}

impl Sides {
    pub fn new(longshore: PathBuf, control_plane: Option<PathBuf>, folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        let mut sides = vec![(Side::Ours(longshore), folder.join("ours"))];
        sides.extend(control_plane.map(|program| (Side::Peer(program), folder.join("peer"))));
        Ok(Self { sides })
    }
}

/// Measures the requested rows, or all.
pub async fn measure(sides: Sides, only: &[String], rounds: usize) -> Result<Measured> {
    let asked: Vec<&KubeRow> =
        ROWS.iter().filter(|row| only.is_empty() || only.iter().any(|name| name == row.name)).collect();
    let mut servers = Vec::new();
    if asked.iter().any(|row| !row.workload.needs_new_servers()) {
        for (side, folder) in &sides.sides {
            println!("filling {}", folder.display());
            let (mut server, _) = KubeServer::start(side.clone(), folder).await?;
            server.prepare().await?;
            load::fill(&server).await?;
            servers.push(server);
        }
    }
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for work in MEASURING_ORDER {
        let Some(row) = asked.iter().find(|row| row.workload == *work) else { continue };
        if work.needs_new_servers() {
            // An idle server beside it would still use CPU time.
            servers.drain(..).try_for_each(KubeServer::discard)?;
        }
        let measured = match work {
            Idle => measure_idle(&sides).await,
            Commit | Mark => measure_ours(row, &mut servers, rounds).await,
            _ => measure_rounds(row, &sides, &mut servers, rounds).await,
        };
        match measured {
            Ok(samples) => lines.extend(line(row, &samples)),
            Err(why) => failed.push(format!("{}: {why:#}", row.description)),
        }
    }
    servers.into_iter().try_for_each(KubeServer::discard)?;
    lines.sort_by_key(|line| ROWS.iter().position(|row| row.name == line.name));
    Ok(Measured { lines, failures: failed })
}

fn line(row: &KubeRow, samples: &[Vec<Sample>]) -> Option<Line> {
    let figures = |side: usize| samples.get(side).and_then(|samples| Figures::from_samples(samples));
    let KubeRow { name, description: says, unit, goal, .. } = *row;
    Some(Line { name, description: says, unit, goal, ours: figures(0)?, peer: figures(1), second_peer: None })
}

/// Measures one row in turns. Returns the samples of each side.
async fn measure_rounds(
    row: &KubeRow,
    sides: &Sides,
    servers: &mut [KubeServer],
    rounds: usize,
) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); sides.sides.len()];
    for round in 0..rounds {
        for (at, (side, folder)) in sides.sides.iter().enumerate() {
            let sample = match servers.get_mut(at) {
                Some(server) => measure_once(row.workload, server, round).await?,
                None => start_empty(side, folder).await?,
            };
            samples[at].push(sample);
        }
        let values: Vec<_> = samples.iter().filter_map(|side| side.last()).map(|last| last.value).collect();
        println!("{:<12}round {}: {values:.1?}", row.name, round + 1);
    }
    Ok(samples)
}

/// Measures a row of Longshore's own metrics.
async fn measure_ours(row: &KubeRow, servers: &mut [KubeServer], rounds: usize) -> Result<Vec<Vec<Sample>>> {
    let server = servers.first_mut().context("there is no server")?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        let sample = measure_once(row.workload, server, round).await?;
        println!("{:<12}round {}: {:.1?}", row.name, round + 1, sample.value);
        samples.push(sample);
    }
    Ok(vec![samples])
}

async fn measure_once(work: KubeWorkload, server: &mut KubeServer, round: usize) -> Result<Sample> {
    match work {
        Get => load::get(server).await,
        Create => load::create(server, &format!("created-{round}")).await,
        Commit => load::mean_duration(server, COMMIT_DURATION, &format!("committed-{round}")).await,
        Mark => load::mean_duration(server, MARK_DURATION, &format!("marked-{round}")).await,
        ListFull => load::list_full(server).await,
        ListPages => load::list_pages(server).await,
        Apply => load::apply(server).await,
        Deliver => watch::delivery_latency(server, watch::WATCHES_PER_CONNECTION).await,
        DeliverUnshared => watch::delivery_latency(server, 1).await,
        Memory => watch::watcher_memory(server).await,
        StartFull | StartEmpty => server.restart().await.map(start_sample),
        Idle => idle::idle_cpu(server).await,
    }
}

async fn start_empty(side: &Side, folder: &Path) -> Result<Sample> {
    let (server, took) = KubeServer::start(side.clone(), &folder.with_extension("empty")).await?;
    server.discard()?;
    Ok(start_sample(took))
}

/// Measured once and for Longshore only: the peer runs without controllers and nodes here.
async fn measure_idle(sides: &Sides) -> Result<Vec<Vec<Sample>>> {
    let (side, folder) = &sides.sides[0];
    let (mut server, _) = KubeServer::start(side.clone(), &folder.with_extension("rest")).await?;
    server.prepare().await?;
    let sample = idle::idle_cpu(&server).await?;
    server.discard()?;
    Ok(vec![vec![sample]])
}

fn start_sample(took: Duration) -> Sample {
    Sample { value: took.as_secs_f64() * 1e3, wall: None }
}

impl KubeWorkload {
    /// Whether it uses its own, empty servers.
    fn needs_new_servers(self) -> bool {
        matches!(self, StartEmpty | Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_in_measuring_order() {
        assert!(ROWS.iter().all(|row| MEASURING_ORDER.contains(&row.workload)));
        assert_eq!(ROWS.len(), MEASURING_ORDER.len());
    }
}
