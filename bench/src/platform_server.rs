//! A Longshore server and a client of its API.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::process::Process;

/// Poll interval of a server's readiness.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A running server, killed on drop.
pub struct PlatformServer {
    process: Process,
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A registered user.
#[derive(Clone)]
pub struct BenchUser {
    pub id: String,
    pub token: String,
}

impl PlatformServer {
    /// Starts `longshore serve` with these arguments and returns when it is ready. Users appear to have different
    /// addresses, through `X-Forwarded-For`.
    pub fn start(longshore: &Path, folder: &Path, args: &[&str]) -> Result<Self> {
        let log = folder.join("server.log");
        fs::write(&log, "")?; // truncates the log of an earlier run
        let mut command = Command::new(longshore);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).arg("--data").arg(folder.join("data"));
        command.env("LONGSHORE_SERVER_TRUSTED_PROXY", "true").env("LONGSHORE_LOGS_FORMAT", "json");
        let mut process = Process::start("longshore", &mut command, &log)?;
        let url = loop {
            process.ensure_running().with_context(|| format!("see {}", log.display()))?;
            let said = fs::read_to_string(&log)?;
            let ready = said.lines().find_map(|line| line.strip_prefix("ready ")?.split(' ').next());
            match ready {
                Some(url) => break url.to_owned(),
                None => thread::sleep(POLL_INTERVAL),
            }
        };
        Ok(Self { process, url, client: Client::builder(TokioExecutor::new()).build_http() })
    }

    /// Resident memory, in MiB.
    pub fn resident(&self) -> Result<f64> {
        Ok(self.process.resident()? as f64 / f64::from(1 << 20))
    }

    /// Peak resident memory, in MiB.
    pub fn peak(&self) -> Result<f64> {
        Ok(self.process.peak()? as f64 / f64::from(1 << 20))
    }

    /// CPU time.
    pub fn cpu(&self) -> Result<Duration> {
        self.process.cpu()
    }

    /// Stops the server and waits for its end.
    pub fn stop(self) -> Result<()> {
        self.process.stop()
    }

    /// Registers a user and waits until its namespace is ready.
    pub async fn register(&self, number: usize) -> Result<BenchUser> {
        let body = json!({
            "email": format!("p{number}@example.com"), "phone": format!("1{number:010}"), "organization": "Acme",
        });
        let told = self.call_json(None, Method::POST, "users", Some(&body), 201).await?;
        let text = |name: &str| told[name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
        if told["ready"] != true {
            bail!("not ready: {told}");
        }
        Ok(BenchUser { id: text("id")?, token: text("token")? })
    }

    /// The first administrator with a token, by the password that the server printed at its first start.
    pub async fn administrator(&self, folder: &Path) -> Result<BenchUser> {
        let said = fs::read_to_string(folder.join("server.log"))?;
        let password = said.lines().find_map(|line| line.strip_prefix("admin password "));
        let password = password.context("no administrator was made")?;
        let body = json!({"login": "admin", "secret": password}).to_string();
        let request = Request::post(format!("{}/api/longshore/v1/session", self.url));
        let request = request.header("content-type", "application/json").body(Full::new(body.into()))?;
        let answer = self.client.request(request).await?;
        let cookie =
            answer.headers().get("set-cookie").and_then(|cookie| cookie.to_str().ok()?.split(';').next());
        let cookie = cookie.context("no session was opened")?.to_owned();
        let session: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
        let body = json!({"name": "bench", "scopes": ["all"]}).to_string();
        let request = Request::post(format!("{}/api/longshore/v1/tokens", self.url))
            .header("content-type", "application/json")
            .header("cookie", cookie)
            .header("x-csrf-token", session["csrf"].as_str().unwrap_or_default());
        let answer = self.client.request(request.body(Full::new(body.into()))?).await?;
        let made: Value = serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?;
        let token = made["token"].as_str().context("no token was made")?.to_owned();
        Ok(BenchUser { id: session["user"]["id"].as_str().unwrap_or_default().to_owned(), token })
    }

    /// GET of a path, with the complete body.
    pub async fn get(&self, user: &BenchUser, path: &str) -> Result<Bytes> {
        let request = Request::get(format!("{}{path}", self.url));
        let request =
            request.header("authorization", format!("Bearer {}", user.token)).body(Full::default())?;
        let answer = self.client.request(request).await?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if status != 200 {
            bail!("{path}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }

    /// Request below `/api/longshore/v1` that must return `code`.
    pub async fn call_json(
        &self,
        who: Option<&BenchUser>,
        method: Method,
        path: &str,
        body: Option<&Value>,
        code: u16,
    ) -> Result<Value> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let (status, bytes) = self.send(who, method, path, "application/json", body.into()).await?;
        if status != code {
            bail!("{path}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        Ok(if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? })
    }

    /// Request below `/api/longshore/v1`.
    pub async fn send(
        &self,
        who: Option<&BenchUser>,
        method: Method,
        path: &str,
        media: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes)> {
        static CALLS: AtomicU32 = AtomicU32::new(1);
        let [_, a, b, c] = CALLS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/api/longshore/v1/{path}", self.url))
            .header("content-type", media)
            .header("x-forwarded-for", format!("10.{a}.{b}.{c}"));
        if let Some(person) = who {
            request = request.header("authorization", format!("Bearer {}", person.token));
        }
        let answer = self.client.request(request.body(Full::new(body))?).await?;
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Metrics in Prometheus' text format.
    pub async fn metrics(&self) -> Result<String> {
        let request = Request::builder().uri(format!("{}/metrics", self.url)).body(Full::default())?;
        let answer = self.client.request(request).await?;
        Ok(String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec())?)
    }
}
