//! Service functions on releases, and their authorisation.

mod large;
mod leftovers;
mod limits;
mod rollback;

use chart_store::Source;
use domain::Kind;
use domain::actor::Actor;
use domain::roles::WorkspaceRole;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube_types::{HelmRelease, HelmRequest, SYSTEM_NAMESPACE};
use serde_json::json;
use testkit::until;

use super::Asked;
use super::ask::NewRelease;
use super::change::{Changes, DeleteOptions};
use super::compare::Of;
use super::versions::request_name;
use super::view::MadeBy;
use crate::list::query::{self, From};
use crate::list::{Query, Sort};
use crate::stage::{SHOP, Stage, developer, developer_id, web};

fn wanted(name: &str, values: &str) -> NewRelease {
    NewRelease {
        namespace: SHOP.to_owned(),
        name: name.to_owned(),
        values: values.to_owned(),
        ..NewRelease::default()
    }
}

fn viewer() -> Actor {
    let mut viewer = developer();
    viewer.memberships.values_mut().for_each(|role| *role = WorkspaceRole::Viewer);
    viewer
}

fn stranger() -> Actor {
    Actor { memberships: [].into(), ..developer() }
}

fn requests(stage: &Stage) -> Api<HelmRequest> {
    Api::all(stage.world.admin())
}

async fn kept(stage: &Stage) -> usize {
    let secrets: Api<Secret> = Api::namespaced(stage.world.admin(), SYSTEM_NAMESPACE);
    secrets.list(&ListParams::default().labels("longshore.dev/request")).await.unwrap().items.len()
}

#[tokio::test]
async fn a_release_is_asked_for_changed_taken_back_and_deleted() {
    let stage = Stage::new().await;
    let (releases, me) = (&stage.releases, developer());
    let source = Source::Archive(web());
    let asked = releases.install(&me, &source, wanted("web", "greeting: one\n")).await.unwrap();
    assert_eq!((asked.state.as_str(), asked.version, asked.chart.version.as_str()), ("pending", 1, "1.0.0"));
    let status = stage.until_state("web", "active").await.status.unwrap();
    assert_eq!(status.deploy_status[0].by, developer_id().to_string());
    // The values are only in a Secret in the system namespace.
    let release = stage.of::<HelmRelease>().get("web").await.unwrap();
    assert!(!serde_json::to_string(&release).unwrap().contains("greeting: one"));
    until("the request says so too", async || {
        let request = requests(&stage).get(&request_name("host", SHOP, "web")).await.unwrap();
        request.status.filter(|status| status.state == "active")
    })
    .await;

    let changes = Changes { values: Some("greeting: two\n".to_owned()), ..Changes::default() };
    let second = releases.upgrade(&me, SHOP, "web", changes, Asked::default()).await.unwrap();
    assert_eq!((second.state.as_str(), second.version, second.deployed_version), ("upgrading", 2, 1));
    let greeting =
        async || stage.of::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"].clone();
    until("it is changed", async || (greeting().await == "two").then_some(())).await;
    stage.until_state("web", "active").await;
    let history = releases.history(&me, SHOP, "web").await.unwrap();
    let seen: Vec<_> = history.iter().map(|row| (row.revision, row.status.as_str(), row.version)).collect();
    assert_eq!(seen, [(2, "deployed", Some(2)), (1, "superseded", Some(1))]);

    let back = releases.rollback(&me, SHOP, "web", 1, Asked::default()).await.unwrap();
    assert_eq!((back.state.as_str(), back.version, back.deployed_version), ("rollbacking", 3, 2));
    until("it is as it was", async || (greeting().await == "one").then_some(())).await;
    let status = stage.until_state("web", "active").await.status.unwrap();
    assert_eq!((status.version, status.deploy_status[0].rollback_of), (3, Some(1)));
    assert!(status.transitions.iter().any(|step| step.to == "rollbacking"));
    let found = releases.compare(&me, SHOP, "web", (Some(1), Some(2)), Of::Manifest).await.unwrap();
    assert_eq!((found.differences.len(), found.differences[0].changes.len()), (1, 1));
    assert!(found.text.contains("-  greeting: one\n+  greeting: two"), "{}", found.text);
    let values = releases.values(&me, SHOP, "web", None, false).await.unwrap();
    assert_eq!((values.revision, values.values), (3, json!({"greeting": "one"})));

    releases.pause(&me, SHOP, "web", Asked::default()).await.unwrap();
    stage.until_state("web", "paused").await;
    assert_eq!(stage.of::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas, Some(0));
    releases.recover(&me, SHOP, "web", Asked::default()).await.unwrap();
    stage.until_state("web", "active").await;
    assert_eq!(kept(&stage).await, 5);

    releases
        .delete(&me, SHOP, "web", DeleteOptions { claims: true, ..DeleteOptions::default() })
        .await
        .unwrap();
    stage.until_gone(&requests(&stage), &request_name("host", SHOP, "web")).await;
    assert!(stage.of::<HelmRelease>().get_opt("web").await.unwrap().is_none());
    assert!(stage.of::<Deployment>().get_opt("web").await.unwrap().is_none());
    assert_eq!(kept(&stage).await, 0);
}

