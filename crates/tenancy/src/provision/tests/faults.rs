//! Controllers under adverse conditions: foreign namespaces, an unresponsive cluster, many concurrent accounts.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ResourceQuota;
use testkit::fault::Line;

use super::*;

#[tokio::test]
async fn a_namespace_of_somebody_else_is_left_alone_until_it_is_gone() {
    let (world, clock) = (world().await, HeldClock::new());
    let foreign = foreign_namespace(&world, "acme", json!({})).await;
    // It has our label, but not the UID of the workspace.
    let labelled = foreign_namespace(&world, "acme-test", json!({marks::WORKSPACE: "acme"})).await;
    let mut acme = workspace("acme", &[(ID, "admin")]);
    let further = |name: &str| WorkspaceNamespace { name: name.to_owned(), ..WorkspaceNamespace::default() };
    acme.spec.namespaces.extend([further("acme-test"), further("kube-public"), further("acme-well")]);
    create(&world, &acme).await;
    let taken = async || {
        let (status, reason) = condition(&world, "acme", "Ready").await?;
        (status == "False" && reason == "NamespaceTaken").then_some(())
    };
    until_reached(&world, &Fault::none(), &clock, "taken", taken).await;
    is_untouched(&world, &foreign).await;
    is_untouched(&world, &labelled).await;
    assert_eq!(names::<ResourceQuota>(&world, "kube-public").await, Vec::<String>::new());
    is_whole(&world, "acme-well").await;
    // It stays untouched when it leaves the spec.
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    delete::<Namespace>(&world, "acme").await;
    until("the namespace is gone", async || get::<Namespace>(&world, "acme").await.is_none().then_some(()))
        .await;
    until_reached(&world, &Fault::none(), &clock, "ready", async || is_ready(&world, "acme").await).await;
    is_whole(&world, "acme").await;
    is_untouched(&world, &labelled).await;
}

/// A foreign namespace is named like an account's id.
#[tokio::test]
async fn an_account_says_what_it_waits_for() {
    let (world, clock) = (world().await, HeldClock::new());
    let foreign = foreign_namespace(&world, ID, json!({})).await;
    create(&world, &user("ana", Some(ID))).await;
    let told = async || {
        let status = get::<User>(&world, "ana").await?.status?;
        let ready = progress::condition(&status.conditions, "Ready")?;
        (ready.status == "False" && ready.message.contains("there is a namespace")).then_some(())
    };
    until_reached(&world, &Fault::none(), &clock, "told", told).await;
    assert_eq!(get::<User>(&world, "ana").await.unwrap().status.unwrap().effective_time, None);
    is_untouched(&world, &foreign).await;
}

#[tokio::test]
async fn a_namespace_in_the_place_of_ours_is_never_ours() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    until_reached(&world, &Fault::none(), &clock, "ready", async || is_ready(&world, "acme").await).await;
    let ours: Namespace = get(&world, "acme").await.unwrap();
    delete::<Namespace>(&world, "acme").await;
    until("the namespace is gone", async || get::<Namespace>(&world, "acme").await.is_none().then_some(()))
        .await;
    // A client recreates the namespace with its labels and annotations, but it gets another UID.
    let labels = serde_json::to_value(ours.labels()).unwrap();
    let annotations = serde_json::to_value(ours.annotations()).unwrap();
    foreign_namespace(&world, "acme", labels).await;
    patch::<Namespace>(&world, "acme", json!({"metadata": {"annotations": annotations}})).await;
    let foreign: Namespace = get(&world, "acme").await.unwrap();
    let taken = async || (condition(&world, "acme", "Ready").await?.1 == "NamespaceTaken").then_some(());
    until_reached(&world, &Fault::none(), &clock, "taken", taken).await;
    is_untouched(&world, &foreign).await;
    delete::<Workspace>(&world, "acme").await;
    let gone = async || get::<Workspace>(&world, "acme").await.is_none().then_some(());
    until_reached(&world, &Fault::none(), &clock, "gone", gone).await;
    is_untouched(&world, &foreign).await;
}

#[tokio::test]
async fn a_quota_that_cannot_be_shared_out_loosens_nothing() {
    let (world, clock) = (world().await, HeldClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    until_reached(&world, &Fault::none(), &clock, "ready", async || is_ready(&world, "acme").await).await;
    let namespaces = json!([{"name": "acme"}, {"name": "acme-test", "share": {"pods": "1000000"}}]);
    let members = json!([{"user": OTHER, "role": "admin"}]);
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": namespaces, "members": members}})).await;
    let told = async || (condition(&world, "acme", "Ready").await?.1 == "QuotaInvalid").then_some(());
    until_reached(&world, &Fault::none(), &clock, "told", told).await;
    is_whole(&world, "acme").await;
    assert!(get::<Namespace>(&world, "acme-test").await.is_none());
    assert_eq!(
        bound(&world, "acme", "admin").await,
        ["longshore:ws:acme:admin", OTHER],
        "who left is out all the same"
    );
}

#[tokio::test]
async fn a_cluster_that_falls_silent_is_waited_for() {
    let (world, clock) = (world().await, HeldClock::new());
    for line in [Line::Silent, Line::Cut] {
        let fault = Fault::none();
        let patience = Duration::from_secs(1);
        let clients = Clients::with_limit(fault.over(world.platform()), patience);
        let tenancy = Tenancy::start(clients, Settings::default(), Arc::new(clock.clone())).await.unwrap();
        let running = tokio::spawn(super::super::run(tenancy));
        fault.turn(line);
        let name = format!("after-{line:?}").to_lowercase();
        create(&world, &workspace(&name, &[(ID, "admin")])).await;
        // The silence lasts longer than the request timeout.
        tokio::time::sleep(patience * 2).await;
        assert!(get::<Namespace>(&world, &name).await.is_none());
        // Requests have timed out by now. A watch without a timeout ends when the network drops the connection.
        fault.turn(Line::Cut);
        fault.turn(Line::Sound);
        until("ready", async || is_ready(&world, &name).await).await;
        running.abort();
    }
}

/// Fifty concurrent accounts become ready. Prints the durations for one account and for fifty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_are_all_served() {
    let (world, clock) = (world().await, HeldClock::new());
    let tenancy = tenancy(&world, &Fault::none(), &clock).await.unwrap();
    let running = tokio::spawn(super::super::run(tenancy));
    create(&world, &user("first", None)).await;
    until("the first is ready", async || user_is_ready(&world, "first").await).await;
    let begun = Instant::now();
    create(&world, &user("second", None)).await;
    until("the second is ready", async || user_is_ready(&world, "second").await).await;
    println!("one account: {:?}", begun.elapsed());
    let begun = Instant::now();
    let names: Vec<String> = (0..50).map(|number| format!("user-{number}")).collect();
    futures::future::join_all(names.iter().map(async |name| create(&world, &user(name, None)).await)).await;
    for name in &names {
        until("ready", async || user_is_ready(&world, name).await).await;
    }
    println!("fifty accounts: {:?}", begun.elapsed());
    running.abort();
}
