//! ServiceAccount tokens held by removed members, and tokens that tenants may create.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::ResourceExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, until};
use crate::request::{HttpResponse, get, send, send_body};
use crate::target::Cluster;

const DEPLOYER: &str = "longshore-deployer";

/// A Kubernetes client with the kubeconfig that the platform issues to this user.
pub async fn kubernetes_client(person: &PlatformUser, cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(person.kubeconfig(cluster).await).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// A Kubernetes client that authenticates with this bearer token alone.
pub async fn bearer_client(cluster: &Cluster, token: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let mut config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.auth_info = serde_json::from_value(json!({ "token": token })).unwrap();
    kube::Client::try_from(config).unwrap()
}

async fn post(client: &kube::Client, path: &str, body: &Value) -> HttpResponse {
    send_body(client, Method::POST, path, "application/json", body.to_string()).await
}

pub async fn token_request(
    client: &kube::Client,
    namespace: &str,
    account: &str,
    spec: &Value,
) -> HttpResponse {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    post(client, &path, &body).await
}

pub fn token(answer: &HttpResponse) -> String {
    assert_eq!(answer.code, 201, "{}", answer.text);
    answer.json()["status"]["token"].as_str().unwrap().to_owned()
}

pub async fn deployer_uid(admin: &kube::Client, namespace: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    until("the deployer exists", async || accounts.get_opt(DEPLOYER).await.unwrap()?.uid()).await
}

/// Creates a ServiceAccount with the developer role, as any developer may.
async fn bind_account(client: &kube::Client, namespace: &str, name: &str) {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let made = post(client, &format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    });
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let made = post(client, &path, &binding).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

fn token_secret(name: &str, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
    })
}

