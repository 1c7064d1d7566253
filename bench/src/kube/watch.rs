//! Many watchers: delivery latency and memory.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::KubeClient;
use super::load::filled_name;
use super::objects::{NAMESPACE, config_maps_path};
use super::server::KubeServer;
use crate::report::Sample;

const WATCHER_COUNT: usize = 1_000;
/// Number of sequential changes per turn.
const CHANGES_PER_ROUND: usize = 10;
const MEMORY_WATCHER_COUNT: usize = 100;
/// kube-apiserver's limit of streams per connection.
pub const WATCHES_PER_CONNECTION: usize = 100;
/// Time for memory used by creates and connections to be freed.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Number of concurrent TLS handshakes.
const MAX_CONCURRENT_HANDSHAKES: usize = 32;
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends changes to all watchers. Returns the time from sending to the last delivery, in milliseconds.
/// `per_connection` watchers share a connection, like the watches of one program.
pub async fn delivery_latency(server: &KubeServer, per_connection: usize) -> Result<Sample> {
    let mut writer = server.connect().await?;
    let (told, mut deliveries) = mpsc::unbounded_channel();
    // Dropping the set aborts the tasks.
    let mut receivers = JoinSet::new();
    for (client, body) in open_watches(server, WATCHER_COUNT, per_connection).await? {
        receivers.spawn(record_events(client, body, told.clone()));
    }
    drop(told);
    let path = format!("{}/{}", config_maps_path(NAMESPACE), filled_name(0));
    let mut times = Vec::new();
    // The first change is a warm-up.
    for change in 0..=CHANGES_PER_ROUND {
        let began = Instant::now();
        let written =
            writer.merge(&path, &json!({"data": {"change": format!("{change} at {began:?}")}})).await?;
        let written = serde_json::from_slice::<Value>(&written)?["metadata"]["resourceVersion"].clone();
        let mut last = began;
        for _ in 0..WATCHER_COUNT {
            let delivery = tokio::time::timeout(DELIVERY_TIMEOUT, deliveries.recv()).await;
            let (at, version) = delivery.context("a watcher got nothing")?.context("a watch ended")?;
            ensure!(written == *version, "a watcher got version {version} instead of {written}");
            last = last.max(at);
        }
        times.push((last - began).as_secs_f64() * 1e3);
    }
    let mut counted = times.split_off(1);
    counted.sort_by(f64::total_cmp);
    Ok(Sample { value: counted[CHANGES_PER_ROUND / 2], wall: None })
}

/// Resident memory in MiB with idle watchers.
pub async fn watcher_memory(server: &KubeServer) -> Result<Sample> {
    let _waiting = open_watches(server, MEMORY_WATCHER_COUNT, 1).await?;
    tokio::time::sleep(SETTLE_TIME).await;
    Ok(Sample { value: server.resident()? as f64 / f64::from(1 << 20), wall: None })
}

async fn open_watches(
    server: &KubeServer,
    count: usize,
    sharing: usize,
) -> Result<Vec<(KubeClient, Incoming)>> {
    let list = server.connect().await?.get(&format!("{}?limit=1", config_maps_path(NAMESPACE))).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let version = list["metadata"]["resourceVersion"].as_str().context("a list without a version")?;
    let path = format!("{}?watch=true&resourceVersion={version}", config_maps_path(NAMESPACE));
    let program = async |_| {
        let client = server.connect().await?;
        let begin = async |_| {
            let mut client = client.clone();
            let body = client.watch(&path).await?;
            anyhow::Ok((client, body))
        };
        stream::iter(0..sharing).then(begin).try_collect::<Vec<_>>().await
    };
    let programs = stream::iter(0..count / sharing).map(program).buffer_unordered(MAX_CONCURRENT_HANDSHAKES);
    let watchers: Vec<Vec<_>> = programs.try_collect().await?;
    Ok(watchers.into_iter().flatten().collect())
}

/// Reports the time and the resource version of each event.
async fn record_events(
    _client: KubeClient,
    mut body: Incoming,
    told: mpsc::UnboundedSender<(Instant, String)>,
) -> Result<()> {
    let mut line = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        line.extend_from_slice(&data);
        if line.last() == Some(&b'\n') {
            let at = Instant::now();
            if told.send((at, event_version(&line)?)).is_err() {
                return Ok(());
            }
            line.clear();
        }
    }
    Ok(())
}

/// Searched by name: parsing a thousand documents would cost more than delivering them.
fn event_version(event: &[u8]) -> Result<String> {
    let event = std::str::from_utf8(event)?;
    let Some((_, version)) = event.split_once("\"resourceVersion\":\"") else {
        bail!("an odd event: {event}")
    };
    Ok(version.split('"').next().unwrap_or_default().to_owned())
}
