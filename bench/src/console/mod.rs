//! `console`: the OpenYurt console's routes over a large cluster, against lists from the Kubernetes API.
//!
//! The cluster runs in this process without simulation: 5,000 nodes, 50,000 pods and 4,000 deployments of 2,000
//! accounts, all created through its API ([`fill`]). The server reaches it by kubeconfig and gets requests at a
//! constant rate ([`load`]). The memory of its caches is measured in a separate process ([`held`]).

mod fill;
pub mod held;
mod load;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kube_embedded::access::User;
use kube_embedded::cluster::{Cluster, Config};
use tokio::net::TcpListener;

use crate::RunArgs;
use crate::door::{Person, Server};
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};
use load::Route;

pub const ACCOUNTS: usize = 2_000;
pub const NODES: usize = 5_000;
pub const PODS: usize = 50_000;
/// Per account.
pub const DEPLOYMENTS: usize = 2;

/// Time for the server to become idle.
const SETTLE: Duration = Duration::from_secs(5);
/// Goal of every route.
const MILLIS: f64 = 20.0;

#[derive(Args)]
pub struct ConsoleArgs {
    #[command(flatten)]
    run: RunArgs,
}

const COLUMNS: &[Column] = &[
    ("work", report::work),
    ("ours", report::ours),
    ("straight from the API", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
];

#[rustfmt::skip]
const ROUTES: &[Route] = &[
    Route { name: "overview",          work: "/clusterOverview of a tenant, p99 at 200/s",      path: "/clusterOverview", all: false, lists: &["/api/v1/namespaces/{}/pods", "/api/v1/nodes?labelSelector=openyurt/tenant%3D{}", "/apis/apps/v1/namespaces/{}/deployments", "/apis/apps/v1/namespaces/{}/statefulsets", "/apis/batch/v1/namespaces/{}/jobs"] },
    Route { name: "overview-all",      work: "/clusterOverview of everything, p99 at 200/s",    path: "/clusterOverview", all: true,  lists: &["/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets", "/apis/batch/v1/jobs"] },
    Route { name: "nodes",             work: "/nodes of a tenant, p99 at 200/s",                path: "/nodes",           all: false, lists: &["/api/v1/nodes?labelSelector=openyurt/tenant%3D{}"] },
    Route { name: "nodes-all",         work: "/nodes of everybody, a page, p99 at 200/s",       path: "/nodes",           all: true,  lists: &["/api/v1/nodes"] },
    Route { name: "deployments",       work: "/deployments of a tenant, p99 at 200/s",          path: "/deployments",     all: false, lists: &["/apis/apps/v1/namespaces/{}/deployments"] },
    Route { name: "deployments-all",   work: "/deployments of everybody, a page, p99 at 200/s", path: "/deployments",     all: true,  lists: &["/apis/apps/v1/deployments"] },
];

#[tokio::main]
pub async fn bench(args: ConsoleArgs) -> Result<()> {
    let run = args.run;
    let folder = run.folder.join("console");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?; // of an earlier run
    }
    std::fs::create_dir_all(&folder)?;
    let cluster = Cluster::open(Config::default()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, cluster.pki().kubeconfig(&url))?;
    tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.serve(listener).await }
    });
    let server = start(&run.longshore, &folder, &kubeconfig)?;
    let admin = server.administrator(&folder).await?;
    let people = fill::fill(&server, cluster.client(User::admin())).await?;
    drop(server);
    let server = start(&run.longshore, &folder, &kubeconfig)?;
    tokio::time::sleep(SETTLE).await;

    let wanted = |name: &str| run.only.is_empty() || run.only.iter().any(|only| only == name);
    let mut lines = Vec::new();
    let counted = load::Counted::of(&cluster);
    for route in ROUTES.iter().filter(|route| wanted(route.name)) {
        lines.push(measure(route, &server, &cluster, &people, &admin, run.rounds).await?);
    }
    if wanted("calls") {
        lines.push(calls(&counted, &server, &people).await?);
    }
    drop(server);
    if wanted("memory") {
        let mebibytes = held::measure(&kubeconfig)?;
        lines.push(line(
            "memory",
            "memory of the projections",
            Unit::Mebibytes,
            Goal::AtMost(64.0),
            &[mebibytes],
            &[],
        )?);
    }
    let measured = Measured { lines, failed: Vec::new() };
    report::publish("console", &measured, COLUMNS, run.rounds, &run.output)
}

fn start(longshore: &Path, folder: &Path, kubeconfig: &Path) -> Result<Server> {
    Server::start(longshore, folder, &["--kubeconfig", &kubeconfig.to_string_lossy()])
}

async fn measure(
    route: &Route,
    server: &Server,
    cluster: &Cluster,
    people: &[Person],
    admin: &Person,
    rounds: usize,
) -> Result<Line> {
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(load::ours(route, server, people, admin).await?);
        peers.push(load::straight(route, cluster, people).await?);
    }
    line(route.name, route.work, Unit::Millis, Goal::AtMost(MILLIS), &ours, &peers)
}

/// Kubernetes API calls per hundred requests, minus those made while idle.
async fn calls(counted: &load::Counted, server: &Server, people: &[Person]) -> Result<Line> {
    let idle = counted
        .during(async {
            let _: () = tokio::time::sleep(load::TURN).await;
            Ok(())
        })
        .await?;
    let asking = async {
        for route in ROUTES.iter().filter(|route| !route.all) {
            load::ours(route, server, people, &people[0]).await?;
        }
        Ok(())
    };
    let turns = ROUTES.iter().filter(|route| !route.all).count();
    let busy = counted.during(asking).await?;
    let requests = load::REQUESTS * turns;
    let more = busy as f64 - (idle * turns as u64) as f64;
    let percent = 100.0 * more.max(0.0) / requests as f64;
    line(
        "calls",
        "calls of the Kubernetes API for 100 requests, above idle",
        Unit::Percent,
        Goal::AtMost(1.0),
        &[percent],
        &[],
    )
}

fn line(
    name: &'static str,
    work: &'static str,
    unit: Unit,
    goal: Goal,
    ours: &[f64],
    peer: &[f64],
) -> Result<Line> {
    let figures = |values: &[f64]| {
        Figures::of(&values.iter().map(|value| Sample { value: *value, wall: None }).collect::<Vec<_>>())
    };
    let ours = figures(ours).context("nothing was measured")?;
    Ok(Line { name, work, unit, goal, ours, peer: figures(peer), other: None })
}
