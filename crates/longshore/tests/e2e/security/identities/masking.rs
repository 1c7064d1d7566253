//! Sensitive values of old revisions stay masked after the spec, the `HelmRelease` or the record has changed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::scene::DeputyScene;
use crate::platform::until;
use crate::releases::charts::release_path;

const SECRET: &str = "correct-horse-battery";

#[tokio::test(flavor = "multi_thread")]
async fn viewer_reads_secret_value_of_old_revision() {
    let scene = DeputyScene::new().await;
    let releases: Api<kube_types::HelmRelease> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    let secrets: Api<Secret> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    let secret = json!({"metadata": {"name": "given"}, "stringData": {"values.yaml": format!("greeting: {SECRET}\npin: 1234\n")}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let spec = json!({"name": "hand", "source": {"package": scene.package}, "valuesObject": {"shown": "not-a-secret"},
        "valuesFrom": [{"kind": "Secret", "name": "given"}]});
    let release = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "hand"}, "spec": spec});
    releases.create(&PostParams::default(), &serde_json::from_value(release).unwrap()).await.unwrap();
    scene.wait_for_state("hand", "active").await;
    // The spec no longer refers to the Secret; the old revision still has its values.
    let change = json!({"spec": {"valuesFrom": null, "valuesObject": {"greeting": "public"}}});
    releases.patch("hand", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    until("the second revision is deployed", async || {
        let release = scene.tenant.get(&format!("{}/history", release_path(&scene.workspace, "hand"))).await;
        (release["items"].as_array().map(Vec::len) == Some(2)).then_some(())
    })
    .await;
    let all = [
        "values?revision=1",
        "values?revision=1&all=true",
        "manifest?revision=1",
        "diff?from=1&to=2",
        "diff?from=1&to=2&of=values",
    ];
    let look = async |when: &str| {
        for path in all {
            let path = format!("{}/{path}", release_path(&scene.workspace, "hand"));
            let answer = scene.tenant.call(Method::GET, &path, None).await;
            // Values merged over the defaults of an unreadable chart are an error.
            assert!(matches!(answer.code, 200 | 400 | 422), "{when}: {path}: {}", answer.text);
            assert!(
                !answer.text.contains(SECRET) && !answer.text.contains("1234"),
                "{when}: {path}: {}",
                answer.text
            );
        }
    };
    look("after the spec changed").await;
    // Other values are shown.
    let shown =
        scene.tenant.get(&format!("{}/values?revision=1", release_path(&scene.workspace, "hand"))).await;
    assert_eq!(shown["values"]["shown"], "not-a-secret", "{shown}");
    // After the HelmRelease is deleted.
    let patch = json!({"spec": {"deletionPolicy": "Orphan"}});
    releases.patch("hand", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    releases.delete("hand", &kube::api::DeleteParams::default()).await.unwrap();
    until("the HelmRelease is gone", async || {
        releases.get_opt("hand").await.unwrap().is_none().then_some(())
    })
    .await;
    until("the platform knows", async || {
        let release =
            scene.tenant.get(&format!("{}/values?revision=1", release_path(&scene.workspace, "hand"))).await;
        (release["values"]["shown"] != "not-a-secret").then_some(())
    })
    .await;
    look("without a HelmRelease").await;
    // With a chart in the record that cannot be read.
    scene
        .forge_record("hand", Some(1), |record| {
            let mut value: serde_json::Value = serde_json::from_str(&record.to_json().unwrap()).unwrap();
            value["chart"] = json!("no chart");
            *record =
                helm_release::Record::decode(BASE64_STANDARD.encode(value.to_string()).as_bytes()).unwrap();
        })
        .await;
    look("with an unreadable chart").await;
}
