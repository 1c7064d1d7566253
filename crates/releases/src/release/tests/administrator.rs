//! Releases with objects that a platform administrator wrote.
//!
//! See also: the same through the API and with forged Helm records (end-to-end tests, `security::identities`).

use std::time::Duration;

use chart_store::ChartSource;
use domain::actor::{Actor, AuthMethod, administrator_group};
use domain::ids::TokenId;
use domain::scopes::Scopes;
use futures::{FutureExt, StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Event;
use kube_types::release::{ManifestPatch as ReleasePatch, ReleaseOptions};
use kube_types::{HelmReleaseStatus, HelmRequest};
use testkit::{FailurePoint, FaultInjector, TestCluster};

use super::*;
use crate::service::install::InstallRequest;
use crate::service::update::{DeleteOptions, ReleaseUpdate};
use crate::service::{Error, RequestPreconditions};
use crate::testing::{
    administrator, administrator_id, chart_archive, developer, provisioned_cluster, start_releases,
};

const OTHER: &str = "other";

/// Creates another namespace and binds cluster-admin to the administrator's group, as the platform provisions it.
async fn provision(world: &TestCluster) {
    let group = json!({"kind": "Group", "name": administrator_group(&administrator_id()), "apiGroup": "rbac.authorization.k8s.io"});
    world
        .apply([
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHER}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "administrators"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [group]}),
        ])
        .await;
}

async fn administrator_harness() -> TestHarness {
    let stage = TestHarness::new().await;
    provision(&stage.world).await;
    stage
}

/// Values whose objects need an administrator: a `ClusterRole` with this verb, and a `ConfigMap` in another namespace.
fn wide_values(verb: &str) -> String {
    let objects = [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "wide"},
            "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": [verb]}]}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wide", "namespace": OTHER}}),
    ];
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    json!({"extra": text.join("\n---\n")}).to_string()
}

fn web_request(values: &str, as_administrator: bool) -> InstallRequest {
    InstallRequest {
        namespace: SHOP.to_owned(),
        name: "web".to_owned(),
        values: values.to_owned(),
        as_administrator,
        ..InstallRequest::default()
    }
}

fn full_update(values: &str) -> ReleaseUpdate {
    let source = Some(ChartSource::Archive(web_chart()));
    ReleaseUpdate { source, values: Some(values.to_owned()), ..ReleaseUpdate::default() }
}

const ELEVATED: RequestPreconditions<'static> =
    RequestPreconditions { if_match: None, idempotency_key: None, as_administrator: true };

async fn installed_harness(values: &str) -> TestHarness {
    let stage = administrator_harness().await;
    let made = stage
        .releases
        .install(&administrator(), &ChartSource::Archive(web_chart()), web_request(values, true))
        .await;
    made.unwrap();
    wait_until_deployed(&stage, 1).await;
    stage
}

async fn wait_until_deployed(stage: &TestHarness, version: i64) -> HelmReleaseStatus {
    wait_for("it is deployed", async || {
        let status = stage.namespaced_api::<HelmRelease>().get_opt("web").await.unwrap()?.status?;
        assert_ne!(status.state, "failed", "{}", status.message);
        (status.version == version && status.operation.is_none()).then_some(status)
    })
    .await
}

async fn wait_until_failed(stage: &TestHarness) -> HelmReleaseStatus {
    stage.wait_for_state("web", "failed").await.status.unwrap()
}

/// The verb of the `ClusterRole`, if it exists, and whether the `ConfigMap` exists.
async fn observed_objects(world: &TestCluster) -> (Option<String>, bool) {
    let roles: Api<ClusterRole> = Api::all(world.admin_client());
    let role = roles.get_opt("wide").await.unwrap();
    let verb = role.and_then(|role| role.rules?.first()?.verbs.first().cloned());
    let maps: Api<ConfigMap> = Api::namespaced(world.admin_client(), OTHER);
    (verb, maps.get_opt("wide").await.unwrap().is_some())
}

fn administered_objects(status: &HelmReleaseStatus) -> Vec<String> {
    status
        .administered
        .iter()
        .map(|entry| format!("{} {}/{}", entry.kind, entry.namespace, entry.name))
        .collect()
}

async fn latest_manifest(stage: &TestHarness) -> String {
    let storage = Storage::new(stage.world.admin_client(), SHOP, Arc::new(SystemClock));
    storage.newest("web").await.unwrap().unwrap().record.manifest
}

