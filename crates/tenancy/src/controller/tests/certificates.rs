//! Certificates of tenants' nodes: only the platform approves them, and for at most a day.

use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use rcgen::{CertificateParams, KeyPair};

use super::edge::{
    create_csr_as, create_csr_for_node, create_in, create_two_accounts, csr_condition, join_token,
    kubelet_client, kubelet_csr_pem, manual_clock_at_system_time, report_when_signed, run_until,
};
use super::*;
use crate::node_join::node_csr::KUBELET_SIGNER;

const CSRS: &str = "certificates.k8s.io";

/// Rights of kube-controller-manager's approver.
async fn approver(world: &TestCluster) -> kube::Client {
    let rbac = "rbac.authorization.k8s.io";
    let user = "system:serviceaccount:kube-system:certificate-controller";
    world
        .apply([
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "approver"}, "rules": [
                {"apiGroups": [CSRS], "resources": ["certificatesigningrequests/approval"], "verbs": ["update", "patch"]},
                {"apiGroups": [CSRS], "resources": ["certificatesigningrequests"], "verbs": ["get"]},
                {"apiGroups": [CSRS], "resources": ["signers"], "verbs": ["approve"]}]}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "approver"},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "approver"},
                "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}]}),
        ])
        .await;
    world.client_for(user, &["system:serviceaccounts", "system:authenticated"])
}

async fn decide(client: &kube::Client, name: &str, kind: &str) -> kube::Result<CertificateSigningRequest> {
    let condition = json!({"type": kind, "status": "True", "reason": "AutoApproved", "message": "x"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    Api::all(client.clone()).patch_approval(name, &PatchParams::default(), &patch).await
}

#[tokio::test]
async fn controller_approves_requests_of_tenants_nodes_in_place_of_the_platform() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 2).await;
    let now = domain::clock::Clock::now(&clock);
    create_in(
        &world,
        &crate::node_join::node_names::legacy_config_map([("edge-1".to_owned(), ID.parse().unwrap(), now)]),
    )
    .await;
    let token = join_token(&world, &clock, ID, None).await;
    let own = "uaaaaaaaaaa-edge-1";
    create_csr_for_node(&world, &token, own).await;
    let joined = async || report_when_signed(&world, own).await;
    run_until(&world, &clock, "joined", joined).await;

    // No controller of the platform runs from here on.
    create_csr_for_node(&world, &token, "uaaaaaaaaaa-edge-2").await;
    for (node, name) in [(own, "renewal"), (own, "denied"), ("cloud-1", "cloud")] {
        create_csr_as(
            kubelet_client(&world, node),
            KUBELET_SIGNER,
            name,
            &kubelet_csr_pem(node, Some("system:nodes")),
        )
        .await;
    }
    let edge = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-1"}});
    world.apply([edge]).await;
    create_csr_as(
        kubelet_client(&world, "edge-1"),
        KUBELET_SIGNER,
        "older",
        &kubelet_csr_pem("edge-1", Some("system:nodes")),
    )
    .await;
    let controller = approver(&world).await;
    for (name, policy) in [
        ("csr-uaaaaaaaaaa-edge-2", "longshore-tenant-node-approvals"),
        ("renewal", "longshore-tenant-node-approvals"),
        ("older", "longshore-older-node-approvals"),
    ] {
        match decide(&controller, name, "Approved").await {
            Err(kube::Error::Api(status)) => {
                assert!(status.code == 403 && status.message.contains(policy), "{name}: {status:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
        assert_eq!(csr_condition(&world, name).await, None, "{name}");
    }
    // Other approvers may deny, and approve for operators' nodes; an administrator may approve.
    decide(&controller, "denied", "Denied").await.unwrap();
    decide(&controller, "cloud", "Approved").await.unwrap();
    decide(&world.admin_client(), "renewal", "Approved").await.unwrap();
}

/// A certificate with this lifetime, as a signer issues it.
fn certificate(lifetime: SignedDuration) -> ByteString {
    let mut params = CertificateParams::default();
    let now = std::time::SystemTime::now();
    params.not_before = now.into();
    params.not_after = (now + std::time::Duration::try_from(lifetime).unwrap()).into();
    ByteString(params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem().into_bytes())
}

#[tokio::test]
async fn requests_without_a_lifetime_are_denied_when_the_cluster_signs_for_a_year() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 3).await;
    let token = join_token(&world, &clock, ID, None).await;
    let (node, signed) = ("uaaaaaaaaaa-edge-1", "csr-uaaaaaaaaaa-edge-1");
    // The embedded cluster signs for a day at most, so the test writes the certificate of another signer.
    create_csr_for_node(&world, &token, node).await;
    let csrs: Api<CertificateSigningRequest> = Api::all(world.admin_client());
    let year = certificate(SignedDuration::from_hours(365 * 24));
    let issued = Patch::Merge(json!({"status": {"certificate": year}}));
    csrs.patch_status(signed, &PatchParams::default(), &issued).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE);
    let recorded = async || maps.get_opt("node-certificates").await.unwrap();
    run_until(&world, &clock, "recorded", async || recorded().await.map(drop)).await;
    assert_eq!(recorded().await.unwrap().data.unwrap()["hours"], "8760");

    let ask_for_seconds = async |node: &str, seconds: Option<i32>| {
        let csr = serde_json::from_value(json!({"metadata": {"name": format!("csr-{node}")}, "spec": {
            "request": ByteString(kubelet_csr_pem(node, Some("system:nodes")).into_bytes()), "signerName": KUBELET_SIGNER,
            "usages": ["digital signature", "client auth"], "expirationSeconds": seconds}}));
        let joiner: Api<CertificateSigningRequest> = Api::all(super::edge::client_with_token(&world, &token));
        joiner.create(&PostParams::default(), &csr.unwrap()).await.unwrap();
    };
    ask_for_seconds("uaaaaaaaaaa-edge-2", None).await;
    ask_for_seconds("uaaaaaaaaaa-edge-3", Some(86_400)).await;
    let decided = async || {
        csr_condition(&world, "csr-uaaaaaaaaaa-edge-2")
            .await
            .and(csr_condition(&world, "csr-uaaaaaaaaaa-edge-3").await)
    };
    run_until(&world, &clock, "decided", async || decided().await.map(drop)).await;
    assert_eq!(
        csr_condition(&world, "csr-uaaaaaaaaaa-edge-2").await.as_deref(),
        Some("Denied SignedTooLong")
    );
    assert_eq!(csr_condition(&world, "csr-uaaaaaaaaaa-edge-3").await.as_deref(), Some("Approved Joined"));
    let denied = csrs.get("csr-uaaaaaaaaaa-edge-2").await.unwrap().status.unwrap().conditions.unwrap();
    let message = denied[0].message.as_deref().unwrap();
    assert!(message.contains("--cluster-signing-duration=24h"), "{message}");

    // The administrator has fixed it and deleted the record: the old certificate does not recreate it.
    clock.advance(SignedDuration::from_mins(20));
    maps.delete("node-certificates", &DeleteParams::default()).await.unwrap();
    ask_for_seconds("uaaaaaaaaaa-edge-4", None).await;
    let again = async || csr_condition(&world, "csr-uaaaaaaaaaa-edge-4").await.map(drop);
    run_until(&world, &clock, "decided again", again).await;
    assert_eq!(csr_condition(&world, "csr-uaaaaaaaaaa-edge-4").await.as_deref(), Some("Approved Joined"));
    assert_eq!(recorded().await, None);
}

