//! Tests of node usage with a fake metrics API.

use std::sync::Arc;

use http::{Request, Response};
use jiff::SignedDuration;
use kube::client::Body;
use kube_access::Clients;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{ManualClock, TestCluster, wait_for};
use tower::service_fn;

use crate::Fleet;
use crate::testing::{self, ALL, node_object};

/// Response of the fake metrics API; `None` means that it is not installed.
type FakeResponse = Arc<Mutex<Option<Value>>>;

/// A client of a cluster with the fake metrics API.
fn with_fake_metrics(client: kube::Client, answer: FakeResponse) -> kube::Client {
    let call = move |request: Request<Body>| {
        let (client, answer) = (client.clone(), answer.lock().clone());
        async move {
            let said = match (request.uri().path(), answer) {
                ("/apis", Some(_)) => Some(
                    json!({"kind": "APIGroupList", "groups": [{"name": "metrics.k8s.io", "versions": []}]}),
                ),
                (super::NODE_METRICS_PATH, Some(list)) => Some(list),
                _ => None,
            };
            match said {
                Some(said) => Ok(Response::new(Body::from(said.to_string().into_bytes()))),
                None => client.send(request).await,
            }
        }
    };
    kube::Client::new(service_fn(call), "default")
}

#[tokio::test]
async fn usage_is_shown_while_measurements_are_recent() {
    let world = TestCluster::new().await;
    testing::put(&world, node_object("edge-1", json!({}), "True")).await;
    testing::put(&world, node_object("edge-2", json!({}), "True")).await;
    let (answer, clock) = (FakeResponse::default(), ManualClock::new());
    let clients = Clients::new(with_fake_metrics(world.platform_client(), answer.clone()));
    let fleet = Fleet::start(clients, Arc::new(clock.clone()), testing::settings()).await.unwrap();
    let look = fleet.view(ALL);
    let shown = |name: &str| look.node(name).map(|row| row.node_status).unwrap();
    assert_eq!(shown("edge-1").cpu, "0m / 0m / -");

    let of = |name: &str, usage: Value| json!({"metadata": {"name": name}, "timestamp": "2026-01-02T03:04:05Z", "window": "10s", "usage": usage});
    let list = json!({"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [
        of("edge-1", json!({"cpu": "411654321n", "memory": "966367642"})),
        of("gone", json!({"cpu": "1", "memory": "1Gi"})),
    ]});
    *answer.lock() = Some(list);
    wait_for("it is known what is used", async || (shown("edge-1").cpu == "0m / 0m / 412m").then_some(()))
        .await;
    assert_eq!(shown("edge-1").memory, "0.0Mi / 0.0Mi / 921.6Mi");
    assert_eq!(shown("edge-1").cpu_detail.usage, Some(412));
    assert_eq!(shown("edge-2").cpu, "0m / 0m / -");

    // Old measurements are not shown.
    clock.advance(SignedDuration::from_mins(6));
    wait_for("it is too old", async || (shown("edge-1").cpu == "0m / 0m / -").then_some(())).await;
    clock.advance(SignedDuration::from_mins(-6));
    wait_for("it is not", async || (shown("edge-1").cpu == "0m / 0m / 412m").then_some(())).await;

    // An invalid response counts as unknown usage.
    *answer.lock() = Some(json!({"items": 7}));
    wait_for("it is not known any more", async || (shown("edge-1").cpu == "0m / 0m / -").then_some(())).await;
    *answer.lock() = None;
    assert_eq!(shown("edge-1").cpu, "0m / 0m / -");
}