async fn wait_until_deleted(stage: &TestHarness) {
    stage.wait_until_deleted(&stage.namespaced_api::<HelmRelease>(), "web").await;
    let requests: Api<HelmRequest> = Api::all(stage.world.admin_client());
    wait_for("the request is gone", async || {
        requests.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn later_operations_leave_objects_of_an_administrator_alone() {
    let stage = installed_harness(&wide_values("get")).await;
    let (releases, me) = (&stage.releases, developer());
    let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status.unwrap();
    assert_eq!(administered_objects(&status), ["ConfigMap other/wide", "ClusterRole /wide"]);
    assert_eq!(status.inventory, []);
    assert!(status.revisions[0].as_administrator);
    assert_eq!(observed_objects(&stage.world).await, (Some("get".to_owned()), true));
    assert!(latest_manifest(&stage).await.contains("ClusterRole"));

    // Other users deploy the same and other content of these objects: it is neither written, recorded nor rejected.
    releases.pause(&me, SHOP, "web", RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 2).await;
    releases.recover(&administrator(), SHOP, "web", RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 3).await;
    releases
        .upgrade(&me, SHOP, "web", full_update(&wide_values("delete")), RequestPreconditions::default())
        .await
        .unwrap();
    let status = wait_until_deployed(&stage, 4).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("get".to_owned()), true));
    assert!(!latest_manifest(&stage).await.contains("ClusterRole"));
    assert_eq!(status.revisions.iter().filter(|entry| entry.as_administrator).count(), 1);
    // They stay when the chart no longer contains them.
    releases
        .upgrade(&me, SHOP, "web", full_update("greeting: hi\n"), RequestPreconditions::default())
        .await
        .unwrap();
    let status = wait_until_deployed(&stage, 5).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("get".to_owned()), true));
    assert_eq!(administered_objects(&status).len(), 2);
    // A new object that needs an administrator is still rejected.
    let more = wide_values("get").replace("\"wide\\\"", "\"more\\\"");
    assert_ne!(more, wide_values("get"));
    releases.upgrade(&me, SHOP, "web", full_update(&more), RequestPreconditions::default()).await.unwrap();
    let status = wait_until_failed(&stage).await;
    assert!(status.message.contains("must be in the namespaces of workspace"), "{}", status.message);
    // A retry by an administrator does not grant the rights either.
    releases.retry(&administrator(), SHOP, "web", ELEVATED).await.unwrap();
    let status = wait_for("it was tried again", async || {
        let status = wait_until_failed(&stage).await;
        status.attempted_hash.ends_with("/7").then_some(status)
    })
    .await;
    assert!(status.message.contains("must be in the namespaces of workspace"), "{}", status.message);
}

#[tokio::test]
async fn drift_correction_leaves_objects_of_an_administrator_alone() {
    let stage = administrator_harness().await;
    let drift_detection = serde_json::from_value(json!({"mode": "enabled"})).unwrap();
    let wanted =
        InstallRequest { drift_detection: Some(drift_detection), ..web_request(&wide_values("get"), true) };
    stage.releases.install(&administrator(), &ChartSource::Archive(web_chart()), wanted).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    let roles: Api<ClusterRole> = Api::all(stage.world.admin_client());
    let patch = json!({"rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]});
    roles.patch("wide", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let maps = stage.namespaced_api::<ConfigMap>();
    let other = Patch::Merge(json!({"data": {"greeting": "other"}}));
    maps.patch("web", &PatchParams::default(), &other).await.unwrap();
    // A server with empty caches reconciles everything.
    let (again, _waiting) = tokio::sync::mpsc::unbounded_channel();
    let controller = stage.releases.new_controller(again);
    let marks = stage.releases.inner().record_labels.clone();
    marks
        .list()
        .into_iter()
        .for_each(|mark| drop(controller.helm_records.apply_event(&CacheEvent::Applied(mark))));
    let key = ReleaseKey::new(SHOP, "web");
    wait_for("the drift is corrected", async || {
        controller.reconcile_state.remove(&key);
        controller.reconcile_release(&key).await.unwrap();
        (maps.get("web").await.unwrap().data.unwrap()["greeting"] == "hello").then_some(())
    })
    .await;
    assert_eq!(observed_objects(&stage.world).await.0.as_deref(), Some("list"));
}

#[tokio::test]
async fn upgrade_of_an_administrator_changes_and_removes_their_objects() {
    let stage = installed_harness(&wide_values("get")).await;
    let releases = &stage.releases;
    releases.pause(&developer(), SHOP, "web", RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 2).await;
    releases
        .upgrade(&administrator(), SHOP, "web", full_update(&wide_values("list")), ELEVATED)
        .await
        .unwrap();
    wait_until_deployed(&stage, 3).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("list".to_owned()), true));
    // The same version is applied again, because an object may have been removed.
    let roles: Api<ClusterRole> = Api::all(stage.world.admin_client());
    roles.delete("wide", &DeleteParams::default()).await.unwrap();
    releases.upgrade(&administrator(), SHOP, "web", ReleaseUpdate::default(), ELEVATED).await.unwrap();
    wait_until_deployed(&stage, 4).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("list".to_owned()), true));
    // A rollback with the option accepts only revisions that were deployed with it.
    releases.rollback(&administrator(), SHOP, "web", 1, ELEVATED).await.unwrap();
    wait_until_deployed(&stage, 5).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("get".to_owned()), true));
    let refused = releases.rollback(&administrator(), SHOP, "web", 2, ELEVATED).await.unwrap_err();
    assert!(matches!(refused, Error::NotAdministratorRevision(..)), "{refused}");
    // Objects missing in the latest record are removed by the list in the status.
    releases.recover(&developer(), SHOP, "web", RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 6).await;
    releases.upgrade(&administrator(), SHOP, "web", full_update("greeting: hi\n"), ELEVATED).await.unwrap();
    let status = wait_until_deployed(&stage, 7).await;
    assert_eq!(observed_objects(&stage.world).await, (None, false));
    assert_eq!(administered_objects(&status), [""; 0]);
}

