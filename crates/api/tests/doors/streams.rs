//! Event streams, and that they end when the right to read them is lost.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Method, Response};
use http_body_util::BodyExt;
use kube::api::PostParams;
use serde_json::json;
use tower::ServiceExt;

use crate::test_server::{
    ROOT, STEP_TIMEOUT, TestCredential, TestServer, TestUser, read_response, request, root_actor,
};

async fn open_progress_stream(house: &TestServer, key: &TestCredential) -> Response<Body> {
    let asked = request(Method::GET, &format!("{ROOT}/accounts/me/progress"), key, None);
    house.router().oneshot(asked).await.unwrap()
}

/// An account whose event stream does not end: it is set to not ready while no controller runs.
async fn user_with_endless_progress(house: &TestServer) -> TestUser {
    let person = house.create_user(1, &[]).await;
    house.stop_controllers();
    let account = house.api.tenancy.directory().account(&person.id).unwrap();
    let users: kube::Api<kube_types::User> = kube::Api::all(house.world.admin_client());
    let mut user = users.get_status(&account.name).await.unwrap();
    for condition in &mut user.status.as_mut().unwrap().conditions {
        if condition.type_ == "Ready" {
            "False".clone_into(&mut condition.status);
        }
    }
    users.replace_status(&account.name, &PostParams::default(), &user).await.unwrap();
    let unready = |directory: &tenancy::Directory| !directory.account(&person.id).unwrap().is_ready;
    tokio::time::timeout(STEP_TIMEOUT, house.api.tenancy.directory().wait_until(unready)).await.unwrap();
    person
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_stream_ends_when_the_account_is_ready() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let answer = read_response(open_progress_stream(&house, &person.credential()).await).await;
    assert_eq!(answer.code(), 200, "{}", answer.text);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    assert!(answer.text.starts_with("event: progress\ndata: {\"conditions\":["), "{}", answer.text);
    assert!(answer.text.trim_end().ends_with("\"ready\":true}"), "{}", answer.text);
    let other = house.create_user(2, &[]).await;
    let foreign = house.get(&format!("accounts/{}/progress", person.id), &other.credential()).await;
    assert_eq!(foreign.code(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_within_five_seconds_of_its_credential() {
    let house = TestServer::new().await;
    let person = user_with_endless_progress(&house).await;
    let made =
        house.post("tokens", &person.credential(), json!({"name": "t", "scopes": ["all"]})).await.json();
    let token = TestCredential::Bearer(made["token"].as_str().unwrap().to_owned());
    let path = format!("tokens/{}", made["id"].as_str().unwrap());
    let login = person.credential();
    for what in ["token", "account", "session"] {
        let key = match what {
            "token" => token.clone(),
            "session" => house.sign_in(person.id.as_str(), &person.token).await,
            _ => login.clone(),
        };
        let mut body = open_progress_stream(&house, &key).await.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(b"event: progress"), "{what}: {first:?}");
        let (tenancy, admin) = (&house.api.tenancy, root_actor());
        match what {
            "session" => drop(tenancy.revoke_all(&admin, &person.id).await.unwrap()),
            "token" => {
                assert_eq!(house.call(Method::DELETE, &path, &person.credential(), None).await.code(), 204);
            }
            _ => {
                let change = tenancy::users::UserPatch { disabled: Some(true), ..Default::default() };
                drop(tenancy.patch_user(&admin, &person.id, change, None).await.unwrap());
            }
        }
        let since = Instant::now();
        let mut last = first;
        let read = async {
            while let Some(frame) = body.frame().await {
                last = frame.unwrap().into_data().unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(5), read).await.unwrap_or_else(|_| panic!("{what} went on"));
        assert!(since.elapsed() < Duration::from_secs(5));
        assert_eq!(last, &b"event: bye\ndata: {\"reason\":\"revoked\"}\n\n"[..], "{what}");
        if what == "account" {
            let change = tenancy::users::UserPatch { disabled: Some(false), ..Default::default() };
            drop(tenancy.patch_user(&admin, &person.id, change, None).await.unwrap());
        }
    }
}
