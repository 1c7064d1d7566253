//! A server, and people at its door.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A running server. Dropped, it is killed.
pub struct Server {
    child: Child,
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// Somebody who has registered.
#[derive(Clone)]
pub struct Person {
    pub id: String,
    pub token: String,
}

impl Server {
    /// Starts `longshore serve` with these arguments, and returns when it is ready. It takes each person for one from another
    /// address, as they would be.
    pub fn start(longshore: &Path, folder: &Path, args: &[&str]) -> Result<Self> {
        let log = std::fs::File::create(folder.join("server.log"))?;
        let mut command = Command::new(longshore);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).arg("--data").arg(folder.join("data"));
        command.env("LONGSHORE_SERVER_TRUSTED_PROXY", "true").env("LONGSHORE_LOGS_FORMAT", "json");
        let mut child =
            command.stdout(Stdio::piped()).stderr(log).spawn().context("cannot start longshore")?;
        let said = BufReader::new(child.stdout.take().context("no standard output")?);
        let ready = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| Some(line.strip_prefix("ready ")?.split(' ').next()?.to_owned()));
        let Some(url) = ready else { bail!("the server is not ready; see {}/server.log", folder.display()) };
        Ok(Self { child, url, client: Client::builder(TokioExecutor::new()).build_http() })
    }

    /// Memory that is resident, in MiB.
    pub fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes / 1024.0)
    }

    /// Registers, and returns when the namespace is ready.
    pub async fn register(&self, number: usize) -> Result<Person> {
        let body = json!({
            "email": format!("p{number}@example.com"), "phone": format!("1{number:010}"), "organization": "Acme",
        });
        let told = self.call(None, Method::POST, "users", Some(&body), 201).await?;
        let text = |name: &str| told[name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
        if told["ready"] != true {
            bail!("not ready: {told}");
        }
        Ok(Person { id: text("id")?, token: text("token")? })
    }

    /// A request below `/api/longshore/v1`, which must be answered with `code`.
    pub async fn call(
        &self,
        who: Option<&Person>,
        method: Method,
        path: &str,
        body: Option<&Value>,
        code: u16,
    ) -> Result<Value> {
        static CALLS: AtomicU32 = AtomicU32::new(1);
        let [_, a, b, c] = CALLS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/api/longshore/v1/{path}", self.url))
            .header("content-type", "application/json")
            .header("x-forwarded-for", format!("10.{a}.{b}.{c}"));
        if let Some(person) = who {
            request = request.header("authorization", format!("Bearer {}", person.token));
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        let answer = self.client.request(request.body(Full::new(body.into()))?).await?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if status != code {
            bail!("{path}: {status} {}", String::from_utf8_lossy(&bytes));
        }
        Ok(if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes)? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