#[tokio::test]
async fn uninstallation_without_the_option_reports_what_is_left_behind() {
    let stage = installed_harness(&wide_values("get")).await;
    // The annotation of a deletion that did not start does not count for the next.
    let requests: Api<HelmRequest> = Api::all(stage.world.platform_client());
    let request = requests.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let mark = format!("{}/uid-2", administrator_id());
    let patch = json!({"metadata": {"annotations": {"longshore.dev/uninstall-as-administrator": mark}}});
    requests.patch(&request, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let left =
        stage.releases.delete(&developer(), SHOP, "web", DeleteOptions::default()).await.unwrap().orphans;
    let left: Vec<String> = left.unwrap().iter().map(ToString::to_string).collect();
    let why = "only an administrator can delete it (asAdministrator)";
    assert_eq!(left, [format!("ConfigMap other/wide ({why})"), format!("ClusterRole wide ({why})")]);
    wait_until_deleted(&stage).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("get".to_owned()), true));
    assert!(stage.namespaced_api::<ConfigMap>().get_opt("web").await.unwrap().is_none());
    let events = stage.namespaced_api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let said = events.iter().find(|event| event.reason.as_deref() == Some("LeftBehind")).unwrap();
    assert!(said.message.as_ref().unwrap().contains("ClusterRole wide"), "{said:?}");
}

#[tokio::test]
async fn uninstallation_with_the_option_removes_objects_of_an_administrator() {
    let stage = installed_harness(&wide_values("get")).await;
    // The latest record does not contain them.
    stage.releases.pause(&developer(), SHOP, "web", RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 2).await;
    let options = DeleteOptions { as_administrator: true, ..DeleteOptions::default() };
    let refused = stage.releases.delete(&developer(), SHOP, "web", options).await.unwrap_err();
    assert_eq!(refused.kind(), domain::ErrorKind::Forbidden, "{refused}");
    let left = stage.releases.delete(&administrator(), SHOP, "web", options).await.unwrap().orphans;
    assert_eq!(left, None);
    wait_until_deleted(&stage).await;
    assert_eq!(observed_objects(&stage.world).await, (None, false));
}

#[tokio::test]
async fn hooks_of_an_administrator_run_in_their_version_only() {
    let stage = administrator_harness().await;
    let hook = |name: &str, event: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": OTHER,
            "annotations": {"helm.sh/hook": event}}})
        .to_string()
    };
    let hooks = [hook("first", "pre-install"), hook("next", "pre-upgrade"), hook("last", "pre-delete")];
    let values = json!({"extra": hooks.join("\n---\n")}).to_string();
    stage
        .releases
        .install(&administrator(), &ChartSource::Archive(web_chart()), web_request(&values, true))
        .await
        .unwrap();
    wait_until_deployed(&stage, 1).await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.world.admin_client(), OTHER);
    let there = async |name: &str| maps.get_opt(name).await.unwrap().is_some();
    assert!(there("first").await && !there("next").await);
    stage.releases.pause(&developer(), SHOP, "web", RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 2).await;
    assert!(!there("next").await);
    stage.releases.delete(&developer(), SHOP, "web", DeleteOptions::default()).await.unwrap();
    wait_until_deleted(&stage).await;
    assert!(!there("last").await);
}

