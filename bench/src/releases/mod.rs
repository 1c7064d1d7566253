//! `releases`: many releases of a small chart, against `helm install` of the real Helm 4 on the same cluster, in turns.
//!
//! Modules:
//! - [`chart`]: the chart
//! - [`cluster`]: the cluster
//! - [`install`]: installation by both sides
//! - [`lower_bound`]: lower bound
//! - [`list`]: a long list
//! - [`idle`]: idle costs
//!
//! Requests go through [`crate::platform_server`]. Ten users with a namespace each work concurrently, for Helm too.

mod chart;
mod cluster;
mod idle;
mod install;
mod list;
mod lower_bound;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::RunArgs;
use crate::platform_server::PlatformServer;
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};
use cluster::BenchCluster;
use install::{HelmInstaller, PlatformInstaller};
use lower_bound::BareInstaller;

use Goal::{AtMost, Times};
use Unit::{Count, Kilobytes, Mebibytes, Millis, Percent};

#[derive(Args)]
pub struct ReleasesArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Administrator's kubeconfig of a real cluster without other users
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Path of Helm 4
    #[arg(long)]
    helm: Option<PathBuf>,
}

const USER_COUNT: usize = 10;
/// Number of releases per user, installed sequentially and all at once.
const SMALL_BATCH: usize = 20;
const LARGE_BATCH: usize = 100;
/// Number of releases that are touched.
const TOUCHED_RELEASES: usize = 100;

struct ReleaseRow {
    name: &'static str,
    /// Rows with the same word are measured together.
    workload: &'static str,
    description: &'static str,
    unit: Unit,
    goal: Goal,
}

const fn row(
    name: &'static str,
    work: &'static str,
    says: &'static str,
    unit: Unit,
    goal: Goal,
) -> ReleaseRow {
    ReleaseRow { name, workload: work, description: says, unit, goal }
}

/// Rows of the table, in order.
#[rustfmt::skip]
const ROWS: &[ReleaseRow] = &[
    row("install",         "install",   "200 releases, ten at a time, until deployed",         Millis,    Times(8.0)),
    row("bare",            "install",   "the same objects and records, written by a bare client", Millis, Goal::Unset),
    row("thousand",        "thousand",  "1,000 releases asked for, until all are deployed",    Millis,    AtMost(60_000.0)),
    row("memory",          "thousand",  "the server's peak memory meanwhile",                  Mebibytes, AtMost(150.0)),
    row("bare-thousand",   "bare",      "1,000 times the same, written by a bare client",      Millis,    Goal::Unset),
    row("idle-writes",     "idle",      "1,000 releases at rest: writes in a minute",          Count,     AtMost(0.0)),
    row("idle-cpu",        "idle",      "1,000 releases at rest: of one core",                 Percent,   AtMost(1.0)),
    row("embedded",        "embedded",  "1,000 releases on the embedded cluster",              Millis,    AtMost(20_000.0)),
    row("embedded-memory", "embedded",  "peak memory meanwhile, Kubernetes included",          Mebibytes, Goal::Unset),
    row("writes",          "reconcile", "100 unchanged releases looked at again: writes",      Count,     AtMost(0.0)),
    row("discovery",       "reconcile", "100 unchanged releases looked at again: discovery",   Count,     AtMost(0.0)),
    row("list",            "list",      "50 of 10,000, sorted, filtered, 200 a second: 99th percentile", Millis, AtMost(20.0)),
    row("list-size",       "list",      "the largest of these pages",                          Kilobytes, AtMost(50.0)),
];

