//! Unreachable, foreign and misbehaving servers.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::cli_user::CliUser;

/// Server that sends the same response to every request and records the requests.
struct CannedServer {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

impl CannedServer {
    fn new(status: &str, headers: &str, body: &str) -> Self {
        Self::with_tls(status, headers, body, None)
    }

    fn with_tls(status: &str, headers: &str, body: &str, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let memory = Arc::<Mutex<Vec<String>>>::default();
        let remembers = memory.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut stream: Box<dyn Stream> = match &tls {
                    None => Box::new(stream),
                    Some(config) => {
                        let connection = ServerConnection::new(config.clone()).unwrap();
                        Box::new(StreamOwned::new(connection, stream))
                    }
                };
                let mut lines = BufReader::new(&mut stream).lines();
                let mut head = Vec::new();
                while let Some(Ok(line)) =
                    lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                {
                    head.push(line);
                }
                drop(lines);
                if !head.is_empty() {
                    remembers.lock().unwrap().push(head.join("\n"));
                    let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
                }
            }
        });
        Self { url, requests: memory }
    }

    fn take_requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn user_with_token() -> CliUser {
    let mut desk = CliUser::new();
    desk.set_env("LONGSHORE_TOKEN", "lsh_abcdefghij_canary");
    desk
}

#[tokio::test]
async fn unexpected_responses_are_reported_on_one_line() {
    let problem = r#"{"title":"Forbidden","status":403,"detail":"only admins may"}"#;
    let id = "x-request-id: r-7\r\n";
    let rows = [
        ("403 Forbidden", id, problem, "error: only admins may (request r-7)"),
        ("502 Bad Gateway", "", "<html>", "error: HTTP status 502 Bad Gateway"),
        (
            "401 Unauthorized",
            id,
            "{}",
            "error: URL does not accept the token: run `longshore login` (request r-7)",
        ),
        (
            "200 OK",
            "",
            "<html>",
            "error: unexpected response from URL, which may not be a Longshore platform or may have another version: the response is not JSON",
        ),
        (
            "302 Found",
            "location: http://127.0.0.1:1/\r\n",
            "",
            "error: unexpected response from URL, which may not be a Longshore platform or may have another version: HTTP status 302 Found",
        ),
    ];
    let desk = user_with_token();
    for (status, headers, body, expected) in rows {
        let parrot = CannedServer::new(status, headers, body);
        let said = desk.run(&format!("workspace list --server {}", parrot.url)).await.unwrap_err();
        assert_eq!(said.replace(&parrot.url, "URL"), expected);
        assert_eq!(parrot.take_requests().len(), 1);
    }
    assert!(!desk.transcript().contains("canary"));
}

#[tokio::test]
async fn unreachable_server_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = user_with_token().run(&format!("whoami --server http://{free}")).await.unwrap_err();
    assert!(said.starts_with(&format!("error: cannot reach http://{free}: Connection refused")), "{said}");
}

#[tokio::test]
async fn commands_without_credentials_send_nothing() {
    let parrot = CannedServer::new("200 OK", "", "{}");
    let said = CliUser::new().run(&format!("whoami --server {}", parrot.url)).await.unwrap_err();
    assert_eq!(said.replace(&parrot.url, "URL"), "error: not signed in to URL: run `longshore login URL`");
    assert!(parrot.take_requests().is_empty());
}

#[tokio::test]
async fn token_is_sent_to_its_own_server_only() {
    let (one, other) = (CannedServer::new("200 OK", "", "{}"), CannedServer::new("200 OK", "", "{}"));
    let desk = CliUser::new();
    let file = desk.contexts_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let url = &one.url;
    let text = format!(
        "current-context: a\ncontexts:\n- name: a\n  server: {url}\n  token: lsh_abcdefghij_canary\n"
    );
    cli::platform::contexts::write_private(&file, text.as_bytes()).unwrap();
    desk.run("whoami").await.unwrap();
    assert!(
        one.take_requests()[0].contains("authorization: Bearer lsh_abcdefghij_canary"),
        "{:?}",
        one.take_requests()
    );
    assert!(desk.run(&format!("whoami --server {}", other.url)).await.unwrap_err().contains("not signed in"));
    let made = format!("register --email a@b.c --phone 12345 --organization x --server {}", other.url);
    let _ = desk.run(&made).await;
    assert_eq!(other.take_requests().len(), 1);
    assert!(!other.take_requests()[0].contains("canary"));
}

#[tokio::test]
async fn server_certificate_is_verified_by_given_ca() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let parrot =
        CannedServer::with_tls("200 OK", "", r#"{"user": {"id": "uabcdefghij"}}"#, Some(Arc::new(config)));

    let desk = user_with_token();
    let ask = format!("whoami -o name --server {}", parrot.url);
    let said = desk.run(&ask).await.unwrap_err();
    assert!(said.contains("certificate") && parrot.take_requests().is_empty(), "{said}");

    let ca = desk.folder().join("ca.pem");
    fs::write(&ca, made.cert.pem()).unwrap();
    assert_eq!(desk.run(&format!("{ask} --ca {}", ca.display())).await.unwrap(), "user/uabcdefghij\n");

    let (other, empty, absent) =
        (desk.folder().join("other.pem"), desk.folder().join("empty.pem"), desk.folder().join("absent.pem"));
    fs::write(&other, rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap().cert.pem())
        .unwrap();
    fs::write(&empty, "nothing").unwrap();
    for (file, part) in
        [(&other, "certificate"), (&empty, "it has no certificates"), (&absent, "No such file")]
    {
        let said = desk.run(&format!("{ask} --ca {}", file.display())).await.unwrap_err();
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(parrot.take_requests().len(), 1);
}

#[tokio::test]
async fn invalid_arguments_are_rejected_before_any_request() {
    let parrot = CannedServer::new("200 OK", "", "{}");
    let mut desk = user_with_token();
    desk.set_env("LONGSHORE_SERVER", &parrot.url);
    for (line, part) in [
        ("login http://example.com", "http is allowed for this machine only"),
        ("login ftp://example.com", "is not a platform address"),
        ("workspace role acme uabcdefghij king", "invalid value 'king'"),
        ("token create --scope everything", "unknown scope"),
        ("token create --expires 9y", "1d to 365d"),
        ("workspace delete acme --now", "--yes"),
        ("user delete uabcdefghij", "confirm with --yes"),
        ("user update uabcdefghij", "nothing to update"),
        ("workspace quota acme --set pods", "RESOURCE=AMOUNT"),
        ("workspace list --context a --server b", "cannot be used with"),
        ("kubeconfig --user --data x", "cannot be used with"),
        ("whoami --context nowhere", "context `nowhere` not found"),
    ] {
        let said = desk.run(line).await.unwrap_err();
        assert!(said.contains(part), "{line}: {said}");
    }
    assert!(parrot.take_requests().is_empty());
}