#[tokio::test]
async fn only_an_unscoped_administrator_uses_the_option() {
    let stage = administrator_harness().await;
    let scopes = Scopes::parse(["workspace:shop"]).unwrap();
    let limited = Actor {
        auth_method: AuthMethod::Token { id: TokenId::from_random([0; 10]), scopes },
        ..administrator()
    };
    let source = ChartSource::Archive(web_chart());
    stage.releases.install(&developer(), &source, web_request("", false)).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    for actor in [developer(), limited] {
        let other = InstallRequest { name: "other".to_owned(), ..web_request("", true) };
        let refused = [
            stage.releases.install(&actor, &source, other).await.map(drop),
            stage.releases.upgrade(&actor, SHOP, "web", ReleaseUpdate::default(), ELEVATED).await.map(drop),
            stage.releases.rollback(&actor, SHOP, "web", 1, ELEVATED).await.map(drop),
            stage.releases.plan(&actor, SHOP, "web", full_update(""), true).await.map(drop),
        ];
        for refused in refused {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), domain::ErrorKind::Forbidden, "{refused}");
        }
    }
    let plan = stage
        .releases
        .plan(&administrator(), SHOP, "web", full_update(&wide_values("get")), true)
        .await
        .unwrap();
    assert_eq!(plan.objects.len(), 4);
    assert_eq!(observed_objects(&stage.world).await, (None, false));
    let refused =
        stage.releases.plan(&administrator(), SHOP, "web", full_update(&wide_values("get")), false).await;
    assert!(refused.unwrap_err().to_string().contains("must be in the namespaces"));
}

#[tokio::test]
async fn inherited_tenant_content_is_rejected_with_the_option() {
    let stage = administrator_harness().await;
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let theirs = InstallRequest {
        options: ReleaseOptions { take_ownership: true, ..ReleaseOptions::default() },
        patches: vec![ReleasePatch { patch: patch.to_owned(), target: None }],
        ..web_request("greeting: theirs\n", false)
    };
    stage.releases.install(&developer(), &ChartSource::Archive(web_chart()), theirs).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    let me = administrator();
    let rows: [(ReleaseUpdate, &str); 3] = [
        (ReleaseUpdate::default(), "chart, values, options, patches"),
        (full_update(&wide_values("get")), "options, patches"),
        (
            ReleaseUpdate {
                merge_values: true,
                options: Some(ReleaseOptions::default()),
                ..full_update("a: b\n")
            },
            "values, patches",
        ),
    ];
    for (changes, unstated) in rows {
        let refused = stage.releases.upgrade(&me, SHOP, "web", changes, ELEVATED).await.unwrap_err();
        assert!(matches!(&refused, Error::InheritedContent(fields) if fields == unstated), "{refused}");
    }
    let refused = stage.releases.rollback(&me, SHOP, "web", 1, ELEVATED).await.unwrap_err();
    assert!(matches!(refused, Error::NotAdministratorRevision(..)), "{refused}");
    let all = ReleaseUpdate {
        options: Some(ReleaseOptions::default()),
        patches: Some(Vec::new()),
        roles: Some(Vec::new()),
        ..full_update(&wide_values("get"))
    };
    stage.releases.upgrade(&me, SHOP, "web", all, ELEVATED).await.unwrap();
    wait_until_deployed(&stage, 2).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("get".to_owned()), true));
}

