//! Rollback restores the inputs of a revision, regardless of its author. Updates preserve concurrent metadata changes.

use helm_chart::values;
use helm_release::storage::{HELD_BY_ANNOTATION, secret_name};
use helm_release::{Record, Status, Storage};
use helm_template::profile::Profile;
use kube_types::release::{
    DEPLOYER, ManifestPatch as ReleasePatch, ReleaseOptions, Remediation, RemediationStrategy, RoleOverride,
};
use kube_types::request::RunAs;

use super::*;
use crate::requests::DELETE_CLAIMS_ANNOTATION;
use crate::service::VERSION_LABEL;
use crate::testing::chart_archive;

async fn greeting(stage: &TestHarness) -> Option<String> {
    stage.namespaced_api::<ConfigMap>().get_opt("web").await.unwrap()?.data?.remove("greeting")
}

async fn request(stage: &TestHarness) -> HelmRequest {
    request_api(stage).get(&request_name("host", SHOP, "web")).await.unwrap()
}

/// Waits until this version of the request is deployed.
async fn wait_until_deployed(stage: &TestHarness, version: i64) {
    wait_for("the version is deployed", async || {
        let release = stage.namespaced_api::<HelmRelease>().get_opt("web").await.unwrap();
        release?.status.filter(|status| status.version == version && status.operation.is_none())
    })
    .await;
}

fn values_update(text: &str) -> ReleaseUpdate {
    ReleaseUpdate { values: Some(text.to_owned()), ..ReleaseUpdate::default() }
}

/// Writes the next revision as the `helm` command does: with the labels of the previous one, and without our annotation.
async fn upgrade_with_helm(stage: &TestHarness, chart_of: &str, greeting: &str) {
    let storage =
        Storage::new(stage.world.admin_client(), SHOP, std::sync::Arc::new(domain::clock::SystemClock));
    let mut before = storage.newest("web").await.unwrap().unwrap();
    let chart = storage.newest(chart_of).await.unwrap().unwrap().record.chart;
    let config = values::read(format!("greeting: {greeting}\n").as_bytes(), Profile::Helm4).unwrap();
    let record = Record { version: before.record.version + 1, chart, config, ..before.record.clone() };
    storage.create(&record).await.unwrap();
    let unmarked = Patch::Merge(json!({"metadata": {"annotations": {HELD_BY_ANNOTATION: null}}}));
    let secrets = stage.namespaced_api::<Secret>();
    secrets.patch(&secret_name("web", record.version), &PatchParams::default(), &unmarked).await.unwrap();
    before.record.set_status(Status::Superseded, "");
    storage.update(&before).await.unwrap();
}

#[tokio::test]
async fn rollback_to_a_revision_of_the_helm_cli_restores_its_own_chart_and_values() {
    let stage = TestHarness::new().await;
    let (releases, me) = (&stage.releases, developer());
    let (first, other) = (
        ChartSource::Archive(web_chart()),
        chart_archive(
            "web",
            "2.0.0",
            &[(
                "templates/greeting.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting }} of 2.0.0\n",
            )],
        ),
    );
    releases.install(&me, &first, install_request("web", "greeting: one\n")).await.unwrap();
    releases
        .install(&me, &ChartSource::Archive(other), install_request("other", "greeting: other\n"))
        .await
        .unwrap();
    stage.wait_for_state("web", "active").await;
    stage.wait_for_state("other", "active").await;
    upgrade_with_helm(&stage, "other", "cli").await;
    releases
        .upgrade(&me, SHOP, "web", values_update("greeting: three\n"), RequestPreconditions::default())
        .await
        .unwrap();
    wait_until_deployed(&stage, 2).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("three"));
    releases.rollback(&me, SHOP, "web", 2, RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 3).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("cli of 2.0.0"));
    // Any user with write access to Secrets there can have forged that record.
    assert_eq!(request(&stage).await.spec.run_as, RunAs::default());
    let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status.unwrap();
    assert!(status.deploy_status[0].by.ends_with(DEPLOYER), "{}", status.deploy_status[0].by);
    // A revision of ours is restored from its saved version.
    releases.rollback(&me, SHOP, "web", 1, RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 4).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("one"));
    assert_eq!(request(&stage).await.spec.run_as.user, developer_id().to_string());
}