#[tokio::test]
async fn tenants_node_changes_when_its_certificates_are_valid_or_becomes_simulated() {
    let (world, clock) = (test_cluster().await, manual_clock_at_system_time());
    create_two_accounts(&world, &clock, 1).await;
    let token = join_token(&world, &clock, ID, None).await;
    let node = "uaaaaaaaaaa-edge-1";
    create_csr_for_node(&world, &token, node).await;
    run_until(&world, &clock, "joined", async || report_when_signed(&world, node).await).await;
    let before: Node = get(&world, node).await.unwrap();
    let machine: Api<Node> = Api::all(kubelet_client(&world, node));
    let annotation =
        |value: Value| json!({"metadata": {"annotations": {well_known::CERTIFICATES_NOT_BEFORE: value}}});
    let label = |value: Value| json!({"metadata": {"labels": {well_known::SIMULATED: value}}});
    for change in [
        annotation(Value::Null),
        annotation(json!("2000-01-01T00:00:00Z")),
        label(Value::Null),
        label(json!("true")),
    ] {
        let (how, patch) = (PatchParams::default(), Patch::Merge(&change));
        for refused in
            [machine.patch(node, &how, &patch).await, machine.patch_status(node, &how, &patch).await]
        {
            match refused {
                Err(kube::Error::Api(status)) => {
                    assert!(
                        status.code == 403 && status.message.contains("longshore-node-owners"),
                        "{change}: {status:?}"
                    );
                }
                other => panic!("{change}: {other:?}"),
            }
        }
    }
    let after: Node = get(&world, node).await.unwrap();
    assert_eq!((after.labels(), after.annotations()), (before.labels(), before.annotations()));
    // The platform may.
    patch::<Node>(&world, node, annotation(Value::Null)).await;
}
