//! Rights of a tenant node's certificate beyond its Node and pods, and the lifetime of the certificate.

use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_types::User;
use serde_json::{Value, json};

use super::{DAY_SECONDS, NodeAttacker, TENANT_LABEL, assert_forbidden, kubelet_csr};
use crate::console::ConsoleUser;
use crate::edge::{JoinScript, assert_ends_within_a_day, remaining_validity};
use crate::platform::until;
use crate::target::{Cluster, TestTarget, only_on_embedded, target};

fn event_object(name: &str, namespace: &str, involved: &Value) -> Event {
    let mut event = json!({"metadata": {"name": name, "namespace": namespace}, "involvedObject": involved,
        "reason": "Attack", "message": "x", "type": "Warning"});
    if event["involvedObject"]["kind"] == "Pod" {
        event["involvedObject"]["namespace"] = namespace.into();
    }
    serde_json::from_value(event).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_writes_events_into_another_tenants_namespace() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    let victim = ConsoleUser::register(&server, &cluster).await;
    let spaces: Api<Namespace> = Api::all(attacker.admin.clone());
    for namespace in [&attacker.tenant, &victim.namespace] {
        until("the namespace is there", async || spaces.get_opt(namespace).await.unwrap()).await;
    }
    let name = format!("{}.attack", attacker.name);
    let write = async |namespace: &str, involved: Value| {
        let events: Api<Event> = Api::namespaced(attacker.node.clone(), namespace);
        events.create(&PostParams::default(), &event_object(&name, namespace, &involved)).await
    };
    let pod = |name: &str| json!({"kind": "Pod", "name": name});
    let own = json!({"kind": "Node", "name": attacker.name});
    for (namespace, involved) in [
        (victim.namespace.as_str(), pod("x")),
        ("kube-system", pod("coredns-0")),
        ("longshore-system", pod("x")),
        ("default", json!({"kind": "Node", "name": "node-0"})),
    ] {
        let refused = assert_forbidden(namespace, write(namespace, involved).await);
        assert!(refused.contains("longshore-tenant-node-events"), "{namespace}: {refused}");
    }
    cluster.remove_at_end(format!("/api/v1/namespaces/default/events/{name}"));
    write("default", own).await.unwrap();
    write(&attacker.tenant, pod("mine")).await.unwrap();
    // The node cannot take over another tenant's event.
    let events: Api<Event> = Api::namespaced(attacker.admin.clone(), &victim.namespace);
    events
        .create(&PostParams::default(), &event_object("theirs", &victim.namespace, &pod("x")))
        .await
        .unwrap();
    let taken = Patch::Merge(json!({"message": "changed"}));
    let events: Api<Event> = Api::namespaced(attacker.node.clone(), &victim.namespace);
    assert_forbidden("another's event", events.patch("theirs", &PatchParams::default(), &taken).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_reviews_tokens_and_rights_of_others() {
    // Kubernetes exempts reviews from admission policies, and its node authorizer grants them.
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    let token: TokenReview =
        serde_json::from_value(json!({"metadata": {}, "spec": {"token": "stolen"}})).unwrap();
    assert_forbidden("a token", Api::all(attacker.node.clone()).create(&PostParams::default(), &token).await);
    let access = |resource: &str, name: &str| -> SubjectAccessReview {
        let about = json!({"verb": "get", "resource": resource, "name": name});
        serde_json::from_value(
            json!({"metadata": {}, "spec": {"user": "longshore:user:x", "resourceAttributes": about}}),
        )
        .unwrap()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(attacker.node.clone());
    for (resource, name) in [("secrets", "x"), ("nodes", "node-0"), ("nodes", "")] {
        assert_forbidden(resource, reviews.create(&PostParams::default(), &access(resource, name)).await);
    }
    reviews.create(&PostParams::default(), &access("nodes", &attacker.name)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_acts_on_after_its_account_was_deleted() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    attacker.report_ready().await;
    let users: Api<User> = Api::all(attacker.admin.clone());
    let owner = |user: &User| user.status.as_ref().is_some_and(|status| status.tenant_id == attacker.tenant);
    let user = users.list(&ListParams::default()).await.unwrap().into_iter().find(owner).unwrap();
    let account = user.metadata.name.unwrap();
    users.delete(&account, &DeleteParams::default()).await.unwrap();
    until("the account is gone", async || users.get_opt(&account).await.unwrap().is_none().then_some(()))
        .await;
    assert_forbidden("a new Node", attacker.register(&attacker.untainted_node()).await);
    let csrs: Api<CertificateSigningRequest> = Api::all(attacker.node.clone());
    let (csr, _) = kubelet_csr(&format!("renewal-{}", attacker.name), &attacker.name, Some(DAY_SECONDS));
    let name = csr.metadata.name.clone().unwrap();
    cluster.remove_at_end(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"));
    let renewal = csrs.create(&PostParams::default(), &csr).await;
    if matches!(target(), TestTarget::Embedded) {
        // Every request of the node is rejected.
        assert_forbidden("its Node", Api::<Node>::all(attacker.node.clone()).get_opt(&attacker.name).await);
        assert_forbidden("the next certificate", renewal);
        return;
    }
    // A real cluster does not know accounts: without the admission policy its controller could approve every node's
    // request.
    renewal.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(attacker.admin.clone());
    let decided = async || {
        let status = requests.get(&name).await.unwrap().status?;
        assert_eq!(status.certificate, None, "a certificate for a node whose account is gone");
        status.conditions?.into_iter().next()
    };
    let condition = until("the request is decided", decided).await;
    let reason = condition.reason.unwrap_or_default();
    assert_eq!((condition.type_.as_str(), reason.as_str()), ("Denied", "AccountClosed"));
}

/// Asserts that a node has no access any more: on the embedded cluster every request is rejected, elsewhere its next certificate is denied
/// with `reason`.
async fn assert_ends(cluster: &Cluster, attacker: &NodeAttacker, denial: &str, request: &str) {
    let machine: Api<Node> = Api::all(attacker.node.clone());
    let csrs: Api<CertificateSigningRequest> = Api::all(attacker.node.clone());
    let (csr, _) = kubelet_csr(&format!("{request}-{}", attacker.name), &attacker.name, Some(DAY_SECONDS));
    let name = csr.metadata.name.clone().unwrap();
    cluster.remove_at_end(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"));
    if matches!(target(), TestTarget::Embedded) {
        let beat = Patch::Strategic(super::ready_status());
        let report = async || match machine.patch_status(&attacker.name, &PatchParams::default(), &beat).await
        {
            Err(kube::Error::Api(status)) if status.code == 403 => Some(()),
            Err(error) => panic!("{error}"),
            Ok(_) => None,
        };
        until("its reports are rejected", report).await;
        assert_forbidden("the next certificate", csrs.create(&PostParams::default(), &csr).await);
        return;
    }
    csrs.create(&PostParams::default(), &csr).await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(attacker.admin.clone());
    let decided = async || {
        let status = requests.get(&name).await.unwrap().status?;
        assert_eq!(status.certificate, None);
        status.conditions?.into_iter().next()?.reason
    };
    assert_eq!(until("the request is decided", decided).await, denial);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_acts_on_after_its_account_was_disabled() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    attacker.report_ready().await;
    let users: Api<User> = Api::all(attacker.admin.clone());
    let owner = |user: &User| user.status.as_ref().is_some_and(|status| status.tenant_id == attacker.tenant);
    let user = users.list(&ListParams::default()).await.unwrap().into_iter().find(owner).unwrap();
    let account = user.metadata.name.unwrap();
    let spaces: Api<Namespace> = Api::all(attacker.admin.clone());
    let set_disabled = async |disabled: bool| {
        let change = Patch::Merge(json!({"spec": {"disabled": disabled}}));
        users.patch(&account, &PatchParams::default(), &change).await.unwrap();
        until("the namespace is marked", async || {
            let labels = spaces.get(&attacker.tenant).await.unwrap().metadata.labels.unwrap_or_default();
            (labels.contains_key("longshore.dev/account-closed") == disabled).then_some(())
        })
        .await;
    };
    set_disabled(true).await;
    assert_ends(&cluster, &attacker, "AccountClosed", "disabled").await;
    set_disabled(false).await;
    attacker.report_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_acts_on_after_its_owner_removed_it() {
    let (cluster, server) = Cluster::with_platform().await;
    let (victim, other) =
        (ConsoleUser::register(&server, &cluster).await, ConsoleUser::register(&server, &cluster).await);
    // A thief of the account's credentials joined a machine.
    let attacker = NodeAttacker::join_as(&server, &cluster, &victim).await;
    attacker.report_ready().await;
    let path = format!("nodes/{}", attacker.name);
    let refused = other.call(Method::DELETE, &path, None).await;
    assert_eq!(refused.code, 404, "{}", refused.text);
    attacker.report_ready().await;
    let removed = victim.call(Method::DELETE, &path, None).await;
    assert_eq!(removed.code, 204, "{}", removed.text);
    let is_gone = async || attacker.nodes().get_opt(&attacker.name).await.unwrap().is_none().then_some(());
    until("the Node is gone", is_gone).await;
    assert_ends(&cluster, &attacker, "NodeGone", "removed").await;
    let again = victim.call(Method::DELETE, &path, None).await;
    assert_eq!(again.code, 404, "{}", again.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_changes_when_its_certificates_are_valid_becomes_simulated_or_stops_its_removal() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    attacker.report_ready().await;
    let machine: Api<Node> = Api::all(attacker.node.clone());
    let write = async |map: &str, key: &str, value: Value| {
        let change = Patch::Merge(json!({"metadata": {map: {key: value}}}));
        machine.patch(&attacker.name, &PatchParams::default(), &change).await
    };
    let (not_before, leaving) = ("longshore.dev/certificates-not-before", "longshore.dev/leaving");
    for (map, key, value) in [
        ("annotations", not_before, Value::Null),
        ("annotations", not_before, json!("2000-01-01T00:00:00Z")),
        ("labels", "sim.longshore.dev/node", json!("true")),
        ("labels", "sim.longshore.dev/node", Value::Null),
    ] {
        let refused = assert_forbidden(key, write(map, key, value).await);
        assert!(refused.contains("longshore-node-owners"), "{key}: {refused}");
    }
    write("annotations", "example.com/harmless", json!("true")).await.unwrap();
    let leaves = Patch::Merge(json!({"metadata": {"annotations": {leaving: "true"},
        "finalizers": ["example.com/kept"]}}));
    attacker.nodes().patch(&attacker.name, &PatchParams::default(), &leaves).await.unwrap();
    let stays = write("annotations", leaving, Value::Null).await;
    // The finalizer keeps the Node, so that the policy rejects the request.
    assert_forbidden("the annotation", stays);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    drop(attacker.nodes().patch(&attacker.name, &PatchParams::default(), &free).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_asks_for_no_lifetime_to_get_certificates_of_a_year() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = NodeAttacker::join(&server, &cluster).await;
    attacker.report_ready().await;
    cluster.remove_at_end("/api/v1/namespaces/longshore-system/configmaps/node-certificates".to_owned());
    let csrs: Api<CertificateSigningRequest> = Api::all(attacker.node.clone());
    let ask = async |number: u8, seconds: Option<i32>| {
        let (csr, _) = kubelet_csr(&format!("year-{number}-{}", attacker.name), &attacker.name, seconds);
        let name = csr.metadata.name.clone().unwrap();
        cluster.remove_at_end(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"));
        csrs.create(&PostParams::default(), &csr).await.unwrap();
        until("it is decided", async || {
            let status = csrs.get(&name).await.unwrap().status?;
            let reason = status.conditions?.into_iter().next()?.reason?;
            let certificate = status.certificate.map(|certificate| certificate.0);
            (certificate.is_some() || reason != "Renewed").then_some((reason, certificate))
        })
        .await
    };
    let (reason, first) = ask(0, None).await;
    assert_eq!(reason, "Renewed");
    if remaining_validity(&first.unwrap()) <= SignedDuration::from_hours(25) {
        // The cluster limits the lifetime itself, as the embedded one does.
        return;
    }
    let maps: Api<ConfigMap> = Api::namespaced(attacker.admin.clone(), "longshore-system");
    until("it is recorded", async || maps.get_opt("node-certificates").await.unwrap()).await;
    assert_eq!(ask(1, None).await, ("SignedTooLong".to_owned(), None));
    let (reason, certificate) = ask(2, Some(DAY_SECONDS)).await;
    assert_eq!(reason, "Renewed");
    assert_ends_within_a_day(&certificate.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_node_that_left_registers_again_with_its_old_certificate() {
    // On other clusters access ends with the certificate's lifetime.
    if !only_on_embedded() {
        return;
    }
    let (cluster, server) = Cluster::with_platform().await;
    let visitor = ConsoleUser::register(&server, &cluster).await;
    let attacker = NodeAttacker::join_as(&server, &cluster, &visitor).await;
    attacker.report_ready().await;
    let leaves = Patch::Merge(json!({"metadata": {"annotations": {"longshore.dev/leaving": "true"}}}));
    attacker.nodes().patch(&attacker.name, &PatchParams::default(), &leaves).await.unwrap();
    let is_gone = async || attacker.nodes().get_opt(&attacker.name).await.unwrap().is_none().then_some(());
    until("the Node is gone", is_gone).await;

    let own: Api<Node> = Api::all(attacker.node.clone());
    assert!(own.get_opt(&attacker.name).await.unwrap().is_none(), "it may learn that it is gone");
    let taint = |effect: &str| json!({"key": TENANT_LABEL, "value": attacker.tenant, "effect": effect});
    let tainted = json!({"metadata": {"name": attacker.name, "labels": {TENANT_LABEL: attacker.tenant}},
        "spec": {"taints": [taint("NoSchedule"), taint("NoExecute")]}});
    let refused = attacker.register(&serde_json::from_value(tainted).unwrap()).await;
    assert!(assert_forbidden("its Node again", refused).contains("the Node was deleted"));
    let csrs: Api<CertificateSigningRequest> = Api::all(attacker.node.clone());
    let (csr, _) = kubelet_csr(&format!("renewal-{}", attacker.name), &attacker.name, Some(DAY_SECONDS));
    let renewal = csrs.create(&PostParams::default(), &csr).await;
    assert_forbidden("the next certificate", renewal);

    // Another machine takes the name with another token. Certificate times have a resolution of one second.
    let token = format!("bootstrap-token-{}", JoinScript::fetch(&visitor).await.token_id());
    let secrets: Api<Secret> = Api::namespaced(attacker.admin.clone(), "kube-system");
    secrets.delete(&token, &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let successor = NodeAttacker::join_as(&server, &cluster, &visitor).await;
    successor.report_ready().await;
    match own.get(&attacker.name).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 401, "{status:?}"),
        other => panic!("{other:?}"),
    }
    // A Node that was deleted by mistake is created again, and its kubelet continues.
    let first = successor.nodes().get(&successor.name).await.unwrap().metadata.uid;
    successor.nodes().delete(&successor.name, &DeleteParams::default()).await.unwrap();
    until("the platform created the Node again", async || {
        let node = successor.nodes().get_opt(&successor.name).await.unwrap()?;
        (node.metadata.uid != first).then_some(())
    })
    .await;
    successor.report_ready().await;
}
