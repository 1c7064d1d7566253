//! Rows with goals, and the order of measuring.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::server::{Server, Side};
use super::{load, rest, watch};
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};

use Goal::{AtMost, Times};
use Unit::{CpuMicros, Mebibytes, Millis, Percent};
use Work::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Get,
    Create,
    ListWhole,
    ListPages,
    Apply,
    Deliver,
    DeliverApart,
    Memory,
    StartEmpty,
    StartFull,
    AtRest,
}

pub struct Row {
    pub name: &'static str,
    pub says: &'static str,
    work: Work,
    unit: Unit,
    goal: Goal,
}

/// Rows of the table, in order.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("get",         "GET one object",                                    Get,        CpuMicros, Times(8.0)),
    row("create",      "durable create of a 2 KiB ConfigMap, 16 clients",   Create,     CpuMicros, Times(5.0)),
    row("list",        "list 10,000 ConfigMaps, whole",                     ListWhole,  CpuMicros, Times(8.0)),
    row("pages",       "list 10,000 ConfigMaps, pages of 500",              ListPages,  CpuMicros, Times(4.0)),
    row("apply",       "server-side apply of an unchanged Deployment",      Apply,      CpuMicros, Times(4.0)),
    row("watch",       "one change to 1,000 watchers, last delivery",       Deliver,    Millis,    Times(3.0)),
    row("watch-apart", "the same, each watcher on its own connection",      DeliverApart, Millis,  Times(3.0)),
    row("memory",      "resident, 10,000 ConfigMaps and 100 watchers",      Memory,     Mebibytes, Times(8.0)),
    row("start",       "start to ready, empty",                             StartEmpty, Millis,    AtMost(150.0)),
    row("start-full",  "start to ready, 10,000 ConfigMaps",                 StartFull,  Millis,    AtMost(400.0)),
    row("rest",        "10,000 simulated pods at rest, of one core",        AtRest,     Percent,   AtMost(10.0)),
];

/// Columns of the table.
pub const COLUMNS: &[Column] = &[
    ("work", report::work),
    ("ours", report::ours),
    ("peer", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
    ("wall, ours", report::our_wall),
    ("wall, peer", report::peers_wall),
];

/// Order of measuring: memory before lists are made, a restart before objects are added. Work after [`Create`] starts
/// new servers.
#[rustfmt::skip]
const ORDER: &[Work] = &[
    Memory, ListWhole, ListPages, StartFull, Get, Apply, Deliver, DeliverApart, Create,
    StartEmpty, AtRest,
];

const fn row(name: &'static str, says: &'static str, work: Work, unit: Unit, goal: Goal) -> Row {
    Row { name, says, work, unit, goal }
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
    let asked: Vec<&Row> =
        ROWS.iter().filter(|row| only.is_empty() || only.iter().any(|name| name == row.name)).collect();
    let mut servers = Vec::new();
    if asked.iter().any(|row| !row.work.begins_afresh()) {
        for (side, folder) in &sides.sides {
            println!("filling {}", folder.display());
            let (mut server, _) = Server::start(side.clone(), folder).await?;
            server.prepare().await?;
            load::fill(&server).await?;
            servers.push(server);
        }
    }
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for work in ORDER {
        let Some(row) = asked.iter().find(|row| row.work == *work) else { continue };
        if work.begins_afresh() {
            // An idle server beside it would still use CPU time.
            servers.drain(..).try_for_each(Server::discard)?;
        }
        let measured = match work {
            AtRest => at_rest(&sides).await,
            _ => turns(row, &sides, &mut servers, rounds).await,
        };
        match measured {
            Ok(samples) => lines.extend(line(row, &samples)),
            Err(why) => failed.push(format!("{}: {why:#}", row.says)),
        }
    }
    servers.into_iter().try_for_each(Server::discard)?;
    lines.sort_by_key(|line| ROWS.iter().position(|row| row.name == line.name));
    Ok(Measured { lines, failed })
}

fn line(row: &Row, samples: &[Vec<Sample>]) -> Option<Line> {
    let figures = |side: usize| samples.get(side).and_then(|samples| Figures::of(samples));
    let Row { name, says, unit, goal, .. } = *row;
    Some(Line { name, work: says, unit, goal, ours: figures(0)?, peer: figures(1), other: None })
}

/// Measures one row in turns. Returns the samples of each side.
async fn turns(row: &Row, sides: &Sides, servers: &mut [Server], rounds: usize) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); sides.sides.len()];
    for round in 0..rounds {
        for (at, (side, folder)) in sides.sides.iter().enumerate() {
            let sample = match servers.get_mut(at) {
                Some(server) => turn(row.work, server, round).await?,
                None => start_empty(side, folder).await?,
            };
            samples[at].push(sample);
        }
        let values: Vec<_> = samples.iter().filter_map(|side| side.last()).map(|last| last.value).collect();
        println!("{:<12}round {}: {values:.1?}", row.name, round + 1);
    }
    Ok(samples)
}

async fn turn(work: Work, server: &mut Server, round: usize) -> Result<Sample> {
    match work {
        Get => load::get(server).await,
        Create => load::create(server, round).await,
        ListWhole => load::list_whole(server).await,
        ListPages => load::list_pages(server).await,
        Apply => load::apply(server).await,
        Deliver => watch::deliver(server, watch::SHARING).await,
        DeliverApart => watch::deliver(server, 1).await,
        Memory => watch::memory(server).await,
        StartFull | StartEmpty => server.restart().await.map(started),
        AtRest => rest::rest(server).await,
    }
}

async fn start_empty(side: &Side, folder: &Path) -> Result<Sample> {
    let (server, took) = Server::start(side.clone(), &folder.with_extension("empty")).await?;
    server.discard()?;
    Ok(started(took))
}

/// Measured once and for Longshore only: the peer runs without controllers and nodes here.
async fn at_rest(sides: &Sides) -> Result<Vec<Vec<Sample>>> {
    let (side, folder) = &sides.sides[0];
    let (mut server, _) = Server::start(side.clone(), &folder.with_extension("rest")).await?;
    server.prepare().await?;
    let sample = rest::rest(&server).await?;
    server.discard()?;
    Ok(vec![vec![sample]])
}

fn started(took: Duration) -> Sample {
    Sample { value: took.as_secs_f64() * 1e3, wall: None }
}

impl Work {
    /// Whether it uses its own, empty servers.
    fn begins_afresh(self) -> bool {
        matches!(self, StartEmpty | AtRest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_place_in_the_order() {
        assert!(ROWS.iter().all(|row| ORDER.contains(&row.work)));
        assert_eq!(ROWS.len(), ORDER.len());
    }
}
