//! Requests on stored objects with many elements: their CPU time grows at most linearly with the number of elements.

use std::time::Duration;

use serde_json::{Value, json};

use super::lists::cpu_time;
use super::tenant::put;
use super::{DEPLOYMENTS, deployment};
use crate::access::User;
use crate::cluster::{Cluster, Config};

/// Upper limit of `time(1 request, 10n elements) / time(10 requests, n elements)`. Linear cost gives 1, quadratic 10.
const MAX_TIME_RATIO: u32 = 2;
const MAX_ATTEMPTS: usize = 3;

struct AdminClient(kube::Client);

impl AdminClient {
    /// Returns code and body of the response, and the CPU time of this thread, which does all of the work.
    async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value, Duration) {
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let request = request.body(body.to_string().into_bytes().into()).unwrap();
        let began = cpu_time();
        let answer = self.0.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        let elapsed = cpu_time().saturating_sub(began);
        (code, serde_json::from_slice(&body).unwrap_or_default(), elapsed)
    }
}

async fn start_cluster() -> (Cluster, AdminClient) {
    let cluster = Cluster::open(Config { inline_bytes: usize::MAX, ..Config::default() }).await.unwrap();
    let admin = AdminClient(cluster.client(User::admin()));
    (cluster, admin)
}

/// Fails if every attempt exceeds [`MAX_TIME_RATIO`]. Ten small requests are timed together, because one is too short to measure.
async fn assert_linear(small: usize, mut cost: impl AsyncFnMut(usize) -> Duration) {
    let mut measurements = Vec::new();
    for _ in 0..MAX_ATTEMPTS {
        let mut ten_small = Duration::ZERO;
        for _ in 0..10 {
            ten_small += cost(small).await;
        }
        let one_large = cost(10 * small).await;
        if one_large < MAX_TIME_RATIO * ten_small {
            return;
        }
        measurements.push((ten_small, one_large));
    }
    panic!("one request takes longer than ten with a tenth of the parts each: {measurements:?}");
}

fn thing_crd() -> Value {
    // The rule is never evaluated, but all elements are visited for it.
    let validated_integer = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]});
    let part = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 20}, "value": {"type": "integer"}, "ruled": validated_integer}});
    let parts = json!({"type": "array", "maxItems": 10_000, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"], "items": part});
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"parts": parts}}}});
    json!({
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    })
}

#[tokio::test]
async fn custom_resource_update_is_linear_in_keyed_list_elements() {
    let (cluster, admin) = start_cluster().await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer, _) = admin.send("POST", path, "application/json", &thing_crd()).await;
    assert_eq!(code, 201, "{answer:#}");
    let things = "/apis/example.org/v1/namespaces/default/things";
    while admin.send("GET", things, "application/json", &Value::Null).await.0 == 404 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut number = 0;
    assert_linear(500, async |count| {
        number += 1;
        let name = format!("t{number}");
        let thing = |value: usize| {
            let parts: Vec<_> = (0..count).map(|n| json!({"name": format!("n{n}"), "value": value})).collect();
            json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"parts": parts}})
        };
        let (code, answer, _) = admin.send("POST", things, "application/json", &thing(1)).await;
        assert_eq!(code, 201, "{:.500}", answer.to_string());
        let change = json!({"spec": {"parts": thing(2)["spec"]["parts"]}});
        let path = format!("{things}/{name}");
        let (code, answer, took) = admin.send("PATCH", &path, "application/merge-patch+json", &change).await;
        assert_eq!(code, 200, "{:.500}", answer.to_string());
        took
    })
    .await;
    cluster.stop();
}

#[tokio::test]
async fn scale_update_is_linear_in_field_managers() {
    let (cluster, admin) = start_cluster().await;
    let mut number = 0;
    // Unchanged replicas keep all managers; changed replicas remove the field from all of them.
    for replicas in [1, 2] {
        assert_linear(400, async |count| {
            number += 1;
            let name = format!("d{number}");
            // In reverse order of names.
            let managers = (0..count).rev().map(|n| {
                json!({"manager": format!("m{n:05}"), "operation": "Apply", "apiVersion": "apps/v1",
                    "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
            });
            let mut object = deployment(&name, 1, &json!({}));
            object["metadata"]["namespace"] = "default".into();
            object["metadata"]["uid"] = name.as_str().into();
            object["metadata"]["managedFields"] = managers.collect();
            put(&cluster, "deployments.apps", vec![object]).await;
            let path = format!("{DEPLOYMENTS}/{name}/scale");
            let change = json!({"spec": {"replicas": replicas}});
            let (code, answer, took) = admin.send("PATCH", &path, "application/merge-patch+json", &change).await;
            assert_eq!(code, 200, "{answer:#}");
            took
        })
        .await;
    }
    cluster.stop();
}
