//! Rollback restores the inputs of a revision, regardless of its author. Updates preserve concurrent metadata changes.

use helm_chart::values;
use helm_release::storage::{HELD_BY, secret_name};
use helm_release::{Record, Status, Storage};
use helm_template::profile::Profile;
use kube_types::release::{
    DEPLOYER, Options, Patch as ReleasePatch, Remediation, RemediationStrategy, RoleOverride,
};
use kube_types::request::RunAs;

use super::*;
use crate::acts::VERSION;
use crate::requests::DELETE_CLAIMS;
use crate::stage::archive;

async fn greeting(stage: &Stage) -> Option<String> {
    stage.of::<ConfigMap>().get_opt("web").await.unwrap()?.data?.remove("greeting")
}

async fn request(stage: &Stage) -> HelmRequest {
    requests(stage).get(&request_name("host", SHOP, "web")).await.unwrap()
}

/// Waits until this version of the request is deployed.
async fn until_deployed(stage: &Stage, version: i64) {
    until("the version is deployed", async || {
        let release = stage.of::<HelmRelease>().get_opt("web").await.unwrap();
        release?.status.filter(|status| status.version == version && status.operation.is_none())
    })
    .await;
}

fn values(text: &str) -> Changes {
    Changes { values: Some(text.to_owned()), ..Changes::default() }
}

/// Writes the next revision as the `helm` command does: with the labels of the previous one, and without our annotation.
async fn upgrade_with_helm(stage: &Stage, chart_of: &str, greeting: &str) {
    let storage = Storage::new(stage.world.admin(), SHOP, std::sync::Arc::new(domain::clock::SystemClock));
    let mut before = storage.last("web").await.unwrap().unwrap();
    let chart = storage.last(chart_of).await.unwrap().unwrap().record.chart;
    let config = values::read(format!("greeting: {greeting}\n").as_bytes(), Profile::Helm4).unwrap();
    let record = Record { version: before.record.version + 1, chart, config, ..before.record.clone() };
    storage.create(&record).await.unwrap();
    let unmarked = Patch::Merge(json!({"metadata": {"annotations": {HELD_BY: null}}}));
    let secrets = stage.of::<Secret>();
    secrets.patch(&secret_name("web", record.version), &PatchParams::default(), &unmarked).await.unwrap();
    before.record.set_status(Status::Superseded, "");
    storage.update(&before).await.unwrap();
}

#[tokio::test]
async fn rollback_to_a_revision_of_the_helm_cli_restores_its_own_chart_and_values() {
    let stage = Stage::new().await;
    let (releases, me) = (&stage.releases, developer());
    let (first, other) = (
        Source::Archive(web()),
        archive(
            "web",
            "2.0.0",
            &[(
                "templates/greeting.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting }} of 2.0.0\n",
            )],
        ),
    );
    releases.install(&me, &first, wanted("web", "greeting: one\n")).await.unwrap();
    releases.install(&me, &Source::Archive(other), wanted("other", "greeting: other\n")).await.unwrap();
    stage.until_state("web", "active").await;
    stage.until_state("other", "active").await;
    upgrade_with_helm(&stage, "other", "cli").await;
    releases.upgrade(&me, SHOP, "web", values("greeting: three\n"), Asked::default()).await.unwrap();
    until_deployed(&stage, 2).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("three"));
    releases.rollback(&me, SHOP, "web", 2, Asked::default()).await.unwrap();
    until_deployed(&stage, 3).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("cli of 2.0.0"));
    // Any user who may write Secrets there can have forged that record.
    assert_eq!(request(&stage).await.spec.run_as, RunAs::default());
    let status = stage.of::<HelmRelease>().get("web").await.unwrap().status.unwrap();
    assert!(status.deploy_status[0].by.ends_with(DEPLOYER), "{}", status.deploy_status[0].by);
    // A revision of ours is restored from its saved version.
    releases.rollback(&me, SHOP, "web", 1, Asked::default()).await.unwrap();
    until_deployed(&stage, 4).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("one"));
    assert_eq!(request(&stage).await.spec.run_as.user, developer_id().to_string());
}

#[tokio::test]
async fn rollback_restores_options_patches_and_role_overrides() {
    let stage = Stage::new().await;
    let (releases, me) = (&stage.releases, developer());
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let asked = NewRelease {
        options: Options { max_history: Some(7), ..Options::default() },
        patches: vec![ReleasePatch { patch: patch.to_owned(), target: None }],
        roles: vec![RoleOverride {
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            replicas: Some(2),
            ..RoleOverride::default()
        }],
        ..wanted("web", "greeting: one\n")
    };
    releases.install(&me, &Source::Archive(web()), asked).await.unwrap();
    until_deployed(&stage, 1).await;
    let spec = request(&stage).await.spec;
    let changes = Changes {
        options: Some(Options { max_history: Some(9), ..Options::default() }),
        patches: Some(Vec::new()),
        roles: Some(Vec::new()),
        ..values("greeting: two\n")
    };
    releases.upgrade(&me, SHOP, "web", changes, Asked::default()).await.unwrap();
    until_deployed(&stage, 2).await;
    releases.rollback(&me, SHOP, "web", 1, Asked::default()).await.unwrap();
    until_deployed(&stage, 3).await;
    let back = request(&stage).await.spec;
    assert_eq!((&back.options, &back.patches, &back.roles), (&spec.options, &spec.patches, &spec.roles));
    let data = stage.of::<ConfigMap>().get("web").await.unwrap().data.unwrap();
    assert_eq!((data["patched"].as_str(), data["greeting"].as_str()), ("yes", "one"));
    let deployment = stage.of::<Deployment>().get("web").await.unwrap();
    assert_eq!(deployment.spec.unwrap().replicas, Some(2));
}