const COLUMNS: &[Column] = &[
    ("work", report::description),
    ("ours", report::ours),
    ("Helm 4.3.1", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
];

/// Results so far.
struct ResultTable {
    only: Vec<String>,
    lines: Vec<Line>,
}

impl ResultTable {
    /// Whether a row of this work was requested.
    fn is_requested(&self, work: &str) -> bool {
        let named = |row: &ReleaseRow| self.only.is_empty() || self.only.iter().any(|name| name == row.name);
        ROWS.iter().any(|row| row.workload == work && named(row))
    }

    fn push(&mut self, name: &'static str, ours: &[f64], peer: &[f64]) {
        let row = ROWS.iter().find(|row| row.name == name).expect("every row is in the table");
        let figures = |values: &[f64]| {
            Figures::from_samples(
                &values.iter().map(|value| Sample { value: *value, wall: None }).collect::<Vec<_>>(),
            )
        };
        let Some(ours) = figures(ours) else { return };
        let ReleaseRow { name, description: says, unit, goal, .. } = *row;
        self.lines.push(Line {
            name,
            description: says,
            unit,
            goal,
            ours,
            peer: figures(peer),
            second_peer: None,
        });
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
    let mut table = ResultTable { only: run.only.clone(), lines: Vec::new() };
    let mut failed = Vec::new();
    if let Some(kubeconfig) = kubeconfig {
        let helm = helm.map(|program| HelmInstaller {
            program,
            kubeconfig: kubeconfig.clone(),
            archive: archive.clone(),
            home: run.folder.join("helm"),
        });
        if let Err(why) =
            measure_on_real_cluster(&run, &kubeconfig, helm.as_ref(), &archive, &mut table).await
        {
            failed.push(format!("on a real cluster: {why:#}"));
        }
    }
    if let Err(why) = measure_on_embedded_cluster(&run, &archive, &mut table).await {
        failed.push(format!("on the embedded cluster: {why:#}"));
    }
    if table.is_requested("list")
        && let Err(why) = measure_long_list(&run, &mut table).await
    {
        failed.push(format!("the list: {why:#}"));
    }
    table.lines.sort_by_key(|line| ROWS.iter().position(|row| row.name == line.name));
    let measured = Measured { lines: table.lines, failures: failed };
    report::publish("releases", &measured, COLUMNS, run.rounds, &run.output)
}

async fn measure_on_real_cluster(
    run: &RunArgs,
    kubeconfig: &Path,
    helm: Option<&HelmInstaller>,
    archive: &Path,
    table: &mut ResultTable,
) -> Result<()> {
    if !["install", "bare", "thousand", "idle"].iter().any(|work| table.is_requested(work)) {
        return Ok(());
    }
    let cluster = BenchCluster::connect(kubeconfig).await?;
    cluster.add_nodes().await?;
    tenancy::manifests::apply(&cluster.client).await.context("cannot prepare the cluster")?;
    let folder = run.folder.join("real");
    std::fs::create_dir_all(&folder)?;
    let kubeconfig = kubeconfig.to_string_lossy();
    let start = || PlatformServer::start(&run.longshore, &folder, &["--kubeconfig", &kubeconfig]);
    let mut ours = PlatformInstaller::new(start()?, &cluster, USER_COUNT, archive).await?;
    let bare = BareInstaller::capture(&ours, &cluster, &run.longshore, archive).await?;
    cluster.wait_until_no_pods(&ours.people).await?;
    if table.is_requested("install") {
        let (mut our_turns, mut peers_turns, mut bare_turns) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..run.rounds {
            let prefix = format!("few{round}");
            our_turns.push(millis(ours.install_sequentially(&cluster, &prefix, SMALL_BATCH).await?));
            ours.remove(&prefix, SMALL_BATCH).await?;
            cluster.wait_until_no_pods(&ours.people).await?;
            if let Some(helm) = helm {
                peers_turns
                    .push(millis(helm.install_sequentially(&ours.people, &prefix, SMALL_BATCH).await?));
                helm.remove(&ours.people, &prefix, SMALL_BATCH).await?;
                cluster.wait_until_no_pods(&ours.people).await?;
            }
            bare_turns.push(millis(bare.write_sequentially(&ours.people, &prefix, SMALL_BATCH).await?));
            bare.remove(&ours.people, &prefix, SMALL_BATCH).await?;
            cluster.wait_until_no_pods(&ours.people).await?;
            let turns = [&our_turns, &peers_turns, &bare_turns].map(|turns| turns.last().copied());
            println!("install     round {}: {turns:.0?}", round + 1);
        }
        table.push("install", &our_turns, &peers_turns);
        table.push("bare", &bare_turns, &peers_turns);
    }
    if table.is_requested("thousand") || table.is_requested("idle") {
        // A new server, so that its memory is that of this work.
        ours.server.stop()?;
        ours.server = start()?;
        let took = ours.install_concurrently(&cluster, "many", LARGE_BATCH).await?;
        table.push("thousand", &[millis(took)], &[]);
        table.push("memory", &[ours.server.peak()?], &[]);
        println!("thousand    {took:.1?}, {:.0} MiB", ours.server.peak()?);
        if table.is_requested("idle") {
            ours.wait_until_ready(LARGE_BATCH).await?;
            let (writes, share) = idle::idle(&ours.server, &cluster).await?;
            table.push("idle-writes", &[writes], &[]);
            table.push("idle-cpu", &[share], &[]);
        }
        if table.is_requested("bare") {
            ours.remove("many", LARGE_BATCH).await?;
            cluster.wait_until_no_pods(&ours.people).await?;
        }
    }
    if table.is_requested("bare") {
        let took = bare.write_sequentially(&ours.people, "bare", LARGE_BATCH).await?;
        println!("bare        {took:.1?}");
        table.push("bare-thousand", &[millis(took)], &[]);
    }
    Ok(())
}

async fn measure_on_embedded_cluster(run: &RunArgs, archive: &Path, table: &mut ResultTable) -> Result<()> {
    if !["embedded", "reconcile"].iter().any(|work| table.is_requested(work)) {
        return Ok(());
    }
    let (server, cluster) = start_embedded(run, "embedded").await?;
    let ours = PlatformInstaller::new(server, &cluster, USER_COUNT, archive).await?;
    let took = ours.install_concurrently(&cluster, "many", LARGE_BATCH).await?;
    println!("embedded    {took:.1?}, {:.0} MiB", ours.server.peak()?);
    table.push("embedded", &[millis(took)], &[]);
    table.push("embedded-memory", &[ours.server.peak()?], &[]);
    if table.is_requested("reconcile") {
        ours.wait_until_ready(LARGE_BATCH).await?;
        let names: Vec<_> = ours.release_names("many", LARGE_BATCH).take(TOUCHED_RELEASES).collect();
        let (writes, discovery) = idle::cost_of_touching(&ours.server, &cluster, &names).await?;
        table.push("writes", &[writes], &[]);
        table.push("discovery", &[discovery], &[]);
    }
    Ok(())
}

async fn measure_long_list(run: &RunArgs, table: &mut ResultTable) -> Result<()> {
    let (server, cluster) = start_embedded(run, "list").await?;
    let (percentile, largest) = list::measure(&server, &cluster).await?;
    table.push("list", &[percentile], &[]);
    table.push("list-size", &[largest], &[]);
    Ok(())
}

/// A server with its embedded cluster and capacity for everything.
async fn start_embedded(run: &RunArgs, name: &str) -> Result<(PlatformServer, BenchCluster)> {
    let folder = run.folder.join(name);
    std::fs::create_dir_all(&folder)?;
    let server = PlatformServer::start(&run.longshore, &folder, &["--kube-listen", "127.0.0.1:0"])?;
    let printed =
        Command::new(&run.longshore).args(["kubeconfig", "--data"]).arg(folder.join("data")).output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, printed.stdout)?;
    let cluster = BenchCluster::connect(&kubeconfig).await?;
    cluster.add_nodes().await?;
    Ok((server, cluster))
}

fn millis(took: std::time::Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
