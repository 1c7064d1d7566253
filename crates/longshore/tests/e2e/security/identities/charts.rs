//! Charts with objects outside the workspace are rejected before anything is written, for every user.

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::scene::{Deputy, DeputyScene, PREY_SECRET};
use crate::platform::until;
use crate::releases::charts::{release_body, release_path};
use crate::request::{HttpResponse, get};

#[tokio::test(flavor = "multi_thread")]
async fn chart_writes_outside_its_workspace() {
    let scene = DeputyScene::new().await;
    for deputy in Deputy::ALL {
        let victim = &scene.deputy(deputy).id;
        let map = |annotations: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: loot-chart, namespace: {victim}{annotations}}}\n"
            )
        };
        let hook = |event: &str| map(&format!(", annotations: {{helm.sh/hook: \"{event}\"}}"));
        let binding = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: loot-{}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, name: default, namespace: {}}}]\n",
            scene.workspace, scene.workspace
        );
        let inside = format!("namespace {victim}");
        let rows: [(&str, String, &str); 6] = [
            ("namespaced", map(""), &inside),
            ("pre-install", hook("pre-install,pre-upgrade"), &inside),
            ("pre-rollback", hook("pre-rollback"), &inside),
            ("pre-delete", hook("pre-delete"), &inside),
            ("test-hook", hook("test"), &inside),
            ("cluster", binding, "cluster-scoped objects"),
        ];
        for (row, extra, why) in rows {
            let values = json!({"extra": extra});
            assert_install_is_rejected(&scene, deputy, row, &values, why).await;
            assert_upgrade_is_rejected(&scene, deputy, row, &values, why).await;
        }
    }
}

/// Plans and installs a release with these values.
async fn assert_install_is_rejected(
    scene: &DeputyScene,
    deputy: Deputy,
    row: &str,
    values: &Value,
    why: &str,
) {
    let actor = scene.deputy(deputy);
    let name = &format!("{row}-{deputy:?}").to_lowercase();
    let body = json!({"chart": {"package": scene.package}, "values": values});
    assert_rejected(&scene.post_action(actor, name, "plan", Some(&body)).await, why);
    let body = release_body(&scene.workspace, name, &scene.package, values);
    let made = actor.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let failed = scene.wait_until_failed(name, &made).await;
    assert!(failed.to_string().contains(why), "{name}: {failed}");
    assert_eq!(config_map_greeting(scene, name).await, None, "{name}: something was written before it");
    scene.assert_unharmed(deputy, name).await;
    scene.uninstall_and_wait(actor, name).await;
    scene.assert_unharmed(deputy, &format!("uninstallation of {name}")).await;
}

/// Upgrades a deployed release to these values, then tries every other operation.
async fn assert_upgrade_is_rejected(
    scene: &DeputyScene,
    deputy: Deputy,
    row: &str,
    values: &Value,
    why: &str,
) {
    let actor = scene.deputy(deputy);
    let name = &format!("up-{row}-{deputy:?}").to_lowercase();
    let body = release_body(&scene.workspace, name, &scene.package, &json!({"greeting": "before"}));
    let made = actor.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    scene.wait_until_deployed(name, &made).await;
    assert_rejected(&scene.post_action(actor, name, "plan", Some(&json!({"values": values}))).await, why);
    let upgraded = scene.upgrade(actor, name, values).await;
    assert_eq!(upgraded.code, 200, "{}", upgraded.text);
    let failed = scene.wait_until_failed(name, &upgraded).await;
    assert!(failed.to_string().contains(why), "{name}: {failed}");
    for act in ["restart?rolling=true", "restart", "test"] {
        let answer = scene.post_action(actor, name, act, None).await;
        assert_eq!(answer.code, 200, "{act}: {}", answer.text);
        assert!(act != "test" || answer.json()["passed"] == true, "{}", answer.text);
        scene.assert_unharmed(deputy, &format!("{act} of {name}")).await;
    }
    let retried = scene.post_action(actor, name, "retry", None).await;
    assert_eq!(retried.code, 200, "{}", retried.text);
    let failed = scene.wait_until_failed(name, &retried).await;
    assert!(failed.to_string().contains(why), "{name}: {failed}");
    assert_eq!(config_map_greeting(scene, name).await.as_deref(), Some("before"), "{name}");
    let back = scene.post_action(actor, name, "rollback", Some(&json!({"revision": 1}))).await;
    assert_eq!(back.code, 200, "{}", back.text);
    scene.wait_until_deployed(name, &back).await;
    scene.assert_unharmed(deputy, &format!("rollback of {name}")).await;
    scene.upgrade_and_wait(actor, name, "after").await;
    scene.assert_unharmed(deputy, &format!("pruning of {name}")).await;
    scene.uninstall_and_wait(actor, name).await;
    scene.assert_unharmed(deputy, &format!("uninstallation of {name}")).await;
}

