//! The two servers: Longshore's embedded API, and kube-apiserver with etcd.
//!
//! Both store files below one folder, on the same disk. Both are used by the same ServiceAccount with a bound token,
//! authorised by RBAC, like a controller in a cluster.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::client::{Endpoint, KubeClient, client_certificate};
use super::objects::{ACCOUNT, NAMESPACE, prerequisites};
use crate::process::Process;

/// The peer's administrator token.
const ADMIN_TOKEN: &str = "bench-administrator";
const READY_TIMEOUT: Duration = Duration::from_mins(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Server and its program.
#[derive(Clone, Debug)]
pub enum Side {
    /// `longshore serve`.
    Ours(PathBuf),
    /// etcd and kube-apiserver, selected by the program's first argument.
    Peer(PathBuf),
}

pub struct KubeServer {
    side: Side,
    folder: PathBuf,
    processes: Vec<Process>,
    /// Administrator's credentials.
    admin: Endpoint,
    /// Credentials of the measured requests, set by [`KubeServer::prepare`].
    account: Option<(Endpoint, String)>,
}

impl KubeServer {
    /// Starts the server and waits until it is ready. Returns how long that took.
    pub async fn start(side: Side, folder: &Path) -> Result<(Self, Duration)> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let command = match &side {
            Side::Ours(program) => longshore_commands(program, folder),
            Side::Peer(program) => peer_commands(program, folder),
        };
        let (address, commands) = command?;
        let began = Instant::now();
        let mut processes = Vec::new();
        for (name, mut command) in commands {
            processes.push(Process::start(name, &mut command, &folder.join(format!("{name}.log")))?);
        }
        let admin = wait_until_ready(&side, folder, address, &mut processes, began).await;
        let admin = admin.with_context(|| format!("see the logs in {}", folder.display()))?;
        let took = began.elapsed();
        Ok((Self { side, folder: folder.to_owned(), processes, admin, account: None }, took))
    }

    /// Creates the objects for all rows, and the account of the measured requests.
    pub async fn prepare(&mut self) -> Result<()> {
        let mut client = self.admin.connect().await?;
        for (path, object) in prerequisites() {
            client.create(&path, object.to_string().into()).await?;
        }
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86_400}});
        let answer: Value = serde_json::from_slice(&client.create(&path, request.to_string().into()).await?)?;
        let token =
            answer["status"]["token"].as_str().context("a TokenRequest was answered without a token")?;
        self.account = Some(self.account_credentials(token)?);
        Ok(())
    }

    /// Restarts the server on its data. Returns how long the start took.
    pub async fn restart(&mut self) -> Result<Duration> {
        self.stop()?;
        let (mut again, took) = Self::start(self.side.clone(), &self.folder).await?;
        if let Some((_, token)) = self.account.take() {
            again.account = Some(again.account_credentials(&token)?);
        }
        *self = again;
        Ok(took)
    }

    /// Stops the server and deletes its data.
    pub fn discard(mut self) -> Result<()> {
        self.stop()?;
        fs::remove_dir_all(&self.folder).with_context(|| format!("cannot remove {}", self.folder.display()))
    }

    /// Stops processes in reverse order of their start, because later ones depend on earlier ones.
    fn stop(&mut self) -> Result<()> {
        while let Some(process) = self.processes.pop() {
            process.stop()?;
        }
        Ok(())
    }

    fn account_credentials(&self, token: &str) -> Result<(Endpoint, String)> {
        let target = Endpoint::new(self.admin.address, &ca_certificates(&self.side, &self.folder)?, None)?;
        Ok((target.with_token(token)?, token.to_owned()))
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<KubeClient> {
        let (account, _) = self.account.as_ref().context("the server has not been prepared")?;
        account.connect().await
    }

    /// Sum in seconds and count of a histogram in `/metrics`. Longshore only.
    pub async fn histogram(&self, name: &str) -> Result<(f64, f64)> {
        let shown = self.admin.connect().await?.get("/metrics").await?;
        let shown = String::from_utf8(shown.to_vec())?;
        let read = |suffix: &str| -> Result<f64> {
            let line = shown.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(suffix));
            Ok(line.with_context(|| format!("/metrics has no {name}{suffix}"))?.trim().parse()?)
        };
        Ok((read("_sum")?, read("_count")?))
    }

    /// CPU time of all its processes.
    pub fn cpu(&self) -> Result<Duration> {
        self.processes.iter().map(Process::cpu).sum()
    }

    /// Resident memory of all its processes, in bytes.
    pub fn resident(&self) -> Result<u64> {
        self.processes.iter().map(Process::resident).sum()
    }
}

