//! Tests of the node authorizer: its decisions as a snapshot, and changes of pods.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::rbac::Authorizer;
use super::super::testing::store_object;
use super::super::{Attributes, User};
use super::*;

thread_local! {
    /// Number of pods whose references this thread has read.
    pub static READ_PODS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn edge_node() -> User {
    User::named("system:node:edge", &["system:nodes", "system:authenticated"])
}

/// Records `name` as an older node of the tenant `uaaaaaaaaaa`.
pub(crate) async fn record_older_node(store: &Store, name: &str) {
    let data = json!({"broken": "x", name: "uaaaaaaaaaa 2026-01-02T03:04:05Z"});
    let metadata = json!({"namespace": "longshore-system", "name": "node-names"});
    store_object(store, "configmaps", json!({"metadata": metadata, "data": data})).await;
}

async fn pod(store: &Store, name: &str, node: &str, spec: Value) {
    let mut pod = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
    pod["spec"]["nodeName"] = node.into();
    store_object(store, "pods", pod).await;
}

/// Parses `verb group/resource[/subresource] [namespace/]name`, with a dash for empty.
fn parse_attributes(text: &str) -> Attributes {
    let mut words = text.split(' ');
    let verb = words.next().unwrap_or_default().to_owned();
    let mut what = words.next().unwrap_or_default().split('/');
    let group = what.next().unwrap_or_default().trim_matches('-').to_owned();
    let resource = what.next().unwrap_or_default().to_owned();
    let subresource = what.next().unwrap_or_default().to_owned();
    let place = words.next().unwrap_or_default();
    let (namespace, name) = place.split_once('/').unwrap_or(("", place));
    let name = name.trim_matches('-').to_owned();
    let on_node = words.next().unwrap_or_default().to_owned();
    Attributes {
        verb,
        group,
        resource,
        subresource,
        namespace: namespace.to_owned(),
        name,
        node_name: on_node,
        ..Attributes::default()
    }
}

async fn authorizer() -> (Arc<Store>, Authorizer) {
    let store = Store::in_memory();
    let spec = json!({
        "serviceAccountName": "bot",
        "imagePullSecrets": [{"name": "pull"}],
        "containers": [{"name": "c", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "all"}}]}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "mounted"}},
            {"name": "b", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
    });
    pod(&store, "here", "edge", spec).await;
    pod(
        &store,
        "there",
        "other",
        json!({"serviceAccountName": "theirs", "imagePullSecrets": [{"name": "foreign"}]}),
    )
    .await;
    let mirror = json!({"metadata": {"name": "mirror", "namespace": "n", "annotations": {MIRROR: "x"}},
        "spec": {"nodeName": "edge", "imagePullSecrets": [{"name": "wanted"}]}});
    store_object(&store, "pods", mirror).await;
    let volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "n", "name": "claim"},
        "csi": {"nodeStageSecretRef": {"namespace": "storage", "name": "stage"},
                "controllerPublishSecretRef": {"namespace": "storage", "name": "controller"}}}});
    store_object(&store, "persistentvolumes", volume).await;
    let volume = json!({"metadata": {"name": "free"}, "spec": {"rbd": {"secretRef": {"name": "rbd"}}}});
    store_object(&store, "persistentvolumes", volume).await;
    (store.clone(), Authorizer::new(store))
}

