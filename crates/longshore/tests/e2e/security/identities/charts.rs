//! Charts with objects outside the workspace: refused before anything is written, whoever installs them.

use http::Method;
use serde_json::{Value, json};

use super::scene::{Deputy, Scene};
use crate::platform::until;
use crate::releases::charts::{asked, at};
use crate::request::get;

#[tokio::test(flavor = "multi_thread")]
async fn chart_writes_outside_its_workspace() {
    let scene = Scene::new().await;
    let client = scene.cluster.client().await;
    for deputy in [Deputy::Administrator, Deputy::Member] {
        let actor = scene.deputy(deputy);
        let victim = &actor.id;
        let map = |annotations: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: loot-chart, namespace: {victim}{annotations}}}\n"
            )
        };
        let binding = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: loot-{}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, name: default, namespace: {}}}]\n",
            scene.workspace, scene.workspace
        );
        let inside = format!("namespace {victim}");
        let rows: [(&str, String, &str); 4] = [
            ("namespaced", map(""), &inside),
            ("hook", map(", annotations: {helm.sh/hook: pre-install}"), &inside),
            ("pre-delete", map(", annotations: {helm.sh/hook: pre-delete}"), &inside),
            ("cluster", binding, "whole cluster"),
        ];
        for (row, extra, why) in rows {
            let name = format!("{row}-{deputy:?}").to_lowercase();
            let values: Value = json!({"extra": extra});
            let body = json!({"chart": {"package": scene.package}, "values": values});
            let planned = scene.act(actor, &name, "plan", Some(&body)).await;
            assert!(planned.code >= 400 && planned.text.contains(why), "plan of {name}: {}", planned.text);
            let body = asked(&scene.workspace, &name, &scene.package, &values);
            let made = actor.call(Method::POST, "releases", Some(&body)).await;
            assert_eq!(made.code, 201, "{}", made.text);
            let failed = until("the installation is refused", async || {
                let release = scene.tenant.get(&at(&scene.workspace, &name)).await;
                (release["state"] == "failed").then_some(release)
            })
            .await;
            assert!(failed.to_string().contains(why), "{name}: {failed}");
            let written = format!("/api/v1/namespaces/{}/configmaps/{name}", scene.workspace);
            assert_eq!(get(&client, &written).await.code, 404, "{name}: something was written before it");
            scene.assert_unharmed(deputy, &name).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chart_looks_up_secrets_of_another_workspace() {
    let scene = Scene::new().await;
    for deputy in [Deputy::Administrator, Deputy::Member] {
        let actor = scene.deputy(deputy);
        for (row, namespace) in [("theirs", actor.id.as_str()), ("all", "")] {
            let name = format!("look-{row}-{deputy:?}").to_lowercase();
            let extra = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}-seen}}\ndata:\n  \
                 seen: {{{{ lookup \"v1\" \"Secret\" \"{namespace}\" \"\" | toJson | b64enc | quote }}}}\n"
            );
            let values = json!({"extra": extra});
            let body = json!({"chart": {"package": scene.package}, "values": values});
            let planned = scene.act(actor, &name, "plan", Some(&body)).await;
            assert!(!seen(&planned.text), "{name}: {}", planned.text);
            let body = asked(&scene.workspace, &name, &scene.package, &values);
            let made = actor.call(Method::POST, "releases", Some(&body)).await;
            assert_eq!(made.code, 201, "{}", made.text);
            until("it is deployed or refused", async || {
                let release = scene.tenant.get(&at(&scene.workspace, &name)).await;
                matches!(release["state"].as_str(), Some("active" | "failed")).then_some(())
            })
            .await;
            let path = format!("/api/v1/namespaces/{}/configmaps/{name}-seen", scene.workspace);
            let map = get(&scene.cluster.client().await, &path).await;
            assert!(!seen(&map.text), "{name}: {}", map.text);
        }
    }
}

/// Whether the data of the deputy's Secret is in a text, in any of its encodings.
fn seen(text: &str) -> bool {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    let candidates = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "+/=".contains(letter)));
    let decoded = candidates.filter_map(|word| BASE64_STANDARD.decode(word).ok());
    let secret = "the-secret-of-the-deputy";
    let encoded = BASE64_STANDARD.encode(secret);
    let holds = |text: &str| text.contains(secret) || text.contains(&encoded);
    holds(text) || decoded.into_iter().any(|bytes| holds(&String::from_utf8_lossy(&bytes)))
}
