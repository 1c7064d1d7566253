//! Deletion of releases that is blocked, and forced deletion.

use axum::http::Method;
use events::audit::AuditOutcome;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::wait_for;

use crate::releases::{AcmeFixture, chart_archive_from};
use crate::test_server::TestCredential;

/// A chart whose uninstallation is blocked: a hook that fails or never ends, an object with a foreign finalizer, an
/// object taken over by another release, and one that is deleted normally.
const STUCK_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: stuck\nversion: 1.0.0\n"),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations:\n    helm.sh/hook: pre-delete\n    \
         sim.longshore.dev/behaviour: {{ .Values.hook | quote }}\n\
         spec: {restartPolicy: Never, containers: [{name: c, image: i}]}\n",
    ),
    (
        "templates/maps.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: held\n  finalizers: [example.com/nobody]\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: taken\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: plain\n",
    ),
];

const WEB: &str = "releases/host/acme/web";

impl AcmeFixture {
    async fn install_stuck(&self, hook: &str) {
        let made = self.install_chart(chart_archive_from(STUCK_CHART), json!({"hook": hook})).await;
        assert_eq!(made.code(), 201, "{}", made.text);
        self.wait_for_state("active", 1).await;
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.house.world.admin_client(), "acme")
    }

    async fn helm_record_count(&self) -> usize {
        let secrets: Api<Secret> = Api::namespaced(self.house.world.admin_client(), "acme");
        secrets.list(&ListParams::default().labels("owner=helm,name=web")).await.unwrap().items.len()
    }

    async fn delete(&self, query: &str, key: &TestCredential) -> (u16, Value) {
        let answer = self.house.call(Method::DELETE, &format!("{WEB}{query}"), key, None).await;
        (answer.code(), answer.json())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn force_delete_leaves_blocked_objects_behind() {
    let acme = AcmeFixture::new().await;
    let (house, developer, admin) = (&acme.house, acme.developer.credential(), acme.admin.credential());
    acme.install_stuck("exit=4").await;
    let others = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "others"}}});
    acme.config_maps().patch("taken", &PatchParams::default(), &Patch::Merge(others)).await.unwrap();
    // Not allowed for users who only run releases, in any state of the release.
    assert_eq!(acme.delete("?force=true", &developer).await.0, 403);
    assert_eq!(acme.delete("?force=true", &acme.viewer.credential()).await.0, 403);
    assert_eq!(acme.delete("?force=true", &acme.stranger.credential()).await.0, 404);
    assert_eq!(acme.delete("?force=maybe", &admin).await.0, 400);
    assert_eq!(acme.delete("", &developer).await.0, 202);
    wait_for("the hook has failed", async || {
        let shown = house.get(WEB, &developer).await.json();
        let message = shown["message"].as_str().unwrap_or_default();
        (shown["state"] == "deleting" && message.contains("web-hook")).then_some(())
    })
    .await;
    assert_eq!(acme.delete("?force=true", &developer).await.0, 403);
    house.audit.take();
    let (code, answer) = acme.delete("?force=true", &admin).await;
    assert_eq!(code, 200, "{answer}");
    let held = json!({
        "kind": "ConfigMap", "namespace": "acme", "name": "held",
        "why": "it is being deleted and waits for example.com/nobody",
    });
    assert_eq!(answer["leftBehind"], json!([held]), "{answer}");
    let trail = house.audit.take();
    let told: Vec<_> =
        trail.iter().map(|record| (record.act, record.object.as_deref(), record.result)).collect();
    assert_eq!(told, [("releases.force-delete", Some("host/acme/web"), AuditOutcome::Done)]);
    assert_eq!(house.get(WEB, &admin).await.code(), 404);
    assert_eq!(acme.helm_record_count().await, 0);
    assert!(acme.config_maps().get_opt("plain").await.unwrap().is_none());
    let taken = acme.config_maps().get("taken").await.unwrap();
    assert!(taken.metadata.deletion_timestamp.is_none(), "it is somebody else's");
    let events: Api<Event> = Api::namespaced(house.world.admin_client(), "acme");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let notes: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ForceDeleted"))
        .filter_map(|event| event.message.clone())
        .collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("not deleted: ConfigMap acme/held (it is being deleted"), "{notes:?}");
    // The name can be used again.
    assert_eq!(acme.delete("?force=true", &admin).await.0, 404);
    let again = acme.install(json!({})).await;
    assert_eq!(again.code(), 201, "{}", again.text);
    acme.wait_for_state("active", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn force_delete_does_not_wait_for_endless_hook() {
    let acme = AcmeFixture::new().await;
    acme.install_stuck("exit=0@10m").await;
    assert_eq!(acme.delete("", &acme.developer.credential()).await.0, 202);
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(acme.house.world.admin_client(), "acme");
    wait_for("the hook runs", async || pods.get_opt("web-hook").await.unwrap()).await;
    let (code, answer) = acme.delete("?force=true", &acme.admin.credential()).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["leftBehind"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(acme.helm_record_count().await, 0);
}