const REQUESTS: &[&str] = &[
    "get -/secrets n/pull",
    "get -/secrets n/env",
    "watch -/secrets n/mounted",
    "get -/secrets storage/stage",
    "get -/secrets storage/controller",
    "get -/secrets n/foreign",
    "get -/secrets n/wanted",
    "get -/secrets other/pull",
    "list -/secrets n/-",
    "list -/secrets -",
    "update -/secrets n/pull",
    "get -/configmaps n/all",
    "get -/configmaps n/projected",
    "get -/configmaps n/none",
    "get -/persistentvolumeclaims n/claim",
    "get -/persistentvolumeclaims n/here-d",
    "list -/persistentvolumeclaims n/claim",
    "patch -/persistentvolumeclaims/status n/claim",
    "patch -/persistentvolumeclaims/status n/none",
    "get -/persistentvolumes pv",
    "get -/persistentvolumes free",
    "get -/serviceaccounts n/bot",
    "create -/serviceaccounts/token n/bot",
    "create -/serviceaccounts/token n/theirs",
    "create -/serviceaccounts n/-",
    "get -/nodes edge",
    "watch -/nodes edge",
    "get -/nodes other",
    "list -/nodes -",
    "create -/nodes -",
    "patch -/nodes/status edge",
    "delete -/nodes edge",
    "get coordination.k8s.io/leases kube-node-lease/edge",
    "update coordination.k8s.io/leases kube-node-lease/other",
    "create coordination.k8s.io/leases kube-node-lease/-",
    "get coordination.k8s.io/leases n/edge",
    "list coordination.k8s.io/leases kube-node-lease/-",
    "create storage.k8s.io/csinodes -",
    "get storage.k8s.io/csinodes other",
    "get -/pods n/here",
    "get -/pods n/there",
    "list -/pods - edge",
    "list -/pods - other",
    "list -/pods -",
    "delete -/pods n/here",
    "update -/pods n/here",
    "patch -/pods/status n/here",
    "create -/pods/eviction n/here",
    "create -/pods/exec n/here",
    "create -/pods/binding n/here",
    "get -/services n/web",
    "create -/services n/-",
    "create certificates.k8s.io/certificatesigningrequests -",
    "update certificates.k8s.io/certificatesigningrequests/approval mine",
    "get apps/deployments n/web",
    "get storage.k8s.io/volumeattachments any",
    "create authorization.k8s.io/subjectaccessreviews -",
];

