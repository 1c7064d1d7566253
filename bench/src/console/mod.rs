//! `console`: the OpenYurt console's routes over a large cluster, against lists from the Kubernetes API.
//!
//! The cluster runs in this process without simulation: 5,000 nodes, 50,000 pods and 4,000 deployments of 2,000
//! accounts, all created through its API ([`fill`]). The server reaches it by kubeconfig and gets requests at a
//! constant rate ([`load`]). The memory of its caches is measured in a separate process ([`cache_memory`]).

pub mod cache_memory;
mod fill;
mod load;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kube_embedded::access::User;
use kube_embedded::cluster::{Cluster, Config};
use tokio::net::TcpListener;

use crate::RunArgs;
use crate::platform_server::{BenchUser, PlatformServer};
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};
use load::Route;

pub const ACCOUNTS: usize = 2_000;
pub const NODES: usize = 5_000;
pub const PODS: usize = 50_000;
/// Per account.
pub const DEPLOYMENTS_PER_ACCOUNT: usize = 2;

/// Time for the server to become idle.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Goal of every route.
const LATENCY_GOAL_MILLIS: f64 = 20.0;

#[derive(Args)]
pub struct ConsoleArgs {
    #[command(flatten)]
    run: RunArgs,
}

const COLUMNS: &[Column] = &[
    ("work", report::description),
    ("ours", report::ours),
    ("straight from the API", report::peer),
    ("ratio", report::ratio),
    ("goal", report::goal),
    ("result", report::result),
];

#[rustfmt::skip]
const ROUTES: &[Route] = &[
    Route { name: "overview",          description: "/clusterOverview of a tenant, p99 at 200/s",      path: "/clusterOverview", as_administrator: false, lists: &["/api/v1/namespaces/{}/pods", "/api/v1/nodes?labelSelector=openyurt/tenant%3D{}", "/apis/apps/v1/namespaces/{}/deployments", "/apis/apps/v1/namespaces/{}/statefulsets", "/apis/batch/v1/namespaces/{}/jobs"] },
    Route { name: "overview-all",      description: "/clusterOverview of everything, p99 at 200/s",    path: "/clusterOverview", as_administrator: true,  lists: &["/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets", "/apis/batch/v1/jobs"] },
    Route { name: "nodes",             description: "/nodes of a tenant, p99 at 200/s",                path: "/nodes",           as_administrator: false, lists: &["/api/v1/nodes?labelSelector=openyurt/tenant%3D{}"] },
    Route { name: "nodes-all",         description: "/nodes of everybody, a page, p99 at 200/s",       path: "/nodes",           as_administrator: true,  lists: &["/api/v1/nodes"] },
    Route { name: "deployments",       description: "/deployments of a tenant, p99 at 200/s",          path: "/deployments",     as_administrator: false, lists: &["/apis/apps/v1/namespaces/{}/deployments"] },
    Route { name: "deployments-all",   description: "/deployments of everybody, a page, p99 at 200/s", path: "/deployments",     as_administrator: true,  lists: &["/apis/apps/v1/deployments"] },
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
    tokio::time::sleep(SETTLE_TIME).await;

    let wanted = |name: &str| run.only.is_empty() || run.only.iter().any(|only| only == name);
    let mut lines = Vec::new();
    let counted = load::RequestCounter::from_cluster(&cluster);
    for route in ROUTES.iter().filter(|route| wanted(route.name)) {
        lines.push(measure(route, &server, &cluster, &people, &admin, run.rounds).await?);
    }
    if wanted("calls") {
        lines.push(requests_per_hundred(&counted, &server, &people).await?);
    }
    drop(server);
    if wanted("memory") {
        let mebibytes = cache_memory::measure_in_child(&kubeconfig)?;
        lines.push(result_line(
            "memory",
            "memory of the projections",
            Unit::Mebibytes,
            Goal::AtMost(64.0),
            &[mebibytes],
            &[],
        )?);
    }
    let measured = Measured { lines, failures: Vec::new() };
    report::publish("console", &measured, COLUMNS, run.rounds, &run.output)
}

fn start(longshore: &Path, folder: &Path, kubeconfig: &Path) -> Result<PlatformServer> {
    PlatformServer::start(longshore, folder, &["--kubeconfig", &kubeconfig.to_string_lossy()])
}

async fn measure(
    route: &Route,
    server: &PlatformServer,
    cluster: &Cluster,
    people: &[BenchUser],
    admin: &BenchUser,
    rounds: usize,
) -> Result<Line> {
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(load::measure_route(route, server, people, admin).await?);
        peers.push(load::measure_kubernetes_lists(route, cluster, people).await?);
    }
    result_line(route.name, route.description, Unit::Millis, Goal::AtMost(LATENCY_GOAL_MILLIS), &ours, &peers)
}

/// Kubernetes API calls per hundred requests, minus those made while idle.
async fn requests_per_hundred(
    counted: &load::RequestCounter,
    server: &PlatformServer,
    people: &[BenchUser],
) -> Result<Line> {
    let idle = counted
        .count_during(async {
            let _: () = tokio::time::sleep(load::ROUTE_DURATION).await;
            Ok(())
        })
        .await?;
    let asking = async {
        for route in ROUTES.iter().filter(|route| !route.as_administrator) {
            load::measure_route(route, server, people, &people[0]).await?;
        }
        Ok(())
    };
    let turns = ROUTES.iter().filter(|route| !route.as_administrator).count();
    let busy = counted.count_during(asking).await?;
    let requests = load::REQUEST_COUNT * turns;
    let more = busy as f64 - (idle * turns as u64) as f64;
    let percent = 100.0 * more.max(0.0) / requests as f64;
    result_line(
        "calls",
        "calls of the Kubernetes API for 100 requests, above idle",
        Unit::Percent,
        Goal::AtMost(1.0),
        &[percent],
        &[],
    )
}

fn result_line(
    name: &'static str,
    work: &'static str,
    unit: Unit,
    goal: Goal,
    ours: &[f64],
    peer: &[f64],
) -> Result<Line> {
    let figures = |values: &[f64]| {
        Figures::from_samples(
            &values.iter().map(|value| Sample { value: *value, wall: None }).collect::<Vec<_>>(),
        )
    };
    let ours = figures(ours).context("nothing was measured")?;
    Ok(Line { name, description: work, unit, goal, ours, peer: figures(peer), second_peer: None })
}
