//! State that releases must preserve: a rollback restores its whole revision, concurrent changes are not lost, the
//! deployment matches the plan, and concurrent uninstallations all finish.

use std::collections::BTreeMap;

use futures::future::join_all;
use helm_release::record::ChartRecord;
use helm_template::data::Data;
use helm_template::profile::Profile;
use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::charts::{build_chart, release_body, release_path, upload_chart};
use crate::platform::until;
use crate::request::get;
use crate::security::identities::scene::DeputyScene;

/// Data of the release's ConfigMap.
async fn config_map_data(scene: &DeputyScene, name: &str) -> BTreeMap<String, String> {
    let maps: Api<ConfigMap> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    maps.get(name).await.unwrap().data.unwrap_or_default()
}

async fn roll_back(scene: &DeputyScene, name: &str, revision: i64) {
    let back = scene.post_action(&scene.tenant, name, "rollback", Some(&json!({"revision": revision}))).await;
    assert_eq!(back.code, 200, "{}", back.text);
    scene.wait_until_deployed(name, &back).await;
}

/// Spec of the `HelmRequest` of a release.
async fn request_spec(scene: &DeputyScene, name: &str) -> Value {
    let all = get(&scene.cluster.client().await, "/apis/longshore.dev/v1alpha1/helmrequests").await.json();
    let is_meant = |request: &&Value| {
        request["spec"]["releaseName"] == name && request["spec"]["namespace"] == scene.workspace.as_str()
    };
    all["items"].as_array().unwrap().iter().find(is_meant).unwrap()["spec"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_to_revision_with_copied_labels_restores_its_own_chart_and_values() {
    let scene = DeputyScene::new().await;
    scene.install("web").await;
    let files = [
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 2.0.0\n"),
        (
            "templates/web.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting }} of 2.0.0\n",
        ),
    ];
    let chart = ChartRecord::new(&build_chart(&files), Profile::Helm4).unwrap();
    // Upgrades as the helm command line does: with the labels of the previous revision.
    let change = |record: &mut helm_release::Record| {
        record.chart = chart.clone();
        record.config = [("greeting".into(), Data::string("cli"))].into_iter().collect();
    };
    scene.add_forged_revision("web", false, change).await;
    scene.upgrade_and_wait(&scene.tenant, "web", "three").await;
    roll_back(&scene, "web", 2).await;
    assert_eq!(config_map_data(&scene, "web").await["greeting"], "cli of 2.0.0");
    roll_back(&scene, "web", 1).await;
    assert_eq!(config_map_data(&scene, "web").await["greeting"], "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_to_first_revision_restores_everything_after_many_versions() {
    let scene = DeputyScene::new().await;
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let mut body = release_body(&scene.workspace, "web", &scene.package, &json!({"greeting": "first"}));
    body["options"] = json!({"maxHistory": 40, "timeout": "2m"});
    body["patches"] = json!([{"patch": patch}]);
    body["roles"] = json!([{"kind": "Deployment", "name": "web", "resources": {"requests": {"cpu": "7m"}}}]);
    let made = scene.tenant.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    scene.wait_until_active("web").await;
    let first = request_spec(&scene, "web").await;
    assert!(
        !first["patches"].as_array().unwrap().is_empty() && !first["roles"].as_array().unwrap().is_empty()
    );
    // A version that changes everything, then many that leave the content unchanged.
    let changes =
        json!({"values": {"greeting": "second"}, "patches": [], "roles": [], "options": {"maxHistory": 40}});
    let path = release_path(&scene.workspace, "web");
    let changed = scene.tenant.call(Method::PATCH, &path, Some(&changes)).await;
    assert_eq!(changed.code, 200, "{}", changed.text);
    scene.wait_until_deployed("web", &changed).await;
    for _ in 0..2 {
        for (act, state) in
            [("pause", "paused"), ("recover", "active"), ("suspend", "suspended"), ("resume", "active")]
        {
            let answer = scene.post_action(&scene.tenant, "web", act, None).await;
            assert_eq!(answer.code, 200, "{act}: {}", answer.text);
            scene.wait_for_state("web", state).await;
        }
        let broken = scene.upgrade(&scene.tenant, "web", &json!({"extra": "{{ fail \"broken\" }}"})).await;
        assert_eq!(broken.code, 200, "{}", broken.text);
        scene.wait_until_failed("web", &broken).await;
        let retried = scene.post_action(&scene.tenant, "web", "retry", None).await;
        assert_eq!(retried.code, 200, "{}", retried.text);
        scene.wait_until_failed("web", &retried).await;
        scene.upgrade_and_wait(&scene.tenant, "web", "second").await;
    }
    assert!(scene.tenant.get(&path).await["version"].as_i64() > Some(12));
    roll_back(&scene, "web", 1).await;
    let back = request_spec(&scene, "web").await;
    for field in ["options", "patches", "roles", "source", "chart"] {
        assert_eq!(back[field], first[field], "{field}");
    }
    let data = config_map_data(&scene, "web").await;
    assert_eq!((data["greeting"].as_str(), data["patched"].as_str()), ("first", "yes"));
    let deployments: Api<Deployment> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    let deployment = serde_json::to_value(deployments.get("web").await.unwrap()).unwrap();
    let cpu = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"];
    assert_eq!(cpu, "7m", "{deployment}");
}

/// A StatefulSet without pods; the test creates its claims.
const DATABASE: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
    (
        "templates/db.yaml",
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  serviceName: db\n  replicas: 0\n  \
         selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    \
         spec:\n      containers:\n      - {name: db, image: db}\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    \
         spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_during_an_uninstallation_lose_no_deletion_of_claims() {
    let scene = DeputyScene::new().await;
    let package = upload_chart(&scene.server, &scene.tenant, &scene.workspace, DATABASE).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    for round in 0..4 {
        let name = &format!("db{round}");
        let body = release_body(&scene.workspace, name, &package, &json!({"round": 0}));
        let made = scene.tenant.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        scene.wait_until_active(name).await;
        let claim = json!({"metadata": {"name": format!("data-{name}-0")},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}});
        claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
        let path = release_path(&scene.workspace, name);
        let patches = join_all((0..8).map(|n| {
            let (path, scene) = (path.clone(), &scene);
            async move {
                let body = json!({"values": {"round": n}});
                scene.tenant.call(Method::PATCH, &path, Some(&body)).await
            }
        }));
        let with_claims = format!("{path}?claims=true");
        let deletion = scene.tenant.call(Method::DELETE, &with_claims, None);
        let (patched, deleted) = futures::join!(patches, deletion);
        assert_eq!(deleted.code, 202, "{}", deleted.text);
        // An upgrade is done, or its client receives an error.
        for answer in patched {
            assert!(matches!(answer.code, 200 | 404 | 409), "{}: {}", answer.code, answer.text);
        }
        until("the release is gone", async || {
            (scene.tenant.call(Method::GET, &path, None).await.code == 404).then_some(())
        })
        .await;
        until("the claim is gone", async || {
            claims.get_opt(&format!("data-{name}-0")).await.unwrap().is_none().then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_is_what_is_deployed() {
    let scene = DeputyScene::new().await;
    let patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {patched: \"yes\"}\n";
    let extra = "apiVersion: v1\nkind: Service\nmetadata: {name: web-extra}\nspec: {ports: [{port: 80}], selector: {app: web}}\n\
                 ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-there}\ndata: {upgrade: \"{{ .Release.IsUpgrade }}\", revision: \"{{ .Release.Revision }}\"}\n";
    let steps = [
        json!({"values": {"greeting": "one", "extra": extra}, "patches": [{"patch": patch}]}),
        json!({"values": {"greeting": "two", "extra": extra}, "roles": [{"kind": "Deployment", "name": "web", "resources": {"limits": {"memory": "9Mi"}}}]}),
        json!({"values": {"greeting": "three"}, "patches": []}),
    ];
    for (revision, step) in (1..).zip(steps) {
        let mut body = step.clone();
        body["chart"] = json!({"package": scene.package});
        let planned = scene.post_action(&scene.tenant, "web", "plan", Some(&body)).await;
        assert_eq!(planned.code, 200, "{}", planned.text);
        let plan = planned.json();
        assert_eq!(plan["revision"], revision, "{plan}");
        let path = release_path(&scene.workspace, "web");
        let done = if revision == 1 {
            (body["namespace"], body["name"]) = (json!(scene.workspace), json!("web"));
            scene.tenant.call(Method::POST, "releases", Some(&body)).await
        } else {
            scene.tenant.call(Method::PATCH, &path, Some(&body)).await
        };
        assert!(matches!(done.code, 200 | 201), "{}", done.text);
        scene.wait_until_deployed("web", &done).await;
        let (_, record) = scene.record("web", None).await;
        assert_eq!(record.version, revision);
        let deployed: Vec<Value> = serde_norway::Deserializer::from_str(&record.manifest)
            .map(|document| serde::Deserialize::deserialize(document).unwrap())
            .filter(|object: &Value| !object.is_null())
            .collect();
        let named = |objects: &[Value]| -> BTreeMap<String, Value> {
            let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
            objects.iter().map(|object| (key(object), object.clone())).collect()
        };
        assert_eq!(named(plan["objects"].as_array().unwrap()), named(&deployed), "revision {revision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_uninstallations_finish_alongside_forced_one() {
    let scene = DeputyScene::new().await;
    let names: Vec<String> = (0..16).map(|n| format!("many{n}")).collect();
    for name in &names {
        let body = release_body(&scene.workspace, name, &scene.package, &json!({"greeting": "mine"}));
        let made = scene.tenant.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }
    for name in &names {
        scene.wait_until_active(name).await;
    }
    // Another client's finalizer blocks the deletion of one object.
    let maps: Api<ConfigMap> = Api::namespaced(scene.kube.clone(), &scene.workspace);
    let keep = |finalizers: Value| kube::api::Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let params = kube::api::PatchParams::default();
    maps.patch("many0", &params, &keep(json!(["example.com/keep"]))).await.unwrap();
    let deletions = names.iter().map(|name| {
        let force = if name == "many0" { "?force=true" } else { "" };
        let path = format!("{}{force}", release_path(&scene.workspace, name));
        let scene = &scene;
        async move { scene.tenant.call(Method::DELETE, &path, None).await }
    });
    for answer in join_all(deletions).await {
        assert!(matches!(answer.code, 200 | 202), "{}: {}", answer.code, answer.text);
    }
    until("all releases are gone", async || {
        let list = scene.tenant.get(&format!("releases?ns={}", scene.workspace)).await;
        list["items"].as_array().is_some_and(Vec::is_empty).then_some(())
    })
    .await;
    let left = maps.list(&kube::api::ListParams::default()).await.unwrap();
    let left: Vec<&str> = left.iter().filter_map(|map| map.metadata.name.as_deref()).collect();
    let left: Vec<&&str> = left.iter().filter(|name| name.starts_with("many")).collect();
    assert_eq!(left, [&"many0"]);
    maps.patch("many0", &params, &keep(Value::Null)).await.unwrap();
}
