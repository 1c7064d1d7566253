//! Costs of many users and workspaces: authentication latency and memory.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use domain::clock::SystemClock;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use kube_access::Clients;
use kube_embedded::access::User;
use kube_embedded::cluster::{Cluster, Config};
use serde_json::json;
use tenancy::{RequestCredentials, Settings, Tenancy};
use tokio::net::TcpListener;

use super::{USERS, WORKSPACES, result_line};
use crate::platform_server::{BenchUser, PlatformServer};
use crate::report::{Goal, Line, Unit};

/// Number of concurrent creations.
const MAX_CONCURRENT: usize = 32;
/// Number of authentications per token.
const AUTHENTICATIONS_PER_TOKEN: usize = 50;
/// Time for the server to become idle.
const SETTLE_TIME: Duration = Duration::from_secs(5);

pub async fn measure(longshore: &Path, folder: &Path, rounds: usize) -> Result<Vec<Line>> {
    let folder = folder.join("many");
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
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    let start = || PlatformServer::start(longshore, &folder, &["--kubeconfig", &kubeconfig]);

    let resident = async || {
        let server = start()?;
        tokio::time::sleep(SETTLE_TIME).await;
        let resident = server.resident()?;
        server.stop()?;
        anyhow::Ok(resident)
    };
    // The first start creates CRDs and roles, which later starts do not, so it is not measured.
    resident().await?;
    let mut idle = Vec::new();
    for _ in 0..rounds {
        idle.push(resident().await?);
    }
    let server = start()?;
    let people = fill(&server).await?;
    server.stop()?;
    let mut above = Vec::new();
    for idle in &idle {
        above.push(resident().await? - idle);
    }
    println!("memory      idle {idle:.1?}, above it {above:.1?}");

    let clients = Clients::new(cluster.client(User::admin()));
    let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(SystemClock)).await?;
    let micros = authentication_latency(&tenancy, &people).await?;
    let lines = [
        result_line(
            "recognise",
            "a token to an actor with roles, 99th percentile",
            Unit::Micros,
            Goal::AtMost(50.0),
            &[micros],
        ),
        result_line(
            "memory",
            "resident above idle, 2,000 people and 500 workspaces",
            Unit::Mebibytes,
            Goal::AtMost(20.0),
            &above,
        ),
    ];
    lines.into_iter().map(|line| line.context("nothing was measured")).collect()
}

/// Registers all users, each with a personal workspace, and creates shared workspaces for some.
async fn fill(server: &PlatformServer) -> Result<Vec<BenchUser>> {
    let people: Vec<BenchUser> = stream::iter(0..USERS)
        .map(|number| server.register(number))
        .buffered(MAX_CONCURRENT)
        .try_collect()
        .await?;
    let shared = people.iter().take(WORKSPACES).enumerate().map(async |(number, owner)| {
        let body = json!({"name": format!("team-{number}")});
        server.call_json(Some(owner), Method::POST, "workspaces", Some(&body), 201).await
    });
    stream::iter(shared).buffered(MAX_CONCURRENT).try_collect::<Vec<_>>().await?;
    Ok(people)
}

/// Authenticates every token repeatedly. Returns the 99th percentile in microseconds.
async fn authentication_latency(tenancy: &Tenancy, people: &[BenchUser]) -> Result<f64> {
    let mut micros = Vec::with_capacity(AUTHENTICATIONS_PER_TOKEN * people.len());
    for _ in 0..AUTHENTICATIONS_PER_TOKEN {
        for person in people {
            let began = Instant::now();
            let actor = tenancy
                .authenticate(&RequestCredentials {
                    bearer: Some(&person.token),
                    ..RequestCredentials::default()
                })
                .await?;
            micros.push(began.elapsed().as_secs_f64() * 1e6);
            anyhow::ensure!(
                actor.user_id().is_some_and(|id| id.as_str() == person.id),
                "recognised as somebody else"
            );
        }
    }
    micros.sort_by(f64::total_cmp);
    Ok(micros[micros.len() * 99 / 100])
}
