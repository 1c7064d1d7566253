//! The console's registration route.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, Request};
use domain::roles::PlatformRole;
use kube::Api;
use kube::api::PostParams;
use kube_types::User;
use serde_json::{Value, json};
use testkit::wait_for;

use super::send;
use crate::test_server::{TestCredential, TestServer};

fn registration_form(more: &Value) -> Value {
    let mut form = json!({"email": "ana@example.com", "phone": "+86 183 0000 0001", "organization": "Acme"});
    form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    form
}

#[tokio::test(flavor = "multi_thread")]
async fn register_creates_an_account_once() {
    let house = TestServer::new().await;
    let made = send(
        &house,
        Method::POST,
        "/register",
        &TestCredential::Anonymous,
        Some(registration_form(&json!({}))),
    )
    .await;
    assert_eq!(made.code(), 200, "{}", made.text);
    assert_eq!(made.headers[CACHE_CONTROL], "no-store");
    let told = made.json();
    assert_eq!(told["name"], "user-8618300000001");
    assert!(told["token"].as_str().unwrap().starts_with("lsh_"), "{told}");
    assert!(told.get("status").is_none() && !made.text.contains("kubeConfig"), "{told}");
    let key = TestCredential::Bearer(told["token"].as_str().unwrap().to_owned());
    assert_eq!(house.get("users/me", &key).await.json()["namespace"], told["namespace"]);

    for again in [json!({}), json!({"email": "other@example.com"}), json!({"phone": "18300000099"})] {
        let again = send(
            &house,
            Method::POST,
            "/register",
            &TestCredential::Anonymous,
            Some(registration_form(&again)),
        )
        .await;
        assert_eq!(again.code(), 409);
        let msg = "an account with this e-mail address or phone number already exists";
        assert_eq!(again.json(), json!({"msg": msg, "status": false, "code": "already_exists"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn register_responds_202_before_the_account_is_ready() {
    let house = TestServer::without_registration_wait().await;
    house.stop_controllers();
    let made = send(
        &house,
        Method::POST,
        "/register",
        &TestCredential::Anonymous,
        Some(registration_form(&json!({}))),
    )
    .await;
    assert_eq!(made.code(), 202, "{}", made.text);
    let told = made.json();
    assert_eq!((&told["status"], &told["expireTime"]), (&json!("pending"), &json!("")), "{told}");
    let token = told["token"].as_str().unwrap();
    let credentials = json!({"email": "ana@example.com", "token": token});
    let login = async || {
        let answer =
            send(&house, Method::POST, "/login", &TestCredential::Anonymous, Some(credentials.clone())).await;
        assert_eq!(answer.code(), 200, "{}", answer.text);
        answer.json()
    };
    // A login before the account is ready returns the fields that exist.
    let early = login().await;
    let empty = json!("");
    let has = |told: &Value| {
        let (spec, status) = (&told["spec"], &told["status"]);
        [&spec["kubeConfig"], &status["effectiveTime"]].map(|text| *text != empty)
    };
    assert_eq!(has(&early), [false, false], "{early}");
    assert_eq!(early["spec"]["namespace"], told["namespace"]);
    // A second registration is rejected, and the account still becomes ready.
    let again = send(
        &house,
        Method::POST,
        "/register",
        &TestCredential::Anonymous,
        Some(registration_form(&json!({}))),
    )
    .await;
    assert_eq!(again.code(), 409, "{}", again.text);
    house.start_controllers();
    wait_for("the account is ready", async || (has(&login().await) == [true, true]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn register_accepts_phone_aliases_and_forms() {
    let house = TestServer::new().await;
    for (number, name) in ["phone", "mobilephone", "mobilePhone"].into_iter().enumerate() {
        let body = json!({"email": format!("j{number}@example.com"), name: format!("1830000000{number}"), "organization": "A"});
        let made = send(&house, Method::POST, "/register", &TestCredential::Anonymous, Some(body)).await;
        assert_eq!(made.code(), 200, "{name}: {}", made.text);
        let body = format!("email=f{number}%40example.com&{name}=1840000000{number}&organization=A+B");
        let posted = Request::post("/register")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Body::from(body))
            .unwrap();
        let made = house.send(posted).await;
        assert_eq!(made.code(), 200, "{name}: {}", made.text);
    }
    assert_eq!(house.api.tenancy.directory().accounts().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn register_rejects_unknown_fields() {
    let house = TestServer::new().await;
    let rows = [
        (registration_form(&json!({"validPeriod": 9999})), "unknown field `validPeriod`"),
        (registration_form(&json!({"maxNodeNum": 100})), "unknown field `maxNodeNum`"),
        (registration_form(&json!({"namespace": "kube-system"})), "unknown field `namespace`"),
        (registration_form(&json!({"token": "mine"})), "unknown field `token`"),
        (registration_form(&json!({"nodeAddScript": "rm"})), "unknown field `nodeAddScript`"),
        (registration_form(&json!({"phone": "kube-system"})), "phone number"),
        (registration_form(&json!({"phone": "default"})), "phone number"),
        (registration_form(&json!({"phone": "1234"})), "phone number"),
        (registration_form(&json!({"email": "nonsense"})), "e-mail"),
        (registration_form(&json!({"organization": ""})), "organi"),
        (registration_form(&json!({"mobilephone": "18300000002"})), "duplicate field"),
        (json!({"email": "ana@example.com"}), "missing field"),
    ];
    for (body, expected) in rows {
        let answer =
            send(&house, Method::POST, "/register", &TestCredential::Anonymous, Some(body.clone())).await;
        assert_eq!(answer.code(), 400, "{body}: {}", answer.text);
        let told = answer.json();
        assert_eq!((&told["status"], &told["code"]), (&json!(false), &json!("invalid")), "{told}");
        assert!(told["msg"].as_str().unwrap().contains(expected), "{told}");
        assert_eq!(told.as_object().unwrap().len(), 3, "{told}");
    }
    let unknown = send(
        &house,
        Method::POST,
        "/register?token=x",
        &TestCredential::Anonymous,
        Some(registration_form(&json!({}))),
    )
    .await;
    assert!(matches!(unknown.code(), 400 | 401), "{}", unknown.text);
    assert!(house.api.tenancy.directory().accounts().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn register_requires_admin_when_registration_is_closed() {
    let house = TestServer::with_registration_closed().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let refused = send(
        &house,
        Method::POST,
        "/register",
        &TestCredential::Anonymous,
        Some(registration_form(&json!({}))),
    )
    .await;
    assert_eq!((refused.code(), refused.json()["code"].as_str()), (403, Some("registration_closed")));
    let made =
        send(&house, Method::POST, "/register", &admin.credential(), Some(registration_form(&json!({}))))
            .await;
    assert_eq!(made.code(), 200, "{}", made.text);
}

/// Kubernetes' response to a duplicate `User`, as in the console's specification, and the platform's response if its
/// own index does not have the account.
#[tokio::test(flavor = "multi_thread")]
async fn register_reports_existing_user() {
    let house = TestServer::new().await;
    let user: User = serde_json::from_value(json!({
        "apiVersion": "user.openyurt.io/v1alpha1", "kind": "User", "metadata": {"name": "user-8618300000001"},
        "spec": {"email": "first@example.com", "mobilephone": "8618300000001", "organization": "Acme"},
    }))
    .unwrap();
    let users: Api<User> = Api::all(house.world.admin_client());
    users.create(&PostParams::default(), &user).await.unwrap();
    let Err(kube::Error::Api(status)) = users.create(&PostParams::default(), &user).await else {
        panic!("a second one was made")
    };
    let mut said = serde_json::to_value(&status).unwrap();
    said.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let expected = json!({
        "status": "Failure", "message": "users.user.openyurt.io \"user-8618300000001\" already exists", "reason": "AlreadyExists",
        "details": {"name": "user-8618300000001", "group": "user.openyurt.io", "kind": "users"}, "code": 409,
    });
    for (name, value) in expected.as_object().unwrap() {
        if name == "details" {
            for (name, value) in value.as_object().unwrap() {
                assert_eq!(&said["details"][name], value, "{said}");
            }
        } else {
            assert_eq!(&said[name], value, "{said}");
        }
    }
    let again = send(
        &house,
        Method::POST,
        "/register",
        &TestCredential::Anonymous,
        Some(registration_form(&json!({}))),
    )
    .await;
    assert_eq!(
        (again.code(), again.json()["code"].as_str()),
        (409, Some("already_exists")),
        "{}",
        again.text
    );
}
