//! Requests that a former workspace of the namespace left behind.

use kube_types::well_known::WORKSPACE_UID;

use super::*;

const FORMER_VALUE: &str = "secret-of-the-former";

/// An undispatched request of a former workspace of the same name.
async fn create_leftover_request(stage: &TestHarness) -> String {
    stage.leader_task.abort();
    let values = format!("greeting: {FORMER_VALUE}\n");
    stage
        .releases
        .install(&developer(), &ChartSource::Archive(web_chart()), install_request("web", &values))
        .await
        .unwrap();
    let name = request_name("host", SHOP, "web");
    let operation = format!("{name}.1");
    let listed = async || stage.releases.list(&developer(), &Query::default()).unwrap().total;
    wait_for("the owner sees it", async || (listed().await == 1).then_some(())).await;
    assert!(stage.releases.get(&developer(), SHOP, "web").await.is_ok());
    assert!(stage.releases.operation(&developer(), &operation).await.is_ok());
    let former = json!({"metadata": {"annotations": {WORKSPACE_UID: "uid-former"}}});
    request_api(stage).patch(&name, &PatchParams::default(), &Patch::Merge(&former)).await.unwrap();
    wait_for("the list knows", async || (listed().await == 0).then_some(())).await;
    operation
}

#[tokio::test]
async fn new_owner_of_a_namespace_sees_no_leftover_request() {
    let stage = TestHarness::new().await;
    let operation = create_leftover_request(&stage).await;
    let (releases, me) = (&stage.releases, developer());
    let seen = [
        releases.get(&me, SHOP, "web").await.err().map(|error| error.kind()),
        releases.operation(&me, &operation).await.err().map(|error| error.kind()),
    ];
    assert_eq!(seen, [Some(ErrorKind::NotFound); 2]);
}

#[tokio::test]
async fn new_owner_of_a_namespace_changes_no_leftover_request() {
    let stage = TestHarness::new().await;
    create_leftover_request(&stage).await;
    let (releases, me) = (&stage.releases, developer());
    let changes = || ReleaseUpdate { values: Some("replicas: 2\n".to_owned()), ..ReleaseUpdate::default() };
    let done = [
        (
            "upgrade",
            releases.upgrade(&me, SHOP, "web", changes(), RequestPreconditions::default()).await.err(),
        ),
        ("rollback", releases.rollback(&me, SHOP, "web", 1, RequestPreconditions::default()).await.err()),
        ("pause", releases.pause(&me, SHOP, "web", RequestPreconditions::default()).await.err()),
        ("suspend", releases.suspend(&me, SHOP, "web", RequestPreconditions::default()).await.err()),
        ("retry", releases.retry(&me, SHOP, "web", RequestPreconditions::default()).await.err()),
        ("delete", releases.delete(&me, SHOP, "web", DeleteOptions::default()).await.err()),
    ];
    for (act, refused) in done {
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::NotFound), "{act}");
    }
    let forced = releases.force_delete(&me, SHOP, "web", DeleteOptions::default()).await.err();
    assert_eq!(forced.map(|error| error.kind()), Some(ErrorKind::NotFound), "force");
}

#[tokio::test]
async fn new_owner_of_a_namespace_plans_nothing_of_a_leftover_request() {
    let stage = TestHarness::new().await;
    create_leftover_request(&stage).await;
    let values = Some("replicas: 2\n".to_owned());
    let over = ReleaseUpdate { values, merge_values: true, ..ReleaseUpdate::default() };
    // Neither its chart nor its values are used.
    let refused = stage.releases.plan(&developer(), SHOP, "web", over.clone(), false).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let own = ReleaseUpdate { source: Some(ChartSource::Archive(web_chart())), ..over };
    let plan = stage.releases.plan(&developer(), SHOP, "web", own, false).await.unwrap();
    assert!(!serde_json::to_string(&plan).unwrap().contains(FORMER_VALUE));
}
