//! Names of workspaces and namespaces: a removed one leaves nothing behind, and another tenant cannot take its name.

use http::Method;
use serde_json::{Value, json};

use crate::platform::{PlatformUser, until, unused_phone};
use crate::program::Server;
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::get;
use crate::target::Cluster;

const PASSWORD: &str = "the-password-of-the-victim";

struct NameScene {
    cluster: Cluster,
    server: Server,
    victim: PlatformUser,
    attacker: PlatformUser,
    workspace: String,
}

impl NameScene {
    async fn new() -> Self {
        let (cluster, server) = Cluster::with_platform().await;
        let victim = PlatformUser::register(&server, &cluster).await;
        let attacker = PlatformUser::register(&server, &cluster).await;
        let workspace = format!("t{}", unused_phone());
        victim.workspace(&cluster, &workspace).await;
        Self { cluster, server, victim, attacker, workspace }
    }

    /// Installs a release with a password among its values.
    async fn install(&self, namespace: &str) {
        let package = upload_chart(&self.server, &self.victim, &self.workspace, GREETING).await;
        let body = release_body(namespace, "db", &package, &json!({"greeting": PASSWORD}));
        let made = self.victim.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        wait_for_state(&self.server, &self.victim.token, &release_path(namespace, "db"), "active").await;
    }

    /// Objects that the platform stores for the workspace or one of its namespaces, by kind and name.
    async fn leftovers(&self, namespace: Option<&str>) -> Vec<String> {
        let client = self.cluster.client().await;
        let items = async |path: &str| {
            let list = get(&client, path).await;
            assert_eq!(list.code, 200, "{path}: {}", list.text);
            list.json()["items"].as_array().unwrap().clone()
        };
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        let mut found = Vec::new();
        let (workspace, own) = (self.workspace.as_str(), json!(namespace));
        for request in items("/apis/longshore.dev/v1alpha1/helmrequests").await {
            let spec = &request["spec"];
            if spec["workspace"] == workspace && (namespace.is_none() || spec["namespace"] == own) {
                found.push(format!("HelmRequest {}", name(&request)));
            }
        }
        for secret in items("/api/v1/namespaces/longshore-system/secrets").await {
            let labels = secret["metadata"]["labels"].to_string();
            let text = secret["data"].to_string();
            let values = base64_contains(&text, PASSWORD);
            if values || (namespace.is_none() && labels.contains(workspace)) {
                found.push(format!("Secret {}", name(&secret)));
            }
        }
        if namespace.is_none() {
            for repo in items("/apis/longshore.dev/v1alpha1/helmrepos").await {
                if repo["spec"]["workspace"] == workspace {
                    found.push(format!("HelmRepo {}", name(&repo)));
                }
            }
        }
        found
    }

    async fn remove_workspace(&self) {
        let path = format!("workspaces/{}", self.workspace);
        let gone = self.victim.call(Method::DELETE, &format!("{path}?now=true"), None).await;
        assert_eq!(gone.code, 200, "{}", gone.text);
        until("the workspace is gone", async || {
            (self.victim.call(Method::GET, &path, None).await.code == 404).then_some(())
        })
        .await;
    }

    async fn create_workspace(&self, who: &PlatformUser, body: &Value) -> crate::request::HttpResponse {
        who.call(Method::POST, "workspaces", Some(body)).await
    }
}

/// Whether a base64 value in this JSON text decodes to text that contains `wanted`.
fn base64_contains(json: &str, wanted: &str) -> bool {
    use base64::Engine as _;
    let decoded = |word: &str| base64::engine::general_purpose::STANDARD.decode(word).unwrap_or_default();
    json.split('"').any(|word| String::from_utf8_lossy(&decoded(word)).contains(wanted))
}

