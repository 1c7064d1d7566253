//! Service functions on releases, and their authorisation.

mod large;
mod leftovers;
mod limits;
mod rollback;

use chart_store::ChartSource;
use domain::ErrorKind;
use domain::actor::Actor;
use domain::roles::WorkspaceRole;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube_types::{HelmRelease, HelmRequest, SYSTEM_NAMESPACE};
use serde_json::json;
use testkit::wait_for;

use super::RequestPreconditions;
use super::diff::DiffSubject;
use super::install::InstallRequest;
use super::update::{DeleteOptions, ReleaseUpdate};
use super::versions::request_name;
use super::view::ManagedBy;
use crate::index::query::{self, PageStart};
use crate::index::{Query, Sort};
use crate::testing::{SHOP, TestHarness, developer, developer_id, web_chart};

fn install_request(name: &str, values: &str) -> InstallRequest {
    InstallRequest {
        namespace: SHOP.to_owned(),
        name: name.to_owned(),
        values: values.to_owned(),
        ..InstallRequest::default()
    }
}

fn viewer() -> Actor {
    let mut viewer = developer();
    viewer.memberships.values_mut().for_each(|role| *role = WorkspaceRole::Viewer);
    viewer
}

fn non_member() -> Actor {
    Actor { memberships: [].into(), ..developer() }
}

fn request_api(stage: &TestHarness) -> Api<HelmRequest> {
    Api::all(stage.world.admin_client())
}

async fn count_saved_versions(stage: &TestHarness) -> usize {
    let secrets: Api<Secret> = Api::namespaced(stage.world.admin_client(), SYSTEM_NAMESPACE);
    secrets.list(&ListParams::default().labels("longshore.dev/request")).await.unwrap().items.len()
}

#[tokio::test]
async fn release_is_installed_upgraded_rolled_back_and_deleted() {
    let stage = TestHarness::new().await;
    let (releases, me) = (&stage.releases, developer());
    let source = ChartSource::Archive(web_chart());
    let asked = releases.install(&me, &source, install_request("web", "greeting: one\n")).await.unwrap();
    assert_eq!((asked.state.as_str(), asked.version, asked.chart.version.as_str()), ("pending", 1, "1.0.0"));
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert_eq!(status.deploy_status[0].by, developer_id().to_string());
    // The values are only in a Secret in the system namespace.
    let release = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap();
    assert!(!serde_json::to_string(&release).unwrap().contains("greeting: one"));
    wait_for("the request says so too", async || {
        let request = request_api(&stage).get(&request_name("host", SHOP, "web")).await.unwrap();
        request.status.filter(|status| status.state == "active")
    })
    .await;

    let changes = ReleaseUpdate { values: Some("greeting: two\n".to_owned()), ..ReleaseUpdate::default() };
    let second = releases.upgrade(&me, SHOP, "web", changes, RequestPreconditions::default()).await.unwrap();
    assert_eq!((second.state.as_str(), second.version, second.deployed_version), ("upgrading", 2, 1));
    let greeting = async || {
        stage.namespaced_api::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"].clone()
    };
    wait_for("it is changed", async || (greeting().await == "two").then_some(())).await;
    stage.wait_for_state("web", "active").await;
    let history = releases.history(&me, SHOP, "web").await.unwrap();
    let seen: Vec<_> = history.iter().map(|row| (row.revision, row.status.as_str(), row.version)).collect();
    assert_eq!(seen, [(2, "deployed", Some(2)), (1, "superseded", Some(1))]);

    let back = releases.rollback(&me, SHOP, "web", 1, RequestPreconditions::default()).await.unwrap();
    assert_eq!((back.state.as_str(), back.version, back.deployed_version), ("rollbacking", 3, 2));
    wait_for("it is as it was", async || (greeting().await == "one").then_some(())).await;
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert_eq!((status.version, status.deploy_status[0].rollback_of), (3, Some(1)));
    assert!(status.transitions.iter().any(|step| step.to == "rollbacking"));
    let found =
        releases.diff_revisions(&me, SHOP, "web", (Some(1), Some(2)), DiffSubject::Manifest).await.unwrap();
    assert_eq!((found.differences.len(), found.differences[0].changes.len()), (1, 1));
    assert!(found.text.contains("-  greeting: one\n+  greeting: two"), "{}", found.text);
    let values = releases.values(&me, SHOP, "web", None, false).await.unwrap();
    assert_eq!((values.revision, values.values), (3, json!({"greeting": "one"})));

    releases.pause(&me, SHOP, "web", RequestPreconditions::default()).await.unwrap();
    stage.wait_for_state("web", "paused").await;
    assert_eq!(
        stage.namespaced_api::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas,
        Some(0)
    );
    releases.recover(&me, SHOP, "web", RequestPreconditions::default()).await.unwrap();
    stage.wait_for_state("web", "active").await;
    assert_eq!(count_saved_versions(&stage).await, 5);

    releases
        .delete(&me, SHOP, "web", DeleteOptions { delete_claims: true, ..DeleteOptions::default() })
        .await
        .unwrap();
    stage.wait_until_deleted(&request_api(&stage), &request_name("host", SHOP, "web")).await;
    assert!(stage.namespaced_api::<HelmRelease>().get_opt("web").await.unwrap().is_none());
    assert!(stage.namespaced_api::<Deployment>().get_opt("web").await.unwrap().is_none());
    assert_eq!(count_saved_versions(&stage).await, 0);
}

