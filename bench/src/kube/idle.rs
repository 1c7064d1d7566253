//! CPU usage of a server with many idle pods.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::client::KubeClient;
use super::objects::NAMESPACE;
use super::server::KubeServer;
use crate::report::Sample;

const PODS: u64 = 10_000;
const DEPLOYMENTS: u64 = 10;
/// Enough nodes for all pods, at [`PODS_PER_NODE`] each.
const NODES: u64 = 100;
const PODS_PER_NODE: u64 = 110;
const READY_TIMEOUT: Duration = Duration::from_mins(3);
/// A server that simulates no pods has no ready pod after this time.
const FIRST_READY_TIMEOUT: Duration = Duration::from_secs(20);
const SETTLE_TIME: Duration = Duration::from_secs(15);
const IDLE_DURATION: Duration = Duration::from_secs(30);

/// CPU usage over half a minute with all pods ready, in per cent of a core.
pub async fn idle_cpu(server: &KubeServer) -> Result<Sample> {
    let mut client = server.connect().await?;
    for n in 0..NODES {
        client.create("/api/v1/nodes", node(n).to_string().into()).await?;
    }
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    for n in 0..DEPLOYMENTS {
        client.create(&path, deployment(n).to_string().into()).await?;
    }
    let began = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        match ready_replicas(&mut client, &path).await? {
            PODS => break,
            0 if began.elapsed() > FIRST_READY_TIMEOUT => bail!("no pod becomes ready"),
            some => ensure!(began.elapsed() < READY_TIMEOUT, "only {some} pods became ready"),
        }
    }
    tokio::time::sleep(SETTLE_TIME).await;
    let (before, began) = (server.cpu()?, Instant::now());
    tokio::time::sleep(IDLE_DURATION).await;
    let used = server.cpu()?.saturating_sub(before);
    let share = used.as_secs_f64() / began.elapsed().as_secs_f64();
    Ok(Sample { value: 100.0 * share, wall: None })
}

async fn ready_replicas(client: &mut KubeClient, path: &str) -> Result<u64> {
    let list: Value = serde_json::from_slice(&client.get(path).await?)?;
    let items = list["items"].as_array().into_iter().flatten();
    Ok(items.filter_map(|item| item["status"]["readyReplicas"].as_u64()).sum())
}

fn node(n: u64) -> Value {
    let name = format!("bench-{n:03}");
    let amounts = json!({"cpu": "32", "memory": "256Gi", "pods": PODS_PER_NODE.to_string()});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        "status": {"capacity": amounts, "allocatable": amounts},
    })
}

fn deployment(n: u64) -> Value {
    let name = format!("resting-{n}");
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": PODS / DEPLOYMENTS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        },
    })
}
