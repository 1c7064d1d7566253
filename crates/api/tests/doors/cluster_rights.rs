//! Cluster-scoped objects in releases: Kubernetes decides which callers can create them.

use domain::roles::PlatformRole;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use testkit::wait_for;

use crate::releases::{AcmeFixture, chart_archive_from};

const CLUSTER_SCOPED_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: wide\nversion: 1.0.0\n"),
    (
        "templates/class.yaml",
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: {{ .Release.Name }}}\nvalue: 7\n",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn release_of_developer_has_the_rights_of_the_workspace_group() {
    let acme = AcmeFixture::new().await;
    let cluster = acme.house.world.admin_client();
    assert_eq!(acme.install_chart(chart_archive_from(CLUSTER_SCOPED_CHART), json!({})).await.code(), 201);
    let refused = acme.wait_for_state("failed", 0).await;
    let message = refused["message"].as_str().unwrap();
    let rights =
        "permissions that Kubernetes does not grant to longshore:ws:acme:developer: PriorityClass web";
    assert!(message.contains(rights), "{message}");

    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "priorities"},
        "rules": [{
            "apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }],
    }))
    .unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "acme-priorities"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "priorities"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "longshore:ws:acme:developer"}],
    }))
    .unwrap();
    Api::all(cluster.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(cluster.clone()).create(&PostParams::default(), &binding).await.unwrap();
    let again =
        acme.house.post("releases/host/acme/web/retry", &acme.developer.credential(), json!({})).await;
    assert_eq!(again.code(), 200, "{}", again.text);
    acme.wait_for_state("active", 2).await;
    Api::<PriorityClass>::all(cluster).get("web").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_platform_admin_has_no_cluster_admin_rights() {
    let acme = AcmeFixture::new().await;
    let (house, cluster) = (&acme.house, acme.house.world.admin_client());
    let root = house.create_user(9, &[PlatformRole::Admin]).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.clone());
    let bound = format!("longshore-admin-{}", root.id);
    wait_for("they have the cluster", async || bindings.get_opt(&bound).await.unwrap()).await;

    let package = acme.upload(&root.credential(), chart_archive_from(CLUSTER_SCOPED_CHART)).await;
    assert_eq!(package.code(), 200, "{}", package.text);
    let chart = json!({"package": package.json()["package"]});
    let body = json!({"namespace": root.id, "name": "mine", "values": {}, "chart": chart});
    let made = house.post("releases", &root.credential(), body).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    let classes: Api<PriorityClass> = Api::all(cluster);
    let path = format!("releases/host/{}/mine", root.id);
    let message = wait_for("the release is refused", async || {
        let release = house.get(&path, &root.credential()).await.json();
        (release["state"] == "failed").then(|| release["message"].as_str().unwrap_or_default().to_owned())
    })
    .await;
    assert!(message.contains("PriorityClass mine"), "{message}");
    assert!(classes.get_opt("mine").await.unwrap().is_none());
}