#[tokio::test]
async fn lookup_reads_with_the_rights_of_the_release() {
    let stage = administrator_harness().await;
    stage
        .world
        .apply([
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prey", "namespace": OTHER},
            "stringData": {"password": "the-secret-of-another"}}),
        ])
        .await;
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\ndata:\n  seen: {{ lookup \"v1\" \"Secret\" \"other\" \"prey\" | toJson | quote }}\n";
    let chart = chart_archive("look", "1.0.0", &[("templates/seen.yaml", template)]);
    stage
        .releases
        .install(&administrator(), &ChartSource::Archive(chart), web_request("", true))
        .await
        .unwrap();
    wait_for("it is deployed or refused", async || {
        let status = stage.namespaced_api::<HelmRelease>().get_opt("web").await.unwrap()?.status?;
        matches!(status.state.as_str(), "active" | "failed").then_some(())
    })
    .await;
    let map = stage.namespaced_api::<ConfigMap>().get_opt("seen").await.unwrap();
    let seen = map.and_then(|map| map.data).unwrap_or_default().remove("seen").unwrap_or_default();
    assert!(!seen.contains("prey") && !seen.contains("password"), "{seen}");
}

#[tokio::test]
async fn version_of_an_administrator_is_finished_after_a_crash() {
    // Around the ledger write, the first objects, and the status write.
    let kills = stream::iter([3, 5, 7, 9, 11]).map(|passing| async move {
        let world = provisioned_cluster().await;
        provision(&world).await;
        let platform = start_releases(&world, &FaultInjector::healthy()).await;
        let made = platform
            .install(
                &administrator(),
                &ChartSource::Archive(web_chart()),
                web_request(&wide_values("get"), true),
            )
            .await;
        made.unwrap();
        let fault = FaultInjector::cut_after_writes(passing, FailurePoint::AfterHandling);
        let killed = async { start_releases(&world, &fault).await.run_as_leader().await }.boxed();
        let _ = tokio::time::timeout(Duration::from_secs(20), async {
            tokio::select! { () = fault.wait_until_disconnected() => {}, _ = killed => {} }
        })
        .await;
        assert!(fault.is_disconnected(), "it was not killed at write {passing}");
        let next =
            async { start_releases(&world, &FaultInjector::healthy()).await.run_as_leader().await }.boxed();
        let api: Api<HelmRelease> = Api::namespaced(world.admin_client(), SHOP);
        let done = wait_for("it is deployed", async || {
            let status = api.get_opt("web").await.unwrap()?.status?;
            (status.version == 1 && status.operation.is_none()).then_some(status)
        });
        let status = tokio::select! { status = done => status, _ = next => unreachable!() };
        assert_eq!(administered_objects(&status).len(), 2, "killed at write {passing}");
        assert_eq!(
            observed_objects(&world).await,
            (Some("get".to_owned()), true),
            "killed at write {passing}"
        );
    });
    kills.buffer_unordered(5).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn forged_record_does_not_choose_what_an_administrator_deletes() {
    let stage = installed_harness(&wide_values("get")).await;
    // Fields that other clients set on the administrator's objects.
    let roles: Api<ClusterRole> = Api::all(stage.world.admin_client());
    let maps: Api<ConfigMap> = Api::namespaced(stage.world.admin_client(), OTHER);
    let guard = Patch::Merge(json!({"metadata": {"labels": {"guard": "on"}}}));
    roles.patch("wide", &PatchParams::default(), &guard).await.unwrap();
    maps.patch("wide", &PatchParams::default(), &guard).await.unwrap();
    // A tenant edits the latest record to claim these fields, as a Helm 3 record: the next upgrade is a three-way merge.
    let secrets = stage.namespaced_api::<Secret>();
    let name = secret_name("web", 1);
    let mut secret = secrets.get(&name).await.unwrap();
    let mut record = Record::decode(&secret.data.as_ref().unwrap()["release"].0).unwrap();
    record.apply_method = None;
    let plain = record.manifest.clone();
    for id in [r#""name":"wide""#, r#""name": "wide""#, "name: wide"] {
        let guarded = format!(
            "{}, {}",
            id,
            if id.contains('"') { r#""labels":{"guard":"on"}"# } else { "labels: {guard: 'on'}" }
        );
        record.manifest = record.manifest.replace(id, &guarded);
    }
    assert_ne!(record.manifest, plain);
    secret.data = Some([("release".to_owned(), ByteString(record.encode().unwrap().into_bytes()))].into());
    secrets.replace(&name, &PostParams::default(), &secret).await.unwrap();

    stage
        .releases
        .upgrade(&administrator(), SHOP, "web", full_update(&wide_values("list")), ELEVATED)
        .await
        .unwrap();
    wait_until_deployed(&stage, 2).await;
    assert_eq!(observed_objects(&stage.world).await, (Some("list".to_owned()), true));
    assert_eq!(roles.get("wide").await.unwrap().metadata.labels.unwrap()["guard"], "on");
    assert_eq!(maps.get("wide").await.unwrap().metadata.labels.unwrap()["guard"], "on");
}
