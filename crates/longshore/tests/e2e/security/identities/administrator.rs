//! Attempts to gain the rights of an administrator who used `asAdministrator` for one version of a release.
//!
//! All cases share one server; each has its own release.

use http::Method;
use serde_json::{Value, json};

use super::scene::{Deputy, DeputyScene};
use crate::platform::until;
use crate::releases::charts::{release_body, release_path};
use crate::request::{HttpResponse, get};

const ELEVATED: &str = "asAdministrator=true";

/// Values that add objects only an administrator may write: a ClusterRole with this verb, and a ConfigMap in the
/// administrator's namespace.
fn elevated_values(scene: &DeputyScene, name: &str, verb: &str) -> Value {
    let (workspace, other) = (&scene.workspace, &scene.administrator.id);
    let extra = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {workspace}-{name}}}\n\
         rules: [{{apiGroups: [\"\"], resources: [nodes], verbs: [{verb}]}}]\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {other}}}\n"
    );
    json!({"greeting": verb, "extra": extra})
}

/// The verb of the ClusterRole, and whether the ConfigMap exists.
async fn written_objects(scene: &DeputyScene, name: &str) -> (Option<String>, bool) {
    let client = scene.cluster.client().await;
    let role = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{}-{name}", scene.workspace);
    let role = get(&client, &role).await;
    let verb = (role.code == 200).then(|| role.json()["rules"][0]["verbs"][0].as_str().unwrap().to_owned());
    let map = format!("/api/v1/namespaces/{}/configmaps/{name}", scene.administrator.id);
    (verb, get(&client, &map).await.code == 200)
}

/// Installs a release with the option as administrator.
async fn install(scene: &DeputyScene, name: &str) {
    let body = release_body(&scene.workspace, name, &scene.package, &elevated_values(scene, name, "get"));
    let made = scene.administrator.call(Method::POST, &format!("releases?{ELEVATED}"), Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    scene.wait_until_active(name).await;
    assert_eq!(written_objects(scene, name).await, (Some("get".to_owned()), true));
}

/// Replaces chart and values with the option as administrator.
async fn upgrade(scene: &DeputyScene, name: &str, verb: &str) -> HttpResponse {
    let body = json!({"chart": {"package": scene.package}, "values": elevated_values(scene, name, verb)});
    let path = format!("{}?{ELEVATED}", release_path(&scene.workspace, name));
    scene.administrator.call(Method::PATCH, &path, Some(&body)).await
}

async fn wait_until_gone(scene: &DeputyScene, name: &str) {
    until("the release is gone", async || {
        let answer = scene.tenant.call(Method::GET, &release_path(&scene.workspace, name), None).await;
        (answer.code == 404).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_gains_the_rights_of_an_administrator_who_used_them_once() {
    let scene = DeputyScene::new().await;
    assert_others_cannot_use_option(&scene).await;
    assert_option_does_not_persist(&scene).await;
    assert_record_edit_gains_nothing(&scene).await;
    assert_lookup_is_restricted(&scene).await;
    assert_audit_names_option(&scene);
}

/// A tenant, and an administrator's token scoped to the workspace, try the option.
async fn assert_others_cannot_use_option(scene: &DeputyScene) {
    scene.install("plain").await;
    let scope = format!("workspace:{}", scene.workspace);
    let scoped = scene.token(&scene.administrator, &[&scope]).await;
    let body = release_body(&scene.workspace, "loot", &scene.package, &elevated_values(scene, "loot", "get"));
    let values =
        json!({"chart": {"package": scene.package}, "values": elevated_values(scene, "plain", "get")});
    let plain = release_path(&scene.workspace, "plain");
    let rows = [
        (Method::POST, "releases".to_owned(), Some(body)),
        (Method::PATCH, plain.clone(), Some(values.clone())),
        (Method::POST, format!("{plain}/plan"), Some(values)),
        (Method::POST, format!("{plain}/rollback"), Some(json!({"revision": 1}))),
        (Method::DELETE, plain.clone(), None),
    ];
    for token in [&scene.tenant.token, &scoped] {
        for (method, path, body) in &rows {
            let path = format!("{path}?{ELEVATED}");
            let refused = scene.with_token(token, method.clone(), &path, body.as_ref()).await;
            assert_eq!(refused.code, 403, "{method} {path}: {}", refused.text);
        }
    }
    // No other action accepts the option.
    for act in ["pause", "retry", "restart", "test", "suspend"] {
        let path = format!("{plain}/{act}?{ELEVATED}");
        let refused = scene.administrator.call(Method::POST, &path, None).await;
        assert!(matches!(refused.code, 400 | 422), "{path}: {} {}", refused.code, refused.text);
    }
    // The tenant's values are not applied with an administrator's rights only because an administrator changes
    // something else.
    let body = json!({"values": elevated_values(scene, "plain", "get")});
    let refused = scene.administrator.call(Method::PATCH, &format!("{plain}?{ELEVATED}"), Some(&body)).await;
    assert!(matches!(refused.code, 400 | 422) && refused.text.contains("set chart"), "{}", refused.text);
    assert_eq!(written_objects(scene, "plain").await, (None, false));
    assert_eq!(written_objects(scene, "loot").await, (None, false));
}

/// Later operations on a release installed with the option do not have the administrator's rights.
async fn assert_option_does_not_persist(scene: &DeputyScene) {
    install(scene, "once").await;
    let path = release_path(&scene.workspace, "once");
    for (act, state) in
        [("pause", "paused"), ("recover", "active"), ("suspend", "suspended"), ("resume", "active")]
    {
        let answer = scene.post_action(&scene.administrator, "once", act, None).await;
        assert_eq!(answer.code, 200, "{act}: {}", answer.text);
        scene.wait_for_state("once", state).await;
    }
    // The tenant's version of these objects is not written, regardless of who creates the version.
    for actor in [&scene.tenant, &scene.administrator] {
        let answer = scene.upgrade(actor, "once", &elevated_values(scene, "once", "delete")).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        scene.wait_until_active("once").await;
        assert_eq!(written_objects(scene, "once").await, (Some("get".to_owned()), true));
        assert!(!scene.record("once", None).await.1.manifest.contains("ClusterRole"));
    }
    // Other objects are rejected, also when the operation is retried.
    let answer = scene.upgrade(&scene.tenant, "once", &elevated_values(scene, "loot", "get")).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    scene.wait_for_state("once", "failed").await;
    let retried = scene.post_action(&scene.administrator, "once", "retry", None).await;
    assert_eq!(retried.code, 200, "{}", retried.text);
    scene.wait_for_state("once", "failed").await;
    assert_eq!(written_objects(scene, "loot").await, (None, false));
    assert_eq!(scene.upgrade(&scene.tenant, "once", &json!({})).await.code, 200);
    scene.wait_until_active("once").await;
    // An uninstallation without the option reports the objects it leaves behind and completes.
    let gone = scene.tenant.call(Method::DELETE, &path, None).await;
    assert_eq!(gone.code, 202, "{}", gone.text);
    let left: Vec<String> = gone.json()["leftBehind"]
        .as_array()
        .unwrap()
        .iter()
        .map(|object| format!("{} {}", object["kind"].as_str().unwrap(), object["name"].as_str().unwrap()))
        .collect();
    assert_eq!(left, ["ConfigMap once".to_owned(), format!("ClusterRole {}-once", scene.workspace)]);
    wait_until_gone(scene, "once").await;
    assert_eq!(written_objects(scene, "once").await, (Some("get".to_owned()), true));
}

/// A tenant edits the record of a release that was installed with the option.
async fn assert_record_edit_gains_nothing(scene: &DeputyScene) {
    let deputy = Deputy::Administrator;
    install(scene, "web").await;
    for operation in ["restart", "test", "rollback", "upgrade", "pause"] {
        scene.forge_newest_record("web", scene.add_loot(deputy)).await;
        match operation {
            "restart" | "test" => drop(scene.post_action(&scene.administrator, "web", operation, None).await),
            "rollback" => {
                let body = json!({"revision": 1});
                let refused = scene
                    .post_action(&scene.administrator, "web", &format!("rollback?{ELEVATED}"), Some(&body))
                    .await;
                assert_eq!(refused.code, 403, "{}", refused.text);
            }
            "upgrade" => {
                let answer = upgrade(scene, "web", "list").await;
                assert_eq!(answer.code, 200, "{}", answer.text);
                scene.wait_until_active("web").await;
                assert_eq!(written_objects(scene, "web").await, (Some("list".to_owned()), true));
            }
            _ => {
                assert_eq!(scene.post_action(&scene.administrator, "web", "pause", None).await.code, 200);
                scene.wait_for_state("web", "paused").await;
            }
        }
        scene.assert_unharmed(deputy, operation).await;
    }
    // An uninstallation with the option does not run the record's content with the administrator's rights.
    scene.forge_newest_record("web", scene.add_loot(deputy)).await;
    let path = format!("{}?{ELEVATED}", release_path(&scene.workspace, "web"));
    let gone = scene.administrator.call(Method::DELETE, &path, None).await;
    assert_eq!(gone.code, 202, "{}", gone.text);
    until("the uninstallation was tried", async || {
        let answer = scene.tenant.call(Method::GET, &release_path(&scene.workspace, "web"), None).await;
        (answer.code == 404 || answer.text.contains("forbidden")).then_some(())
    })
    .await;
    scene.assert_unharmed(deputy, "uninstall").await;
    let forced = scene.administrator.call(Method::DELETE, &format!("{path}&force=true"), None).await;
    assert!(matches!(forced.code, 200 | 202 | 404), "{}: {}", forced.code, forced.text);
    wait_until_gone(scene, "web").await;
    assert_eq!(written_objects(scene, "web").await, (None, false));
    scene.assert_unharmed(deputy, "force").await;
}

/// `lookup` in a chart installed with the option does not read objects that the tenant may not read.
async fn assert_lookup_is_restricted(scene: &DeputyScene) {
    let extra = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: look-seen}}\ndata:\n  \
         seen: {{{{ (lookup \"v1\" \"Secret\" \"{}\" \"prey\") | toJson | quote }}}}\n",
        scene.administrator.id
    );
    let body = release_body(&scene.workspace, "look", &scene.package, &json!({"extra": extra}));
    let made = scene.administrator.call(Method::POST, &format!("releases?{ELEVATED}"), Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    until("it is deployed or refused", async || {
        let release = scene.tenant.get(&release_path(&scene.workspace, "look")).await;
        matches!(release["state"].as_str(), Some("active" | "failed")).then_some(())
    })
    .await;
    let path = format!("/api/v1/namespaces/{}/configmaps/look-seen", scene.workspace);
    let map = get(&scene.cluster.client().await, &path).await;
    assert!(!map.text.contains("password"), "{}", map.text);
    let secrets =
        format!("/api/v1/namespaces/{}/secrets?labelSelector=owner%3Dhelm%2Cname%3Dlook", scene.workspace);
    let records = get(&scene.cluster.client().await, &secrets).await.json();
    if records["items"].as_array().is_some_and(|items| !items.is_empty()) {
        let (_, record) = scene.record("look", None).await;
        assert!(!record.manifest.contains("password"), "{}", record.manifest);
    }
}

/// Every use of the option is in the audit log, including rejected attempts.
fn assert_audit_names_option(scene: &DeputyScene) {
    let log = scene.server.log();
    let lines =
        log.lines().filter(|line| line.contains("\"log\":\"audit\"") && line.contains("asAdministrator"));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let is = |line: &Value, who: &str, act: &str, result: &str| {
        line["who"] == who
            && line["act"] == act
            && line["result"] == result
            && line["option"] == "asAdministrator"
    };
    for (who, act, result) in [
        (&scene.tenant.id, "releases.create", "refused"),
        (&scene.administrator.id, "releases.create", "done"),
        (&scene.administrator.id, "releases.update", "done"),
        (&scene.administrator.id, "releases.rollback", "refused"),
        (&scene.administrator.id, "releases.delete", "done"),
    ] {
        assert!(lines.iter().any(|line| is(line, who, act, result)), "no line of {act} by {who}: {lines:?}");
    }
}
