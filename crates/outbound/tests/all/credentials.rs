//! Credentials stay with their origin and do not appear in errors.

use std::sync::{Arc, Mutex};

use http::header::AUTHORIZATION;
use outbound::{Access, Failure, Login, Secret};

use crate::network::{Network, PUBLIC, ok, redirect};

/// Recorded requests with their credentials: `host/path login`.
type Seen = Arc<Mutex<Vec<String>>>;

fn network(leads_to: &'static str) -> (Network, Seen) {
    let seen = Seen::default();
    let record = seen.clone();
    let network = Network::new(move |request| {
        let host = request.headers()["host"].to_str().unwrap();
        let login = request.headers().get(AUTHORIZATION).map_or("nothing", |value| value.to_str().unwrap());
        record.lock().unwrap().push(format!("{host}{} {login}", request.uri()));
        match request.uri().path() {
            "/on" => redirect(leads_to),
            "/back" => redirect("http://a.example/end"),
            _ => ok("the end"),
        }
    });
    (network.name("a.example", &[&[PUBLIC]]).name("b.example", &[&[PUBLIC]]), seen)
}

fn access() -> Access {
    let login = Login::Basic { username: "me".to_owned(), password: Secret::new("canary") };
    Access { login: Some(login), ..Access::default() }
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
        let (network, seen) = network(to);
        network.get_with("http://a.example/on", &access()).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), expected, "{to}");
    }
}

#[tokio::test]
async fn nobody_is_led_on_for_ever() {
    let (network, seen) = network("/on");
    let said = network.get_with("http://a.example/on?key=canary", &access()).await.unwrap_err();
    assert!(matches!(said, Failure::Redirects { .. }), "{said}");
    assert_eq!(said.to_string(), "http://a.example/on leads on more than 5 times");
    assert_eq!(seen.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn what_cannot_be_sent_is_not_repeated() {
    let (network, seen) = network("/end");
    let login = Some(Login::Bearer(Secret::new("canary\r\nx: y")));
    let said =
        network.get_with("http://a.example/", &Access { login, ..Access::default() }).await.unwrap_err();
    assert_eq!(said.kind(), domain::Kind::Invalid);
    assert!(!format!("{said} {said:?}").contains("canary"), "{said:?}");
    assert!(seen.lock().unwrap().is_empty() && network.dialled().is_empty());
    assert!(!format!("{:?}", access()).contains("canary"));
}

#[tokio::test]
async fn a_redirect_with_a_password_in_it_is_refused_and_not_repeated() {
    let (network, _) = network("http://you:canary@b.example/end");
    let said = network.get("http://a.example/on").await.unwrap_err();
    assert!(matches!(said, Failure::Astray { .. }), "{said}");
    assert!(!format!("{said} {said:?}").contains("canary"), "{said:?}");
}