fn assert_rejected(answer: &HttpResponse, why: &str) {
    assert!(
        matches!(answer.code, 400 | 403 | 422) && answer.text.contains(why),
        "{}: {}",
        answer.code,
        answer.text
    );
}

/// The greeting in the release's ConfigMap.
async fn config_map_greeting(scene: &DeputyScene, name: &str) -> Option<String> {
    let path = format!("/api/v1/namespaces/{}/configmaps/{name}", scene.workspace);
    let answer = get(&scene.cluster.client().await, &path).await;
    (answer.code == 200).then(|| answer.json()["data"]["greeting"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn chart_looks_up_secrets_of_another_workspace() {
    const OWN: &str = "the-secret-of-the-tenant";
    let scene = DeputyScene::new().await;
    let secrets: kube::Api<Secret> = kube::Api::namespaced(scene.kube.clone(), &scene.workspace);
    let secret = json!({"metadata": {"name": "own"}, "stringData": {"password": OWN}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    for deputy in Deputy::ALL {
        let actor = scene.deputy(deputy);
        let rows = [("theirs", actor.id.as_str()), ("all", ""), ("own", scene.workspace.as_str())];
        for (row, namespace) in rows {
            let name = format!("look-{row}-{deputy:?}").to_lowercase();
            let extra = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-seen}}\ndata:\n  \
                 seen: {{{{ lookup \"v1\" \"Secret\" \"{namespace}\" \"\" | toJson | b64enc | quote }}}}\n"
            );
            let values = json!({"extra": extra});
            let body = json!({"chart": {"package": scene.package}, "values": values});
            let planned = scene.post_action(actor, &name, "plan", Some(&body)).await;
            assert!(!contains_secret(&planned.text, PREY_SECRET), "{name}: {}", planned.text);
            let body = release_body(&scene.workspace, &name, &scene.package, &values);
            let made = actor.call(Method::POST, "releases", Some(&body)).await;
            assert_eq!(made.code, 201, "{}", made.text);
            until("it is deployed or refused", async || {
                let release = scene.tenant.get(&release_path(&scene.workspace, &name)).await;
                matches!(release["state"].as_str(), Some("active" | "failed")).then_some(())
            })
            .await;
            let path = format!("/api/v1/namespaces/{}/configmaps/{name}-seen", scene.workspace);
            let map = get(&scene.cluster.client().await, &path).await;
            assert!(!contains_secret(&map.text, PREY_SECRET), "{name}: {}", map.text);
            // A lookup within the workspace finds existing objects.
            assert_eq!(contains_secret(&map.text, OWN), row == "own", "{name}: {}", map.text);
        }
    }
}

/// Whether the text contains the secret in any of its encodings.
fn contains_secret(text: &str, secret: &str) -> bool {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    let candidates = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "+/=".contains(letter)));
    let decoded = candidates.filter_map(|word| BASE64_STANDARD.decode(word).ok());
    let encoded = BASE64_STANDARD.encode(secret);
    let holds = |text: &str| text.contains(secret) || text.contains(&encoded);
    holds(text) || decoded.into_iter().any(|bytes| holds(&String::from_utf8_lossy(&bytes)))
}
