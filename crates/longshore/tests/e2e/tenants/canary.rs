//! Secrets that are returned once must not appear anywhere else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use serde_json::json;

use crate::platform::{PlatformUser, call, unused_phone};
use crate::request::{get, send};
use crate::target::Cluster;

#[tokio::test(flavor = "multi_thread")]
async fn one_time_secrets_appear_nowhere_else() {
    let (cluster, server) = Cluster::with_platform().await;
    let platform = server.platform();
    let phone = unused_phone();
    let password = format!("canary-password-{phone}");
    let email = format!("c{phone}@example.com");
    cluster.remove_at_end(format!("/apis/user.openyurt.io/v1alpha1/users/user-{phone}"));
    let body = json!({"email": email, "phone": phone, "organization": "Acme", "password": password});
    let registered = call(&platform, None, Method::POST, "users", Some(&body)).await;
    assert_eq!(registered.code, 201, "{}", registered.text);
    let token = registered.json()["token"].as_str().unwrap().to_owned();
    let id = registered.json()["id"].as_str().unwrap().to_owned();
    let wrong = format!("canary-wrong-{phone}");
    for secret in [password.as_str(), &token, &wrong] {
        let body = json!({"login": email, "secret": secret});
        call(&platform, None, Method::POST, "session", Some(&body)).await;
        // Also in places where a client should not have sent it.
        call(&platform, None, Method::GET, &format!("session?token={secret}"), None).await;
        let odd =
            Request::get("/api/longshore/v1/session").header("authorization", format!("Basic {secret}"));
        send(&platform, odd.body(Vec::new()).unwrap()).await;
    }
    let signed =
        call(&platform, None, Method::POST, "session", Some(&json!({"login": email, "secret": password})))
            .await;
    assert_eq!(signed.code, 200, "{}", signed.text);
    let cookie = signed.header("set-cookie").split(';').next().unwrap().split_once('=').unwrap().1.to_owned();
    let as_me = async |method: Method, path: &str| call(&platform, Some(&token), method, path, None).await;
    let kubeconfig = as_me(Method::POST, "kubeconfig").await;
    assert_eq!(kubeconfig.code, 200, "{}", kubeconfig.text);
    let kubeconfig = kubeconfig.json()["kubeconfig"].as_str().unwrap().to_owned();
    let bearer = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap().to_owned();
    let made = call(
        &platform,
        Some(&token),
        Method::POST,
        "tokens",
        Some(&json!({"name": "b", "scopes": ["read"]})),
    )
    .await;
    let api_token = made.json()["token"].as_str().unwrap().to_owned();

    let mut seen = vec![("log and audit", server.log()), ("metrics", get(&platform, "/metrics").await.text)];
    for path in [
        "session",
        "tokens",
        "workspaces",
        "invitations",
        "roles",
        &format!("users/{id}"),
        &format!("workspaces/{id}"),
    ] {
        let answer = as_me(Method::GET, path).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        seen.push(("an answer", answer.text));
    }
    let admin = cluster.client().await;
    for path in [
        "/apis/user.openyurt.io/v1alpha1/users".to_owned(),
        "/apis/longshore.dev/v1alpha1/workspaces".to_owned(),
        "/api/v1/events".to_owned(),
        "/api/v1/configmaps".to_owned(),
        "/api/v1/serviceaccounts".to_owned(),
        // These Secrets contain digests only.
        "/api/v1/namespaces/longshore-system/secrets".to_owned(),
    ] {
        let answer = get(&admin, &path).await;
        assert_eq!(answer.code, 200, "{path}");
        seen.push(("an object", answer.text));
    }
    let person = PlatformUser::administrator(&server, &cluster).await;
    seen.push(("an administrator's list", person.call(Method::GET, "users", None).await.text));
    seen.push(("the log at the end", server.log()));
    let secret_part = |token: &str| token.splitn(3, '_').nth(2).unwrap().to_owned();
    let canaries = [
        password,
        wrong,
        secret_part(&token),
        secret_part(&api_token),
        cookie,
        bearer,
        secret_part(&person.token),
    ];
    for (place, text) in &seen {
        for canary in &canaries {
            assert!(canary.len() > 10);
            let encoded = STANDARD.encode(canary);
            assert!(!text.contains(canary.as_str()) && !text.contains(&encoded), "{place} tells {canary}");
        }
    }
    // The check itself works: known texts are found.
    assert!(seen.iter().any(|(_, text)| text.contains(&email)));
    assert!(server.log().contains("\"log\":\"audit\""), "{}", server.log());
}
