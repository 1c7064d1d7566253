//! Credentials stay with their origin and do not appear in errors.

use std::sync::{Arc, Mutex};

use http::header::AUTHORIZATION;
use outbound::{Access, FetchError, HttpAuth, SecretString};

use crate::fake_network::{FakeNetwork, PUBLIC, ok, redirect};

/// Recorded requests with their credentials: `host/path login`.
type RecordedRequests = Arc<Mutex<Vec<String>>>;

fn redirecting_network(leads_to: &'static str) -> (FakeNetwork, RecordedRequests) {
    let seen = RecordedRequests::default();
    let record = seen.clone();
    let network = FakeNetwork::new(move |request| {
        let host = request.headers()["host"].to_str().unwrap();
        let login = request.headers().get(AUTHORIZATION).map_or("nothing", |value| value.to_str().unwrap());
        record.lock().unwrap().push(format!("{host}{} {login}", request.uri()));
        match request.uri().path() {
            "/on" => redirect(leads_to),
            "/back" => redirect("http://a.example/end"),
            _ => ok("the end"),
        }
    });
    (network.with_host("a.example", &[&[PUBLIC]]).with_host("b.example", &[&[PUBLIC]]), seen)
}

fn basic_auth_access() -> Access {
    let login = HttpAuth::Basic { username: "me".to_owned(), password: SecretString::new("canary") };
    Access { auth: Some(login), ..Access::default() }
}

#[tokio::test]
async fn a_password_goes_to_its_origin_and_no_further() {
    const LOGIN: &str = "Basic bWU6Y2FuYXJ5";
    let rows = [
        ("/end", vec![format!("a.example/on {LOGIN}"), format!("a.example/end {LOGIN}")]),
        ("http://b.example/end", vec![format!("a.example/on {LOGIN}"), "b.example/end nothing".to_owned()]),
        (
            "http://a.example:81/end",
            vec![format!("a.example/on {LOGIN}"), "a.example:81/end nothing".to_owned()],
        ),
        // Credentials are not restored by a redirect back: another server chose the target.
        (
            "http://b.example/back",
            vec![
                format!("a.example/on {LOGIN}"),
                "b.example/back nothing".to_owned(),
                "a.example/end nothing".to_owned(),
            ],
        ),
    ];
    for (to, expected) in rows {
        let (network, seen) = redirecting_network(to);
        network.get_with("http://a.example/on", &basic_auth_access()).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), expected, "{to}");
    }
}

#[tokio::test]
async fn redirects_are_limited() {
    let (network, seen) = redirecting_network("/on");
    let said = network.get_with("http://a.example/on?key=canary", &basic_auth_access()).await.unwrap_err();
    assert!(matches!(said, FetchError::TooManyRedirects { .. }), "{said}");
    assert_eq!(said.to_string(), "http://a.example/on redirects more than 5 times");
    assert_eq!(seen.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn invalid_credentials_are_rejected_and_not_echoed() {
    let (network, seen) = redirecting_network("/end");
    let login = Some(HttpAuth::Bearer(SecretString::new("canary\r\nx: y")));
    let said = network
        .get_with("http://a.example/", &Access { auth: login, ..Access::default() })
        .await
        .unwrap_err();
    assert_eq!(said.kind(), domain::ErrorKind::Invalid);
    assert!(!format!("{said} {said:?}").contains("canary"), "{said:?}");
    assert!(seen.lock().unwrap().is_empty() && network.dialled().is_empty());
    assert!(!format!("{:?}", basic_auth_access()).contains("canary"));
}

#[tokio::test]
async fn redirect_with_userinfo_is_rejected_and_not_echoed() {
    let (network, _) = redirecting_network("http://you:canary@b.example/end");
    let said = network.get("http://a.example/on").await.unwrap_err();
    assert!(matches!(said, FetchError::InvalidRedirect { .. }), "{said}");
    assert!(!format!("{said} {said:?}").contains("canary"), "{said:?}");
}