#[tokio::test]
async fn plan_after_failed_first_install_is_an_install() {
    let stage = TestHarness::new().await;
    let broken = "extra: |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: broken\n    annotations: {x: 1}\n";
    stage
        .releases
        .install(&developer(), &ChartSource::Archive(web_chart()), install_request("web", broken))
        .await
        .unwrap();
    stage.wait_for_state("web", "failed").await;
    let plan = async |values: &str| {
        let source = Some(ChartSource::Archive(web_chart()));
        let changes = ReleaseUpdate { source, values: Some(values.to_owned()), ..ReleaseUpdate::default() };
        let plan = stage.releases.plan(&developer(), SHOP, "web", changes, false).await.unwrap();
        (plan.act, plan.revision)
    };
    assert_eq!(plan("greeting: hi\n").await, ("install", 1));
    // The controller does exactly that.
    let changes = ReleaseUpdate { values: Some("greeting: hi\n".to_owned()), ..ReleaseUpdate::default() };
    stage
        .releases
        .upgrade(&developer(), SHOP, "web", changes, RequestPreconditions::default())
        .await
        .unwrap();
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 1);
    assert_eq!(status.deploy_status[0].state, "created");
    assert_eq!(plan("greeting: ho\n").await, ("upgrade", 2));
}

/// A Deployment whose pods fit on no node.
const OVERSIZED_VALUES: &str = "extra: |\n  apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: large}\n  spec:\n    replicas: 2\n    \
                     selector: {matchLabels: {app: large}}\n    template:\n      metadata: {labels: {app: large}}\n      \
                     spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 10k}}}]}\n";

