//! `releases`: many releases of a small chart, against `helm install` of the real Helm 4 on the same cluster, in turns.
//!
//! Modules:
//! - [`chart`]: the chart
//! - [`cluster`]: the cluster
//! - [`install`]: installation by both sides
//! - [`bare`]: lower bound
//! - [`list`]: a long list
//! - [`rest`]: idle costs
//!
//! Requests go through [`crate::door`]. Ten users with a namespace each work concurrently, for Helm too.

mod bare;
mod chart;
mod cluster;
mod install;
mod list;
mod rest;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::RunArgs;
use crate::door::Server;
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};
use bare::Bare;
use cluster::Cluster;
use install::{Helm, Ours};

use Goal::{AtMost, Times};
use Unit::{Count, Kilobytes, Mebibytes, Millis, Percent};

#[derive(Args)]
pub struct ReleasesArgs {
    #[command(flatten)]
    run: RunArgs,
    /// The administrator's kubeconfig of a real cluster that nobody else uses
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Helm 4
    #[arg(long)]
    helm: Option<PathBuf>,
}

const PEOPLE: usize = 10;
/// Number of releases per user, installed sequentially and all at once.
const FEW: usize = 20;
const MANY: usize = 100;
/// Number of releases that are touched.
const TOUCHED: usize = 100;

struct Row {
    name: &'static str,
    /// Rows with the same word are measured together.
    work: &'static str,
    says: &'static str,
    unit: Unit,
    goal: Goal,
}

const fn row(name: &'static str, work: &'static str, says: &'static str, unit: Unit, goal: Goal) -> Row {
    Row { name, work, says, unit, goal }
}

/// Rows of the table, in order.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("install",         "install",   "200 releases, ten at a time, until deployed",         Millis,    Times(8.0)),
    row("bare",            "install",   "the same objects and records, written by a bare client", Millis, Goal::Nothing),
    row("thousand",        "thousand",  "1,000 releases asked for, until all are deployed",    Millis,    AtMost(60_000.0)),
    row("memory",          "thousand",  "the server's peak memory meanwhile",                  Mebibytes, AtMost(150.0)),
    row("bare-thousand",   "bare",      "1,000 times the same, written by a bare client",      Millis,    Goal::Nothing),
    row("idle-writes",     "idle",      "1,000 releases at rest: writes in a minute",          Count,     AtMost(0.0)),
    row("idle-cpu",        "idle",      "1,000 releases at rest: of one core",                 Percent,   AtMost(1.0)),
    row("embedded",        "embedded",  "1,000 releases on the embedded cluster",              Millis,    AtMost(20_000.0)),
    row("embedded-memory", "embedded",  "peak memory meanwhile, Kubernetes included",          Mebibytes, Goal::Nothing),
    row("writes",          "reconcile", "100 unchanged releases looked at again: writes",      Count,     AtMost(0.0)),
    row("discovery",       "reconcile", "100 unchanged releases looked at again: discovery",   Count,     AtMost(0.0)),
    row("list",            "list",      "50 of 10,000, sorted, filtered, 200 a second: 99th percentile", Millis, AtMost(20.0)),
    row("list-size",       "list",      "the largest of these pages",                          Kilobytes, AtMost(50.0)),
];

