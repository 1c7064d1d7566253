//! Credentials after revocation, and scoped tokens used beyond their scope.

use http::{Method, Request};
use serde_json::{Value, json};

use super::tokens::kubernetes_client;
use crate::platform::{PlatformUser, call, until};
use crate::program::Server;
use crate::request::{get, send};
use crate::target::Cluster;

/// All credentials of a user.
struct UserCredentials {
    tokens: Vec<String>,
    cookie: String,
    kubernetes: kube::Client,
}

async fn create_credentials(person: &PlatformUser, server: &Server, cluster: &Cluster) -> UserCredentials {
    let body = json!({"name": "ci", "scopes": ["all"]});
    let made = person.call(Method::POST, "tokens", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let api_token = made.json()["token"].as_str().unwrap().to_owned();
    let body = json!({"login": person.email, "secret": person.token});
    let session = call(&server.platform(), None, Method::POST, "session", Some(&body)).await;
    assert_eq!(session.code, 200, "{}", session.text);
    let cookie = session.header("set-cookie").split(';').next().unwrap().to_owned();
    let all = UserCredentials {
        tokens: vec![person.token.clone(), api_token],
        cookie,
        kubernetes: kubernetes_client(person, cluster).await,
    };
    assert_eq!(all.accepted(server, &person.id).await, ["token 0", "token 1", "session", "kubeconfig"]);
    all
}

impl UserCredentials {
    /// Credentials that are still accepted.
    async fn accepted(&self, server: &Server, namespace: &str) -> Vec<String> {
        let platform = server.platform();
        let mut accepted = Vec::new();
        for (number, token) in self.tokens.iter().enumerate() {
            if call(&platform, Some(token), Method::GET, "session", None).await.code != 401 {
                accepted.push(format!("token {number}"));
            }
        }
        let request = Request::get("/api/longshore/v1/session").header("cookie", &self.cookie);
        if send(&platform, request.body(Vec::new()).unwrap()).await.code != 401 {
            accepted.push("session".to_owned());
        }
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        if get(&self.kubernetes, &path).await.code != 401 {
            accepted.push("kubeconfig".to_owned());
        }
        accepted
    }

    /// Waits until all are rejected. Real clusters cache authenticated tokens for a few seconds.
    async fn wait_until_rejected(&self, server: &Server, namespace: &str) {
        until("no credential is accepted", async || {
            self.accepted(server, namespace).await.is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn stolen_credentials_survive_revoke_all() {
    let (cluster, server) = Cluster::with_platform().await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let stolen = create_credentials(&ana, &server, &cluster).await;
    let revoked = ana.call(Method::POST, "users/{me}/revoke", None).await;
    assert_eq!(revoked.code, 200, "{}", revoked.text);
    stolen.wait_until_rejected(&server, &ana.id).await;
    // Ana has no password, so the response contains a new token, with which she can request a new kubeconfig.
    let fresh = revoked.json()["token"].as_str().unwrap().to_owned();
    let issued = until("a kubeconfig", async || {
        let answer = call(&server.platform(), Some(&fresh), Method::POST, "kubeconfig", None).await;
        (answer.code == 200).then_some(answer)
    })
    .await;
    assert!(issued.text.contains("token"), "{}", issued.text);
}

#[tokio::test]
async fn stolen_credentials_survive_an_administrators_password_reset() {
    let (cluster, server) = Cluster::with_platform().await;
    let admin = PlatformUser::administrator(&server, &cluster).await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let stolen = create_credentials(&ana, &server, &cluster).await;
    let body = json!({"new": "correct horse battery"});
    let reset = admin.call(Method::POST, &format!("users/{}/password", ana.id), Some(&body)).await;
    assert_eq!(reset.code, 204, "{}", reset.text);
    stolen.wait_until_rejected(&server, &ana.id).await;
    let body = json!({"login": ana.email, "secret": "correct horse battery"});
    let session = call(&server.platform(), None, Method::POST, "session", Some(&body)).await;
    assert_eq!(session.code, 200, "{}", session.text);
}

#[tokio::test]
async fn scoped_administrator_token_takes_over_another_administrator() {
    let (cluster, server) = Cluster::with_platform().await;
    let (admin, other) = (
        PlatformUser::administrator(&server, &cluster).await,
        PlatformUser::administrator(&server, &cluster).await,
    );
    let ana = PlatformUser::register(&server, &cluster).await;
    let body = json!({"name": "accounts", "scopes": ["tenancy"]});
    let made = admin.call(Method::POST, "tokens", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let scoped = made.json()["token"].as_str().unwrap().to_owned();
    let platform = server.platform();
    let as_scoped = async |method: Method, path: &str, body: &Value| {
        let body = Some(body).filter(|body| !body.is_null());
        call(&platform, Some(&scoped), method, path, body).await
    };
    let password = json!({"new": "correct horse battery"});
    for target in [&other, &ana, &admin] {
        let reset = as_scoped(Method::POST, &format!("users/{}/password", target.id), &password).await;
        assert_eq!(reset.code, 403, "{}", reset.text);
    }
    let administrator = format!("users/{}", other.id);
    for (method, path, body) in [
        (Method::POST, format!("{administrator}/revoke"), Value::Null),
        (Method::PATCH, administrator.clone(), json!({"disabled": true})),
        (Method::PATCH, administrator.clone(), json!({"validPeriod": 1})),
        (Method::PATCH, administrator.clone(), json!({"email": "mallory@example.com"})),
        (Method::PATCH, format!("users/{}", ana.id), json!({"platformRoles": ["admin"]})),
        (Method::DELETE, administrator.clone(), Value::Null),
    ] {
        let refused = as_scoped(method.clone(), &path, &body).await;
        assert_eq!(refused.code, 403, "{method} {path}: {}", refused.text);
    }
    let allowed = as_scoped(Method::PATCH, &format!("users/{}", ana.id), &json!({"maxNodeNum": 1})).await;
    assert_eq!(allowed.code, 200, "{}", allowed.text);
}
