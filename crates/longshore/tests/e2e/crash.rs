//! `kill -9` at any moment: what was acknowledged is there, and versions never go back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use tempfile::tempdir;

use crate::program::Server;
use crate::target::only_on_embedded;

const ROUNDS: u64 = 5;
const WRITERS: usize = 8;

/// Names that the server acknowledged, with the version it gave each.
type Acknowledged = Arc<Mutex<BTreeMap<String, u64>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let acknowledged = Acknowledged::default();
    let mut newest = 0;
    for round in 0..ROUNDS {
        let server = Server::start(&data);
        let client = server.client().await;
        let so_far = acknowledged.lock().unwrap().clone();
        newest = everything_is_there(&client, &so_far, newest).await;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write(client.clone(), format!("r{round}-w{writer}"), acknowledged.clone()))
            })
            .collect();
        // Other moments in every round and every run.
        let moment =
            u64::from(std::process::id()).wrapping_mul(2_654_435_761).wrapping_add(round * 7919) % 400;
        tokio::time::sleep(Duration::from_millis(200 + moment)).await;
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
    }
    let server = Server::start(&data);
    let acknowledged = acknowledged.lock().unwrap().clone();
    assert!(acknowledged.len() as u64 > ROUNDS * 10, "hardly anything was written: {}", acknowledged.len());
    everything_is_there(&server.client().await, &acknowledged, newest).await;
}

/// Creates objects as fast as it can until the server is gone.
async fn write(client: kube::Client, prefix: String, acknowledged: Acknowledged) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for number in 0.. {
        let mut map = ConfigMap {
            data: Some([("text".to_owned(), "x".repeat(number % 512))].into()),
            ..ConfigMap::default()
        };
        let name = format!("{prefix}-{number}");
        map.metadata.name = Some(name.clone());
        let Ok(made) = maps.create(&PostParams::default(), &map).await else { return };
        acknowledged.lock().unwrap().insert(name, version(made.metadata.resource_version.as_ref()));
    }
}

/// Every acknowledged object, with its version; answers the list's version, which is not below `newest`.
async fn everything_is_there(
    client: &kube::Client,
    acknowledged: &BTreeMap<String, u64>,
    newest: u64,
) -> u64 {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let list = maps.list(&ListParams::default()).await.unwrap();
    let found: BTreeMap<_, _> = list
        .items
        .iter()
        .map(|map| (map.metadata.name.clone().unwrap(), version(map.metadata.resource_version.as_ref())))
        .collect();
    for (name, version) in acknowledged {
        assert_eq!(found.get(name), Some(version), "{name}");
    }
    let now = version(list.metadata.resource_version.as_ref());
    let highest = acknowledged.values().copied().max().unwrap_or_default();
    assert!(now >= highest.max(newest), "the version went back from {} to {now}", highest.max(newest));
    now
}

fn version(text: Option<&String>) -> u64 {
    text.unwrap().parse().unwrap()
}
