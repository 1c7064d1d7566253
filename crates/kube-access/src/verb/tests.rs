//! Every verb of the client API, and hostile names that would turn it into another call.

use std::sync::Arc;
use std::time::Duration;

use domain::names::hostile_names;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, WatchParams};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::Clients;
use crate::timeout::{is_retriable, is_unreachable};

type Calls = Arc<Mutex<Vec<String>>>;

/// A server whose responses never end, and the requests that it received.
fn endless_server() -> (kube::Client, Calls) {
    let calls = Calls::default();
    let noted = calls.clone();
    let call = move |request: Request<Body>| {
        noted.lock().push(format!("{} {}", request.method(), request.uri()));
        async {
            let first =
                futures::stream::once(async { Ok::<_, kube::Error>(http_body::Frame::data("{\n".into())) });
            let body = http_body_util::StreamBody::new(first.chain(futures::stream::pending()));
            Ok::<_, kube::Error>(http::Response::new(body))
        }
    };
    let client = kube::Client::new(service_fn(call), "default");
    (Clients::with_timeout(client, Duration::from_millis(50)).platform(), calls)
}

#[tokio::test(start_paused = true)]
async fn hostile_name_opens_no_watch_and_makes_no_other_call() {
    let (client, calls) = endless_server();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    let patch = Patch::Merge(json!({}));
    for name in hostile_names() {
        // The URI parser drops a fragment before the check. Callers validate names.
        if name.contains('#') {
            continue;
        }
        let namespaced: Api<ConfigMap> = Api::namespaced(client.clone(), &name);
        let answers = [
            maps.get(&name).await.map(drop),
            maps.get_opt(&name).await.map(drop),
            maps.patch(&name, &PatchParams::default(), &patch).await.map(drop),
            maps.patch_status(&name, &PatchParams::default(), &patch).await.map(drop),
            maps.replace(&name, &PostParams::default(), &ConfigMap::default()).await.map(drop),
            maps.delete(&name, &DeleteParams::default()).await.map(drop),
            namespaced.get("a").await.map(drop),
            namespaced.list(&ListParams::default()).await.map(drop),
        ];
        for answer in answers {
            let error = answer.expect_err(&name);
            assert!(!is_unreachable(&error), "{name}: {error}");
        }
    }
    assert_eq!(*calls.lock(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn every_verb_is_sent_and_only_declared_streams_have_no_timeout() {
    let (client, calls) = endless_server();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    let spaces: Api<Namespace> = Api::all(client.clone());
    let (post, patch) =
        (PostParams { field_manager: Some("x".into()), dry_run: true }, Patch::Merge(json!({})));
    let merge = PatchParams::apply("x").dry_run();
    let params = PatchParams { force: true, ..PatchParams::apply("x").dry_run() };
    let selection = ListParams::default().labels("watch=true").fields("a=b").limit(5).continue_token("x");
    let map = ConfigMap {
        metadata: kube::core::ObjectMeta { name: Some("a".into()), ..Default::default() },
        ..Default::default()
    };
    let bounded = [
        maps.get("a").await.map(drop),
        maps.get_metadata("a").await.map(drop),
        maps.list(&selection).await.map(drop),
        maps.list_metadata(&selection).await.map(drop),
        maps.create(&post, &map).await.map(drop),
        maps.replace("a", &post, &map).await.map(drop),
        maps.patch("a", &params, &Patch::Apply(&map)).await.map(drop),
        maps.delete("a", &DeleteParams::default().dry_run()).await.map(drop),
        maps.delete_collection(&DeleteParams::default(), &selection).await.map(drop),
        pods.get_status("a").await.map(drop),
        pods.patch_status("a", &merge, &patch).await.map(drop),
        pods.logs(
            "a",
            &LogParams { tail_lines: Some(5), container: Some("b".into()), ..LogParams::default() },
        )
        .await
        .map(drop),
        pods.evict("a", &kube::api::EvictParams::default()).await.map(drop),
        spaces.get("shop").await.map(drop),
        spaces.patch_status("shop", &merge, &patch).await.map(drop),
        client.list_api_groups().await.map(drop),
        client.list_core_api_resources("v1").await.map(drop),
        client.apiserver_version().await.map(drop),
    ];
    assert_eq!(calls.lock().len(), bounded.len());
    for answer in bounded {
        let error = answer.unwrap_err();
        assert!(is_unreachable(&error), "the time limit ends it: {error}");
    }
    drop(maps.watch(&WatchParams::default().labels("a=b").timeout(20), "0").await.unwrap());
    drop(maps.watch_metadata(&WatchParams::default(), "0").await.unwrap());
    pods.log_stream("a", &LogParams { follow: true, ..LogParams::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn undeclared_request_streams_nothing() {
    let (client, calls) = endless_server();
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    for path in [
        "/api/v1/pods?limit=5&watch=true",
        "/api/v1/namespaces/x/pods/y/log?follow=true",
        "/api/v1/pods?watch=0",
    ] {
        let error = client.send(get(path)).await.unwrap_err();
        assert!(!is_retriable(&error), "{error}");
    }
    assert_eq!(calls.lock().len(), 0);
    let error = client.send(get("/api/v1/pods?limit=5&labelSelector=watch%3Dtrue")).await.unwrap_err();
    assert!(is_unreachable(&error));
    client.send(declare(get("/api/v1/pods?watch=true"), "watch")).await.unwrap();
}