#[tokio::test]
async fn plan_reports_shortages_and_unreadable_quotas() {
    let stage = TestHarness::new().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": SHOP}, "spec": {"hard": {"pods": "2"}}});
    stage.world.apply([quota]).await;
    let plan = async |values: &str| {
        let source = Some(ChartSource::Archive(web_chart()));
        let changes = ReleaseUpdate { source, values: Some(values.to_owned()), ..ReleaseUpdate::default() };
        let plan = stage.releases.plan(&developer(), SHOP, "web", changes, false).await.unwrap();
        (serde_json::to_value(plan.shortages).unwrap(), plan.unlooked)
    };
    assert_eq!(plan("replicas: 2\n").await, (json!([]), Vec::new()));
    let nodes = json!({
        "kind": "nodes", "object": "Deployment shop/large", "pods": 2, "of": 2,
        "message": "2 of 2 pods of Deployment shop/large do not fit onto any node",
    });
    let pods = json!({
        "kind": "quota", "namespace": SHOP, "quota": "few", "resource": "pods", "needed": "3", "left": "2",
        "message": "exceeded quota: few in shop: 3 more of pods needed, 2 left",
    });
    assert_eq!(plan(OVERSIZED_VALUES).await, (json!([pods, nodes]), Vec::new()));

    let roles: Api<ClusterRole> = Api::all(stage.world.admin_client());
    let mut role = roles.get("longshore-ws-developer").await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        rule.resources.get_or_insert_default().retain(|resource| resource != "resourcequotas");
    }
    roles.replace("longshore-ws-developer", &PostParams::default(), &role).await.unwrap();
    assert_eq!(
        plan(OVERSIZED_VALUES).await,
        (json!([nodes]), vec!["quotas: you may not read them".to_owned()])
    );
    assert!(
        stage.namespaced_api::<Deployment>().list(&ListParams::default()).await.unwrap().items.is_empty()
    );
}

