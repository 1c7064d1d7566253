//! Accounts and workspaces through the REST API.

use axum::http::Method;
use domain::roles::{PlatformRole, WorkspaceRole};
use serde_json::{Value, json};

use crate::test_server::{TestCredential, TestServer};

fn allowed_action_ids(object: &Value) -> Vec<&str> {
    let actions = object["actions"].as_array().unwrap().iter();
    actions.filter(|action| action["allowed"] == true).map(|action| action["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_is_created_and_members_are_invited() {
    let house = TestServer::new().await;
    let (ana, ben) = (house.create_user(1, &[]).await, house.create_user(2, &[]).await);
    let made =
        house.post("workspaces", &ana.credential(), json!({"name": "acme", "displayName": "Acme"})).await;
    assert_eq!(
        (made.code(), made.headers["location"].to_str().unwrap()),
        (201, "/api/longshore/v1/workspaces/acme"),
        "{}",
        made.text
    );
    assert_eq!(made.json()["role"], "admin");
    assert!(allowed_action_ids(&made.json()).contains(&"workspaces.delete"), "{}", made.text);

    assert_eq!(house.get("workspaces/acme", &ben.credential()).await.code(), 404);
    let invite = async |to: &str| {
        let invited = house
            .post("workspaces/acme/invitations", &ana.credential(), json!({"to": to, "role": "viewer"}))
            .await;
        assert_eq!(invited.code(), 201, "{}", invited.text);
        assert!(!invited.text.contains(to), "the answer does not depend on whom: {}", invited.text);
        invited.json()["code"].as_str().map(str::to_owned)
    };
    let code = invite("p2@example.com").await.unwrap();
    assert_ne!(invite("nobody@example.com").await.unwrap(), code);
    let listed = house.get("workspaces/acme/invitations", &ana.credential()).await.text;
    assert!(!listed.contains(&code), "the code is shown once: {listed}");
    let by_address = house.post("invitations/acme", &ben.credential(), json!({})).await;
    assert_eq!(by_address.code(), 404, "an unverified address does not suffice: {}", by_address.text);
    assert_eq!(invite(ben.id.as_str()).await, None, "an invitation to an id has no code");
    let own = house.get("invitations", &ben.credential()).await.json();
    assert_eq!((&own["items"][0]["workspace"], &own["items"][0]["role"]), (&json!("acme"), &json!("viewer")));
    let joined = house.post("invitations/acme", &ben.credential(), json!({})).await;
    assert_eq!((joined.code(), &joined.json()["role"]), (200, &json!("viewer")), "{}", joined.text);
    assert_eq!(
        allowed_action_ids(&joined.json()),
        Vec::<&str>::new(),
        "a viewer changes nothing: {}",
        joined.text
    );

    let members = house.get("workspaces/acme/members", &ben.credential()).await.json();
    assert_eq!(members["items"].as_array().unwrap().len(), 2);
    let own =
        members["items"].as_array().unwrap().iter().find(|member| member["user"] == ben.id.as_str()).unwrap();
    assert_eq!(allowed_action_ids(own), ["members.delete"], "one may leave");
    let refused = house
        .call(
            Method::PUT,
            &format!("workspaces/acme/members/{}", ben.id),
            &ben.credential(),
            Some(json!({"role": "admin"})),
        )
        .await;
    assert_eq!(refused.code(), 403, "{}", refused.text);
    let promoted = house
        .call(
            Method::PUT,
            &format!("workspaces/acme/members/{}", ben.id),
            &ana.credential(),
            Some(json!({"role": "developer"})),
        )
        .await;
    assert_eq!(promoted.code(), 200, "{}", promoted.text);
    let left = house.call(Method::DELETE, "workspaces/acme/members/me", &ben.credential(), None).await;
    assert_eq!(left.code(), 200, "{}", left.text);
    let last = house.call(Method::DELETE, "workspaces/acme/members/me", &ana.credential(), None).await;
    assert_eq!(last.code(), 409, "{}", last.text);

    let gone = house.call(Method::DELETE, "workspaces/acme", &ana.credential(), None).await;
    assert_eq!(gone.code(), 200, "{}", gone.text);
    assert!(gone.json()["removeAfter"].is_string());
    let back = house.post("workspaces/acme/restore", &ana.credential(), json!({})).await;
    assert_eq!((back.code(), &back.json()["removeAfter"]), (200, &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_is_set_by_admins_and_shared_by_the_workspace() {
    let house = TestServer::new().await;
    let (admin, ana) = (house.create_user(1, &[PlatformRole::Admin]).await, house.create_user(2, &[]).await);
    house.create_workspace("acme", &ana, &[]).await;
    let quota = json!({"quota": {"requests.cpu": "8", "pods": "20"}});
    let put = async |key: &TestCredential, body: &Value| {
        house.call(Method::PUT, "workspaces/acme/quota", key, Some(body.clone())).await
    };
    assert_eq!(put(&ana.credential(), &quota).await.code(), 403);
    let set = put(&admin.credential(), &quota).await;
    assert_eq!((set.code(), &set.json()["quota"]["pods"]), (200, &json!("20")), "{}", set.text);
    let added = house
        .post(
            "workspaces/acme/namespaces",
            &ana.credential(),
            json!({"name": "test", "share": {"pods": "5"}}),
        )
        .await;
    assert_eq!(added.code(), 201, "{}", added.text);
    let too_much = put(&ana.credential(), &json!({"shares": {"acme-test": {"pods": "21"}}})).await;
    assert_eq!(too_much.code(), 400, "{}", too_much.text);
    let shared = put(&ana.credential(), &json!({"shares": {"acme-test": {"pods": "6"}}})).await;
    assert_eq!(shared.code(), 200, "{}", shared.text);
    let shown = house.get("workspaces/acme/quota", &ana.credential()).await.json();
    assert_eq!(shown["namespaces"][1]["hard"]["pods"], "6", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn admins_manage_accounts_but_cannot_lock_themselves_out() {
    let house = TestServer::new().await;
    let (admin, ana) = (house.create_user(1, &[PlatformRole::Admin]).await, house.create_user(2, &[]).await);
    let all = house.get("users", &admin.credential()).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert!(all["at"].is_string() && all.get("stale").is_none());
    let path = format!("users/{}", ana.id);
    let change =
        async |key: &TestCredential, body: Value| house.call(Method::PATCH, &path, key, Some(body)).await;
    assert_eq!(change(&ana.credential(), json!({"maxNodeNum": 99})).await.code(), 403);
    assert_eq!(change(&ana.credential(), json!({"platformRoles": ["admin"]})).await.code(), 403);
    assert_eq!(change(&ana.credential(), json!({"organization": "Own"})).await.json()["organization"], "Own");
    assert_eq!(change(&admin.credential(), json!({"platformRoles": ["emperor"]})).await.code(), 400);
    let disabled = change(&admin.credential(), json!({"disabled": true})).await;
    assert_eq!(disabled.json()["disabled"], true, "{}", disabled.text);
    assert_eq!(house.get("session", &ana.credential()).await.code(), 401);
    let own = format!("users/{}", admin.id);
    for body in [json!({"disabled": true}), json!({"platformRoles": []})] {
        let last = house.call(Method::PATCH, &own, &admin.credential(), Some(body)).await;
        assert_eq!(last.code(), 409, "{}", last.text);
    }
    assert_eq!(house.call(Method::DELETE, &own, &admin.credential(), None).await.code(), 409);
    assert_eq!(house.call(Method::DELETE, &path, &admin.credential(), None).await.code(), 204);
    assert_eq!(
        house.get("roles", &admin.credential()).await.json()["workspace"][4]["name"],
        WorkspaceRole::Viewer.as_str()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfig_is_issued_for_the_caller_only() {
    let house = TestServer::new().await;
    let ana = house.create_user(1, &[]).await;
    let file = house.post("kubeconfig", &ana.credential(), json!({})).await;
    assert_eq!(
        (file.code(), file.headers["cache-control"].to_str().unwrap()),
        (200, "no-store"),
        "{}",
        file.text
    );
    assert!(file.json()["kubeconfig"].as_str().unwrap().contains("default-context"));
    assert!(file.json()["expires"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn account_existence_is_disclosed_to_admins_only() {
    let house = TestServer::new().await;
    let (admin, ana, ben) = (
        house.create_user(1, &[PlatformRole::Admin]).await,
        house.create_user(2, &[]).await,
        house.create_user(3, &[]).await,
    );
    house.create_workspace("acme", &ana, &[]).await;
    let role = json!({"role": "viewer"});
    let mut said = Vec::new();
    for user in ["user-18300000003", "user-18300000009"] {
        let path = format!("workspaces/acme/members/{user}");
        let answer = house.call(Method::PUT, &path, &ana.credential(), Some(role.clone())).await;
        said.push((answer.code(), answer.text.replace(user, "X")));
        assert_eq!(house.get(&format!("users/{user}"), &ana.credential()).await.code(), 404);
    }
    assert_eq!((said[0].0, &said[0]), (404, &said[1]));
    assert!(!said[0].1.contains(ben.id.as_str()));
    assert_eq!(house.get("users/user-18300000003", &admin.credential()).await.json()["id"], ben.id.as_str());
    let added = house
        .call(Method::PUT, "workspaces/acme/members/user-18300000003", &admin.credential(), Some(role))
        .await;
    assert_eq!(added.code(), 200, "{}", added.text);
}
