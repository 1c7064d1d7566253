//! Accounts and workspaces through the REST API.

use axum::http::Method;
use domain::roles::{PlatformRole, WorkspaceRole};
use serde_json::{Value, json};

use crate::house::{House, Key};

fn allowed(object: &Value) -> Vec<&str> {
    let actions = object["actions"].as_array().unwrap().iter();
    actions.filter(|action| action["allowed"] == true).map(|action| action["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_company_makes_a_workspace_and_invites() {
    let house = House::new().await;
    let (ana, ben) = (house.person(1, &[]).await, house.person(2, &[]).await);
    let made = house.post("workspaces", &ana.key(), json!({"name": "acme", "displayName": "Acme"})).await;
    assert_eq!(
        (made.code(), made.headers["location"].to_str().unwrap()),
        (201, "/api/longshore/v1/workspaces/acme"),
        "{}",
        made.text
    );
    assert_eq!(made.json()["role"], "admin");
    assert!(allowed(&made.json()).contains(&"workspaces.delete"), "{}", made.text);

    assert_eq!(house.get("workspaces/acme", &ben.key()).await.code(), 404);
    let invite = async |to: &str| {
        let invited =
            house.post("workspaces/acme/invitations", &ana.key(), json!({"to": to, "role": "viewer"})).await;
        assert_eq!(invited.code(), 201, "{}", invited.text);
        assert!(!invited.text.contains(to), "the answer does not depend on whom: {}", invited.text);
        invited.json()["code"].as_str().map(str::to_owned)
    };
    let code = invite("p2@example.com").await.unwrap();
    assert_ne!(invite("nobody@example.com").await.unwrap(), code);
    let listed = house.get("workspaces/acme/invitations", &ana.key()).await.text;
    assert!(!listed.contains(&code), "the code is shown once: {listed}");
    let by_address = house.post("invitations/acme", &ben.key(), json!({})).await;
    assert_eq!(by_address.code(), 404, "an unverified address does not suffice: {}", by_address.text);
    assert_eq!(invite(ben.id.as_str()).await, None, "an invitation to an id has no code");
    let own = house.get("invitations", &ben.key()).await.json();
    assert_eq!((&own["items"][0]["workspace"], &own["items"][0]["role"]), (&json!("acme"), &json!("viewer")));
    let joined = house.post("invitations/acme", &ben.key(), json!({})).await;
    assert_eq!((joined.code(), &joined.json()["role"]), (200, &json!("viewer")), "{}", joined.text);
    assert_eq!(allowed(&joined.json()), Vec::<&str>::new(), "a viewer changes nothing: {}", joined.text);

    let members = house.get("workspaces/acme/members", &ben.key()).await.json();
    assert_eq!(members["items"].as_array().unwrap().len(), 2);
    let own =
        members["items"].as_array().unwrap().iter().find(|member| member["user"] == ben.id.as_str()).unwrap();
    assert_eq!(allowed(own), ["members.delete"], "one may leave");
    let refused = house
        .ask(
            Method::PUT,
            &format!("workspaces/acme/members/{}", ben.id),
            &ben.key(),
            Some(json!({"role": "admin"})),
        )
        .await;
    assert_eq!(refused.code(), 403, "{}", refused.text);
    let promoted = house
        .ask(
            Method::PUT,
            &format!("workspaces/acme/members/{}", ben.id),
            &ana.key(),
            Some(json!({"role": "developer"})),
        )
        .await;
    assert_eq!(promoted.code(), 200, "{}", promoted.text);
    let left = house.ask(Method::DELETE, "workspaces/acme/members/me", &ben.key(), None).await;
    assert_eq!(left.code(), 200, "{}", left.text);
    let last = house.ask(Method::DELETE, "workspaces/acme/members/me", &ana.key(), None).await;
    assert_eq!(last.code(), 409, "{}", last.text);

    let gone = house.ask(Method::DELETE, "workspaces/acme", &ana.key(), None).await;
    assert_eq!(gone.code(), 200, "{}", gone.text);
    assert!(gone.json()["removeAfter"].is_string());
    let back = house.post("workspaces/acme/restore", &ana.key(), json!({})).await;
    assert_eq!((back.code(), &back.json()["removeAfter"]), (200, &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_is_the_platforms_to_give_and_the_workspaces_to_share() {
    let house = House::new().await;
    let (admin, ana) = (house.person(1, &[PlatformRole::Admin]).await, house.person(2, &[]).await);
    house.workspace("acme", &ana, &[]).await;
    let quota = json!({"quota": {"requests.cpu": "8", "pods": "20"}});
    let put = async |key: &Key, body: &Value| {
        house.ask(Method::PUT, "workspaces/acme/quota", key, Some(body.clone())).await
    };
    assert_eq!(put(&ana.key(), &quota).await.code(), 403);
    let set = put(&admin.key(), &quota).await;
    assert_eq!((set.code(), &set.json()["quota"]["pods"]), (200, &json!("20")), "{}", set.text);
    let added = house
        .post("workspaces/acme/namespaces", &ana.key(), json!({"name": "test", "share": {"pods": "5"}}))
        .await;
    assert_eq!(added.code(), 201, "{}", added.text);
    let too_much = put(&ana.key(), &json!({"shares": {"acme-test": {"pods": "21"}}})).await;
    assert_eq!(too_much.code(), 400, "{}", too_much.text);
    let shared = put(&ana.key(), &json!({"shares": {"acme-test": {"pods": "6"}}})).await;
    assert_eq!(shared.code(), 200, "{}", shared.text);
    let shown = house.get("workspaces/acme/quota", &ana.key()).await.json();
    assert_eq!(shown["namespaces"][1]["hard"]["pods"], "6", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_manage_accounts_and_cannot_lock_themselves_out() {
    let house = House::new().await;
    let (admin, ana) = (house.person(1, &[PlatformRole::Admin]).await, house.person(2, &[]).await);
    let all = house.get("users", &admin.key()).await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert!(all["at"].is_string() && all.get("stale").is_none());
    let path = format!("users/{}", ana.id);
    let change = async |key: &Key, body: Value| house.ask(Method::PATCH, &path, key, Some(body)).await;
    assert_eq!(change(&ana.key(), json!({"maxNodeNum": 99})).await.code(), 403);
    assert_eq!(change(&ana.key(), json!({"platformRoles": ["admin"]})).await.code(), 403);
    assert_eq!(change(&ana.key(), json!({"organization": "Own"})).await.json()["organization"], "Own");
    assert_eq!(change(&admin.key(), json!({"platformRoles": ["emperor"]})).await.code(), 400);
    let disabled = change(&admin.key(), json!({"disabled": true})).await;
    assert_eq!(disabled.json()["disabled"], true, "{}", disabled.text);
    assert_eq!(house.get("session", &ana.key()).await.code(), 401);
    let own = format!("users/{}", admin.id);
    for body in [json!({"disabled": true}), json!({"platformRoles": []})] {
        let last = house.ask(Method::PATCH, &own, &admin.key(), Some(body)).await;
        assert_eq!(last.code(), 409, "{}", last.text);
    }
    assert_eq!(house.ask(Method::DELETE, &own, &admin.key(), None).await.code(), 409);
    assert_eq!(house.ask(Method::DELETE, &path, &admin.key(), None).await.code(), 204);
    assert_eq!(
        house.get("roles", &admin.key()).await.json()["workspace"][4]["name"],
        WorkspaceRole::Viewer.as_str()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_is_for_oneself() {
    let house = House::new().await;
    let ana = house.person(1, &[]).await;
    let file = house.post("kubeconfig", &ana.key(), json!({})).await;
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
async fn who_has_an_account_is_told_to_administrators_only() {
    let house = House::new().await;
    let (admin, ana, ben) = (
        house.person(1, &[PlatformRole::Admin]).await,
        house.person(2, &[]).await,
        house.person(3, &[]).await,
    );
    house.workspace("acme", &ana, &[]).await;
    let role = json!({"role": "viewer"});
    let mut said = Vec::new();
    for user in ["user-18300000003", "user-18300000009"] {
        let path = format!("workspaces/acme/members/{user}");
        let answer = house.ask(Method::PUT, &path, &ana.key(), Some(role.clone())).await;
        said.push((answer.code(), answer.text.replace(user, "X")));
        assert_eq!(house.get(&format!("users/{user}"), &ana.key()).await.code(), 404);
    }
    assert_eq!((said[0].0, &said[0]), (404, &said[1]));
    assert!(!said[0].1.contains(ben.id.as_str()));
    assert_eq!(house.get("users/user-18300000003", &admin.key()).await.json()["id"], ben.id.as_str());
    let added =
        house.ask(Method::PUT, "workspaces/acme/members/user-18300000003", &admin.key(), Some(role)).await;
    assert_eq!(added.code(), 200, "{}", added.text);
}