#[tokio::test]
async fn plan_of_a_failed_first_installation_is_an_installation() {
    let stage = Stage::new().await;
    let broken = "extra: |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: broken\n    annotations: {x: 1}\n";
    stage.releases.install(&developer(), &Source::Archive(web()), wanted("web", broken)).await.unwrap();
    stage.until_state("web", "failed").await;
    let plan = async |values: &str| {
        let source = Some(Source::Archive(web()));
        let changes = Changes { source, values: Some(values.to_owned()), ..Changes::default() };
        let plan = stage.releases.plan(&developer(), SHOP, "web", changes, false).await.unwrap();
        (plan.act, plan.revision)
    };
    assert_eq!(plan("greeting: hi\n").await, ("install", 1));
    // The controller does exactly that.
    let changes = Changes { values: Some("greeting: hi\n".to_owned()), ..Changes::default() };
    stage.releases.upgrade(&developer(), SHOP, "web", changes, Asked::default()).await.unwrap();
    let status = stage.until_state("web", "active").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 1);
    assert_eq!(status.deploy_status[0].state, "created");
    assert_eq!(plan("greeting: ho\n").await, ("upgrade", 2));
}

/// A Deployment whose pods fit on no node.
const LARGE: &str = "extra: |\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: large}\n  spec:\n    replicas: 2\n    \
                     selector: {matchLabels: {app: large}}\n    template:\n      metadata: {labels: {app: large}}\n      \
                     spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 10k}}}]}\n";