const COLUMNS: &[Column] = &[
    ("work", report::work),
    ("ours", report::ours),
    ("Helm 4.3.1", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
];

/// Results so far.
struct Table {
    only: Vec<String>,
    lines: Vec<Line>,
}

impl Table {
    /// Whether a row of this work was requested.
    fn wants(&self, work: &str) -> bool {
        let named = |row: &Row| self.only.is_empty() || self.only.iter().any(|name| name == row.name);
        ROWS.iter().any(|row| row.work == work && named(row))
    }

    fn enter(&mut self, name: &'static str, ours: &[f64], peer: &[f64]) {
        let row = ROWS.iter().find(|row| row.name == name).expect("every row is in the table");
        let figures = |values: &[f64]| {
            Figures::of(&values.iter().map(|value| Sample { value: *value, wall: None }).collect::<Vec<_>>())
        };
        let Some(ours) = figures(ours) else { return };
        let Row { name, says, unit, goal, .. } = *row;
        self.lines.push(Line { name, work: says, unit, goal, ours, peer: figures(peer), other: None });
    }
}

#[tokio::main]
pub async fn bench(args: ReleasesArgs) -> Result<()> {
    let ReleasesArgs { run, kubeconfig, helm } = args;
    if let Some(unknown) = run.only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{unknown}`; there are {}", known.join(", "));
    }
    if run.folder.exists() {
        std::fs::remove_dir_all(&run.folder)?; // of an earlier run
    }
    std::fs::create_dir_all(&run.folder)?;
    let archive = chart::pack(&run.folder)?;
    let mut table = Table { only: run.only.clone(), lines: Vec::new() };
    let mut failed = Vec::new();
    if let Some(kubeconfig) = kubeconfig {
        let helm = helm.map(|program| Helm {
            program,
            kubeconfig: kubeconfig.clone(),
            archive: archive.clone(),
            home: run.folder.join("helm"),
        });
        if let Err(why) = on_real(&run, &kubeconfig, helm.as_ref(), &archive, &mut table).await {
            failed.push(format!("on a real cluster: {why:#}"));
        }
    }
    if let Err(why) = on_embedded(&run, &archive, &mut table).await {
        failed.push(format!("on the embedded cluster: {why:#}"));
    }
    if table.wants("list")
        && let Err(why) = long_list(&run, &mut table).await
    {
        failed.push(format!("the list: {why:#}"));
    }
    table.lines.sort_by_key(|line| ROWS.iter().position(|row| row.name == line.name));
    let measured = Measured { lines: table.lines, failed };
    report::publish("releases", &measured, COLUMNS, run.rounds, &run.output)
}

async fn on_real(
    run: &RunArgs,
    kubeconfig: &Path,
    helm: Option<&Helm>,
    archive: &Path,
    table: &mut Table,
) -> Result<()> {
    if !["install", "bare", "thousand", "idle"].iter().any(|work| table.wants(work)) {
        return Ok(());
    }
    let cluster = Cluster::reach(kubeconfig).await?;
    cluster.add_nodes().await?;
    tenancy::manifests::apply(&cluster.client).await.context("cannot prepare the cluster")?;
    let folder = run.folder.join("real");
    std::fs::create_dir_all(&folder)?;
    let kubeconfig = kubeconfig.to_string_lossy();
    let start = || Server::start(&run.longshore, &folder, &["--kubeconfig", &kubeconfig]);
    let mut ours = Ours::new(start()?, &cluster, PEOPLE, archive).await?;
    let bare = Bare::of(&ours, &cluster, &run.longshore, archive).await?;
    cluster.emptied(&ours.people).await?;
    if table.wants("install") {
        let (mut our_turns, mut peers_turns, mut bare_turns) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..run.rounds {
            let prefix = format!("few{round}");
            our_turns.push(millis(ours.one_by_one(&cluster, &prefix, FEW).await?));
            ours.remove(&prefix, FEW).await?;
            cluster.emptied(&ours.people).await?;
            if let Some(helm) = helm {
                peers_turns.push(millis(helm.one_by_one(&ours.people, &prefix, FEW).await?));
                helm.remove(&ours.people, &prefix, FEW).await?;
                cluster.emptied(&ours.people).await?;
            }
            bare_turns.push(millis(bare.one_by_one(&ours.people, &prefix, FEW).await?));
            bare.remove(&ours.people, &prefix, FEW).await?;
            cluster.emptied(&ours.people).await?;
            let turns = [&our_turns, &peers_turns, &bare_turns].map(|turns| turns.last().copied());
            println!("install     round {}: {turns:.0?}", round + 1);
        }
        table.enter("install", &our_turns, &peers_turns);
        table.enter("bare", &bare_turns, &peers_turns);
    }
    if table.wants("thousand") || table.wants("idle") {
        // A new server, so that its memory is that of this work.
        ours.server.stop()?;
        ours.server = start()?;
        let took = ours.all_together(&cluster, "many", MANY).await?;
        table.enter("thousand", &[millis(took)], &[]);
        table.enter("memory", &[ours.server.peak()?], &[]);
        println!("thousand    {took:.1?}, {:.0} MiB", ours.server.peak()?);
        if table.wants("idle") {
            ours.settled(MANY).await?;
            let (writes, share) = rest::idle(&ours.server, &cluster).await?;
            table.enter("idle-writes", &[writes], &[]);
            table.enter("idle-cpu", &[share], &[]);
        }
        if table.wants("bare") {
            ours.remove("many", MANY).await?;
            cluster.emptied(&ours.people).await?;
        }
    }
    if table.wants("bare") {
        let took = bare.one_by_one(&ours.people, "bare", MANY).await?;
        println!("bare        {took:.1?}");
        table.enter("bare-thousand", &[millis(took)], &[]);
    }
    Ok(())
}

async fn on_embedded(run: &RunArgs, archive: &Path, table: &mut Table) -> Result<()> {
    if !["embedded", "reconcile"].iter().any(|work| table.wants(work)) {
        return Ok(());
    }
    let (server, cluster) = embedded(run, "embedded").await?;
    let ours = Ours::new(server, &cluster, PEOPLE, archive).await?;
    let took = ours.all_together(&cluster, "many", MANY).await?;
    println!("embedded    {took:.1?}, {:.0} MiB", ours.server.peak()?);
    table.enter("embedded", &[millis(took)], &[]);
    table.enter("embedded-memory", &[ours.server.peak()?], &[]);
    if table.wants("reconcile") {
        ours.settled(MANY).await?;
        let names: Vec<_> = ours.names("many", MANY).take(TOUCHED).collect();
        let (writes, discovery) = rest::touched(&ours.server, &cluster, &names).await?;
        table.enter("writes", &[writes], &[]);
        table.enter("discovery", &[discovery], &[]);
    }
    Ok(())
}

async fn long_list(run: &RunArgs, table: &mut Table) -> Result<()> {
    let (server, cluster) = embedded(run, "list").await?;
    let (percentile, largest) = list::measure(&server, &cluster).await?;
    table.enter("list", &[percentile], &[]);
    table.enter("list-size", &[largest], &[]);
    Ok(())
}

/// A server with its embedded cluster and capacity for everything.
async fn embedded(run: &RunArgs, name: &str) -> Result<(Server, Cluster)> {
    let folder = run.folder.join(name);
    std::fs::create_dir_all(&folder)?;
    let server = Server::start(&run.longshore, &folder, &["--kube-listen", "127.0.0.1:0"])?;
    let printed =
        Command::new(&run.longshore).args(["kubeconfig", "--data"]).arg(folder.join("data")).output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, printed.stdout)?;
    let cluster = Cluster::reach(&kubeconfig).await?;
    cluster.add_nodes().await?;
    Ok((server, cluster))
}

fn millis(took: std::time::Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
