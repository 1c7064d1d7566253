//! The console's registration route.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{Method, Request};
use domain::roles::PlatformRole;
use kube::Api;
use kube::api::PostParams;
use kube_types::User;
use serde_json::{Value, json};
use testkit::until;

use super::send;
use crate::house::{House, Key};

fn form(more: &Value) -> Value {
    let mut form = json!({"email": "ana@example.com", "phone": "+86 183 0000 0001", "organization": "Acme"});
    form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    form
}

#[tokio::test(flavor = "multi_thread")]
async fn three_fields_make_an_account_once() {
    let house = House::new().await;
    let made = send(&house, Method::POST, "/register", &Key::Nothing, Some(form(&json!({})))).await;
    assert_eq!(made.code(), 200, "{}", made.text);
    assert_eq!(made.headers[CACHE_CONTROL], "no-store");
    let told = made.json();
    assert_eq!(told["name"], "user-8618300000001");
    assert!(told["token"].as_str().unwrap().starts_with("lsh_"), "{told}");
    assert!(told.get("status").is_none() && !made.text.contains("kubeConfig"), "{told}");
    let key = Key::Bearer(told["token"].as_str().unwrap().to_owned());
    assert_eq!(house.get("users/me", &key).await.json()["namespace"], told["namespace"]);

    for again in [json!({}), json!({"email": "other@example.com"}), json!({"phone": "18300000099"})] {
        let again = send(&house, Method::POST, "/register", &Key::Nothing, Some(form(&again))).await;
        assert_eq!(again.code(), 409);
        let msg = "there is an account with this e-mail address or phone number already";
        assert_eq!(again.json(), json!({"msg": msg, "status": false, "code": "already_exists"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_takes_longer_is_told_of_before_it_is_ready() {
    let house = House::impatient().await;
    house.stop_leading();
    let made = send(&house, Method::POST, "/register", &Key::Nothing, Some(form(&json!({})))).await;
    assert_eq!(made.code(), 202, "{}", made.text);
    let told = made.json();
    assert_eq!((&told["status"], &told["expireTime"]), (&json!("pending"), &json!("")), "{told}");
    let token = told["token"].as_str().unwrap();
    let credentials = json!({"email": "ana@example.com", "token": token});
    let login = async || {
        let answer = send(&house, Method::POST, "/login", &Key::Nothing, Some(credentials.clone())).await;
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
    let again = send(&house, Method::POST, "/register", &Key::Nothing, Some(form(&json!({})))).await;
    assert_eq!(again.code(), 409, "{}", again.text);
    house.lead();
    until("the account is ready", async || (has(&login().await) == [true, true]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_has_three_names_and_a_form_will_do() {
    let house = House::new().await;
    for (number, name) in ["phone", "mobilephone", "mobilePhone"].into_iter().enumerate() {
        let body = json!({"email": format!("j{number}@example.com"), name: format!("1830000000{number}"), "organization": "A"});
        let made = send(&house, Method::POST, "/register", &Key::Nothing, Some(body)).await;
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
async fn nobody_asks_for_more_than_an_account() {
    let house = House::new().await;
    let rows = [
        (form(&json!({"validPeriod": 9999})), "unknown field `validPeriod`"),
        (form(&json!({"maxNodeNum": 100})), "unknown field `maxNodeNum`"),
        (form(&json!({"namespace": "kube-system"})), "unknown field `namespace`"),
        (form(&json!({"token": "mine"})), "unknown field `token`"),
        (form(&json!({"nodeAddScript": "rm"})), "unknown field `nodeAddScript`"),
        (form(&json!({"phone": "kube-system"})), "phone number"),
        (form(&json!({"phone": "default"})), "phone number"),
        (form(&json!({"phone": "1234"})), "phone number"),
        (form(&json!({"email": "nonsense"})), "e-mail"),
        (form(&json!({"organization": ""})), "organi"),
        (form(&json!({"mobilephone": "18300000002"})), "duplicate field"),
        (json!({"email": "ana@example.com"}), "missing field"),
    ];
    for (body, expected) in rows {
        let answer = send(&house, Method::POST, "/register", &Key::Nothing, Some(body.clone())).await;
        assert_eq!(answer.code(), 400, "{body}: {}", answer.text);
        let told = answer.json();
        assert_eq!((&told["status"], &told["code"]), (&json!(false), &json!("invalid")), "{told}");
        assert!(told["msg"].as_str().unwrap().contains(expected), "{told}");
        assert_eq!(told.as_object().unwrap().len(), 3, "{told}");
    }
    let unknown =
        send(&house, Method::POST, "/register?token=x", &Key::Nothing, Some(form(&json!({})))).await;
    assert!(matches!(unknown.code(), 400 | 401), "{}", unknown.text);
    assert!(house.api.tenancy.directory().accounts().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_registration_is_closed_only_administrators_register_others() {
    let house = House::closed().await;
    let admin = house.person(1, &[PlatformRole::Admin]).await;
    let refused = send(&house, Method::POST, "/register", &Key::Nothing, Some(form(&json!({})))).await;
    assert_eq!((refused.code(), refused.json()["code"].as_str()), (403, Some("registration_closed")));
    let made = send(&house, Method::POST, "/register", &admin.key(), Some(form(&json!({})))).await;
    assert_eq!(made.code(), 200, "{}", made.text);
}

/// Kubernetes' response to a duplicate `User`, as in the console's specification, and the platform's response if its
/// own index does not have the account.
#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_says_that_a_user_is_there_already() {
    let house = House::new().await;
    let user: User = serde_json::from_value(json!({
        "apiVersion": "user.openyurt.io/v1alpha1", "kind": "User", "metadata": {"name": "user-8618300000001"},
        "spec": {"email": "first@example.com", "mobilephone": "8618300000001", "organization": "Acme"},
    }))
    .unwrap();
    let users: Api<User> = Api::all(house.world.admin());
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
    let again = send(&house, Method::POST, "/register", &Key::Nothing, Some(form(&json!({})))).await;
    assert_eq!(
        (again.code(), again.json()["code"].as_str()),
        (409, Some("already_exists")),
        "{}",
        again.text
    );
}