#[tokio::test]
async fn rollback_restores_options_patches_and_role_overrides() {
    let stage = TestHarness::new().await;
    let (releases, me) = (&stage.releases, developer());
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let asked = InstallRequest {
        options: ReleaseOptions { max_history: Some(7), ..ReleaseOptions::default() },
        patches: vec![ReleasePatch { patch: patch.to_owned(), target: None }],
        roles: vec![RoleOverride {
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            replicas: Some(2),
            ..RoleOverride::default()
        }],
        ..install_request("web", "greeting: one\n")
    };
    releases.install(&me, &ChartSource::Archive(web_chart()), asked).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    let spec = request(&stage).await.spec;
    let changes = ReleaseUpdate {
        options: Some(ReleaseOptions { max_history: Some(9), ..ReleaseOptions::default() }),
        patches: Some(Vec::new()),
        roles: Some(Vec::new()),
        ..values_update("greeting: two\n")
    };
    releases.upgrade(&me, SHOP, "web", changes, RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 2).await;
    releases.rollback(&me, SHOP, "web", 1, RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 3).await;
    let back = request(&stage).await.spec;
    assert_eq!((&back.options, &back.patches, &back.roles), (&spec.options, &spec.patches, &spec.roles));
    let data = stage.namespaced_api::<ConfigMap>().get("web").await.unwrap().data.unwrap();
    assert_eq!((data["patched"].as_str(), data["greeting"].as_str()), ("yes", "one"));
    let deployment = stage.namespaced_api::<Deployment>().get("web").await.unwrap();
    assert_eq!(deployment.spec.unwrap().replicas, Some(2));
}

/// Installs a release with options, a patch and a role override, upgrades it without them so that it fails and is rolled back, and then
/// rolls back to the revision which that rollback created.
async fn rollback_after_failed_upgrade(atomic: bool) {
    let stage = TestHarness::new().await;
    let (releases, me) = (&stage.releases, developer());
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let remedy = Remediation { retries: Some(0), strategy: Some(RemediationStrategy::Rollback) };
    let asked = InstallRequest {
        options: ReleaseOptions { max_history: Some(7), ..ReleaseOptions::default() },
        remediation: Some(if atomic { Remediation { strategy: None, ..remedy } } else { remedy }),
        patches: vec![ReleasePatch { patch: patch.to_owned(), target: None }],
        roles: vec![RoleOverride {
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            replicas: Some(2),
            ..RoleOverride::default()
        }],
        ..install_request("web", "greeting: one\n")
    };
    releases.install(&me, &ChartSource::Archive(web_chart()), asked).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    let spec = request(&stage).await.spec;
    let timeout = Some("2s".to_owned());
    let changes = ReleaseUpdate {
        options: Some(ReleaseOptions { wait: true, atomic, timeout, ..ReleaseOptions::default() }),
        patches: Some(Vec::new()),
        roles: Some(Vec::new()),
        ..values_update("greeting: two\nbehaviour: never-ready\n")
    };
    releases.upgrade(&me, SHOP, "web", changes, RequestPreconditions::default()).await.unwrap();
    let status = stage.wait_for_state("web", "failed").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 3, "{}", status.message);
    let versions: Vec<(i64, i64)> =
        status.revisions.iter().map(|entry| (entry.revision, entry.version)).collect();
    assert_eq!(versions, [(1, 1), (2, 2), (3, 1)]);
    releases.rollback(&me, SHOP, "web", 3, RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 3).await;
    let back = request(&stage).await.spec;
    assert_eq!((&back.options, &back.patches, &back.roles), (&spec.options, &spec.patches, &spec.roles));
    assert_eq!((back.run_as.user, back.rollback_of), (developer_id().to_string(), Some(1)));
    let data = stage.namespaced_api::<ConfigMap>().get("web").await.unwrap().data.unwrap();
    assert_eq!((data["patched"].as_str(), data["greeting"].as_str()), ("yes", "one"));
    assert_eq!(
        stage.namespaced_api::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas,
        Some(2)
    );
}

