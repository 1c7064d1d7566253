//! Usage of nodes from `metrics.k8s.io`. Edge clusters often do not serve it; usage is then unknown.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::clock::Clock;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::amounts::{self, Used};
use crate::feeds::Shared;

const GROUP: &str = "metrics.k8s.io";
const NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
/// Maximum age of a measurement: for a disconnected node, the metrics API may keep returning the last one.
const OLD: SignedDuration = SignedDuration::from_mins(5);

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<NodeMetrics>,
}

#[derive(Deserialize)]
struct NodeMetrics {
    metadata: ObjectMeta,
    timestamp: Option<Time>,
    #[serde(default)]
    usage: Value,
}

/// Polls metrics. Usage that is no longer reported is removed.
pub(crate) async fn follow(client: kube::Client, state: Shared, clock: Arc<dyn Clock>, every: Duration) {
    let mut failing = false;
    loop {
        let used = match ask(&client, clock.now()).await {
            Ok(used) => {
                failing = false;
                used
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "cannot ask what is used of the nodes"
                    );
                }
                HashMap::new()
            }
        };
        state.write().used = used;
        sleep(every).await;
    }
}

async fn ask(client: &kube::Client, now: Timestamp) -> Result<HashMap<Box<str>, Used>, kube::Error> {
    let groups = client.list_api_groups().await?;
    if !groups.groups.iter().any(|group| group.name == GROUP) {
        return Ok(HashMap::new());
    }
    let request = Request::get(NODES).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let list: List = client.request(request).await?;
    let used = |node: NodeMetrics| {
        let used =
            Used { cpu: amounts::milli(&node.usage, "cpu"), memory: amounts::whole(&node.usage, "memory") };
        Some((node.metadata.name?.into_boxed_str(), used))
    };
    let fresh = |node: &NodeMetrics| node.timestamp.as_ref().is_none_or(|at| now.duration_since(at.0) <= OLD);
    Ok(list.items.into_iter().filter(fresh).filter_map(used).collect())
}

#[cfg(test)]
mod tests;