#[tokio::test]
async fn tenant_creates_tokens_that_outlive_a_membership() {
    let (cluster, server) = Cluster::with_platform().await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let space = format!("tok{}", &ana.id[1..9]);
    ana.workspace(&cluster, &space).await;
    let client = kubernetes_client(&ana, &cluster).await;
    bind_account(&client, &space, "bot").await;

    // Tokens live at most a day, only users may request them, and never for the platform's own ServiceAccount.
    let day = token_request(&client, &space, "bot", &json!({"expirationSeconds": 86_400})).await;
    let bot = bearer_client(&cluster, &token(&day)).await;
    let longer = token_request(&client, &space, "bot", &json!({"expirationSeconds": 86_401})).await;
    assert_eq!(longer.code, 403, "{}", longer.text);
    assert!(longer.text.contains("24 hours"), "{}", longer.text);
    let deployer = token_request(&client, &space, DEPLOYER, &json!({})).await;
    assert_eq!(deployer.code, 403, "{}", deployer.text);
    assert!(deployer.text.contains(DEPLOYER), "{}", deployer.text);
    let path = format!("/api/v1/namespaces/{space}/configmaps");
    until("the bot has its role", async || (get(&bot, &path).await.code == 200).then_some(())).await;
    let renewed = token_request(&bot, &space, "bot", &json!({})).await;
    assert_eq!(renewed.code, 403, "a ServiceAccount renews its own token: {}", renewed.text);

    // Token Secrets never expire, so they are rejected.
    let path = format!("/api/v1/namespaces/{space}/secrets");
    for (who, client) in [("a person", &client), ("a ServiceAccount", &bot)] {
        for account in ["bot", DEPLOYER] {
            let made = post(client, &path, &token_secret("forever", account)).await;
            assert_eq!(made.code, 403, "{who}, {account}: {}", made.text);
        }
    }
    // A tenant cannot take over a token Secret that an administrator created.
    let admin = cluster.client().await;
    let made = post(&admin, &path, &token_secret("theirs", "bot")).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let change =
        json!({"metadata": {"annotations": {"kubernetes.io/service-account.name": DEPLOYER}}, "data": null});
    let request =
        Request::patch(format!("{path}/theirs")).header("content-type", "application/merge-patch+json");
    let taken = send(&client, request.body(change.to_string().into_bytes()).unwrap()).await;
    assert_eq!(taken.code, 403, "{}", taken.text);
    let deleted = send_body(&client, Method::DELETE, &format!("{path}/theirs"), "application/json", "").await;
    assert_eq!(deleted.code, 200, "a tenant may delete it: {}", deleted.text);
    // Other Secrets are not affected.
    let plain = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plain"}, "stringData": {"a": "b"}});
    let made = post(&client, &path, &plain).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

#[tokio::test]
async fn removed_member_keeps_access_by_a_token_of_the_deployer() {
    let (cluster, server) = Cluster::with_platform().await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let bob = PlatformUser::register(&server, &cluster).await;
    let space = format!("rem{}", &ana.id[1..9]);
    ana.workspace(&cluster, &space).await;
    ana.add_member(&space, &bob, "developer").await;
    let admin = cluster.client().await;
    let before = deployer_uid(&admin, &space).await;
    // Such a token may come from a pod that ran as the deployer, or from before token requests for it were rejected.
    let kept = token(&token_request(&admin, &space, DEPLOYER, &json!({})).await);
    let deployer = bearer_client(&cluster, &kept).await;
    let path = format!("/api/v1/namespaces/{space}/secrets");
    until("the token works", async || (get(&deployer, &path).await.code == 200).then_some(())).await;

    let removed = ana.call(Method::DELETE, &format!("workspaces/{space}/members/{}", bob.id), None).await;
    assert_eq!(removed.code, 200, "{}", removed.text);
    until("the token is dead", async || (get(&deployer, &path).await.code == 401).then_some(())).await;
    let after = deployer_uid(&admin, &space).await;
    assert_ne!(before, after, "the deployer is recreated");

    // The deployer is not recreated when a member joins, but when a member loses write access.
    let carl = PlatformUser::register(&server, &cluster).await;
    ana.add_member(&space, &carl, "operator").await;
    assert_eq!(deployer_uid(&admin, &space).await, after);
    let body = json!({"role": "viewer"});
    let demoted =
        ana.call(Method::PUT, &format!("workspaces/{space}/members/{}", carl.id), Some(&body)).await;
    assert_eq!(demoted.code, 200, "{}", demoted.text);
    until("the deployer is recreated again", async || {
        (deployer_uid(&admin, &space).await != after).then_some(())
    })
    .await;
}

#[tokio::test]
async fn stolen_service_account_tokens_survive_revoke_all_and_the_disabling_of_their_account() {
    let (cluster, server) = Cluster::with_platform().await;
    let administrator = PlatformUser::administrator(&server, &cluster).await;
    let mut ana = PlatformUser::register(&server, &cluster).await;
    let space = ana.id.clone();
    let admin = cluster.client().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), &space);
    until("the namespace is complete", async || accounts.get_opt("default").await.unwrap()).await;
    let owner = kubernetes_client(&ana, &cluster).await;
    bind_account(&owner, &space, "bot").await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": space}],
    });
    let bindings = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings");
    let secrets = format!("/api/v1/namespaces/{space}/secrets");
    // The Secret that the platform makes for yurthub, whose token does not expire.
    let steal = async |owner: &kube::Client| {
        let bound = post(owner, &bindings, &binding).await;
        assert!(matches!(bound.code, 201 | 409), "{}", bound.text);
        let made = post(&admin, &secrets, &token_secret("yurthub-token", "default")).await;
        assert_eq!(made.code, 201, "{}", made.text);
        let legacy = until("the Secret has a token", async || {
            let secret = get(&admin, &format!("{secrets}/yurthub-token")).await.json();
            let token = secret["data"]["token"].as_str()?.to_owned();
            Some(String::from_utf8(STANDARD.decode(token).unwrap()).unwrap())
        })
        .await;
        let day = json!({"expirationSeconds": 86_400});
        let mut stolen = vec![bearer_client(&cluster, &legacy).await];
        for account in ["default", "bot"] {
            let token = token(&token_request(&admin, &space, account, &day).await);
            stolen.push(bearer_client(&cluster, &token).await);
        }
        for client in &stolen {
            until("the token works", async || (get(client, &secrets).await.code != 401).then_some(())).await;
        }
        assert_eq!(get(&stolen[0], &secrets).await.code, 200, "`default` is bound");
        stolen
    };
    let are_rejected = async |stolen: &[kube::Client]| {
        for client in stolen {
            until("the token is rejected", async || (get(client, &secrets).await.code == 401).then_some(()))
                .await;
        }
    };
    let stolen = steal(&owner).await;
    let revoked = ana.call(Method::POST, "users/{me}/revoke", None).await;
    assert_eq!(revoked.code, 200, "{}", revoked.text);
    are_rejected(&stolen).await;
    until("the RoleBindings are deleted", async || {
        let left = get(&admin, &format!("{bindings}/default")).await.code == 200;
        (!left && get(&admin, &format!("{bindings}/bot")).await.code == 404).then_some(())
    })
    .await;

    let workspace = format!("/apis/longshore.dev/v1alpha1/workspaces/{space}");
    until("the revocation is finished", async || {
        let found = get(&admin, &workspace).await.json();
        let left = &found["metadata"]["annotations"]["longshore.dev/member-left"];
        (left.is_string() && *left == found["status"]["memberLeft"]).then_some(())
    })
    .await;

    ana = ana.with_token(revoked.json()["token"].as_str().unwrap().to_owned());
    until("a kubeconfig", async || {
        (ana.call(Method::POST, "kubeconfig", None).await.code == 200).then_some(())
    })
    .await;
    let owner = kubernetes_client(&ana, &cluster).await;
    until("the owner has access again", async || (get(&owner, &secrets).await.code == 200).then_some(()))
        .await;
    let stolen = steal(&owner).await;
    let disable = async |disabled: bool| {
        let path = format!("users/{}", ana.id);
        let changed = administrator.call(Method::PATCH, &path, Some(&json!({"disabled": disabled}))).await;
        assert_eq!(changed.code, 200, "{}", changed.text);
    };
    disable(true).await;
    are_rejected(&stolen).await;
    until("yurthub's Secret is gone", async || {
        (get(&admin, &format!("{secrets}/yurthub-token")).await.code == 404).then_some(())
    })
    .await;
    disable(false).await;
    until("the account is open again", async || {
        (ana.call(Method::GET, "users/{me}", None).await.code == 200).then_some(())
    })
    .await;
    are_rejected(&stolen).await;
    assert_eq!(get(&admin, &format!("{bindings}/default")).await.code, 200, "its programs keep their roles");
}
