//! Idle costs: without any change, and after a no-op update of releases.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_types::HelmRelease;
use serde_json::json;

use super::cluster::{BenchCluster, increase_since, parse_other_requests, parse_write_counts};
use super::install::ReleaseName;
use crate::platform_server::PlatformServer;

const SETTLE_TIME: Duration = Duration::from_secs(10);
const IDLE_DURATION: Duration = Duration::from_mins(1);
/// All effects of a touch are complete after this time.
const TOUCH_SETTLE_TIME: Duration = Duration::from_secs(5);

/// Resources that other clients write continuously: leases and node status.
const BACKGROUND_RESOURCES: &[&str] = &["leases", "nodes"];

/// Write requests per minute, and the server's CPU usage in per cent of a core.
pub async fn idle(server: &PlatformServer, cluster: &BenchCluster) -> Result<(f64, f64)> {
    tokio::time::sleep(SETTLE_TIME).await;
    let (cpu, began, before) = (server.cpu()?, Instant::now(), cluster.write_counts().await?);
    tokio::time::sleep(IDLE_DURATION).await;
    let used = server.cpu()?.saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    let written = increase_since(&before, cluster.write_counts().await?);
    println!("at rest     written in a minute: {written:?}");
    let ours: u64 = written
        .iter()
        .filter(|(what, _)| !BACKGROUND_RESOURCES.contains(&what.as_str()))
        .map(|(_, count)| count)
        .sum();
    Ok((ours as f64, 100.0 * used))
}

/// Touches releases on the server's own cluster, so that each is reconciled. Returns the number of other write
/// requests, and of discovery requests.
pub async fn cost_of_touching(
    server: &PlatformServer,
    cluster: &BenchCluster,
    names: &[ReleaseName],
) -> Result<(f64, f64)> {
    let before = server.metrics().await?;
    ensure!(!parse_write_counts(&before).is_empty(), "the server does not count requests");
    stream::iter(names)
        .map(async |(namespace, name)| {
            let releases: Api<HelmRelease> = Api::namespaced(cluster.client.clone(), namespace);
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"bench.example/touched": "yes"}}}));
            releases.patch(name, &PatchParams::default(), &patch).await
        })
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await
        .context("cannot touch a release")?;
    tokio::time::sleep(TOUCH_SETTLE_TIME).await;
    let after = server.metrics().await?;
    let written = increase_since(&parse_write_counts(&before), parse_write_counts(&after));
    println!("touched     {} releases; written: {written:?}", names.len());
    let writes = written.values().sum::<u64>().saturating_sub(names.len() as u64);
    Ok((writes as f64, (parse_other_requests(&after) - parse_other_requests(&before)) as f64))
}
