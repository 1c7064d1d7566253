//! Registration, sign-in and tokens, and requests with forged or foreign credentials.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, COOKIE, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{Method, Request};
use serde_json::json;

use crate::test_server::{PASSWORD, ROOT, TestCredential, TestServer, request, session_credential};

#[tokio::test(flavor = "multi_thread")]
async fn session_lifecycle_from_registration_to_sign_out() {
    let house = TestServer::new().await;
    let methods = house.get("auth/methods", &TestCredential::Anonymous).await.json();
    assert_eq!(methods, json!({"methods": ["password", "token"], "registration": true}));

    let form = json!({"email": "Ana@Example.com", "phone": "+86 183 0000 0001", "organization": "Acme", "password": PASSWORD});
    let made = house.post("users", &TestCredential::Anonymous, form.clone()).await;
    assert_eq!(
        (made.code(), made.headers[CACHE_CONTROL].to_str().unwrap()),
        (201, "no-store"),
        "{}",
        made.text
    );
    let made = made.json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert_eq!((&made["ready"], made["name"].as_str().unwrap()), (&json!(true), "user-8618300000001"));

    let again = house.post("users", &TestCredential::Anonymous, form).await;
    assert_eq!((again.code(), &again.json()["code"]), (409, &json!("account-exists")), "{}", again.text);

    for (login, secret) in [("ana@example.com", PASSWORD), ("8618300000001", token), (id, PASSWORD)] {
        let answer = house
            .post("session", &TestCredential::Anonymous, json!({"login": login, "secret": secret}))
            .await;
        assert_eq!(answer.code(), 200, "{login}: {}", answer.text);
        let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
        assert!(
            cookie.contains("; HttpOnly; SameSite=Strict; Max-Age=") && !cookie.contains("Secure"),
            "{cookie}"
        );
        assert_eq!(answer.headers[CACHE_CONTROL], "no-store");
        let key = session_credential(&answer);
        let own = house.get("session", &key).await.json();
        assert_eq!(own["user"]["id"], id);
        assert_eq!(own["csrf"], answer.json()["csrf"], "a page that was loaded anew has the same");
        assert_eq!(own["workspaces"][0]["name"], id);
        assert_eq!(own["expires"].as_str().map(str::len), answer.json()["expires"].as_str().map(str::len));

        let TestCredential::Session { cookie, .. } = &key else { unreachable!() };
        for csrf in ["", "x", "AAAA"] {
            let forged = TestCredential::Session { cookie: cookie.clone(), csrf: csrf.to_owned() };
            let refused = house.call(Method::DELETE, "session", &forged, None).await;
            assert_eq!(refused.code(), 403, "{}", refused.text);
        }
        let out = house.call(Method::DELETE, "session", &key, None).await;
        assert_eq!(out.code(), 204, "{}", out.text);
        assert!(out.headers[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(house.get("session", &key).await.code(), 401, "the cookie is worth nothing any more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sign_ins_are_indistinguishable_and_throttled() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let mut said = Vec::new();
    for login in ["nobody@example.com", person.id.as_str()] {
        let answer = house
            .post("session", &TestCredential::Anonymous, json!({"login": login, "secret": "not this one"}))
            .await;
        assert!(answer.headers.get(SET_COOKIE).is_none());
        said.push((answer.code(), answer.text));
    }
    assert_eq!(said[0], said[1]);
    assert_eq!(said[0].0, 401);
    let mut last = None;
    for _ in 0..6 {
        let body = json!({"login": person.id.as_str(), "secret": "not this one"});
        last = Some(house.post("session", &TestCredential::Anonymous, body).await);
    }
    let last = last.unwrap();
    assert_eq!((last.code(), last.json()["code"].as_str()), (429, Some("throttled")));
    assert!(last.headers[RETRY_AFTER].to_str().unwrap().parse::<u64>().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_foreign_and_withdrawn_credentials_open_nothing() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let TestCredential::Session { cookie, csrf } = house.sign_in(person.id.as_str(), &person.token).await
    else {
        unreachable!()
    };
    let value = cookie.strip_prefix("longshore_session=").unwrap();
    let mut turned = value.to_owned();
    turned.replace_range(3..4, if value[3..4] == *"A" { "B" } else { "A" });
    let other_secret = format!("{}{}", &person.token[..person.token.len() - 4], "AAAA");
    let keys = [
        TestCredential::Bearer(String::new()),
        TestCredential::Bearer("lsh_".to_owned()),
        TestCredential::Bearer(other_secret),
        TestCredential::Bearer("x".repeat(10_000)),
        TestCredential::Bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.AAAA".to_owned()),
        TestCredential::Session { cookie: format!("longshore_session={turned}"), csrf: csrf.clone() },
        TestCredential::Session { cookie: "longshore_session=".to_owned(), csrf: csrf.clone() },
        TestCredential::Session {
            cookie: format!("longshore_session={}", "A".repeat(7000)),
            csrf: csrf.clone(),
        },
    ];
    for key in &keys {
        let answer = house.get("session", key).await;
        assert_eq!(answer.code(), 401, "{key:?}");
        assert!(answer.headers.contains_key(WWW_AUTHENTICATE));
        assert_eq!(answer.json()["kind"], "Unauthenticated");
    }
    // A valid cookie does not make up for an invalid token.
    let both = Request::get(format!("{ROOT}/session"))
        .header(COOKIE, &cookie)
        .header("authorization", "Bearer lsh_aaaaaaaaaa_x")
        .body(Body::empty())
        .unwrap();
    assert_eq!(house.send(both).await.code(), 401);

    let key = TestCredential::Session { cookie, csrf };
    assert_eq!(house.get("session", &key).await.code(), 200);
    let revoked = house.call(Method::POST, "users/me/revoke", &person.credential(), None).await;
    assert_eq!(revoked.code(), 200, "{}", revoked.text);
    assert_eq!(house.get("session", &key).await.code(), 401);
    assert_eq!(
        house.get("session", &person.credential()).await.code(),
        401,
        "the login token is revoked, too"
    );
    assert_eq!(revoked.json(), json!({}), "with a password nobody needs a new one");
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_shown_once_and_rejected_after_revocation() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let body = json!({"name": "ci", "scopes": ["read"], "days": 5});
    let made = house.post("tokens", &person.credential(), body).await;
    assert_eq!(
        (made.code(), made.headers[CACHE_CONTROL].to_str().unwrap()),
        (201, "no-store"),
        "{}",
        made.text
    );
    let made = made.json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let listed = house.get("tokens", &person.credential()).await;
    assert!(!listed.text.contains(token) && listed.text.contains(id), "{}", listed.text);

    let narrow = TestCredential::Bearer(token.to_owned());
    assert_eq!(house.get("workspaces", &narrow).await.code(), 200);
    let more = house.post("tokens", &narrow, json!({"name": "more", "scopes": ["all"]})).await;
    assert_eq!((more.code(), more.json()["code"].as_str()), (403, Some("not-themselves")));
    let gone = house.call(Method::DELETE, &format!("tokens/{id}"), &narrow, None).await;
    assert_eq!(gone.code(), 204, "a token may end itself: {}", gone.text);
    assert_eq!(house.get("workspaces", &narrow).await.code(), 401);
    // A complete token in the path is not echoed in the response.
    let pasted = house.call(Method::DELETE, &format!("tokens/{token}"), &person.credential(), None).await;
    assert!(pasted.code() == 404 && !pasted.text.contains(token), "{}", pasted.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn impersonation_headers_are_rejected() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    for header in ["Impersonate-User", "impersonate-group", "Impersonate-Uid", "Impersonate-Extra-Scopes"] {
        for (method, path) in
            [(Method::GET, "workspaces"), (Method::POST, "kubeconfig"), (Method::GET, "auth/methods")]
        {
            let mut smuggled = request(method, &format!("{ROOT}/{path}"), &person.credential(), None);
            let name = axum::http::HeaderName::from_bytes(header.as_bytes()).unwrap();
            smuggled.headers_mut().insert(name, "system:masters".parse().unwrap());
            let answer = house.send(smuggled).await;
            assert_eq!(
                (answer.code(), answer.json()["code"].as_str()),
                (400, Some("impersonation")),
                "{header} {path}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_require_localhost_or_admin() {
    use api::peer::PeerAddr;
    use domain::roles::PlatformRole;

    let house = TestServer::new().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let nobody = house.create_user(2, &[]).await;
    let from = |address: &str, forwarded: bool, key: &TestCredential| {
        let mut asked = request(Method::GET, "/metrics", key, None);
        asked.extensions_mut().insert(PeerAddr(address.parse().unwrap()));
        if forwarded {
            asked.headers_mut().insert("x-forwarded-for", "127.0.0.1".parse().unwrap());
        }
        asked
    };
    let rows = [
        (from("127.0.0.1:9", false, &TestCredential::Anonymous), 200),
        (from("127.0.0.1:9", true, &TestCredential::Anonymous), 401),
        (from("203.0.113.9:9", false, &TestCredential::Anonymous), 401),
        (from("203.0.113.9:9", false, &nobody.credential()), 403),
        (from("203.0.113.9:9", false, &admin.credential()), 200),
    ];
    for (place, (asked, expected)) in rows.into_iter().enumerate() {
        assert_eq!(house.send(asked).await.code(), expected, "row {place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_connection_has_its_peer_address() {
    use tower::ServiceExt;

    let house = TestServer::new().await;
    for (peer, expected) in [("127.0.0.1:9", 200), ("[::1]:9", 200), ("203.0.113.9:9", 401)] {
        let service = api::with_peer(house.router(), peer.parse().unwrap());
        for _ in 0..2 {
            let asked = Request::get("/metrics").body(Body::empty()).unwrap();
            let answer = service.clone().oneshot(asked).await.unwrap();
            assert_eq!(answer.status().as_u16(), expected, "{peer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_creates_accounts_when_registration_is_closed() {
    use domain::roles::PlatformRole;

    let house = TestServer::with_registration_closed().await;
    assert_eq!(house.get("auth/methods", &TestCredential::Anonymous).await.json()["registration"], false);
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let person = house.create_user(2, &[]).await;
    let form = |number: u32| json!({"email": format!("n{number}@example.com"), "phone": format!("1840000000{number}"), "organization": "Acme"});
    for key in [TestCredential::Anonymous, person.credential()] {
        let refused = house.post("users", &key, form(1)).await;
        let code = refused.json()["code"].as_str().unwrap().to_owned();
        assert_eq!((refused.code(), code.as_str()), (403, "registration-closed"));
    }
    let made = house.post("users", &admin.credential(), form(2)).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    let own = TestCredential::Bearer(made.json()["token"].as_str().unwrap().to_owned());
    assert_eq!(house.get("users/me", &own).await.json()["email"], "n2@example.com");
}
