//! Tokens that are good for one workspace, and releases that are changed with them.

use http::Method;
use serde_json::json;

use super::scene::{Deputy, Scene};
use crate::platform::until;
use crate::releases::charts::{asked, at};

#[tokio::test(flavor = "multi_thread")]
async fn token_of_one_workspace_reaches_another_through_a_release() {
    let scene = Scene::new().await;
    for deputy in [Deputy::Member, Deputy::Administrator] {
        let actor = scene.deputy(deputy);
        let scope = format!("workspace:{}", scene.workspace);
        let token = scene.token(actor, &[&scope]).await;
        let victim = &actor.id;
        let extra =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: loot-chart, namespace: {victim}}}\n");
        let name = format!("scoped-{deputy:?}").to_lowercase();
        let path = at(&scene.workspace, &name);
        let body = json!({"chart": {"package": scene.package}, "values": {"extra": extra}});
        let planned = scene.with_token(&token, Method::POST, &format!("{path}/plan"), Some(&body)).await;
        assert!(planned.code >= 400, "{}", planned.text);
        let body = asked(&scene.workspace, &name, &scene.package, &json!({"extra": extra}));
        let made = scene.with_token(&token, Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        scene.until_state(&name, "failed").await;
        scene.assert_unharmed(deputy, "install with a scoped token").await;
        // The scope stays with the release, and its own workspace is within it.
        let body = json!({"values": {"greeting": "scoped"}});
        let changed = scene.with_token(&token, Method::PATCH, &path, Some(&body)).await;
        assert_eq!(changed.code, 200, "{}", changed.text);
        scene.until_state(&name, "active").await;
        assert_eq!(scene.runs_as(&name).await["scope"], json!([scope]));
        // A forged record gets no further under the scoped token's identity.
        scene.forge(&name, scene.loot(deputy)).await;
        scene.with_token(&token, Method::POST, &format!("{path}/restart"), None).await;
        scene.with_token(&token, Method::POST, &format!("{path}/test"), None).await;
        scene.assert_unharmed(deputy, "restart and test with a scoped token").await;
        let gone = scene.with_token(&token, Method::DELETE, &path, None).await;
        assert_eq!(gone.code, 202, "{}", gone.text);
        until("the uninstallation was tried", async || {
            let answer = scene.tenant.call(Method::GET, &path, None).await;
            (answer.code == 404 || answer.text.contains("forbidden")).then_some(())
        })
        .await;
        scene.assert_unharmed(deputy, "uninstallation with a scoped token").await;
        // A token of another workspace does nothing here, and one that reads changes nothing.
        for scopes in [vec![format!("workspace:{victim}")], vec!["read".to_owned()]] {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let token = scene.token(actor, &scopes).await;
            let body = asked(&scene.workspace, "never", &scene.package, &json!({}));
            let refused = scene.with_token(&token, Method::POST, "releases", Some(&body)).await;
            assert_eq!(refused.code, 403, "{scopes:?}: {}", refused.text);
        }
    }
}
