//! Attacks with credentials whose objects are large: they are read with every request, before it acquires a seat.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::lists::cpu_time;
use super::tenant::{Tenant, put};
use crate::access::User;
use crate::access::authn::ISSUER;
use crate::access::node::{NODES, is_certificate_of_predecessor};
use crate::access::tokens::fill_token_secret;
use crate::cluster::Cluster;

/// Returns the CPU time of `times` calls.
fn cost(times: usize, mut call: impl FnMut()) -> Duration {
    let began = cpu_time();
    (0..times).for_each(|_| call());
    cpu_time().saturating_sub(began)
}

#[tokio::test]
async fn token_is_checked_without_parsing_its_large_secret_each_time() {
    let cluster = Cluster::in_memory().await;
    let account = json!({"metadata": {"name": "bot", "namespace": "default", "uid": "u1"}});
    let data: Map<String, Value> = (0..30_000).map(|n| (format!("k{n}"), "eA==".into())).collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": data,
        "metadata": {"name": "t", "namespace": "default", "uid": "u2",
            "annotations": {"kubernetes.io/service-account.name": "bot"}}});
    let secret = fill_token_secret(&cluster.pki().signing_key(), &account, &secret, "CA").unwrap();
    put(&cluster, "serviceaccounts", vec![account]).await;
    put(&cluster, "secrets", vec![secret]).await;
    let stored = cluster.store().get("secrets", "default", "t").unwrap();
    let token = stored.value()["data"]["token"].as_str().unwrap().to_owned();
    let token = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, token).unwrap();
    let token = String::from_utf8(token).unwrap();
    let parsed = cost(10, || drop(stored.value()));
    let checked = cost(100, || {
        let accepted = cluster.authenticator().authenticate_token(&token, &[ISSUER.to_owned()]).unwrap();
        assert_eq!(accepted.user.name, "system:serviceaccount:default:bot");
    });
    assert!(checked < parsed * 5, "{checked:?}, parsing {parsed:?}");
    cluster.stop();
}

#[tokio::test]
async fn certificate_of_a_node_is_checked_without_parsing_its_large_node_each_time() {
    let cluster = Cluster::in_memory().await;
    let images: Vec<Value> = (0..30_000).map(|n| json!({"names": [format!("i{n}")]})).collect();
    let node = json!({"apiVersion": "v1", "kind": "Node", "status": {"images": images},
        "metadata": {"name": "uaaaaaaaaaa-edge", "uid": "n",
            "annotations": {"longshore.dev/certificates-not-before": "2026-01-02T03:04:05Z"}}});
    put(&cluster, "nodes", vec![node]).await;
    let stored = cluster.store().get("nodes", "", "uaaaaaaaaaa-edge").unwrap();
    let user = User::named("system:node:uaaaaaaaaaa-edge", &[NODES]);
    let parsed = cost(10, || drop(stored.value()));
    let checked = cost(100, || assert!(is_certificate_of_predecessor(cluster.store(), &user, 0)));
    assert!(checked < parsed * 5, "{checked:?}, parsing {parsed:?}");
    cluster.stop();
}

#[tokio::test]
async fn approval_by_server_side_apply_needs_the_verb_approve_on_the_signer() {
    let cluster = Cluster::in_memory().await;
    let rules = json!([{"verbs": ["patch", "update"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests/approval"]}]);
    let tenant = Tenant::new(&cluster, rules).await;
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"request": "AAAA", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}});
    put(&cluster, "certificatesigningrequests.certificates.k8s.io", vec![request]).await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval";
    let approved = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "a"}, "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Tom"}]}});
    for (media, query) in [
        ("application/merge-patch+json", ""),
        ("application/apply-patch+yaml", "?fieldManager=tom&force=true"),
    ] {
        let (code, answer) =
            tenant.send("PATCH", &format!("{path}{query}"), media, approved.to_string()).await;
        assert_eq!(code, 403, "{media}: {answer}");
    }
}
