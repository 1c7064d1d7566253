//! Helm records that a tenant edits or adds, in every operation that reads content from a record.

use helm_template::profile::Profile;
use http::Method;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::scene::{Deputy, DeputyScene, patch_status};
use crate::platform::until;
use crate::releases::charts::{build_chart, release_path};

/// How the tenant changes the content of a release.
#[derive(Clone, Copy, Debug)]
enum Forgery {
    /// The newest record is edited.
    Edited,
    /// A newer record is added that looks like one written by the platform.
    Foreign,
}

/// Operations of a deputy on a release with a forged record.
const OPERATIONS: &[&str] = &[
    "plan",
    "restart",
    "restart-all",
    "test",
    "reconcile",
    "prune",
    "rollback",
    "rollback-to-forged",
    "uninstall",
];

#[tokio::test(flavor = "multi_thread")]
async fn tenant_edits_helm_record_and_gains_cluster_admin() {
    attack_with_record(Forgery::Edited, Deputy::Administrator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_edits_helm_record_and_gains_another_workspace() {
    attack_with_record(Forgery::Edited, Deputy::Member).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_edits_helm_record_and_gains_what_a_scoped_token_excludes() {
    attack_with_record(Forgery::Edited, Deputy::Scoped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_adds_helm_record_and_gains_cluster_admin() {
    attack_with_record(Forgery::Foreign, Deputy::Administrator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_adds_helm_record_and_gains_another_workspace() {
    attack_with_record(Forgery::Foreign, Deputy::Member).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_adds_helm_record_and_gains_what_a_scoped_token_excludes() {
    attack_with_record(Forgery::Foreign, Deputy::Scoped).await;
}

async fn attack_with_record(forgery: Forgery, deputy: Deputy) {
    let scene = DeputyScene::new().await;
    let actor = scene.deputy(deputy);
    scene.install("web").await;
    // A history long enough to roll back to the first revision at the end.
    let change = json!({"options": {"maxHistory": 50}});
    let changed =
        scene.tenant.call(Method::PATCH, &release_path(&scene.workspace, "web"), Some(&change)).await;
    assert_eq!(changed.code, 200, "{}", changed.text);
    // The deputy is the last user who changed the release, with full rights: the worst case.
    scene.upgrade_and_wait(actor, "web", "by the deputy").await;
    assert_eq!(scene.release_identity("web").await["user"], actor.id.as_str());
    let path = release_path(&scene.workspace, "web");
    for operation in OPERATIONS {
        match forgery {
            Forgery::Edited => scene.forge_newest_record("web", scene.add_loot(deputy)).await,
            Forgery::Foreign => scene.add_forged_revision("web", true, scene.add_loot(deputy)).await,
        }
        match *operation {
            "plan" => {
                let body = json!({"values": {"greeting": "planned"}});
                let planned = scene.post_action(actor, "web", "plan", Some(&body)).await;
                assert_eq!(planned.code, 200, "{}", planned.text);
                let objects = planned.json()["objects"].to_string();
                assert!(objects.contains("planned") && !objects.contains("loot"), "{objects}");
            }
            "restart" | "restart-all" => {
                let act = if *operation == "restart" { "restart?rolling=true" } else { "restart" };
                let refused = scene.post_action(actor, "web", act, None).await;
                let why = format!("namespace `{}`, which does not belong to workspace", actor.id);
                assert!(refused.code == 403 && refused.text.contains(&why), "{}", refused.text);
            }
            "test" => {
                let answer = scene.post_action(actor, "web", "test", None).await;
                assert_eq!(answer.code, 200, "{}", answer.text);
                assert_eq!(answer.json()["passed"], false, "{}", answer.text);
                assert!(
                    answer.text.contains("forbidden") || answer.text.contains("namespace"),
                    "{}",
                    answer.text
                );
            }
            "reconcile" => {
                for (act, state) in [("pause", "paused"), ("recover", "active")] {
                    let answer = scene.post_action(actor, "web", act, None).await;
                    assert_eq!(answer.code, 200, "{act}: {}", answer.text);
                    scene.wait_for_state("web", state).await;
                }
            }
            "prune" => scene.upgrade_and_wait(actor, "web", "pruned").await,
            "rollback" => {
                let answer = scene.post_action(actor, "web", "rollback", Some(&json!({"revision": 1}))).await;
                assert_eq!(answer.code, 200, "{}", answer.text);
                scene.wait_until_deployed("web", &answer).await;
            }
            "rollback-to-forged" => roll_back_to_forged_chart(&scene, deputy).await,
            _ => {
                let answer = actor.call(Method::DELETE, &path, None).await;
                assert_eq!(answer.code, 202, "{}", answer.text);
                until("the uninstallation was tried", async || {
                    let answer = scene.tenant.call(Method::GET, &path, None).await;
                    (answer.code == 404 || answer.text.contains("forbidden")).then_some(())
                })
                .await;
            }
        }
        scene.assert_unharmed(deputy, operation).await;
    }
    scene.force_delete("web").await;
    scene.assert_unharmed(deputy, "force").await;
}

/// Rolls back to the newest revision, whose chart has an object in the deputy's namespace.
async fn roll_back_to_forged_chart(scene: &DeputyScene, deputy: Deputy) {
    let actor = scene.deputy(deputy);
    let map =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: loot-chart, namespace: {}}}\n", actor.id);
    let files =
        [("Chart.yaml", "apiVersion: v2\nname: web\nversion: 6.6.6\n"), ("templates/loot.yaml", &*map)];
    let chart = helm_release::record::ChartRecord::new(&build_chart(&files), Profile::Helm4).unwrap();
    scene.forge_newest_record("web", |record| record.chart = chart.clone()).await;
    let revision = scene.record("web", None).await.1.version;
    let answer = scene.post_action(actor, "web", "rollback", Some(&json!({"revision": revision}))).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    let failed = scene.wait_until_failed("web", &answer).await.to_string();
    assert!(failed.contains(&format!("namespace {}", actor.id)), "{failed}");
    // The record's author had no more rights than the namespace's deployer.
    assert!(scene.release_identity("web").await["user"].as_str().is_none_or(str::is_empty));
    scene.assert_unharmed(deputy, "rollback to a forged chart").await;
    let body = json!({"chart": {"package": scene.package}, "values": {"greeting": "again"}});
    let answer = actor.call(Method::PATCH, &release_path(&scene.workspace, "web"), Some(&body)).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    scene.wait_until_deployed("web", &answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn administrator_who_pauses_hands_over_nothing() {
    let scene = DeputyScene::new().await;
    scene.install("web").await;
    for deputy in [Deputy::Administrator, Deputy::Member] {
        let actor = scene.deputy(deputy);
        for (act, state) in
            [("pause", "paused"), ("recover", "active"), ("suspend", "suspended"), ("resume", "active")]
        {
            let answer = scene.post_action(actor, "web", act, None).await;
            assert_eq!(answer.code, 200, "{act}: {}", answer.text);
            scene.wait_for_state("web", state).await;
            assert_eq!(
                scene.release_identity("web").await["user"],
                scene.tenant.id.as_str(),
                "{act} by {deputy:?}"
            );
        }
        for act in ["restart?rolling=true", "test"] {
            let answer = scene.post_action(actor, "web", act, None).await;
            assert_eq!(answer.code, 200, "{act}: {}", answer.text);
            assert_eq!(
                scene.release_identity("web").await["user"],
                scene.tenant.id.as_str(),
                "{act} by {deputy:?}"
            );
        }
    }
    // A retry of a failed version keeps the identity, too.
    let broken = scene.upgrade(&scene.tenant, "web", &json!({"extra": "{{ fail \"broken\" }}"})).await;
    assert_eq!(broken.code, 200, "{}", broken.text);
    scene.wait_for_state("web", "failed").await;
    let retried = scene.post_action(&scene.administrator, "web", "retry", None).await;
    assert_eq!(retried.code, 200, "{}", retried.text);
    assert_eq!(scene.release_identity("web").await["user"], scene.tenant.id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn revision_after_a_foreign_record_is_trusted_again() {
    let scene = DeputyScene::new().await;
    let (deputy, actor) = (Deputy::Administrator, &scene.administrator);
    scene.install("web").await;
    scene.upgrade_and_wait(actor, "web", "by the administrator").await;
    scene.add_forged_revision("web", true, scene.add_loot(deputy)).await;
    let tested = scene.post_action(actor, "web", "test", None).await;
    assert_eq!(tested.json()["passed"], false, "{}", tested.text);
    scene.upgrade_and_wait(actor, "web", "after it").await;
    let tested = scene.post_action(actor, "web", "test", None).await;
    assert_eq!(tested.json()["passed"], true, "{}", tested.text);
    scene.uninstall_and_wait(actor, "web").await;
    scene.assert_unharmed(deputy, "uninstallation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_enters_forged_record_in_status() {
    let scene = DeputyScene::new().await;
    let spec = json!({"name": "hand", "source": {"package": scene.package}});
    let release: kube_types::HelmRelease = serde_json::from_value(json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "hand"}, "spec": spec,
    }))
    .unwrap();
    let api: Api<kube_types::HelmRelease> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    api.create(&PostParams::default(), &release).await.unwrap();
    scene.wait_for_state("hand", "active").await;
    let forged = json!({"revisions": [{"revision": 1, "digest": "forged", "by": "forged"}]});
    // Rejected by the role for the tenant, and by the admission policy for users with the right from elsewhere, such
    // as platform administrators.
    let refused = patch_status(&scene.kube, &scene.workspace, "hand", &forged).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    let file = scene.administrator.kubeconfig(&scene.cluster).await;
    let kubeconfig = kube::config::Kubeconfig::read_from(file).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let administrator = kube::Client::try_from(config).unwrap();
    let refused = patch_status(&administrator, &scene.workspace, "hand", &forged).await;
    assert!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.message.contains("written by Longshore")),
        "{refused:?}"
    );
}