#[tokio::test]
async fn new_owner_of_a_workspace_name_reads_leftover_release_values() {
    let scene = NameScene::new().await;
    let NameScene { cluster, victim, attacker, workspace, .. } = &scene;
    scene.install(workspace).await;
    let repo = json!({"name": "charts", "workspace": workspace, "url": "http://127.0.0.1:9/charts",
        "credentials": {"username": "u", "password": PASSWORD}});
    let made = victim.call(Method::POST, "repos?check=false", Some(&repo)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let token = json!({"name": "scoped", "scopes": [format!("workspace:{workspace}"), "read"]});
    let made = victim.call(Method::POST, "tokens", Some(&token)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    scene.remove_workspace().await;
    assert_eq!(scene.leftovers(None).await, Vec::<String>::new());
    let tokens = victim.get("tokens").await;
    assert!(!tokens.to_string().contains(workspace.as_str()), "{tokens}");
    // Another user cannot take the name, also if other objects still refer to it.
    let binding = format!("e2e-{workspace}");
    cluster.remove_at_end(format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{binding}"));
    let bound = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": binding},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": format!("longshore:ws:{workspace}:admin")}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let made = crate::request::send_body(
        &cluster.client().await,
        Method::POST,
        path,
        "application/json",
        bound.to_string(),
    )
    .await;
    assert_eq!(made.code, 201, "{}", made.text);
    let refused = scene.create_workspace(attacker, &json!({"name": workspace})).await;
    assert_eq!(refused.code, 409, "{}", refused.text);
    let refused = scene.create_workspace(attacker, &json!({"name": workspace, "reissue": true})).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    // The former owner can use the name again and gets an empty workspace.
    victim.workspace(cluster, workspace).await;
    assert_eq!(scene.leftovers(None).await, Vec::<String>::new());
    let release = victim.call(Method::GET, &release_path(workspace, "db"), None).await;
    assert_eq!(release.code, 404, "{}", release.text);
    scene.remove_workspace().await;
    // An administrator is shown the references and confirms.
    let administrator = PlatformUser::administrator(&scene.server, cluster).await;
    let shown = scene.create_workspace(&administrator, &json!({"name": workspace})).await;
    assert_eq!(shown.code, 409, "{}", shown.text);
    assert!(shown.text.contains(&format!("ClusterRoleBinding {binding}")), "{}", shown.text);
    let made = scene.create_workspace(&administrator, &json!({"name": workspace, "reissue": true})).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

#[tokio::test]
async fn workspace_takes_the_name_of_a_removed_namespace() {
    let scene = NameScene::new().await;
    let NameScene { cluster, victim, attacker, workspace, .. } = &scene;
    let (path, namespace) = (format!("workspaces/{workspace}"), format!("{workspace}-prod"));
    let quota = victim.get(&path).await["quota"].as_object().unwrap().clone();
    let is_count = |amount: &Value| amount.as_str().unwrap().parse::<u32>().is_ok_and(|count| count >= 10);
    let share: Value = quota
        .into_iter()
        .filter(|(_, amount)| is_count(amount))
        .map(|(name, _)| (name, "5".into()))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let added = victim
        .call(Method::POST, &format!("{path}/namespaces"), Some(&json!({"name": "prod", "share": share})))
        .await;
    assert_eq!(added.code, 201, "{}", added.text);
    let is_made = |workspace: &Value| {
        let namespaces = workspace["namespaces"].as_array().unwrap();
        workspace["ready"] == true
            && namespaces.len() == 2
            && namespaces.iter().all(|own| own["made"] == true)
    };
    victim.wait_until(&path, is_made).await;
    scene.install(&namespace).await;
    let removed = victim.call(Method::DELETE, &format!("{path}/namespaces/{namespace}"), None).await;
    assert_eq!(removed.code, 200, "{}", removed.text);
    let client = cluster.client().await;
    until("the namespace is gone", async || {
        let gone = get(&client, &format!("/api/v1/namespaces/{namespace}")).await.code == 404;
        (gone && scene.leftovers(Some(&namespace)).await.is_empty()).then_some(())
    })
    .await;
    cluster.remove_at_end(format!("/apis/longshore.dev/v1alpha1/workspaces/{namespace}"));
    let refused = scene.create_workspace(attacker, &json!({"name": namespace})).await;
    assert_eq!(refused.code, 409, "{}", refused.text);
    let again = victim
        .call(Method::POST, &format!("{path}/namespaces"), Some(&json!({"name": "prod", "share": share})))
        .await;
    assert_eq!(again.code, 201, "{}", again.text);
    victim.wait_until(&path, is_made).await;
    let release = victim.call(Method::GET, &release_path(&namespace, "db"), None).await;
    assert_eq!(release.code, 404, "{}", release.text);
}