#[tokio::test]
async fn a_plan_tells_what_there_is_no_room_for_and_what_nobody_may_look_at() {
    let stage = Stage::new().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": SHOP}, "spec": {"hard": {"pods": "2"}}});
    stage.world.apply([quota]).await;
    let plan = async |values: &str| {
        let source = Some(Source::Archive(web()));
        let changes = Changes { source, values: Some(values.to_owned()), ..Changes::default() };
        let plan = stage.releases.plan(&developer(), SHOP, "web", changes, false).await.unwrap();
        (serde_json::to_value(plan.shortages).unwrap(), plan.unlooked)
    };
    assert_eq!(plan("replicas: 2\n").await, (json!([]), Vec::new()));
    let nodes = json!({
        "kind": "nodes", "object": "Deployment shop/large", "pods": 2, "of": 2,
        "message": "2 of 2 pods of Deployment shop/large would find no node with room",
    });
    let pods = json!({
        "kind": "quota", "namespace": SHOP, "quota": "few", "resource": "pods", "needed": "3", "left": "2",
        "message": "exceeded quota: few in shop: 3 more of pods needed, 2 left",
    });
    assert_eq!(plan(LARGE).await, (json!([pods, nodes]), Vec::new()));

    let roles: Api<ClusterRole> = Api::all(stage.world.admin());
    let mut role = roles.get("longshore-ws-developer").await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        rule.resources.get_or_insert_default().retain(|resource| resource != "resourcequotas");
    }
    roles.replace("longshore-ws-developer", &PostParams::default(), &role).await.unwrap();
    assert_eq!(plan(LARGE).await, (json!([nodes]), vec!["the quotas, which you may not read".to_owned()]));
    assert!(stage.of::<Deployment>().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn whoever_may_not_is_refused_and_nothing_is_written() {
    let stage = Stage::new().await;
    let (releases, source) = (&stage.releases, Source::Archive(web()));
    let mut elsewhere = wanted("web", "");
    elsewhere.namespace = "kube-system".to_owned();
    let table = [
        (viewer(), wanted("web", ""), Kind::Forbidden),
        (stranger(), wanted("web", ""), Kind::Forbidden),
        (developer(), elsewhere, Kind::Forbidden),
        (developer(), wanted("Web_1", ""), Kind::Invalid),
        (developer(), wanted("web", "- a\n- b\n"), Kind::Invalid),
        (developer(), wanted("web", &format!("a: {}", "x".repeat(300_000))), Kind::TooLarge),
    ];
    for (actor, wanted, kind) in table {
        let refused = releases.install(&actor, &source, wanted).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    assert_eq!(
        (requests(&stage).list(&ListParams::default()).await.unwrap().items.len(), kept(&stage).await),
        (0, 0)
    );
    releases.install(&developer(), &source, wanted("web", "")).await.unwrap();
    stage.until_state("web", "active").await;
    let again = releases.install(&developer(), &source, wanted("web", "")).await.unwrap_err();
    assert_eq!((again.kind(), kept(&stage).await), (Kind::Conflict, 1));
    let pause = async |actor: &Actor| releases.pause(actor, SHOP, "web", Asked::default()).await;
    assert_eq!(pause(&viewer()).await.unwrap_err().kind(), Kind::Forbidden);
    assert_eq!(pause(&stranger()).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(releases.get(&stranger(), SHOP, "web").await.unwrap_err().kind(), Kind::NotFound);
    assert!(releases.get(&viewer(), SHOP, "web").await.is_ok());
    let seen = Asked { seen: Some("1"), ..Asked::default() };
    let moved = releases.upgrade(&developer(), SHOP, "web", Changes::default(), seen).await.unwrap_err();
    assert_eq!(moved.kind(), Kind::Precondition);
}

#[tokio::test]
async fn what_somebody_changed_behind_a_request_is_put_back_and_never_acted_on() {
    let stage = Stage::new().await;
    stage.releases.install(&developer(), &Source::Archive(web()), wanted("web", "")).await.unwrap();
    stage.until_state("web", "active").await;
    let patch = json!({"spec": {"valuesObject": {"greeting": "mine"}}});
    // The admission policy rejects even an administrator of the tenant.
    let tenant = stage.acting_as(&developer().impersonation());
    let theirs: Api<HelmRelease> = Api::namespaced(tenant, SHOP);
    let refused = theirs.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to a request"), "{refused}");
    let refused = theirs.delete("web", &kube::api::DeleteParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to a request"), "{refused}");
    // A cluster administrator can change it, and the controller restores it.
    stage.change("web", patch).await;
    until("it is put back", async || {
        let release = stage.of::<HelmRelease>().get("web").await.unwrap();
        let settled = release
            .status
            .as_ref()
            .is_some_and(|status| status.observed_generation == release.metadata.generation);
        (release.spec.values_object.is_none() && settled).then_some(())
    })
    .await;
    let status = stage.until_state("web", "active").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 1);
    assert_eq!(stage.of::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"], "hello");
}

#[tokio::test]
async fn lists_are_sorted_filtered_and_paged() {
    let stage = Stage::new().await;
    for name in ["c", "a", "b"] {
        let mut spec = json!({"name": name, "source": {"package": "pkg-none"}, "suspend": true});
        spec["suspend"] = (name != "b").into();
        stage.write(name, spec).await.unwrap();
    }
    stage.until_state("b", "failed").await;
    stage.until_state("a", "suspended").await;
    stage.until_state("c", "suspended").await;
    let names = |query: &Query| {
        let page = stage.releases.list(&viewer(), query).unwrap();
        let names: Vec<_> = page.rows.iter().map(|row| row.key.name.to_string()).collect();
        (names.join(" "), page.total, page.next)
    };
    until("all are known", async || (names(&Query::default()).1 == 3).then_some(())).await;
    assert_eq!(names(&Query::default()).0, "a b c");
    assert_eq!(names(&Query { descending: true, ..Query::default() }).0, "c b a");
    until("states are known", async || {
        (names(&Query { sort: Sort::State, ..Query::default() }).0 == "b a c").then_some(())
    })
    .await;
    assert_eq!(
        names(&Query { fields: query::fields("state=suspended").unwrap(), ..Query::default() }).0,
        "a c"
    );
    let (first, total, next) = names(&Query { limit: 2, ..Query::default() });
    assert_eq!((first.as_str(), total), ("a b", 3));
    let (second, _, end) = names(&Query { limit: 2, from: From::Cursor(next.unwrap()), ..Query::default() });
    assert_eq!((second.as_str(), end), ("c", None));
    assert_eq!(stage.releases.list(&stranger(), &Query::default()).unwrap().total, 0);
}

#[tokio::test]
async fn a_release_of_the_helm_command_line_is_taken_over() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    // As `helm` leaves it: a record and its objects, without a `HelmRelease`.
    stage.write("web", json!({"name": "web", "source": {"package": package}, "valuesObject": {"greeting": "old"}, "deletionPolicy": "Orphan"})).await.unwrap();
    stage.until_state("web", "active").await;
    stage.of::<HelmRelease>().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    stage.until_gone(&stage.of::<HelmRelease>(), "web").await;
    until("it is known to be gone", async || {
        let seen = stage.releases.get(&developer(), SHOP, "web").await.unwrap();
        (seen.made_by == MadeBy::Helm).then_some(())
    })
    .await;
    until("the list says so", async || {
        let page = stage.releases.list(&viewer(), &Query::default()).unwrap();
        (page.rows[0].made_by == MadeBy::Helm
            && page.rows[0].state == "deployed"
            && page.rows[0].chart.name == "web")
            .then_some(())
    })
    .await;
    stage.releases.adopt(&developer(), SHOP, "web").await.unwrap();
    stage.until_state("web", "active").await;
    assert_eq!(stage.of::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"], "old");
    let restarted = stage.releases.restart(&developer(), SHOP, "web", true).await.unwrap();
    assert_eq!(restarted, ["Deployment web"]);
    assert_eq!(
        stage.releases.restart(&viewer(), SHOP, "web", true).await.unwrap_err().kind(),
        Kind::Forbidden
    );
}