/// Installs a release with options, a patch and a role override, upgrades it without them so that it fails and is rolled back, and then
/// rolls back to the revision which that rollback created.
async fn rollback_after_failed_upgrade(atomic: bool) {
    let stage = Stage::new().await;
    let (releases, me) = (&stage.releases, developer());
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let remedy = Remediation { retries: Some(0), strategy: Some(RemediationStrategy::Rollback) };
    let asked = NewRelease {
        options: Options { max_history: Some(7), ..Options::default() },
        remediation: Some(if atomic { Remediation { strategy: None, ..remedy } } else { remedy }),
        patches: vec![ReleasePatch { patch: patch.to_owned(), target: None }],
        roles: vec![RoleOverride {
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            replicas: Some(2),
            ..RoleOverride::default()
        }],
        ..wanted("web", "greeting: one\n")
    };
    releases.install(&me, &Source::Archive(web()), asked).await.unwrap();
    until_deployed(&stage, 1).await;
    let spec = request(&stage).await.spec;
    let timeout = Some("2s".to_owned());
    let changes = Changes {
        options: Some(Options { wait: true, atomic, timeout, ..Options::default() }),
        patches: Some(Vec::new()),
        roles: Some(Vec::new()),
        ..values("greeting: two\nbehaviour: never-ready\n")
    };
    releases.upgrade(&me, SHOP, "web", changes, Asked::default()).await.unwrap();
    let status = stage.until_state("web", "failed").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 3, "{}", status.message);
    let versions: Vec<(i64, i64)> =
        status.revisions.iter().map(|entry| (entry.revision, entry.version)).collect();
    assert_eq!(versions, [(1, 1), (2, 2), (3, 1)]);
    releases.rollback(&me, SHOP, "web", 3, Asked::default()).await.unwrap();
    until_deployed(&stage, 3).await;
    let back = request(&stage).await.spec;
    assert_eq!((&back.options, &back.patches, &back.roles), (&spec.options, &spec.patches, &spec.roles));
    assert_eq!((back.run_as.user, back.rollback_of), (developer_id().to_string(), Some(1)));
    let data = stage.of::<ConfigMap>().get("web").await.unwrap().data.unwrap();
    assert_eq!((data["patched"].as_str(), data["greeting"].as_str()), ("yes", "one"));
    assert_eq!(stage.of::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas, Some(2));
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
    let stage = Stage::new().await;
    let (releases, me) = (&stage.releases, developer());
    let options = Options { max_history: Some(2), ..Options::default() };
    let asked = NewRelease { options, ..wanted("web", "greeting: one\n") };
    releases.install(&me, &Source::Archive(web()), asked).await.unwrap();
    until_deployed(&stage, 1).await;
    releases.upgrade(&me, SHOP, "web", values("greeting: two\n"), Asked::default()).await.unwrap();
    until_deployed(&stage, 2).await;
    // A tenant edits the labels of the record.
    let stripped = Patch::Merge(json!({"metadata": {"labels": {VERSION: null}}}));
    let record = secret_name("web", 1);
    stage.of::<Secret>().patch(&record, &PatchParams::default(), &stripped).await.unwrap();
    for _ in 0..3 {
        releases.suspend(&me, SHOP, "web", Asked::default()).await.unwrap();
        releases.resume(&me, SHOP, "web", Asked::default()).await.unwrap();
    }
    until_deployed(&stage, 8).await;
    // Of the versions without a revision only the latest two are retained.
    assert_eq!(kept(&stage).await, 4);
    releases.rollback(&me, SHOP, "web", 1, Asked::default()).await.unwrap();
    until_deployed(&stage, 9).await;
    assert_eq!(greeting(&stage).await.as_deref(), Some("one"));
    // Not restored from the record: that would run as the deployer, without patches and overrides.
    let back = request(&stage).await.spec;
    assert_eq!((back.run_as.user, back.rollback_of), (developer_id().to_string(), Some(1)));
}

#[tokio::test]
async fn update_keeps_metadata_that_others_change_meanwhile() {
    let stage = Stage::new().await;
    let (releases, me) = (&stage.releases, developer());
    releases.install(&me, &Source::Archive(web()), wanted("web", "")).await.unwrap();
    until_deployed(&stage, 1).await;
    let mut outdated = request(&stage).await;
    outdated.spec.description = "changed".to_owned();
    // A concurrent annotation, which does not change the generation.
    let marked = Patch::Merge(json!({"metadata": {"annotations": {DELETE_CLAIMS: "true"}}}));
    let name = request_name("host", SHOP, "web");
    requests(&stage).patch(&name, &PatchParams::default(), &marked).await.unwrap();
    releases.write_wish(&outdated).await.unwrap();
    let written = request(&stage).await;
    assert_eq!(written.spec.description, "changed");
    assert!(written.metadata.annotations.unwrap().contains_key(DELETE_CLAIMS));
    // A concurrent change of the spec is not overwritten.
    let mut late = outdated.clone();
    late.spec.description = "late".to_owned();
    assert_eq!(releases.write_wish(&late).await.unwrap_err().kind(), Kind::Conflict);
}