type StartCommands = (SocketAddr, Vec<(&'static str, Command)>);

fn longshore_commands(program: &Path, folder: &Path) -> Result<StartCommands> {
    let address = free_address()?;
    let mut serve = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LONGSHORE_"))
    {
        serve.env_remove(name);
    }
    serve.args(["serve", "--listen", "127.0.0.1:0", "--kube-listen", &address.to_string(), "--data"]);
    serve.arg(folder.join("data"));
    Ok((address, vec![("longshore", serve)]))
}

fn peer_commands(program: &Path, folder: &Path) -> Result<StartCommands> {
    let address = free_address()?;
    let url = |address: SocketAddr| format!("http://{address}");
    let (clients, members) = (url(free_address()?), url(free_address()?));
    let path = |name: &str| folder.join(name).display().to_string();
    let (key, public_key) = (path("accounts.key"), path("accounts.pub"));
    if !Path::new(&key).exists() {
        let pair = rcgen::KeyPair::generate()?;
        fs::write(&key, pair.serialize_pem())?;
        fs::write(&public_key, pair.public_key_pem())?;
        fs::write(path("tokens.csv"), format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"))?;
    }
    let mut etcd = Command::new(program);
    etcd.args(["etcd", "--data-dir", &path("etcd")]);
    etcd.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
    etcd.args(["--listen-peer-urls", &members, "--initial-advertise-peer-urls", &members]);
    etcd.args(["--initial-cluster", &format!("default={members}")]);
    let mut api = Command::new(program);
    api.args(["kube-apiserver", "--etcd-servers", &clients, "--authorization-mode", "RBAC"]);
    api.args(["--bind-address", "127.0.0.1", "--secure-port", &address.port().to_string()]);
    api.args(["--cert-dir", &path("certs"), "--token-auth-file", &path("tokens.csv")]);
    api.args(["--service-account-key-file", &public_key, "--service-account-signing-key-file", &key]);
    api.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
    api.args(["--service-cluster-ip-range", "10.96.0.0/16"]);
    Ok((address, vec![("etcd", etcd), ("kube-apiserver", api)]))
}

/// Polls until the server is reachable and `/readyz` returns 200.
async fn wait_until_ready(
    side: &Side,
    folder: &Path,
    address: SocketAddr,
    processes: &mut [Process],
    began: Instant,
) -> Result<Endpoint> {
    loop {
        let answered = async {
            let target = administrator(side, folder, address)?;
            let mut client = target.connect().await?;
            client.exchange(Method::GET, "/readyz", "", Bytes::new(), 200).await?;
            anyhow::Ok(target)
        };
        let why = match answered.await {
            Ok(target) => return Ok(target),
            Err(why) => why,
        };
        processes.iter_mut().try_for_each(Process::ensure_running)?;
        if began.elapsed() > READY_TIMEOUT {
            bail!(why.context("the server does not become ready"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Fails until the server has written its certificates.
fn administrator(side: &Side, folder: &Path, address: SocketAddr) -> Result<Endpoint> {
    let roots = ca_certificates(side, folder)?;
    match side {
        Side::Ours(_) => {
            let file = |name: &str| fs::read(folder.join("data/pki").join(name));
            let certificate = client_certificate(&file("admin.crt")?, &file("admin.key")?)?;
            Endpoint::new(address, &roots, Some(certificate))
        }
        Side::Peer(_) => Endpoint::new(address, &roots, None)?.with_token(ADMIN_TOKEN),
    }
}

/// CA certificates of the server.
fn ca_certificates(side: &Side, folder: &Path) -> Result<Vec<u8>> {
    Ok(fs::read(folder.join(match side {
        Side::Ours(_) => "data/pki/ca.crt",
        Side::Peer(_) => "certs/apiserver.crt",
    }))?)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
