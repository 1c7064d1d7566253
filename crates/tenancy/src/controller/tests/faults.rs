//! Controllers under adverse conditions: foreign namespaces, an unresponsive cluster, many concurrent accounts.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ResourceQuota;
use testkit::fault::LinkState;

use super::*;

#[tokio::test]
async fn foreign_namespace_is_untouched_and_replaced_after_its_deletion() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let foreign = foreign_namespace(&world, "acme", json!({})).await;
    // It has our label, but not the UID of the workspace.
    let labelled = foreign_namespace(&world, "acme-test", json!({well_known::WORKSPACE: "acme"})).await;
    let mut acme = workspace("acme", &[(ID, "admin")]);
    let further = |name: &str| WorkspaceNamespace { name: name.to_owned(), ..WorkspaceNamespace::default() };
    acme.spec.namespaces.extend([further("acme-test"), further("kube-public"), further("acme-well")]);
    create(&world, &acme).await;
    let taken = async || {
        let (status, reason) = condition(&world, "acme", "Ready").await?;
        (status == "False" && reason == "NamespaceTaken").then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "taken", taken).await;
    assert_unchanged(&world, &foreign).await;
    assert_unchanged(&world, &labelled).await;
    assert_eq!(names::<ResourceQuota>(&world, "kube-public").await, Vec::<String>::new());
    assert_fully_provisioned(&world, "acme-well").await;
    // It stays untouched when it leaves the spec.
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    delete::<Namespace>(&world, "acme").await;
    wait_for("the namespace is gone", async || {
        get::<Namespace>(&world, "acme").await.is_none().then_some(())
    })
    .await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    assert_fully_provisioned(&world, "acme").await;
    assert_unchanged(&world, &labelled).await;
}

/// A foreign namespace is named like an account's id.
#[tokio::test]
async fn account_condition_names_the_foreign_namespace() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let foreign = foreign_namespace(&world, ID, json!({})).await;
    create(&world, &user("ana", Some(ID))).await;
    let told = async || {
        let status = get::<User>(&world, "ana").await?.status?;
        let ready = conditions::find_condition(&status.conditions, "Ready")?;
        (ready.status == "False" && ready.message.contains("there is a namespace")).then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "told", told).await;
    assert_eq!(get::<User>(&world, "ana").await.unwrap().status.unwrap().effective_time, None);
    assert_unchanged(&world, &foreign).await;
}

#[tokio::test]
async fn replaced_namespace_is_not_adopted() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    let ours: Namespace = get(&world, "acme").await.unwrap();
    delete::<Namespace>(&world, "acme").await;
    wait_for("the namespace is gone", async || {
        get::<Namespace>(&world, "acme").await.is_none().then_some(())
    })
    .await;
    // A client recreates the namespace with its labels and annotations, but it gets another UID.
    let labels = serde_json::to_value(ours.labels()).unwrap();
    let annotations = serde_json::to_value(ours.annotations()).unwrap();
    foreign_namespace(&world, "acme", labels).await;
    patch::<Namespace>(&world, "acme", json!({"metadata": {"annotations": annotations}})).await;
    let foreign: Namespace = get(&world, "acme").await.unwrap();
    let taken = async || (condition(&world, "acme", "Ready").await?.1 == "NamespaceTaken").then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "taken", taken).await;
    assert_unchanged(&world, &foreign).await;
    delete::<Workspace>(&world, "acme").await;
    let gone = async || get::<Workspace>(&world, "acme").await.is_none().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "gone", gone).await;
    assert_unchanged(&world, &foreign).await;
}

#[tokio::test]
async fn invalid_quota_leaves_the_previous_limits() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    let namespaces = json!([{"name": "acme"}, {"name": "acme-test", "share": {"pods": "1000000"}}]);
    let members = json!([{"user": OTHER_ID, "role": "admin"}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": namespaces, "members": members}})).await;
    let told = async || (condition(&world, "acme", "Ready").await?.1 == "QuotaInvalid").then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "told", told).await;
    assert_fully_provisioned(&world, "acme").await;
    assert!(get::<Namespace>(&world, "acme-test").await.is_none());
    assert_eq!(
        subjects_of_role(&world, "acme", "admin").await,
        ["longshore:ws:acme:admin", OTHER_ID],
        "who left is out all the same"
    );
}

#[tokio::test]
async fn unresponsive_cluster_is_retried() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    for line in [LinkState::Unresponsive, LinkState::Disconnected] {
        let fault = FaultInjector::healthy();
        let patience = Duration::from_secs(1);
        let clients = Clients::with_timeout(fault.wrap(world.platform_client()), patience);
        let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(clock.clone())).await.unwrap();
        let running = tokio::spawn(super::super::run(tenancy));
        fault.set_link(line);
        let name = format!("after-{line:?}").to_lowercase();
        create(&world, &workspace(&name, &[(ID, "admin")])).await;
        // The silence lasts longer than the request timeout.
        tokio::time::sleep(patience * 2).await;
        assert!(get::<Namespace>(&world, &name).await.is_none());
        // Requests have timed out by now. A watch without a timeout ends when the network drops the connection.
        fault.set_link(LinkState::Disconnected);
        fault.set_link(LinkState::Healthy);
        wait_for("ready", async || is_ready(&world, &name).await).await;
        running.abort();
    }
}

/// Fifty concurrent accounts become ready. Prints the durations for one account and for fifty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_concurrent_accounts_become_ready() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    let tenancy = tenancy(&world, &FaultInjector::healthy(), &clock).await.unwrap();
    let running = tokio::spawn(super::super::run(tenancy));
    create(&world, &user("first", None)).await;
    wait_for("the first is ready", async || user_is_ready(&world, "first").await).await;
    let begun = Instant::now();
    create(&world, &user("second", None)).await;
    wait_for("the second is ready", async || user_is_ready(&world, "second").await).await;
    println!("one account: {:?}", begun.elapsed());
    let begun = Instant::now();
    let names: Vec<String> = (0..50).map(|number| format!("user-{number}")).collect();
    futures::future::join_all(names.iter().map(async |name| create(&world, &user(name, None)).await)).await;
    for name in &names {
        wait_for("ready", async || user_is_ready(&world, name).await).await;
    }
    println!("fifty accounts: {:?}", begun.elapsed());
    running.abort();
}