#[tokio::test]
async fn rollback_to_the_revision_of_a_remediation_restores_options_patches_and_overrides() {
    Box::pin(rollback_after_failed_upgrade(false)).await;
}

#[tokio::test]
async fn rollback_to_the_revision_of_an_atomic_upgrade_restores_options_patches_and_overrides() {
    Box::pin(rollback_after_failed_upgrade(true)).await;
}

#[tokio::test]
async fn pruning_keeps_versions_that_helm_records_refer_to() {
    let stage = TestHarness::new().await;
    let (releases, me) = (&stage.releases, developer());
    let options = ReleaseOptions { max_history: Some(2), ..ReleaseOptions::default() };
    let asked = InstallRequest { options, ..install_request("web", "greeting: one\n") };
    releases.install(&me, &ChartSource::Archive(web_chart()), asked).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    releases
        .upgrade(&me, SHOP, "web", values_update("greeting: two\n"), RequestPreconditions::default())
        .await
        .unwrap();
    wait_until_deployed(&stage, 2).await;
    // A tenant edits the labels of the record.
    let stripped = Patch::Merge(json!({"metadata": {"labels": {VERSION_LABEL: null}}}));
    let record = secret_name("web", 1);
    stage.namespaced_api::<Secret>().patch(&record, &PatchParams::default(), &stripped).await.unwrap();
    for _ in 0..3 {
        releases.suspend(&me, SHOP, "web", RequestPreconditions::default()).await.unwrap();
        releases.resume(&me, SHOP, "web", RequestPreconditions::default()).await.unwrap();
    }
    wait_until_deployed(&stage, 8).await;
    // Of the versions without a revision only the latest two are retained.
    assert_eq!(count_saved_versions(&stage).await, 4);
    releases.rollback(&me, SHOP, "web", 1, RequestPreconditions::default()).await.unwrap();
    wait_until_deployed(&stage, 9).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("one"));
    // Not restored from the record: that would run as the deployer, without patches and overrides.
    let back = request(&stage).await.spec;
    assert_eq!((back.run_as.user, back.rollback_of), (developer_id().to_string(), Some(1)));
}

#[tokio::test]
async fn update_preserves_concurrent_metadata_changes() {
    let stage = TestHarness::new().await;
    let (releases, me) = (&stage.releases, developer());
    releases.install(&me, &ChartSource::Archive(web_chart()), install_request("web", "")).await.unwrap();
    wait_until_deployed(&stage, 1).await;
    let mut outdated = request(&stage).await;
    outdated.spec.description = "changed".to_owned();
    // A concurrent annotation, which does not change the generation.
    let marked = Patch::Merge(json!({"metadata": {"annotations": {DELETE_CLAIMS_ANNOTATION: "true"}}}));
    let name = request_name("host", SHOP, "web");
    request_api(&stage).patch(&name, &PatchParams::default(), &marked).await.unwrap();
    releases.replace_request(&outdated).await.unwrap();
    let written = request(&stage).await;
    assert_eq!(written.spec.description, "changed");
    assert!(written.metadata.annotations.unwrap().contains_key(DELETE_CLAIMS_ANNOTATION));
    // A concurrent change of the spec is not overwritten.
    let mut late = outdated.clone();
    late.spec.description = "late".to_owned();
    assert_eq!(releases.replace_request(&late).await.unwrap_err().kind(), ErrorKind::Conflict);
}