#[tokio::test]
async fn everything_that_a_node_may_and_may_not() {
    let (_store, authorizer) = authorizer().await;
    let lines = REQUESTS.iter().map(|question| {
        let decision = authorizer.decide(&edge_node(), &parse_attributes(question));
        assert!(!decision.allowed || decision.reason.is_empty());
        format!("{question}: {}", if decision.allowed { "yes" } else { &decision.reason }.trim())
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn node_access_follows_its_pods() {
    let (store, authorizer) = authorizer().await;
    let may = |question: &str| authorizer.decide(&edge_node(), &parse_attributes(question)).allowed;
    assert!(may("get -/secrets n/pull"));
    pod(&store, "here", "other", json!({"imagePullSecrets": [{"name": "pull"}]})).await;
    assert!(!may("get -/secrets n/pull"));
    assert!(!may("get -/pods n/here"));
}

#[tokio::test]
async fn references_of_a_pod_are_read_once() {
    let (store, authorizer) = authorizer().await;
    for n in 0..20 {
        pod(&store, &format!("p{n}"), "edge", json!({"imagePullSecrets": [{"name": format!("s{n}")}]})).await;
        let labels = json!({"name": format!("pv{n}")});
        let of_others =
            json!({"metadata": labels, "spec": {"claimRef": {"namespace": format!("n{n}"), "name": "c"}}});
        store_object(&store, "persistentvolumes", of_others).await;
    }
    let may = |question: &str| authorizer.decide(&edge_node(), &parse_attributes(question)).allowed;
    let before = READ_PODS.get();
    for _ in 0..10 {
        assert!(may("get -/secrets n/s19"));
        assert!(!may("get -/secrets n/none"));
        assert!(!may("get -/configmaps n/none"));
    }
    assert!(READ_PODS.get() - before <= 30, "{}", READ_PODS.get() - before);
}

#[tokio::test]
async fn node_user_requires_name_and_group() {
    let (_store, authorizer) = authorizer().await;
    let question = parse_attributes("get coordination.k8s.io/leases kube-node-lease/edge");
    for (name, groups, expected) in [
        ("system:node:edge", vec!["system:nodes"], true),
        ("system:node:edge", vec![], false),
        ("edge", vec!["system:nodes"], false),
        ("system:node:", vec!["system:nodes"], false),
    ] {
        assert_eq!(
            authorizer.decide(&User::named(name, &groups), &question).allowed,
            expected,
            "{name} {groups:?}"
        );
    }
}

#[test]
fn field_selector_names_node_only_when_it_restricts_to_it() {
    for (selector, expected) in [
        ("spec.nodeName=edge", Some("edge")),
        ("status.phase!=Failed,spec.nodeName==edge", Some("edge")),
        ("spec.nodeName!=edge", None),
        ("metadata.name=edge", None),
        ("", None),
    ] {
        assert_eq!(node_in_field_selector(selector), expected, "{selector}");
    }
    let of = |operator: &str| json!({"requirements": [{"key": "spec.nodeName", "operator": operator, "values": ["edge"]}]});
    assert_eq!(node_in_reviewed_selector(&of("In")), Some("edge"));
    assert_eq!(node_in_reviewed_selector(&of("NotIn")), None);
    assert_eq!(node_in_reviewed_selector(&json!({"rawSelector": "spec.nodeName=edge"})), Some("edge"));
}

#[tokio::test]
async fn tenants_node_reviews_no_tokens_and_ends_with_its_tenant() {
    let (store, authorizer) = authorizer().await;
    let node = User::named("system:node:uaaaaaaaaaa-edge", &["system:nodes", "system:authenticated"]);
    let may = |user: &User, text: &str| authorizer.decide(user, &parse_attributes(text)).allowed;
    let own = "get -/nodes uaaaaaaaaaa-edge";
    assert!(!may(&node, own), "its tenant has no namespace");
    store_object(&store, "namespaces", json!({"metadata": {"name": "uaaaaaaaaaa"}})).await;
    store_object(&store, "nodes", json!({"metadata": {"name": "uaaaaaaaaaa-edge"}})).await;
    assert!(may(&node, own));
    let reviews = [
        ("create authentication.k8s.io/tokenreviews -", false),
        ("create authorization.k8s.io/localsubjectaccessreviews n/-", false),
        ("create authorization.k8s.io/subjectaccessreviews -", true),
    ];
    for (text, allowed) in reviews {
        assert_eq!(may(&node, text), allowed, "{text}");
        assert!(may(&edge_node(), text), "{text}");
    }
}

#[tokio::test]
async fn tenant_of_node_is_read_from_name_or_legacy_record() {
    let store = Store::in_memory();
    let tenant_of = |name| tenant_of(&store, name);
    for _ in 0..2 {
        assert_eq!(tenant_of("uaaaaaaaaaa-edge-1").as_deref(), Some("uaaaaaaaaaa"));
        for name in ["edge-1", "uaaaaaaaaaa", "uaaaaaaaaaa-", "uaaaaaaaaa1-edge", "node-0", "broken"] {
            assert_eq!(tenant_of(name), None, "{name}");
        }
        record_older_node(&store, "older").await;
    }
    assert_eq!(tenant_of("older").as_deref(), Some("uaaaaaaaaaa"));
    // An older node could choose a name that begins with the id of another tenant.
    record_older_node(&store, "ubbbbbbbbbb-edge").await;
    assert_eq!(tenant_of("ubbbbbbbbbb-edge").as_deref(), Some("uaaaaaaaaaa"));
}

#[tokio::test]
async fn older_node_of_a_tenant_is_refused_when_its_account_or_node_is_gone() {
    let (store, authorizer) = authorizer().await;
    let node = User::named("system:node:older", &["system:nodes", "system:authenticated"]);
    let reason = |question: &str| authorizer.decide(&node, &parse_attributes(question)).reason.to_string();
    record_older_node(&store, "older").await;
    assert_eq!(reason("get -/nodes older"), "the account of this node was deleted");
    store_object(&store, "namespaces", json!({"metadata": {"name": "uaaaaaaaaaa"}})).await;
    assert_eq!(reason("watch -/nodes older"), "the Node was deleted");
    store_object(&store, "nodes", json!({"metadata": {"name": "older"}})).await;
    assert!(authorizer.decide(&node, &parse_attributes("watch -/nodes older")).allowed);
    let review = "create authentication.k8s.io/tokenreviews -";
    assert!(!authorizer.decide(&node, &parse_attributes(review)).allowed);
    assert!(authorizer.decide(&edge_node(), &parse_attributes(review)).allowed);
}

#[tokio::test]
async fn tenants_node_is_refused_while_its_account_is_closed() {
    let (store, authorizer) = authorizer().await;
    let node = User::named("system:node:uaaaaaaaaaa-edge", &["system:nodes", "system:authenticated"]);
    let own = parse_attributes("get -/nodes uaaaaaaaaaa-edge");
    store_object(&store, "nodes", json!({"metadata": {"name": "uaaaaaaaaaa-edge"}})).await;
    let closed = json!({"longshore.dev/account-closed": "true"});
    store_object(&store, "namespaces", json!({"metadata": {"name": "ubbbbbbbbbb", "labels": closed}})).await;
    for (labels, is_allowed) in [(json!({}), true), (closed, false), (json!({}), true)] {
        store_object(&store, "namespaces", json!({"metadata": {"name": "uaaaaaaaaaa", "labels": labels}}))
            .await;
        let decision = authorizer.decide(&node, &own);
        let reason = if is_allowed { "" } else { "the account of this node is disabled or has expired" };
        assert_eq!((decision.allowed, &*decision.reason), (is_allowed, reason), "{labels}");
    }
}

#[tokio::test]
async fn tenants_node_without_a_node_object_is_refused_all_but_its_farewell() {
    let (store, authorizer) = authorizer().await;
    let node = User::named("system:node:uaaaaaaaaaa-edge", &["system:nodes", "system:authenticated"]);
    store_object(&store, "namespaces", json!({"metadata": {"name": "uaaaaaaaaaa"}})).await;
    pod(&store, "mine", "uaaaaaaaaaa-edge", json!({"imagePullSecrets": [{"name": "pull"}]})).await;
    let refused = [
        "create -/nodes -",
        "get -/secrets n/pull",
        "patch -/nodes/status uaaaaaaaaaa-edge",
        "watch -/nodes uaaaaaaaaaa-edge",
        "create coordination.k8s.io/leases kube-node-lease/-",
        "update coordination.k8s.io/leases kube-node-lease/uaaaaaaaaaa-edge",
        "delete coordination.k8s.io/leases n/uaaaaaaaaaa-edge",
        "create certificates.k8s.io/certificatesigningrequests -",
    ];
    for question in refused {
        let decision = authorizer.decide(&node, &parse_attributes(question));
        assert_eq!((decision.allowed, &*decision.reason), (false, "the Node was deleted"), "{question}");
    }
    for question in
        ["get -/nodes uaaaaaaaaaa-edge", "delete coordination.k8s.io/leases kube-node-lease/uaaaaaaaaaa-edge"]
    {
        assert!(authorizer.decide(&node, &parse_attributes(question)).allowed, "{question}");
    }
    // An operator's node registers itself.
    assert!(authorizer.decide(&edge_node(), &parse_attributes("create -/nodes -")).allowed);
    // The platform created the Node again.
    store_object(&store, "nodes", json!({"metadata": {"name": "uaaaaaaaaaa-edge"}})).await;
    assert!(authorizer.decide(&node, &parse_attributes("get -/secrets n/pull")).allowed);
}

#[tokio::test]
async fn certificate_of_a_tenants_node_is_void_if_issued_before_its_node_was_let_in() {
    let store = Store::in_memory();
    let of_node = |name: &str| User::named(&format!("system:node:{name}"), &["system:nodes"]);
    let (user, operators) = (of_node("uaaaaaaaaaa-edge"), of_node("edge"));
    assert!(!is_certificate_of_predecessor(&store, &user, 99), "without a Node the authorizer refuses");
    let annotated =
        |name: &str, value: &str| json!({"metadata": {"name": name, "annotations": {NOT_BEFORE: value}}});
    for name in ["edge", "uaaaaaaaaaa-edge"] {
        store_object(&store, "nodes", annotated(name, "1970-01-01T00:01:40.9Z")).await;
    }
    assert!(is_certificate_of_predecessor(&store, &user, 99));
    assert!(!is_certificate_of_predecessor(&store, &user, 100));
    assert!(!is_certificate_of_predecessor(&store, &operators, 99));
    // A Node whose machine has had its certificate since before the annotation existed.
    for value in ["", "yesterday"] {
        store_object(&store, "nodes", annotated("uaaaaaaaaaa-edge", value)).await;
        assert!(!is_certificate_of_predecessor(&store, &user, 99), "{value}");
    }
}
