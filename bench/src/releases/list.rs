//! Latency of a list of many releases.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use kube::Api;
use kube::api::PostParams;
use kube_types::HelmRelease;
use serde_json::{Value, json};

use super::cluster::BenchCluster;
use crate::platform_server::{BenchUser, PlatformServer};

pub const RELEASE_COUNT: usize = 10_000;
const REQUESTS_PER_SECOND: u32 = 200;
const REQUEST_COUNT: u32 = 20 * REQUESTS_PER_SECOND;
const MAX_CONCURRENT: usize = 32;
const LIST_TIMEOUT: Duration = Duration::from_mins(5);
/// Pending updates are complete after this time.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Pages of 50 with various filters and orders.
const QUERIES: &[&str] = &[
    "sort=-updated&q=app-1",
    "sort=name&status=resting&field=chart=chart-7",
    "sort=-name&q=app&at=500",
    "sort=chart&label=tier=front",
];

/// 99th percentile of latency in milliseconds, and the largest response in kilobytes.
pub async fn measure(server: &PlatformServer, cluster: &BenchCluster) -> Result<(f64, f64)> {
    let person = server.register(0).await?;
    create_releases(cluster, &person).await?;
    wait_until_listed(server, &person).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    let began = Instant::now();
    let asked = (0..REQUEST_COUNT).map(async |number| {
        let due = began + number * Duration::from_secs(1) / REQUESTS_PER_SECOND;
        tokio::time::sleep_until(due.into()).await;
        let path = format!("releases?limit=50&{}", QUERIES[number as usize % QUERIES.len()]);
        let (status, body) =
            server.send(Some(&person), Method::GET, &path, "application/json", Bytes::new()).await?;
        ensure!(status == 200, "{path}: {status} {}", String::from_utf8_lossy(&body));
        // Measured from the scheduled time, so that queueing counts.
        let took = due.elapsed().as_secs_f64() * 1e3;
        let items = serde_json::from_slice::<Value>(&body)?["items"].as_array().map_or(0, Vec::len);
        ensure!(items == 50, "{path}: {items} releases");
        Ok((took, body.len()))
    });
    let answers: Vec<(f64, usize)> = futures::future::try_join_all(asked).await?;
    let mut took: Vec<f64> = answers.iter().map(|answer| answer.0).collect();
    took.sort_by(f64::total_cmp);
    let largest = answers.iter().map(|answer| answer.1).max().context("nothing was answered")?;
    println!("list        median {:.1} ms, last {:.1} ms", took[took.len() / 2], took[took.len() - 1]);
    Ok((took[took.len() * 99 / 100], largest as f64 / 1e3))
}

/// Releases without controller: suspended.
async fn create_releases(cluster: &BenchCluster, owner: &BenchUser) -> Result<()> {
    let releases: Api<HelmRelease> = Api::namespaced(cluster.client.clone(), &owner.id);
    stream::iter(0..RELEASE_COUNT)
        .map(async |number| {
            let name = format!("app-{number}");
            let tier = if number % 2 == 0 { "front" } else { "back" };
            let release: HelmRelease = serde_json::from_value(json!({
                "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease",
                "metadata": {"name": name, "labels": {"tier": tier}},
                "spec": {
                    "name": name, "chartName": format!("chart-{}", number % 20), "chartVersion": "1.0.0",
                    "source": {"package": "pkg-aaaaaaaaaaaaaaaaaaaa"}, "suspend": true,
                },
            }))?;
            releases.create(&PostParams::default(), &release).await.context("cannot write a release")
        })
        .buffer_unordered(MAX_CONCURRENT)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Returns when the list contains all releases as suspended.
async fn wait_until_listed(server: &PlatformServer, person: &BenchUser) -> Result<()> {
    let began = Instant::now();
    loop {
        let list = server
            .call_json(Some(person), Method::GET, "releases?limit=1&field=state=suspended", None, 200)
            .await?;
        if list["total"] == RELEASE_COUNT {
            return Ok(());
        }
        ensure!(began.elapsed() < LIST_TIMEOUT, "only {} releases are on the list", list["total"]);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
