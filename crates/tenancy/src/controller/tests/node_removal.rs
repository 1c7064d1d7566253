//! Removal of nodes by the owner of their account.

use domain::ErrorKind;
use domain::actor::AuthMethod;
use domain::ids::UserId;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;

use super::edge::{
    create_csr_for_node, create_two_accounts, join_token, kubelet_client, kubelet_csr_pem,
    manual_clock_at_system_time, nodes_of, report_when_signed, run_until,
};
use super::*;
use crate::Error;

const NODE: &str = "uaaaaaaaaaa-edge-1";

async fn cluster_with_node(clock: &ManualClock) -> TestCluster {
    let world = test_cluster().await;
    create_two_accounts(&world, clock, 2).await;
    let token = join_token(&world, clock, ID, None).await;
    create_csr_for_node(&world, &token, NODE).await;
    let joined = async || {
        report_when_signed(&world, NODE).await?;
        (nodes_of(&world, "ana").await.0 == 1).then_some(())
    };
    run_until(&world, clock, "joined", joined).await;
    world
}

fn actor(tenancy: &Tenancy, id: &str) -> domain::Actor {
    let id: UserId = id.parse().unwrap();
    tenancy.directory().actor(&id, AuthMethod::Session { id: "session".to_owned() }).unwrap()
}

#[tokio::test]
async fn node_that_a_thief_joined_stays_after_its_owner_removes_it() {
    let clock = manual_clock_at_system_time();
    let world = cluster_with_node(&clock).await;
    let operators = "uaaaaaaaaaa-cloud";
    for name in ["cloud-1", operators] {
        world.apply([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})]).await;
    }
    let service = tenancy(&world, &FaultInjector::healthy(), &clock).await.unwrap();
    let (owner, other) = (actor(&service, ID), actor(&service, OTHER_ID));
    for (who, name) in [
        (&other, NODE),
        (&owner, "uaaaaaaaaaa-none"),
        (&owner, "cloud-1"),
        (&owner, operators),
        (&owner, "../nodes"),
    ] {
        let refused = service.remove_node(who, name).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{name}: {refused}");
    }
    assert_eq!(nodes_of(&world, "ana").await.0, 1);

    let removed = service.remove_node(&owner, NODE);
    let gone = async || {
        let is_gone = get::<Node>(&world, NODE).await.is_none();
        (is_gone && nodes_of(&world, "ana").await == (0, Vec::new())).then_some(())
    };
    let (removed, ()) = futures::join!(removed, run_until(&world, &clock, "gone", gone));
    removed.unwrap();
    for name in ["cloud-1", operators] {
        assert!(get::<Node>(&world, name).await.is_some(), "{name}");
    }
    let is_refused = |refused: Result<(), kube::Error>| {
        assert!(
            matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("was deleted")),
            "{refused:?}"
        );
    };
    let report = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let machine: Api<Node> = Api::all(kubelet_client(&world, NODE));
    is_refused(machine.patch_status(NODE, &PatchParams::default(), &report).await.map(drop));
    let pem = k8s_openapi::ByteString(kubelet_csr_pem(NODE, Some("system:nodes")).into_bytes());
    let csr: CertificateSigningRequest = serde_json::from_value(json!({"metadata": {"name": "next"}, "spec": {
        "request": pem, "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "usages": ["client auth", "digital signature"]}}))
    .unwrap();
    is_refused(Api::all(kubelet_client(&world, NODE)).create(&PostParams::default(), &csr).await.map(drop));
    let again = service.remove_node(&owner, NODE).await.unwrap_err();
    assert!(matches!(again, Error::NotFound { .. }), "{again}");
}

#[tokio::test]
async fn machine_stops_its_removal_by_changing_its_node() {
    let clock = manual_clock_at_system_time();
    let world = cluster_with_node(&clock).await;
    let leaves = json!({"metadata": {"annotations": {well_known::NODE_LEAVING: "true"}}});
    let machine: Api<Node> = Api::all(kubelet_client(&world, NODE));
    // A machine may leave, but not change its mind.
    machine.patch(NODE, &PatchParams::default(), &Patch::Merge(&leaves)).await.unwrap();
    for value in [Value::Null, json!("false")] {
        let stays = Patch::Merge(json!({"metadata": {"annotations": {well_known::NODE_LEAVING: value}}}));
        for refused in [
            machine.patch(NODE, &PatchParams::default(), &stays).await,
            machine.patch_status(NODE, &PatchParams::default(), &stays).await,
        ] {
            assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403), "{refused:?}");
        }
    }
    let harmless = Patch::Merge(json!({"metadata": {"labels": {"color": "blue"}}}));
    machine.patch(NODE, &PatchParams::default(), &harmless).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_node_stays_removed_despite_a_crash_at_any_write() {
    let clock = manual_clock_at_system_time();
    let points = testkit::every_kill_point(
        async || {
            let world = cluster_with_node(&clock).await;
            let leaves = json!({"metadata": {"annotations": {well_known::NODE_LEAVING: "true"}}});
            patch::<Node>(&world, NODE, leaves).await;
            world
        },
        async |world, fault| {
            let gone = async || {
                let is_gone = get::<Node>(world, NODE).await.is_none();
                (is_gone && nodes_of(world, "ana").await == (0, Vec::new())).then_some(())
            };
            run_controllers_until(world, fault, &clock, "gone", gone).await;
            Ok::<(), ()>(())
        },
        async |world| {
            assert!(get::<Node>(world, NODE).await.is_none());
            let status = get::<User>(world, "ana").await.unwrap().status.unwrap();
            assert!(status.joined.is_empty() && status.nodes.is_empty());
        },
    )
    .await;
    assert!(points >= 2, "{points}");
}
