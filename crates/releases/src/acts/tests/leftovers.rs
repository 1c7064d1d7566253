//! Requests that a former workspace of the namespace left behind.

use kube_types::marks::WORKSPACE_UID;

use super::*;

const FORMER: &str = "secret-of-the-former";

/// An undispatched request of a former workspace of the same name.
async fn leftover(stage: &Stage) -> String {
    stage.lead.abort();
    let values = format!("greeting: {FORMER}\n");
    stage.releases.install(&developer(), &Source::Archive(web()), wanted("web", &values)).await.unwrap();
    let name = request_name("host", SHOP, "web");
    let operation = format!("{name}.1");
    let listed = async || stage.releases.list(&developer(), &Query::default()).unwrap().total;
    until("the owner sees it", async || (listed().await == 1).then_some(())).await;
    assert!(stage.releases.get(&developer(), SHOP, "web").await.is_ok());
    assert!(stage.releases.operation(&developer(), &operation).await.is_ok());
    let former = json!({"metadata": {"annotations": {WORKSPACE_UID: "uid-former"}}});
    requests(stage).patch(&name, &PatchParams::default(), &Patch::Merge(&former)).await.unwrap();
    until("the list knows", async || (listed().await == 0).then_some(())).await;
    operation
}

#[tokio::test]
async fn new_owner_of_a_namespace_sees_no_leftover_request() {
    let stage = Stage::new().await;
    let operation = leftover(&stage).await;
    let (releases, me) = (&stage.releases, developer());
    let seen = [
        releases.get(&me, SHOP, "web").await.err().map(|error| error.kind()),
        releases.operation(&me, &operation).await.err().map(|error| error.kind()),
    ];
    assert_eq!(seen, [Some(Kind::NotFound); 2]);
}

#[tokio::test]
async fn new_owner_of_a_namespace_changes_no_leftover_request() {
    let stage = Stage::new().await;
    leftover(&stage).await;
    let (releases, me) = (&stage.releases, developer());
    let changes = || Changes { values: Some("replicas: 2\n".to_owned()), ..Changes::default() };
    let done = [
        ("upgrade", releases.upgrade(&me, SHOP, "web", changes(), Asked::default()).await.err()),
        ("rollback", releases.rollback(&me, SHOP, "web", 1, Asked::default()).await.err()),
        ("pause", releases.pause(&me, SHOP, "web", Asked::default()).await.err()),
        ("suspend", releases.suspend(&me, SHOP, "web", Asked::default()).await.err()),
        ("retry", releases.retry(&me, SHOP, "web", Asked::default()).await.err()),
        ("delete", releases.delete(&me, SHOP, "web", DeleteOptions::default()).await.err()),
    ];
    for (act, refused) in done {
        assert_eq!(refused.map(|error| error.kind()), Some(Kind::NotFound), "{act}");
    }
    let forced = releases.force_delete(&me, SHOP, "web", DeleteOptions::default()).await.err();
    assert_eq!(forced.map(|error| error.kind()), Some(Kind::NotFound), "force");
}

#[tokio::test]
async fn new_owner_of_a_namespace_plans_nothing_of_a_leftover_request() {
    let stage = Stage::new().await;
    leftover(&stage).await;
    let values = Some("replicas: 2\n".to_owned());
    let over = Changes { values, merge_values: true, ..Changes::default() };
    // Neither its chart nor its values are used.
    let refused = stage.releases.plan(&developer(), SHOP, "web", over.clone(), false).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
    let own = Changes { source: Some(Source::Archive(web())), ..over };
    let plan = stage.releases.plan(&developer(), SHOP, "web", own, false).await.unwrap();
    assert!(!serde_json::to_string(&plan).unwrap().contains(FORMER));
}
