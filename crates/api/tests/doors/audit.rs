//! Content of the audit log, and what must not be in it.

use api::route::Route;
use api::{Settings, routes};
use axum::http::Method;
use axum::routing::post;
use events::audit::{Outcome, line};
use serde_json::json;
use tower::ServiceExt;

use crate::house::{House, Key, PASSWORD, ROOT, read, request};

#[tokio::test(flavor = "multi_thread")]
async fn every_change_and_every_refusal_is_one_record() {
    let house = House::new().await;
    let person = house.person(1, &[]).await;
    house.audit.take();
    let session = house.sign_in(person.id.as_str(), PASSWORD).await;
    house
        .post("session", &Key::Nothing, json!({"login": person.id.as_str(), "secret": "wrong-canary"}))
        .await;
    house.post("session", &Key::Nothing, json!({"login": PASSWORD, "secret": "x"})).await;
    house.get("workspaces", &session).await;
    house.post("workspaces", &session, json!({"name": "acme"})).await;
    house.get("users", &session).await;
    house.get("workspaces/other", &person.key()).await;
    house.get("session", &Key::Nothing).await;
    let path = format!("tokens/{}", person.token);
    house.ask(Method::DELETE, &path, &person.key(), None).await;

    let id = person.id.as_str();
    let records = house.audit.take();
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let via = record.via.as_deref().map(|via| via.split(' ').next().unwrap());
            (record.act, record.who.as_deref(), via, record.object.as_deref(), record.result, record.status)
        })
        .collect();
    let expected = [
        ("session.create", None, None, Some(id), Outcome::Done, Some(200)),
        ("session.create", None, None, Some(id), Outcome::Refused, Some(401)),
        ("session.create", None, None, None, Outcome::Refused, Some(401)),
        ("workspaces.create", Some(id), Some("session"), Some("acme"), Outcome::Done, Some(201)),
        ("users.list", Some(id), Some("session"), None, Outcome::Refused, Some(403)),
        ("workspaces.read", Some(id), Some("token"), Some("other"), Outcome::Refused, Some(404)),
        ("session.read", None, None, None, Outcome::Refused, Some(401)),
        ("tokens.delete", Some(id), Some("token"), Some("?"), Outcome::Refused, Some(404)),
    ];
    assert_eq!(told, expected);
    for record in &records {
        let line = line(record).unwrap();
        for canary in [PASSWORD, "wrong-canary", &person.token] {
            assert!(!line.contains(canary), "{line}");
        }
        assert_eq!(record.from.unwrap().to_string(), "203.0.113.7");
        assert!(!record.request_id.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_whose_answer_nobody_waits_for_is_in_the_trail() {
    let house = House::new().await;
    let person = house.person(1, &[]).await;
    house.audit.take();
    let asked =
        request(Method::POST, &format!("{ROOT}/workspaces"), &person.key(), Some(json!({"name": "acme"})));
    let mut answer = Box::pin(house.router().oneshot(asked));
    // The request is dropped after it has started, as when its connection breaks.
    assert!(futures::poll!(&mut answer).is_pending());
    drop(answer);
    let records = house.audit.take();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(
        (records[0].act, records[0].result, records[0].status),
        ("workspaces.create", Outcome::Abandoned, None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_breaks_answers_500_and_is_in_the_trail() {
    async fn broken() -> &'static str {
        panic!("broken on purpose")
    }
    let house = House::new().await;
    let person = house.person(1, &[]).await;
    house.audit.take();
    let broken_act = |row: Route| match row.act {
        "workspaces.create" => Route { handler: post(broken), ..row },
        _ => row,
    };
    let router = api::router_of(&house.api, routes::table().into_iter().map(broken_act).collect());
    let ask = |method| request(method, &format!("{ROOT}/workspaces"), &person.key(), None);
    let answer = read(router.clone().oneshot(ask(Method::POST)).await.unwrap()).await;
    assert_eq!((answer.code(), answer.json()["kind"].as_str()), (500, Some("Internal")));
    assert!(!answer.text.contains("on purpose") && answer.headers.contains_key("x-request-id"));
    assert_eq!(
        house.audit.take().iter().map(|record| record.result).collect::<Vec<_>>(),
        [Outcome::Abandoned]
    );
    assert_eq!(read(router.oneshot(ask(Method::GET)).await.unwrap()).await.code(), 200, "the next is served");
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_its_word_on_the_sender_counts_and_cookies_are_for_tls() {
    let settings = Settings {
        trusted_proxy: true,
        tls: false,
        embedded: true,
        token_parameter: true,
        hosts: Vec::new(),
        version: "test",
    };
    let house = House::with(settings).await;
    let person = house.person(1, &[]).await;
    house.audit.take();
    let body = json!({"login": person.id.as_str(), "secret": person.token});
    let mut asked = request(Method::POST, &format!("{ROOT}/session"), &Key::Nothing, Some(body));
    asked.headers_mut().insert("x-forwarded-for", "127.0.0.1, 198.51.100.4".parse().unwrap());
    let answer = house.send(asked).await;
    assert!(answer.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"), "{:?}", answer.headers);
    assert_eq!(house.audit.take()[0].from.unwrap().to_string(), "198.51.100.4");
}
