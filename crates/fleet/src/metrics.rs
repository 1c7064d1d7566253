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

use crate::resources::{self, MeasuredUsage};
use crate::watches::SharedCache;

const METRICS_GROUP: &str = "metrics.k8s.io";
const NODE_METRICS_PATH: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
/// Maximum age of a measurement: for a disconnected node, the metrics API may keep returning the last one.
const MAX_MEASUREMENT_AGE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Deserialize)]
struct NodeMetricsList {
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
pub(crate) async fn poll(
    client: kube::Client,
    state: SharedCache,
    clock: Arc<dyn Clock>,
    interval: Duration,
) {
    let mut failing = false;
    loop {
        let used = match fetch_usage(&client, clock.now()).await {
            Ok(used) => {
                failing = false;
                used
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot read node metrics");
                }
                HashMap::new()
            }
        };
        state.write().usage = used;
        sleep(interval).await;
    }
}

async fn fetch_usage(
    client: &kube::Client,
    now: Timestamp,
) -> Result<HashMap<Box<str>, MeasuredUsage>, kube::Error> {
    let groups = client.list_api_groups().await?;
    if !groups.groups.iter().any(|group| group.name == METRICS_GROUP) {
        return Ok(HashMap::new());
    }
    let request = Request::get(NODE_METRICS_PATH).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let list: NodeMetricsList = client.request(request).await?;
    let used = |node: NodeMetrics| {
        let used = MeasuredUsage {
            cpu: resources::milli_value(&node.usage, "cpu"),
            memory: resources::integer_value(&node.usage, "memory"),
        };
        Some((node.metadata.name?.into_boxed_str(), used))
    };
    let fresh = |node: &NodeMetrics| {
        node.timestamp.as_ref().is_none_or(|at| now.duration_since(at.0) <= MAX_MEASUREMENT_AGE)
    };
    Ok(list.items.into_iter().filter(fresh).filter_map(used).collect())
}

#[cfg(test)]
mod tests;
