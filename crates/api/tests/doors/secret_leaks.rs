//! Secrets are returned to their owners once, and appear in no other response, log line, metric or audit record.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use api::routes;
use axum::http::Method;
use domain::roles::PlatformRole;
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::test_server::{PASSWORD, TestCredential, TestServer, request};

/// All log output.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBuffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_do_not_leak_into_responses_logs_or_audit() {
    let log = LogBuffer::default();
    // More verbose than any production configuration.
    let filter = EnvFilter::new("trace,hyper=debug,h2=debug");
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log.clone()).finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let house = TestServer::new().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let person = house.create_user(2, &[]).await;
    house.create_workspace("acme", &person, &[]).await;
    let session = house.sign_in("p2@example.com", PASSWORD).await;
    let TestCredential::Session { cookie, csrf } = &session else { unreachable!() };
    let made = house.post("tokens", &session, json!({"name": "t", "scopes": ["all"]})).await.json();
    let file = house.post("kubeconfig", &session, json!({})).await.json();
    let file = file["kubeconfig"].as_str().unwrap().to_owned();
    let bound = file.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap().to_owned();
    house
        .post(
            "session",
            &TestCredential::Anonymous,
            json!({"login": "p2@example.com", "secret": "canary-wrong-0815"}),
        )
        .await;
    let changed = json!({"old": PASSWORD, "new": "canary-password-new-4712"});
    assert_eq!(house.post("users/me/password", &person.credential(), changed).await.code(), 204);
    house.get(&format!("auth/methods?token={}", person.token), &TestCredential::Anonymous).await;
    house.call(Method::DELETE, &format!("tokens/{}", person.token), &person.credential(), None).await;
    // On the routes of the console, which accept tokens in the query.
    let login = format!("/login?email=p2%40example.com&token={}", person.token);
    let login = house.send(request(Method::GET, &login, &TestCredential::Anonymous, None)).await;
    assert_eq!(login.code(), 200, "{}", login.text);
    let login = login.json();
    let of_login = login["spec"]["kubeConfig"].as_str().unwrap();
    let of_login = of_login.lines().find_map(|line| line.trim().strip_prefix("token: ")).unwrap();
    for path in ["/nodes", "/nodepools", "/deployments", "/clusterOverview", "/clusterEvents"] {
        house
            .send(request(
                Method::GET,
                &format!("{path}?token={}", person.token),
                &TestCredential::Anonymous,
                None,
            ))
            .await;
        let mut asked = request(Method::GET, path, &TestCredential::Anonymous, None);
        asked.headers_mut().insert("x-auth-token", person.token.parse().unwrap());
        house.send(asked).await;
    }
    let cookie = cookie.strip_prefix("longshore_session=").unwrap();
    let canaries = [
        ("the password", PASSWORD),
        ("the new password", "canary-password-new-4712"),
        ("a wrong password", "canary-wrong-0815"),
        ("what a password is kept as", "$argon2"),
        ("the login token", &person.token),
        ("an API token", made["token"].as_str().unwrap()),
        ("the session", cookie),
        ("the token against forged requests", csrf.as_str()),
        ("the token of a kubeconfig", bound.as_str()),
        ("the token of a login's kubeconfig", of_login),
    ];
    let mut told = vec![("the audit trail".to_owned(), format!("{:?}", house.audit.take()))];
    for row in routes::table().into_iter().filter(|row| row.method == Method::GET) {
        let path = row.path.replace("{workspace}", "acme").replace("{user}", person.id.as_str());
        for key in [TestCredential::Anonymous, person.credential(), admin.credential()] {
            let answer = house.send(request(Method::GET, &path, &key, None)).await;
            told.push((path.clone(), format!("{}\n{:?}", answer.text, answer.headers)));
        }
    }
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("/api/longshore/v1/session"), "the log has lines");
    told.push(("the log".to_owned(), logged));
    for (place, text) in &told {
        for (what, canary) in canaries {
            if let Some(found) = text.find(canary) {
                let start = text[..found].char_indices().rev().nth(300).map_or(0, |(start, _)| start);
                panic!("{what} is in {place}: …{}…", &text[start..found]);
            }
        }
    }
}
