//! Tokens scoped to one workspace, and releases changed with them.

use http::Method;
use serde_json::json;

use super::scene::{Deputy, DeputyScene};
use crate::platform::until;
use crate::releases::charts::{release_body, release_path};

#[tokio::test(flavor = "multi_thread")]
async fn token_of_one_workspace_reaches_another_through_a_release() {
    let scene = DeputyScene::new().await;
    for deputy in [Deputy::Scoped, Deputy::Administrator] {
        let scope = format!("workspace:{}", scene.workspace);
        let person = scene.deputy(deputy);
        let actor = match deputy {
            Deputy::Scoped => person,
            _ => &person.with_token(scene.token(person, &[&scope]).await),
        };
        let victim = &actor.id;
        let extra =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: loot-chart, namespace: {victim}}}\n");
        let outside = format!("namespace {victim}");
        let name = &format!("scoped-{deputy:?}").to_lowercase();
        let path = release_path(&scene.workspace, name);
        let body = json!({"chart": {"package": scene.package}, "values": {"extra": extra}});
        let planned = scene.post_action(actor, name, "plan", Some(&body)).await;
        assert!(
            matches!(planned.code, 400 | 403 | 422) && planned.text.contains(&outside),
            "{}: {}",
            planned.code,
            planned.text
        );
        let body = release_body(&scene.workspace, name, &scene.package, &json!({"extra": extra}));
        let made = actor.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let failed = scene.wait_until_failed(name, &made).await.to_string();
        assert!(failed.contains(&outside), "{failed}");
        scene.assert_unharmed(deputy, "install with a scoped token").await;
        // The scope stays on the release and includes the release's own workspace.
        for greeting in ["scoped", "pruned"] {
            scene.upgrade_and_wait(actor, name, greeting).await;
            assert_eq!(scene.release_identity(name).await["scope"], json!([scope]));
        }
        let revision = scene.record(name, None).await.1.version;
        let back = scene.post_action(actor, name, "rollback", Some(&json!({"revision": revision - 1}))).await;
        assert_eq!(back.code, 200, "{}", back.text);
        scene.wait_until_deployed(name, &back).await;
        assert_eq!(scene.release_identity(name).await["scope"], json!([scope]));
        // A forged record gains nothing with the scoped token's identity.
        scene.forge_newest_record(name, scene.add_loot(deputy)).await;
        let restarted = scene.post_action(actor, name, "restart", None).await;
        assert!(
            restarted.code == 403 && restarted.text.contains("does not belong to workspace"),
            "{}",
            restarted.text
        );
        let tested = scene.post_action(actor, name, "test", None).await;
        assert_eq!((tested.code, &tested.json()["passed"]), (200, &json!(false)), "{}", tested.text);
        scene.assert_unharmed(deputy, "restart and test with a scoped token").await;
        scene.upgrade_and_wait(actor, name, "over the forged record").await;
        scene.assert_unharmed(deputy, "upgrade with a scoped token").await;
        scene.forge_newest_record(name, scene.add_loot(deputy)).await;
        let gone = actor.call(Method::DELETE, &path, None).await;
        assert_eq!(gone.code, 202, "{}", gone.text);
        until("the uninstallation was tried", async || {
            let answer = scene.tenant.call(Method::GET, &path, None).await;
            (answer.code == 404 || answer.text.contains("forbidden")).then_some(())
        })
        .await;
        scene.assert_unharmed(deputy, "uninstallation with a scoped token").await;
        // A token for another workspace has no access here, and a read-only token cannot write.
        for scopes in [vec![format!("workspace:{victim}")], vec!["read".to_owned()]] {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let token = scene.token(unscoped_user(&scene, deputy), &scopes).await;
            let body = release_body(&scene.workspace, "never", &scene.package, &json!({}));
            let refused = scene.with_token(&token, Method::POST, "releases", Some(&body)).await;
            assert_eq!(refused.code, 403, "{scopes:?}: {}", refused.text);
        }
    }
}

/// The user of a deputy, with an unscoped credential.
fn unscoped_user(scene: &DeputyScene, deputy: Deputy) -> &crate::platform::PlatformUser {
    match deputy {
        Deputy::Administrator => &scene.administrator,
        Deputy::Member | Deputy::Scoped => &scene.member,
    }
}
