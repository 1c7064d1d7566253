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
use tenancy::{Presented, Settings, Tenancy};
use tokio::net::TcpListener;

use super::{USERS, WORKSPACES, line};
use crate::door::{Person, Server};
use crate::report::{Goal, Line, Unit};

/// Number of concurrent creations.
const AT_ONCE: usize = 32;
/// Number of authentications per token.
const TIMES: usize = 50;
/// Time for the server to become idle.
const SETTLE: Duration = Duration::from_secs(5);

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
    let start = || Server::start(longshore, &folder, &["--kubeconfig", &kubeconfig]);

    let resident = async || {
        let server = start()?;
        tokio::time::sleep(SETTLE).await;
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
    let micros = recognise(&tenancy, &people).await?;
    let lines = [
        line(
            "recognise",
            "a token to an actor with roles, 99th percentile",
            Unit::Micros,
            Goal::AtMost(50.0),
            &[micros],
        ),
        line(
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
async fn fill(server: &Server) -> Result<Vec<Person>> {
    let people: Vec<Person> =
        stream::iter(0..USERS).map(|number| server.register(number)).buffered(AT_ONCE).try_collect().await?;
    let shared = people.iter().take(WORKSPACES).enumerate().map(async |(number, owner)| {
        let body = json!({"name": format!("team-{number}")});
        server.call(Some(owner), Method::POST, "workspaces", Some(&body), 201).await
    });
    stream::iter(shared).buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
    Ok(people)
}

/// Authenticates every token repeatedly. Returns the 99th percentile in microseconds.
async fn recognise(tenancy: &Tenancy, people: &[Person]) -> Result<f64> {
    let mut micros = Vec::with_capacity(TIMES * people.len());
    for _ in 0..TIMES {
        for person in people {
            let began = Instant::now();
            let actor = tenancy
                .authenticate(&Presented { bearer: Some(&person.token), ..Presented::default() })
                .await?;
            micros.push(began.elapsed().as_secs_f64() * 1e6);
            anyhow::ensure!(
                actor.id().is_some_and(|id| id.as_str() == person.id),
                "recognised as somebody else"
            );
        }
    }
    micros.sort_by(f64::total_cmp);
    Ok(micros[micros.len() * 99 / 100])
}