#[tokio::test]
async fn unauthorized_requests_are_rejected_and_write_nothing() {
    let stage = TestHarness::new().await;
    let (releases, source) = (&stage.releases, ChartSource::Archive(web_chart()));
    let mut elsewhere = install_request("web", "");
    elsewhere.namespace = "kube-system".to_owned();
    let table = [
        (viewer(), install_request("web", ""), ErrorKind::Forbidden),
        (non_member(), install_request("web", ""), ErrorKind::Forbidden),
        (developer(), elsewhere, ErrorKind::Forbidden),
        (developer(), install_request("Web_1", ""), ErrorKind::Invalid),
        (developer(), install_request("web", "- a\n- b\n"), ErrorKind::Invalid),
        (developer(), install_request("web", &format!("a: {}", "x".repeat(300_000))), ErrorKind::TooLarge),
    ];
    for (actor, wanted, kind) in table {
        let refused = releases.install(&actor, &source, wanted).await.unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    assert_eq!(
        (
            request_api(&stage).list(&ListParams::default()).await.unwrap().items.len(),
            count_saved_versions(&stage).await
        ),
        (0, 0)
    );
    releases.install(&developer(), &source, install_request("web", "")).await.unwrap();
    stage.wait_for_state("web", "active").await;
    let again = releases.install(&developer(), &source, install_request("web", "")).await.unwrap_err();
    assert_eq!((again.kind(), count_saved_versions(&stage).await), (ErrorKind::Conflict, 1));
    let pause =
        async |actor: &Actor| releases.pause(actor, SHOP, "web", RequestPreconditions::default()).await;
    assert_eq!(pause(&viewer()).await.unwrap_err().kind(), ErrorKind::Forbidden);
    assert_eq!(pause(&non_member()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(releases.get(&non_member(), SHOP, "web").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(releases.get(&viewer(), SHOP, "web").await.is_ok());
    let seen = RequestPreconditions { if_match: Some("1"), ..RequestPreconditions::default() };
    let moved =
        releases.upgrade(&developer(), SHOP, "web", ReleaseUpdate::default(), seen).await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Precondition);
}

#[tokio::test]
async fn direct_changes_of_a_requested_release_are_reverted() {
    let stage = TestHarness::new().await;
    stage
        .releases
        .install(&developer(), &ChartSource::Archive(web_chart()), install_request("web", ""))
        .await
        .unwrap();
    stage.wait_for_state("web", "active").await;
    let patch = json!({"spec": {"valuesObject": {"greeting": "mine"}}});
    // The admission policy rejects even an administrator of the tenant.
    let tenant = stage.client_as(&developer().impersonation());
    let theirs: Api<HelmRelease> = Api::namespaced(tenant, SHOP);
    let refused = theirs.patch("web", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to a request"), "{refused}");
    let refused = theirs.delete("web", &kube::api::DeleteParams::default()).await.unwrap_err();
    assert!(refused.to_string().contains("belongs to a request"), "{refused}");
    // A cluster administrator can change it, and the controller restores it.
    stage.patch_release("web", patch).await;
    wait_for("it is put back", async || {
        let release = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap();
        let settled = release
            .status
            .as_ref()
            .is_some_and(|status| status.observed_generation == release.metadata.generation);
        (release.spec.values_object.is_none() && settled).then_some(())
    })
    .await;
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 1);
    assert_eq!(
        stage.namespaced_api::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"],
        "hello"
    );
}

#[tokio::test]
async fn lists_are_sorted_filtered_and_paged() {
    let stage = TestHarness::new().await;
    for name in ["c", "a", "b"] {
        let mut spec = json!({"name": name, "source": {"package": "pkg-none"}, "suspend": true});
        spec["suspend"] = (name != "b").into();
        stage.create_release(name, spec).await.unwrap();
    }
    stage.wait_for_state("b", "failed").await;
    stage.wait_for_state("a", "suspended").await;
    stage.wait_for_state("c", "suspended").await;
    let names = |query: &Query| {
        let page = stage.releases.list(&viewer(), query).unwrap();
        let names: Vec<_> = page.rows.iter().map(|row| row.key.name.to_string()).collect();
        (names.join(" "), page.total, page.next)
    };
    wait_for("all are known", async || (names(&Query::default()).1 == 3).then_some(())).await;
    assert_eq!(names(&Query::default()).0, "a b c");
    assert_eq!(names(&Query { descending: true, ..Query::default() }).0, "c b a");
    wait_for("states are known", async || {
        (names(&Query { sort: Sort::State, ..Query::default() }).0 == "b a c").then_some(())
    })
    .await;
    assert_eq!(
        names(&Query { fields: query::parse_fields("state=suspended").unwrap(), ..Query::default() }).0,
        "a c"
    );
    let (first, total, next) = names(&Query { limit: 2, ..Query::default() });
    assert_eq!((first.as_str(), total), ("a b", 3));
    let (second, _, end) =
        names(&Query { limit: 2, start: PageStart::Cursor(next.unwrap()), ..Query::default() });
    assert_eq!((second.as_str(), end), ("c", None));
    assert_eq!(stage.releases.list(&non_member(), &Query::default()).unwrap().total, 0);
}

#[tokio::test]
async fn helm_cli_release_is_adopted() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    // As `helm` leaves it: a record and its objects, without a `HelmRelease`.
    stage.create_release("web", json!({"name": "web", "source": {"package": package}, "valuesObject": {"greeting": "old"}, "deletionPolicy": "Orphan"})).await.unwrap();
    stage.wait_for_state("web", "active").await;
    stage.namespaced_api::<HelmRelease>().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&stage.namespaced_api::<HelmRelease>(), "web").await;
    wait_for("it is known to be gone", async || {
        let seen = stage.releases.get(&developer(), SHOP, "web").await.unwrap();
        (seen.made_by == ManagedBy::Helm).then_some(())
    })
    .await;
    wait_for("the list says so", async || {
        let page = stage.releases.list(&viewer(), &Query::default()).unwrap();
        (page.rows[0].managed_by == ManagedBy::Helm
            && page.rows[0].state == "deployed"
            && page.rows[0].chart.name == "web")
            .then_some(())
    })
    .await;
    stage.releases.adopt(&developer(), SHOP, "web").await.unwrap();
    stage.wait_for_state("web", "active").await;
    assert_eq!(
        stage.namespaced_api::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"],
        "old"
    );
    let restarted = stage.releases.restart(&developer(), SHOP, "web", true).await.unwrap();
    assert_eq!(restarted, ["Deployment web"]);
    assert_eq!(
        stage.releases.restart(&viewer(), SHOP, "web", true).await.unwrap_err().kind(),
        ErrorKind::Forbidden
    );
}
