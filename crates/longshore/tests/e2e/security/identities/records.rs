//! Helm records that a tenant edits or writes, through everything that takes content from a record.

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::scene::{Deputy, Scene, patch_status};
use crate::platform::until;
use crate::releases::charts::at;

/// What a deputy does with a release whose record the tenant has edited.
const OPERATIONS: &[&str] =
    &["plan", "restart", "restart-all", "test", "reconcile", "prune", "rollback", "uninstall"];

#[tokio::test(flavor = "multi_thread")]
async fn tenant_edits_helm_record_and_gains_cluster_admin() {
    edits_record_under(Deputy::Administrator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_edits_helm_record_and_gains_another_workspace() {
    edits_record_under(Deputy::Member).await;
}

async fn edits_record_under(deputy: Deputy) {
    let scene = Scene::new().await;
    let actor = scene.deputy(deputy);
    scene.install("web").await;
    // The deputy is the last who changed it, with all of their rights: the worst that a tenant can hope for.
    scene.upgraded(actor, "web", "by the deputy").await;
    assert_eq!(scene.runs_as("web").await["user"], actor.id.as_str());
    for operation in OPERATIONS {
        scene.forge("web", scene.loot(deputy)).await;
        match *operation {
            "plan" => {
                let body = json!({"values": {"greeting": "planned"}});
                scene.act(actor, "web", "plan", Some(&body)).await;
            }
            "restart" => {
                let answer = scene.act(actor, "web", "restart?rolling=true", None).await;
                assert_eq!(answer.code, 403, "{}", answer.text);
            }
            "restart-all" => {
                let answer = scene.act(actor, "web", "restart", None).await;
                assert_eq!(answer.code, 403, "{}", answer.text);
            }
            "test" => {
                let answer = scene.act(actor, "web", "test", None).await;
                assert_eq!(answer.json()["passed"], false, "{}", answer.text);
            }
            "reconcile" => {
                for act in ["pause", "recover"] {
                    let answer = scene.act(actor, "web", act, None).await;
                    assert_eq!(answer.code, 200, "{act}: {}", answer.text);
                    scene.until_state("web", if act == "pause" { "paused" } else { "active" }).await;
                }
            }
            "prune" => scene.upgraded(actor, "web", "pruned").await,
            "rollback" => {
                let answer = scene.act(actor, "web", "rollback", Some(&json!({"revision": 1}))).await;
                assert_eq!(answer.code, 200, "{}", answer.text);
                scene.until_active("web").await;
            }
            _ => {
                let answer = actor.call(Method::DELETE, &at(&scene.workspace, "web"), None).await;
                assert_eq!(answer.code, 202, "{}", answer.text);
                until("the uninstallation was tried", async || {
                    let answer = scene.tenant.call(Method::GET, &at(&scene.workspace, "web"), None).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn administrator_who_pauses_hands_over_nothing() {
    let scene = Scene::new().await;
    scene.install("web").await;
    for deputy in [Deputy::Administrator, Deputy::Member] {
        let actor = scene.deputy(deputy);
        for (act, state) in
            [("pause", "paused"), ("recover", "active"), ("suspend", "suspended"), ("resume", "active")]
        {
            let answer = scene.act(actor, "web", act, None).await;
            assert_eq!(answer.code, 200, "{act}: {}", answer.text);
            scene.until_state("web", state).await;
            assert_eq!(scene.runs_as("web").await["user"], scene.tenant.id.as_str(), "{act} by {deputy:?}");
        }
        for act in ["restart?rolling=true", "test"] {
            let answer = scene.act(actor, "web", act, None).await;
            assert_eq!(answer.code, 200, "{act}: {}", answer.text);
            assert_eq!(scene.runs_as("web").await["user"], scene.tenant.id.as_str(), "{act} by {deputy:?}");
        }
    }
    // A retry of what failed leaves the identity, too.
    let broken = scene.upgrade(&scene.tenant, "web", &json!({"extra": "{{ fail \"broken\" }}"})).await;
    assert_eq!(broken.code, 200, "{}", broken.text);
    scene.until_state("web", "failed").await;
    let retried = scene.act(&scene.administrator, "web", "retry", None).await;
    assert_eq!(retried.code, 200, "{}", retried.text);
    assert_eq!(scene.runs_as("web").await["user"], scene.tenant.id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_writes_foreign_record_with_labels_of_the_platform() {
    let scene = Scene::new().await;
    let deputy = Deputy::Administrator;
    scene.install("web").await;
    scene.upgraded(&scene.administrator, "web", "by the administrator").await;
    // A newer revision that looks like one of the platform's, labels, annotations and all.
    let (mut secret, mut record) = scene.record("web", None).await;
    record.version += 1;
    scene.loot(deputy)(&mut record);
    let version = record.version.to_string();
    secret.metadata.name = Some(secret.name_any().replace(".v2", &format!(".v{version}")));
    secret.metadata.resource_version = None;
    secret.metadata.uid = None;
    secret.metadata.labels.as_mut().unwrap().insert("version".to_owned(), version);
    let text = k8s_openapi::ByteString(record.encode().unwrap().into_bytes());
    secret.data = Some([("release".to_owned(), text)].into());
    let secrets: Api<Secret> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let tested = scene.act(&scene.administrator, "web", "test", None).await;
    assert_eq!(tested.json()["passed"], false, "{}", tested.text);
    scene.assert_unharmed(deputy, "test of a foreign record").await;
    scene.upgraded(&scene.administrator, "web", "after it").await;
    scene.assert_unharmed(deputy, "upgrade over a foreign record").await;
    // The revision of our own after it is trusted again.
    let tested = scene.act(&scene.administrator, "web", "test", None).await;
    assert_eq!(tested.json()["passed"], true, "{}", tested.text);
    let gone = scene.administrator.call(Method::DELETE, &at(&scene.workspace, "web"), None).await;
    assert_eq!(gone.code, 202, "{}", gone.text);
    until("it is gone", async || {
        let answer = scene.tenant.call(Method::GET, &at(&scene.workspace, "web"), None).await;
        (answer.code == 404).then_some(())
    })
    .await;
    scene.assert_unharmed(deputy, "uninstallation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_enters_forged_record_in_status() {
    let scene = Scene::new().await;
    let spec = json!({"name": "hand", "source": {"package": scene.package}});
    let release: kube_types::HelmRelease = serde_json::from_value(json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "hand"}, "spec": spec,
    }))
    .unwrap();
    let api: Api<kube_types::HelmRelease> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    api.create(&PostParams::default(), &release).await.unwrap();
    scene.until_state("hand", "active").await;
    let forged = json!({"revisions": [{"revision": 1, "digest": "forged", "by": "forged"}]});
    // By role, for the tenant; by policy, for whoever has the right by another way, as an administrator of the platform has.
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
